"""One poke without an arm: a tip that is where it is told to be, before a spring; and readings that belong to their moment."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.elastic.poke_motion import (
    TARE,
    PokeMotion,
    PokeOrder,
    PokeOutcome,
    PokePhase,
    PokeSettings,
)
from sim_core.elastic.probe_reading import JointTrace, ProbeReading
from sim_core.elastic.rigid_body import probe_pose
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure

PERIOD = 0.004
POINT, NORMAL = np.array([0.4, 0.1, 0.2]), np.array([0.0, 0.6, 0.8])
ROTATION = probe_pose(POINT, NORMAL)[:3, :3]
START = Pose(POINT + 0.08 * NORMAL, ROTATION)


class Day:
    """A poke of a spring [N/m] whose surface is `higher` than the point [m]; the sensor has an offset.

    Attributes:
        says: added to the sensor's force (3,) [N]. deaf: it says nothing. stuck: the tip stays. pose: of the tip. t: [s].
    """

    def __init__(self, stiffness=1000.0, higher=0.0, settings=PokeSettings(), way=True, **order):
        self.stiffness, self.higher = stiffness, higher
        self.motion = PokeMotion(PokeOrder(POINT, 2.0 * NORMAL, **order), START, settings)
        if way:
            self.motion.begin([Pose(POINT + settings.clearance * NORMAL, ROTATION)])
        self.says, self.deaf, self.stuck, self.pose, self.t = np.array([1.0, -2.0, 3.0]), False, False, START, 0.0
        self.heights, self.phases = [], []

    @property
    def height(self):
        return float((self.pose.position - POINT) @ NORMAL)

    @property
    def force(self):
        return self.stiffness * max(0.0, self.higher - self.height)

    def step(self):
        self.t += PERIOD
        if not self.deaf:
            wrench = np.r_[self.says + self.force * NORMAL, 0.0, 0.0, 0.0]
            self.motion.feel(ProbeReading(self.t, self.pose.position, wrench, wrench))
        target = self.motion.step(self.pose, PERIOD)
        if not self.stuck:
            self.pose = target
        self.heights.append(self.height)
        if not self.phases or self.phases[-1] is not self.motion.phase:
            self.phases.append(self.motion.phase)

    def until(self, phase, longest=60.0):
        while self.motion.phase is not phase:
            assert self.t < longest, self.motion.phase
            self.step()
        return self.motion


def test_a_poke_has_its_phases_and_its_log_is_the_springs():
    day = Day(higher=0.002)
    motion = day.until(PokePhase.ENDED)
    log = motion.log
    assert motion.outcome is PokeOutcome.DONE and day.phases == list(PokePhase)[1:]
    d, f = np.array(log.displacement), np.array(log.force)
    # The force begins where the spring does, not where the point is; the offset of the sensor is gone.
    np.testing.assert_allclose(f, 1000.0 * np.maximum(0.0, d + 0.002), atol=1e-9)
    assert f[-1] >= 5.0 > f[-2] and log.drift == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(np.diff(d), 0.002 * PERIOD, atol=1e-12)
    np.testing.assert_allclose(log.air[:3], [1.0, -2.0, 3.0])
    assert log.stamp[0] == pytest.approx(log.begun + PERIOD) and log.stamp[-1] == log.ended
    assert day.height == pytest.approx(0.06) and motion.peak < 5.01


def test_the_force_in_the_air_is_that_of_the_last_moment_before_it_presses():
    day = Day()
    day.until(PokePhase.TARE)
    while day.motion.phase is PokePhase.TARE:
        day.says = np.array([0.0, 0.0, day.t])
        day.step()
    told = np.arange(round(TARE / PERIOD)) * PERIOD
    assert day.motion.log.air[2] == pytest.approx(day.motion.log.begun - told.mean(), abs=2.0 * PERIOD)


@pytest.mark.parametrize(
    "bad, outcome, says",
    [
        (dict(stiffness=1e-9), PokeOutcome.NO_CONTACT, "nothing was felt up to a displacement of 20.0 mm"),
        (dict(stiffness=100.0), PokeOutcome.DEEPEST, "2.00 N were felt at most"),
    ],
)
def test_what_is_too_soft_or_not_there(bad, outcome, says):
    day = Day(speed=0.01, **bad)
    motion = day.until(PokePhase.ENDED)
    assert motion.outcome is outcome and says in motion.why and min(day.heights) > -0.0205
    assert day.height == pytest.approx(0.06)


def meanwhile(day, **bad):
    """It goes wrong while 1 N is felt."""
    day.until(PokePhase.PRESS)
    while day.force < 1.0:
        day.step()
    for name, value in bad.items():
        setattr(day, name, value)
    return day


@pytest.mark.parametrize(
    "bad, outcome",
    [
        (dict(deaf=True), PokeOutcome.SENSOR_SILENT),
        (dict(says=np.array([1.0, np.nan, 3.0])), PokeOutcome.SENSOR_SILENT),
        (dict(says=np.array([0.0, -120.0, 0.0])), PokeOutcome.SENSOR_SATURATED),
        (dict(says=np.array([1.0, 2.0, 10.0])), PokeOutcome.TOO_FORCEFUL),
        (dict(says=np.array([1.0, -2.6, 3.0])), PokeOutcome.SENSOR_DRIFTED),
        (dict(stiffness=1e5), PokeOutcome.TOO_FORCEFUL),
    ],
)
def test_every_bad_day_ends_with_the_probe_in_the_air(bad, outcome):
    day = meanwhile(Day(), **bad)
    deepest = -day.height
    motion = day.until(PokePhase.ENDED)
    assert motion.outcome is outcome, (motion.outcome, motion.why)
    assert day.height == pytest.approx(0.06, abs=1e-6) and motion.why
    if outcome is not PokeOutcome.SENSOR_DRIFTED:
        assert min(day.heights) > -deepest - 0.002 * 0.06  # no farther than it goes before the silence counts
    else:
        assert motion.log.drift == pytest.approx(-0.6 * NORMAL[1])


def test_a_tip_that_does_not_follow_is_given_up_and_led_back_from_where_it_is():
    day = meanwhile(Day(), stuck=True)
    here = day.height
    motion = day.until(PokePhase.RETRACT)
    assert motion.outcome is PokeOutcome.ARM_STOPPED and "from where it shall be" in motion.why
    assert motion.depth + here == pytest.approx(0.003, abs=1e-4)  # the leash
    day.stuck = False
    first = len(day.heights)
    day.until(PokePhase.ENDED)
    assert max(np.abs(np.diff(day.heights[first - 1 :]))) <= 0.15 * PERIOD + 1e-12  # no jump


def test_a_stop_is_gone_on_from_where_the_arm_is_by_then():
    day = meanwhile(Day())
    day.motion.stop("somebody pressed the button")
    day.pose = Pose(day.pose.position + [0.01, 0.0, 0.004], day.pose.rotation)
    day.motion.go_on(day.pose)
    motion = day.until(PokePhase.ENDED)
    assert (motion.outcome, motion.why) == (PokeOutcome.ARM_STOPPED, "somebody pressed the button")
    assert day.height == pytest.approx(0.06) and np.isnan(motion.log.drift)
    with pytest.raises(RuntimeError, match="nothing stopped"):
        Day().motion.go_on(START)


@pytest.mark.parametrize("phase", [PokePhase.TRANSIT, PokePhase.TARE, PokePhase.PRESS])
def test_it_may_be_called_back_at_any_time(phase):
    day = Day()
    day.until(phase)
    for _ in range(100):
        day.step()
    before = day.height
    day.motion.cancel("enough")
    motion = day.until(PokePhase.ENDED)
    assert motion.outcome is PokeOutcome.CANCELLED
    assert day.height == pytest.approx(before if phase is PokePhase.TRANSIT else 0.06)


def test_what_cannot_be_reached_moves_nothing():
    day = Day(way=False)
    for _ in range(5):
        day.step()
    day.motion.refuse("too far")
    day.step()
    assert day.motion.ended and day.motion.outcome is PokeOutcome.OUT_OF_REACH and set(day.heights) == {day.height}
    assert day.height == pytest.approx(0.08)


@pytest.mark.parametrize(
    "fields, says",
    [
        (dict(normal=[0.0, 0.0, 0.0]), "expected a normal that points out"),
        (dict(point=[0.0, np.inf, 0.0]), "expected three finite numbers"),
        (dict(force_limit=0.0), "force_limit: expected a positive number"),
        (dict(speed=np.nan), "speed: expected a positive number"),
        (dict(roll=np.nan), "roll: expected a finite number"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        PokeOrder(**({"point": POINT, "normal": NORMAL} | fields))


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="expected standoff < clearance, found 0.1 and 0.06 m"):
        PokeSettings(standoff=0.1)
    with pytest.raises(ValueError, match="leash: expected a positive number"):
        PokeSettings(leash=(0.0, 0.01))


@pytest.mark.parametrize("normal", [NORMAL, [0.0, 0.0, 1.0], [0.1, 0.95, 0.2], [-0.7, -0.1, 0.3]])
@pytest.mark.parametrize("roll", [0.0, 0.7, -2.0])
def test_a_roll_turns_the_probe_about_the_normal(normal, roll):
    level, rolled = (probe_pose(POINT, normal, angle)[:3, :3] for angle in (0.0, roll))
    axis = np.asarray(normal) / np.linalg.norm(normal)
    np.testing.assert_allclose(rolled, Rotation.from_rotvec(roll * axis).as_matrix() @ level, atol=1e-12)
    np.testing.assert_allclose(rolled[:, 2], axis, atol=1e-12)
    assert (
        abs(level[2 if abs(axis[1]) > 0.9 else 1, 0]) < 1e-12
    )  # at right angles to the world's y axis, or to its z axis


def test_joints_between_two_measurements_and_at_one():
    trace = JointTrace(longest=0.02)
    for k in range(11):
        trace.add(0.004 * k, np.array([k, 2.0 * k]))
    assert trace.at(0.004 * 9).tolist() == [9.0, 18.0]  # as measured, to the last bit
    np.testing.assert_allclose(trace.at(0.037), [9.25, 18.5])
    assert trace.at(0.041) is None and trace.at(0.0) is None and trace.newest == 0.04
    trace.add(0.01, np.zeros(2))  # time went back
    assert trace.at(0.036) is None and trace.newest == 0.01
