"""Placing a stethoscope: the law against closed forms, and an arm before a chest that breathes, moves, or is not there."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.auscultation.placement import Outcome, Phase, Placement, PlacementConfig, facing
from sim_core.plant.stethoscope_bench import ChestConfig, StethoscopeBench
from sim_core.telepresence.clutch import Pose

DT = 0.008
P, N = np.array([0.5, 0.0, 0.3]), np.array([0.0, 0.0, 1.0])
DOWN = Rotation.from_euler("x", np.pi).as_matrix()
START = Pose(P + [0.1, 0.05, 0.2], DOWN)
BREATHES = ChestConfig(breath=0.005)


def ideal(placement, force, longest=60.0, pose=START):
    """Lead an arm that is where it shall be at once; force(depth, time) [N]. Returns rows (phase, time, depth, speed, turning)."""
    rows, t = [], 0.0
    while not placement.ended and t < longest:
        depth = float((placement.point - pose.position) @ placement.normal)
        new = placement.step(pose, force(depth, t), DT)
        turned = Rotation.from_matrix(new.rotation @ pose.rotation.T).magnitude()
        rows.append((placement.phase, t, depth, np.linalg.norm(new.position - pose.position) / DT, turned / DT))
        pose, t = new, t + DT
    return rows


def spring(stiffness=1500.0, at=0.0):
    return lambda depth, t: stiffness * max(0.0, depth - at)


# ---- the law ------------------------------------------------------------------------------------------------


def test_it_goes_the_way_as_fast_as_it_may_and_records_at_the_wanted_force():
    placement = Placement(P, N, START)
    rows = ideal(placement, spring())
    assert placement.outcome is Outcome.RECORDED and placement.recorded == pytest.approx(10.0, abs=DT)
    c = placement.config
    by = {phase: np.array([row[1:] for row in rows if row[0] is phase]) for phase in Phase}
    for phase, limit in ((Phase.TRANSIT, c.transit), (Phase.APPROACH, c.approach), (Phase.RETREAT, c.transit)):
        assert 0.85 * limit < by[phase][:, 2].max() <= limit, phase
    assert all(row[4] <= c.turning for row in rows)
    assert np.abs(np.array(placement.trace) - 7.0).max() < c.band
    # Where the spring of 1500 N/m gives 7 N:
    assert by[Phase.RECORD][-1, 1] == pytest.approx(7.0 / 1500.0, abs=1e-5)
    assert by[Phase.APPROACH][0, 1] == pytest.approx(-c.standoff, abs=1e-4)
    assert rows[-1][2] == pytest.approx(-c.standoff, abs=1e-3)


def test_breathing_costs_the_force_that_the_damping_says():
    """A wall that moves by a sine of amplitude a and frequency w: the force's amplitude is D w a where D w is small against k."""
    a, w, k = 0.004, 2.0 * np.pi * 0.25, 1500.0
    placement = Placement(P, N, START)
    ideal(placement, lambda depth, t: k * max(0.0, depth - a * np.sin(w * t)))
    c = placement.config
    amplitude = np.ptp(placement.trace[400:]) / 2.0
    # Of M x'' + D x' + k (x - wall) = F: k wall is answered by D jw - M w^2.
    drive = c.damping * 1j * w - c.mass * w**2
    assert amplitude == pytest.approx(abs(k * a * drive / (k + drive)), rel=0.03)


@pytest.mark.parametrize("angle", [0.0, 0.4, 1.5, np.pi])
def test_the_membrane_faces_the_body_by_the_shortest_turn(angle):
    normal = Rotation.from_euler("y", angle).as_matrix() @ N
    rotation = facing(-normal, DOWN)
    np.testing.assert_allclose(rotation[:, 2], -normal, atol=1e-12)
    assert Rotation.from_matrix(rotation @ DOWN.T).magnitude() == pytest.approx(angle, abs=1e-9)
    assert np.linalg.det(rotation) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "force, outcome, says",
    [
        (spring(at=1.0), Outcome.NO_CONTACT, "up to 30 mm beyond the point"),
        (spring(50.0), Outcome.FORCE_NOT_REACHED, "N were reached, not 7 N"),
        (lambda d, t: 1500.0 * max(0.0, d) * (t < 14.0), Outcome.CONTACT_LOST, "contact was lost after"),
        (lambda d, t: 1500.0 * max(0.0, d) + 5.0 * (t > 14.0), Outcome.TOO_MUCH_FORCE, "at most 11 N may be"),
        (lambda d, t: np.nan if t > 14.0 else 1500.0 * max(0.0, d), Outcome.SENSOR_SILENT, "no force was told for"),
        (lambda d, t: np.inf, Outcome.SENSOR_SILENT, "no force was told for"),
    ],
)
def test_every_outcome_is_declared_and_comes_back(force, outcome, says):
    placement = Placement(P, N, START)
    rows = ideal(placement, force)
    assert placement.outcome is outcome and says in placement.why
    assert placement.ended and rows[-1][0] is Phase.ENDED
    back = [row[2] for row in rows if row[0] is Phase.RETREAT][1:]
    assert back == sorted(back, reverse=True), "the way back leads away from the body"


