"""The arm that digs, with servos, gate and sensors as in the graph: on thin air, against a push, with a load, and after a halt."""

import numpy as np
import pytest

from config.robot import load_robot
from sim_core.command import Command, Mode
from sim_core.excavation.arm_spring import SEVEN_JOINTS
from sim_core.excavation.bucket_arm import BucketArm, DigSite, Move, Ways
from sim_core.excavation.bucket_motion import BucketMotion, JamLimits, MotionOutcome
from sim_core.excavation.primitives import PrimitiveSettings
from sim_core.excavation.reference_path import DEPTHS, PathSettings, make_reference_path
from sim_core.gate import CommandGate
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant, joint_limits
from sim_core.scooping.arm.felt_wrench import FeltWrench

pytestmark = pytest.mark.pure

ROBOT, PERIOD, GRAVITY = "panda_bucket", 0.008, 9.81
TASK = load_robot(ROBOT).task
#: faster through the air, so that a test takes half as long
QUICK = Ways(speed=0.4, turning=2.0, joints=0.5, still=0.2, pouring=0.2)
#: a translation in 0.3 s, a wiggle of one and a half periods at the published 1 Hz
SETTINGS = PrimitiveSettings(speed=0.05, time=1.5)
OVER = (0.47, 0.0, 0.05, 0.0)


class Day:
    """A robot, and a push on its bucket.

    Attributes:
        push: force on the bucket's middle in the world's axes (3,) [N]. rows: of each cycle: pose in the pile's frame (4,), and the
            time since the motion began.
    """

    def __init__(self, limits=JamLimits(), settings=SETTINGS):
        model = load_model(ROBOT)
        self.plant = MujocoPlant(
            ROBOT, tick=0.002, stop_state="hold", position_noise=1e-5, velocity_noise=1e-3, wrench_site="wrist"
        )
        self.plant.gate = CommandGate(joint_limits(self.plant.world), self.plant.tick_period, supervised=False)
        self.arm = BucketArm(model, DigSite(TASK.pile, TASK.bin), limits, settings, ways=QUICK)
        self.felt = FeltWrench(model, "wrist", TASK.frame)
        self.arm.start_at(self.plant.q)
        mj = self.plant.world.model
        self.site = mj.site(TASK.frame).id
        self.body = int(mj.site_bodyid[self.site])
        self.push, self.rows = np.zeros(3), []

    @property
    def pose(self):
        return self.arm.state(self.plant.true_q)

    def cycle(self):
        plant, arm, data = self.plant, self.arm, self.plant.world.data
        self.felt.feel(plant.wrench(), arm.pose(plant.q).rotation, plant.t)
        m = arm.cycle(plant.q, plant.v, self.felt.at(plant.t), PERIOD)
        gain = np.hstack([np.diag(m.kp), np.diag(m.kd)])
        plant.command(Command(Mode.FEEDBACK, plant.t, plant.joints, m.effort, m.position, m.velocity, gain))
        for _ in range(4):
            at = data.site_xpos[self.site] - data.xipos[self.body]
            data.xfrc_applied[self.body] = np.r_[self.push, np.cross(at, self.push)]
            plant.tick()
        assert not plant.stop_reason, plant.stop_reason
        self.rows.append(self.pose)

    def run(self, seconds):
        for _ in range(round(seconds / PERIOD)):
            self.cycle()

    def do(self, move, pose=None):
        """The motion, after its end."""
        motion = self.arm.begin(move, pose)
        assert isinstance(motion, BucketMotion), motion
        self.rows = []
        while not motion.ended:
            self.cycle()
        return motion


@pytest.fixture(scope="module")
def free():
    day = Day()
    assert day.arm.where == "at home"
    assert day.do(Move.PLACE, OVER).outcome is MotionOutcome.DONE
    day.run(0.5)
    return day


def test_it_stands_where_it_was_placed(free):
    np.testing.assert_allclose(free.pose, OVER, atol=1e-3)
    assert free.arm.where == "in the pile" and np.linalg.norm(free.arm.force) < 0.5


@pytest.mark.parametrize("move", range(8))
def test_a_primitive_in_free_air_goes_its_way_and_no_other(free, move):
    before = free.pose
    assert free.do(Move(move)).outcome is MotionOutcome.DONE
    free.run(0.5)
    moved, axis, sign = free.pose - before, move // 2, 1 - 2 * (move % 2)
    size, tolerance = (0.015, 1e-3) if axis < 3 else (0.1, 0.01)
    assert sign * moved[axis] == pytest.approx(size, abs=tolerance)
    others = np.delete(moved, axis)
    assert np.abs(others[:3] if axis == 3 else others[:2]).max() < 1e-3 and (axis == 3 or abs(others[-1]) < 0.005)
    back = free.do(Move(move + sign))
    free.run(0.8)
    assert back.outcome is MotionOutcome.DONE and back.held < 2.0


