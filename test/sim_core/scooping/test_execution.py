"""One scoop's way, with a blade that is where it is told to be: its stages, and every way in which it can end."""

import numpy as np
import pytest

from sim_core.scooping.arm.blade_path import place_of
from sim_core.scooping.arm.execution import WORK, ExecutionConfig, Outcome, ScoopExecution, Stage
from sim_core.scooping.arm.primitive import ScoopAction, blade_rotation
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure

DT = 0.02
CONFIG = ExecutionConfig()
ACTION = ScoopAction(np.array([0.5, 0.1, 0.15]), 1.2, 0.05, "soft")
BEGIN = Pose(np.array([0.2, 0.2, 0.4]), blade_rotation(np.pi / 2, np.deg2rad(160.0)))


def follow(execution, force=lambda stage, t: 0.0, held=lambda stage, t: False, meanwhile=lambda execution, t: None):
    """Rows (stage, pose, twist, impedance) of a blade that is where it shall be, unless it is held."""
    pose, rows, t = BEGIN, [], 0.0
    while not execution.ended:
        meanwhile(execution, t)
        target = execution.step(pose, force(execution.stage, t), DT)
        rows.append((execution.stage, target.pose, target.twist, target.impedance))
        pose = pose if held(execution.stage, t) else target.pose
        t += DT
        assert t < 60.0, execution.stage.value
    return rows


def stages(rows):
    return [stage for k, (stage, *_) in enumerate(rows) if k == 0 or rows[k - 1][0] is not stage]


def jumps(rows):
    places = np.array([pose.position for _, pose, *_ in rows])
    return np.linalg.norm(np.diff(places, axis=0), axis=1)


def test_a_scoop_goes_through_its_stages_and_ends_where_it_is_measured():
    execution = ScoopExecution(ACTION, BEGIN, CONFIG)
    rows = follow(execution, force=lambda stage, t: 7.0 if stage in WORK else 0.0)
    assert execution.outcome is Outcome.SCOOPED and execution.peak == 7.0 and len(execution.trace) > 100
    assert stages(rows) == list(Stage)
    assert np.allclose(rows[-1][1].position, CONFIG.measuring.position)
    assert place_of(rows[-1][1]).angle == pytest.approx(np.deg2rad(190.0))
    assert jumps(rows).max() <= CONFIG.transit * DT * 1.01
    for stage, pose, _, impedance in rows:
        in_air = stage in (Stage.TRANSIT, Stage.CARRY, Stage.ENDED)
        assert (impedance is None) == in_air and (impedance is None or impedance.linear == 250.0)
        if stage is Stage.CARRY:
            assert pose.position[2] > CONFIG.safe - 1e-6
    depth = [pose.position[2] for stage, pose, *_ in rows if stage in WORK]
    assert min(depth) == pytest.approx(0.10)


def test_it_travels_high_and_comes_down_over_the_place():
    rows = follow(ScoopExecution(ACTION, BEGIN, CONFIG))
    low = [pose for stage, pose, *_ in rows if stage is Stage.TRANSIT and pose.position[2] < CONFIG.safe - 1e-3]
    near = [np.linalg.norm(pose.position[:2] - ACTION.point[:2]) < 0.03 for pose in low]
    begin = [np.allclose(pose.position[:2], BEGIN.position[:2]) for pose in low]
    assert all(a or b for a, b in zip(near, begin)) and any(near) and any(begin)


def test_too_much_force_stops_it_and_it_goes_straight_up():
    execution = ScoopExecution(ACTION, BEGIN, CONFIG)
    rows = follow(execution, force=lambda stage, t: 90.0 if stage is Stage.DRAG else 3.0)
    assert execution.outcome is Outcome.TOO_MUCH_FORCE and execution.peak == 90.0
    assert "90 N were felt, at most 80 N may be, dragging" in execution.why
    assert stages(rows)[-3:] == [Stage.RETREAT, Stage.CARRY, Stage.ENDED]
    up = [pose.position for stage, pose, *_ in rows if stage is Stage.RETREAT]
    assert np.ptp(np.array(up)[:, :2], axis=0).max() < 1e-9 and up[-1][2] == pytest.approx(CONFIG.safe, abs=1e-6)
    assert jumps(rows).max() <= CONFIG.transit * DT * 1.01


def test_a_silent_sensor_ends_it():
    execution = ScoopExecution(ACTION, BEGIN, CONFIG)
    follow(execution, force=lambda stage, t: np.nan if stage is Stage.CLOSE else 0.0)
    assert execution.outcome is Outcome.SENSOR_SILENT and "120 ms" in execution.why


def test_a_moment_without_a_force_does_not():
    execution = ScoopExecution(ACTION, BEGIN, CONFIG)
    follow(execution, force=lambda stage, t: np.nan if round(t / DT) % 5 else 0.0)
    assert execution.outcome is Outcome.SCOOPED


@pytest.mark.parametrize("when", [Stage.TRANSIT, Stage.PENETRATE, Stage.LIFT])
def test_called_back_it_comes_back(when):
    execution = ScoopExecution(ACTION, BEGIN, CONFIG)
    rows = follow(execution, meanwhile=lambda e, t: e.cancel("no more time") if e.stage is when else None)
    assert execution.outcome is Outcome.CANCELLED and execution.why == "no more time"
    assert np.allclose(rows[-1][1].position, CONFIG.measuring.position) and jumps(rows).max() < 0.01


def test_an_arm_that_is_held_in_the_air_is_waited_for_but_not_for_ever():
    execution = ScoopExecution(ACTION, BEGIN, CONFIG)
    rows = follow(execution, held=lambda stage, t: 1.0 < t < 2.0)
    assert execution.outcome is Outcome.SCOOPED
    apart = ScoopExecution(ACTION, BEGIN, CONFIG)
    rows = follow(apart, held=lambda stage, t: t > 1.0)
    assert apart.outcome is Outcome.ARM_STOPPED and "from where it shall be and stays there" in apart.why
    assert len(rows) * DT < 1.0 + 2.0 * CONFIG.stopped


def test_a_scoop_that_cannot_be_pulled_out_gives_up_where_it_is():
    execution = ScoopExecution(ACTION, BEGIN, CONFIG)
    follow(execution, force=lambda stage, t: 100.0 if stage in (Stage.DRAG, Stage.RETREAT) else 0.0)
    assert execution.outcome is Outcome.STUCK and "; then the scoop could not be drawn out" in execution.why


def test_stopped_and_moved_elsewhere_it_goes_on_from_there():
    execution = ScoopExecution(ACTION, BEGIN, CONFIG)
    pose = BEGIN
    while execution.stage is not Stage.DRAG:
        pose = execution.step(pose, 0.0, DT).pose
    execution.stop("halted by the supervisor")
    turned = Pose(pose.position + [0.01, -0.02, 0.03], blade_rotation(1.3, np.deg2rad(140.0)))
    execution.go_on(turned)
    first = execution.step(turned, 0.0, DT)
    assert np.linalg.norm(first.pose.position - turned.position) < 1e-3 and execution.stage is Stage.RETREAT
    pose = first.pose
    while not execution.ended:
        pose = execution.step(pose, 0.0, DT).pose
    assert execution.outcome is Outcome.ARM_STOPPED and execution.why == "halted by the supervisor"
    assert np.allclose(pose.position, CONFIG.measuring.position)


@pytest.mark.parametrize("wrong", [dict(safe=0.0), dict(limit=-1.0), dict(transit=np.nan)])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: expected a positive number"):
        ExecutionConfig(**wrong)