@pytest.mark.parametrize("phase", [Phase.TRANSIT, Phase.APPROACH, Phase.RECORD])
def test_it_can_be_called_back_at_any_time(phase):
    placement, pose, seen = Placement(P, N, START), START, []
    for _ in range(4000):
        pose = placement.step(pose, spring()(float((P - pose.position) @ N), 0.0), DT)
        seen.append(pose.position)
        if placement.phase is phase and placement.outcome is None:
            placement.cancel("the microphone is silent")
        if placement.ended:
            break
    assert placement.outcome is Outcome.CANCELLED and "microphone" in placement.why and placement.ended
    placement.cancel("again")
    assert "microphone" in placement.why


def test_a_moment_without_a_force_is_forgiven():
    placement = Placement(P, N, START)
    ideal(placement, lambda d, t: np.nan if int(t / DT) % 50 < 4 else 1500.0 * max(0.0, d))
    assert placement.outcome is Outcome.RECORDED


def test_an_arm_that_is_stopped_is_not_left_behind():
    """The target stays within its leash of the membrane, so that nothing jumps when the arm goes on."""
    placement, farthest = Placement(P, N, START), 0.0
    for _ in range(2000):
        target = placement.step(START, 0.0, DT)
        farthest = max(farthest, float(np.linalg.norm(target.position - START.position)))
    assert placement.outcome is Outcome.ARM_STOPPED and farthest < 1.2 * placement.config.leash
    np.testing.assert_array_equal(placement.step(START, 0.0, DT).position, START.position)


def test_the_way_back_waits_for_an_arm_that_is_stopped():
    placement, pose = Placement(P, N, START), START
    while placement.phase is not Phase.RECORD:
        pose = placement.step(pose, spring()(float((P - pose.position) @ N), 0.0), DT)
    held, farthest = pose, 0.0
    for k in range(1000):
        target = placement.step(held, 7.0 + 3.0 * np.sin(0.01 * k), DT)
        farthest = max(farthest, float(np.linalg.norm(target.position - held.position)))
    assert placement.outcome is Outcome.ARM_STOPPED and placement.phase is Phase.RETREAT
    assert farthest < 1.2 * placement.config.leash
    ideal(placement, spring(), pose=target)
    assert placement.ended


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: Placement(P, np.zeros(3), START), "no direction"),
        (lambda: Placement(P, [0, 0, np.nan], START), "three finite numbers"),
        (lambda: Placement(P[:2], N, START), "three finite numbers"),
        (lambda: PlacementConfig(force=-7.0), "force: expected a positive number"),
        (lambda: PlacementConfig(abort=7.2), "band < abort"),
    ],
)
def test_impossible_orders_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


# ---- an arm and a chest ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed, error, stiffness", [(0, 0.02, 2000.0), (1, -0.02, 800.0), (2, 0.0, 1500.0)])
def test_an_arm_holds_seven_newton_on_a_breathing_chest(seed, error, stiffness):
    rng = np.random.default_rng(seed)
    normal = N + [*rng.uniform(-0.3, 0.3, 2), 0.0]
    normal /= np.linalg.norm(normal)
    point = P + rng.uniform(-0.05, 0.05, 3)
    bench = StethoscopeBench(point, normal, ChestConfig(stiffness, breath=0.005), seed)
    trace = bench.place(point + error * normal, normal)
    force, speed = np.array(trace.force), np.array(trace.speed)
    recorded = force[trace.during(Phase.RECORD)]
    assert trace.placement.outcome is Outcome.RECORDED
    assert abs(recorded[0] - 7.0) < 1.0 and np.mean(np.abs(recorded - 7.0) < 1.0) >= 0.95
    assert force.max() < 14.0
    assert speed[trace.during(Phase.TRANSIT, Phase.RETREAT)].max() <= 0.066
    assert speed[trace.during(Phase.APPROACH)].max() <= 0.03
    assert force[-1] == 0.0


def moves(begin, speed, way):
    """The person moves along the normal by `way` [m] from a time on."""

    def act(bench):
        bench.shift = float(np.clip((bench.time - begin) * speed, min(0.0, way), max(0.0, way)))

    return act


@pytest.mark.parametrize(
    "act, outcomes",
    [
        (moves(9.0, 0.1, 0.005), {Outcome.TOO_MUCH_FORCE}),
        (moves(9.0, 0.06, 0.03), {Outcome.RECORDED, Outcome.TOO_MUCH_FORCE}),
        (moves(9.0, -0.1, -0.05), {Outcome.CONTACT_LOST}),
        (lambda bench: setattr(bench, "deaf", bench.time > 9.0), {Outcome.SENSOR_SILENT}),
        # stopped when the chest is lowest, and when it is highest
        (lambda bench: setattr(bench, "hold", 11.0 < bench.time < 15.0), {Outcome.ARM_STOPPED}),
        (lambda bench: setattr(bench, "hold", 9.0 < bench.time < 13.0), {Outcome.ARM_STOPPED, Outcome.CONTACT_LOST}),
    ],
    ids=["jerk", "towards", "away", "deaf", "arm stopped", "arm stopped high"],
)
def test_no_bad_day_presses_with_more_than_15_newton(act, outcomes):
    bench = StethoscopeBench(P, N, ChestConfig(2000.0, breath=0.005))
    bench.interfere = act
    trace = bench.place(P, N)
    assert max(trace.force) < 15.0 and trace.force[-1] == 0.0
    assert trace.placement.outcome in outcomes
    away = (trace.position[-1] - P) @ N
    assert away == pytest.approx(trace.placement.config.standoff, abs=0.004)