def test_a_wiggle_goes_two_centimetres_each_way_and_comes_back():
    day = Day(settings=PrimitiveSettings())
    day.do(Move.PLACE, OVER)
    day.run(0.5)
    before = day.pose
    motion = day.do(Move.WIGGLE)
    assert len(day.rows) * PERIOD == pytest.approx(4.0, abs=0.02) and motion.outcome is MotionOutcome.DONE
    x = np.array(day.rows)[:, 0] - before[0]
    assert x.max() == pytest.approx(0.02, abs=2e-3) and x.min() == pytest.approx(-0.02, abs=2e-3)
    assert np.sum(np.diff(np.sign(x[10:-10])) != 0) == 7  # four periods
    day.run(0.5)  # it stops at full speed, on springs of 14 rad/s
    np.testing.assert_allclose(day.pose, before, atol=2e-3)


@pytest.mark.parametrize("pose", [OVER, (0.5, 0.0, -0.02, -0.9)])
def test_it_yields_as_the_arm_of_the_simulated_pile(free, pose):
    """In whatever posture: the springs of the joints alone are twice as stiff along z where the arm is folded."""
    free.do(Move.PLACE, pose)
    free.run(0.8)
    before, force = free.pose, np.array([8.0, 0.0, 8.0])
    free.push = force
    free.run(2.0)
    expected = np.linalg.solve(SEVEN_JOINTS.K, np.r_[force, 0.0])
    np.testing.assert_allclose(free.pose - before, expected, atol=0.05 * np.abs(expected).max())
    np.testing.assert_allclose(free.arm.force, force, atol=0.3)
    free.push = np.zeros(3)
    free.run(1.0)


def test_a_turn_of_a_held_bucket_is_worth_what_planners_learnt(free):
    """However far below the held bucket the arm was told to be."""
    free.do(Move.PLACE, (0.5, 0.0, -0.02, -0.9))
    arm, here = free.arm, free.plant.true_q.copy()
    there, J = arm.state(here), arm.kinematics.at(here).J
    pulls = []
    for away in ((0.0, 0.0, -0.1, 0.2), (0.0, 0.0, -0.1, 0.3)):
        arm.told, apart = arm._come(arm._world(there + away), here)
        assert max(apart) < 1e-2
        torques = arm.kp * (arm._led(here, np.zeros(7))[0] - here)
        pulls.append(np.linalg.lstsq(J.T, torques, rcond=None)[0][[0, 1, 2, 4]])
    np.testing.assert_allclose(pulls[0], SEVEN_JOINTS.K @ (0.0, 0.0, -0.1, 0.2), atol=1.0)
    np.testing.assert_allclose(pulls[1] - pulls[0], SEVEN_JOINTS.K[:, 3] * 0.1, atol=1.0)
    arm.start_at(here)


def test_a_load_is_weighed_by_the_wrist(free):
    free.do(Move.PLACE, OVER)
    free.push = np.array([0.0, 0.0, -0.15 * GRAVITY])
    motion = free.do(Move.LIFT)
    free.push = np.zeros(3)
    assert motion.outcome is MotionOutcome.DONE and free.arm.where == "lifted"
    assert -motion.load / GRAVITY == pytest.approx(0.15, rel=0.05)
    free.run(0.6)
    assert free.pose[2] > 0.12 and np.abs(free.pose[:2] - OVER[:2]).max() < 3e-3
    high = free.pose[2]
    assert free.do(Move.LIFT).outcome is MotionOutcome.DONE and abs(free.pose[2] - high) < 3e-3  # it is lifted


def test_a_force_that_lasts_jams_and_leaves_it_there_without_the_force():
    day = Day(JamLimits(force=30.0))
    day.do(Move.PLACE, OVER)
    motion = day.arm.begin(Move.DOWN)
    day.push = np.array([0.0, 0.0, 60.0])
    count = 0
    while not motion.ended:
        day.cycle()
        count += 1
    # 20 ms that a force has to last, and the sensor's low pass.
    assert motion.outcome is MotionOutcome.JAMMED and count * PERIOD < 0.06 and "at most 30 N" in motion.why
    assert motion.jam.force[2] > 30.0 and motion.held >= 30.0
    assert day.arm.where == "jammed" and "lift the bucket first" in day.arm.begin(Move.DOWN)
    day.push = np.zeros(3)
    there = day.pose
    day.run(0.3)
    assert day.pose[2] > there[2] - 5e-3  # it does not come back to where it was told to be
    assert day.do(Move.LIFT).outcome is MotionOutcome.DONE and day.arm.where == "lifted"


def test_a_force_that_rises_to_its_relief_ends_a_motion_and_is_no_jam():
    day = Day(JamLimits(relief=20.0))
    day.do(Move.PLACE, OVER)
    motion = day.arm.begin(Move.DOWN)
    day.run(0.1)
    day.push = np.array([0.0, 0.0, 25.0])
    while not motion.ended:
        day.cycle()
    assert motion.outcome is MotionOutcome.DONE and motion.relieved and 20.0 <= motion.peak < 27.0
    assert "at which it goes no farther" in motion.why and day.arm.where == "in the pile"
    told = day.arm.commanded
    assert OVER[2] - 0.015 < told[2] < OVER[2]  # as far as it came
    np.testing.assert_allclose(day.arm.state(day.arm.told), told, atol=1e-3)
    # One that leads away from there goes all its way, although the force is still beyond.
    day.run(0.3)
    away = day.do(Move.UP)
    assert not away.relieved and day.arm.commanded[2] == pytest.approx(told[2] + 0.015)
    day.push = np.array([0.0, 0.0, 40.0])
    lift = day.do(Move.LIFT)
    assert lift.outcome is MotionOutcome.DONE and not lift.relieved and lift.peak > 30.0  # ways are not cut short


def test_a_torque_on_a_joint_jams_at_once():
    day = Day(JamLimits(torque=5.0))
    day.do(Move.PLACE, OVER)
    motion = day.arm.begin(Move.BACK)
    day.push = np.array([0.0, 0.0, 25.0])
    while not motion.ended:
        day.cycle()
    assert motion.outcome is MotionOutcome.JAMMED and "N m on a joint" in motion.why
    assert np.abs(motion.jam.torques).max() >= 5.0


def test_a_bucket_that_does_not_follow_builds_up_force(free):
    """Each motion begins at the last command: commands go on although the bucket does not."""
    free.do(Move.PLACE, OVER)
    commanded = free.arm.commanded.copy()
    free.push = np.array([0.0, 0.0, 15.0])
    for count in (1, 2):
        free.do(Move.DOWN)
        assert free.arm.commanded[2] == pytest.approx(commanded[2] - 0.015 * count, abs=1e-9)
    free.push = np.zeros(3)
    free.run(1.5)
    assert free.pose[2] == pytest.approx(commanded[2] - 0.03, abs=2e-3)


def test_it_empties_over_the_bin_and_goes_home():
    day = Day()
    day.do(Move.PLACE, OVER)
    assert day.do(Move.EMPTY).outcome is MotionOutcome.DONE
    rows = np.array(day.rows)
    low = rows[:, 3].min()
    tipping = rows[rows[:, 3] < -0.6, :3] + TASK.pile
    assert np.linalg.norm(tipping - TASK.bin, axis=1).max() < 0.12  # what slides out falls into the bin
    assert np.linalg.norm(day.arm.pose(day.plant.true_q).position - TASK.bin) < 5e-3 and low < -1.0
    assert "place it first" in day.arm.begin(Move.DOWN)
    assert day.do(Move.LIFT).outcome is MotionOutcome.DONE  # whoever retreats need not know where it is
    assert day.do(Move.HOME).outcome is MotionOutcome.DONE and day.arm.where == "at home"


@pytest.mark.parametrize(
    "jammed, unwinds",
    [
        ([-0.599, -0.044, 0.472, -2.395, -2.298, 3.205, 2.893], True),
        ([-0.346, -0.06, 0.178, -2.478, -1.837, 3.196, 2.468], False),  # a bucket that is turned so cannot be lifted
    ],
)
def test_an_arm_that_a_jam_left_wound_up_comes_home(jammed, unwinds):
    """From where it jammed on a simulated arm."""
    arm = BucketArm(load_model(ROBOT), DigSite(TASK.pile, TASK.bin), ways=QUICK)
    arm.start_at(np.array(jammed))
    highest, speeds = 0.0, np.asarray(load_model(ROBOT).v_limit)
    for move in (Move.LIFT, Move.EMPTY, Move.HOME):
        motion = arm.begin(move)
        assert not isinstance(motion, str), motion
        while not motion.ended:
            before = arm.told
            arm.cycle(arm.told, np.zeros(7), np.zeros(6), PERIOD)
            assert np.all(np.abs(arm.told - before) <= 1.001 * speeds * PERIOD)
            if motion.phase == "unwinding the arm over the pile":
                assert arm.state(arm.told)[2] > arm.ways.safe - 0.03
                highest = max(highest, arm.state(arm.told)[2])
        assert motion.outcome is MotionOutcome.DONE
    assert (highest > 0.2) == unwinds and np.abs(arm.told - arm.kinematics.home).max() < 1e-6


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_paths_are_within_reach(free, depth):
    path = make_reference_path(PathSettings(depth=DEPTHS[depth]))
    arm, q = free.arm, free.arm.above
    for pose in path.poses[::4]:
        q, apart = arm._come(arm._world(pose), q)
        assert apart[0] < 1e-3 and apart[1] < 1e-2
        assert np.minimum(q - arm.kinematics.lower, arm.kinematics.upper - q).min() > 0.1


def test_what_cannot_be_led_is_refused_and_nothing_moves(free):
    free.do(Move.PLACE, OVER)
    told = free.arm.told.copy()
    assert "is not in the workspace" in free.arm.begin(Move.PLACE, (0.9, 0.0, 0.0, 0.0))
    assert "expected four finite numbers" in free.arm.begin(Move.PLACE, (0.47, 0.0, np.nan, 0.0))
    assert "comes no nearer" in free.arm.begin(Move.PLACE, (0.95, 0.0, 0.5, 0.0))
    free.run(0.1)
    np.testing.assert_array_equal(free.arm.told, told)


def test_a_halt_ends_it_and_it_begins_where_the_joints_are(free):
    free.do(Move.PLACE, OVER)
    motion = free.arm.begin(Move.DOWN)
    free.run(0.1)
    free.arm.stop("an operator says so")
    assert motion.outcome is MotionOutcome.ARM_STOPPED and motion.why == "an operator says so"
    free.arm.start_at(free.plant.q)
    np.testing.assert_allclose(free.arm.told, free.plant.q)
    assert free.arm.where == "in the pile" and free.do(Move.DOWN).outcome is MotionOutcome.DONE


def test_a_way_that_is_called_back_leaves_it_where_it_is(free):
    """Commands go on from there, not from where the bucket was before the way."""
    free.do(Move.PLACE, OVER)
    motion = free.arm.begin(Move.HOME)
    while motion.phase != "on the way home":
        free.cycle()
    free.run(0.4)
    motion.cancel("called back")
    there = free.pose
    if isinstance(begun := free.arm.begin(Move.LIFT), BucketMotion):  # at once, before the next cycle
        while not begun.ended:
            free.cycle()
    assert np.linalg.norm((free.pose - there)[:2]) < 0.03
    np.testing.assert_allclose(free.arm.commanded[:2], free.pose[:2], atol=0.01)
    assert free.do(Move.HOME).outcome is MotionOutcome.DONE


def test_a_jam_is_one_until_the_bucket_is_lifted():
    day = Day(JamLimits(force=30.0))
    day.do(Move.PLACE, OVER)
    day.push = np.array([0.0, 0.0, 60.0])
    day.do(Move.DOWN)
    day.push = np.zeros(3)
    day.run(0.3)
    day.arm.stop("an operator says so")
    day.arm.start_at(day.plant.q)
    assert "lift the bucket first" in day.arm.begin(Move.DOWN)
    motion = day.arm.begin(Move.LIFT)
    day.run(0.1)
    motion.cancel("called back")
    assert "lift the bucket first" in day.arm.begin(Move.DOWN)
    assert day.do(Move.LIFT).outcome is MotionOutcome.DONE and day.do(Move.DOWN).outcome is MotionOutcome.DONE


def test_a_wiggle_is_refused_where_one_of_its_ends_would_be_outside(free):
    edge = free.arm.workspace.lower[0] + 0.005
    assert free.do(Move.PLACE, (edge, *OVER[1:])).outcome is MotionOutcome.DONE
    assert "is not in the workspace" in free.arm.begin(Move.WIGGLE)
    free.do(Move.PLACE, OVER)


def test_a_motion_is_called_back_and_a_silent_sensor_ends_one(free):
    free.do(Move.PLACE, OVER)
    motion = free.arm.begin(Move.LEFT)
    motion.cancel("called back")
    free.run(0.2)
    assert motion.outcome is MotionOutcome.CANCELLED
    motion = free.arm.begin(Move.RIGHT)
    q, v = free.plant.q, free.plant.v
    for _ in range(20):
        free.arm.cycle(q, v, np.full(6, np.nan), PERIOD)
    assert motion.outcome is MotionOutcome.SENSOR_SILENT and "no force was told" in motion.why
    free.arm.start_at(free.plant.q)
    with pytest.raises(RuntimeError, match="under way"):
        free.arm.begin(Move.LEFT)
        free.arm.begin(Move.LEFT)
    free.arm.stop("the end")
