"""The node `poke_arm` alone: the test leads it through time as a plant in lock-step would, before an object that is a spring.

Soft objects with the whole physics are tried in test/launch/test_poking_arm.py.
"""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from action_msgs.msg import GoalStatus
from led_robot import PERIOD, LedRobot
from refit_interfaces.action import PokeObject
from refit_interfaces.msg import PokeMeta, PokeSample, SupervisorStatus
from std_srvs.srv import Trigger

from nodes.control.poke_arm import PokeArmControllerConfig
from nodes.control.poke_messages import order_of
from nodes.framework.joint_state_gate import seconds
from nodes.framework.qos import LEDGER, STATE
from sim_core.elastic.poke_motion import PokeOutcome
from sim_core.elastic.rigid_body import PROBES
from sim_core.multibody import load_model
from sim_core.plant.soft_object import PokedObject
from sim_core.telepresence.arm_kinematics import ArmKinematics

ROBOT, STIFFNESS, TOP = "panda_poker", 1000.0, 0.25
POINT = (0.45, 0.05, TOP)
O, S = PokeObject.Result, GoalStatus
#: so that a poke takes seconds: the arm moves fast, and 16 ms are one period
FAST = dict(transit=0.3, turning=1.5, approach=0.05, standoff=0.004, clearance=0.03, travel=0.28, control_period=PERIOD)


def test_the_page_names_everything(documentation):
    files = ("poke_arm", "arm_controller", "joint_controller")
    sources = [f"nodes/control/{name}.py" for name in files]
    assert not documentation.missing("poke_arm.md", PokeArmControllerConfig, *sources)


def test_messages_name_the_outcomes_as_the_algorithms_do():
    told = {name for name in dir(O) if name.isupper() and isinstance(getattr(O, name), int)}
    assert told == {outcome.name for outcome in PokeOutcome}


def goal(point=POINT, normal=(0.0, 0.0, 1.0), **fields):
    """A goal as a client sends it."""
    made = PokeObject.Goal(**fields)
    made.point.x, made.point.y, made.point.z = map(float, point)
    made.normal.x, made.normal.y, made.normal.z = map(float, normal)
    return made


@pytest.mark.parametrize(
    "asked, says",
    [
        (goal(point=(0.5, np.nan, 0.2)), "expected three finite numbers each"),
        (goal(normal=(0.0, 0.0, 0.0)), "expected a normal that points out of the object"),
        (goal(probe="line"), "expected the probe that the arm holds, 'point', or '', found 'line': exchange it"),
        (goal(force_limit=16.0), "force_limit: expected 0.1 to 15 N, or 0 for the node's own, found 16"),
        (goal(force_limit=-1.0), "force_limit: .* found -1"),
        (goal(speed=0.02), "speed: expected 0.0002 to 0.01 m/s"),
        (goal(speed=np.nan), "speed: .* found nan"),
        (goal(deepest=0.2), "deepest: expected 0.001 to 0.06 m"),
        (goal(roll=np.inf), "roll: expected a finite number"),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused_with_a_sentence(asked, says):
    with pytest.raises(ValueError, match=says):
        order_of(asked, "point", 5.0, 0.02)


def test_a_goal_is_completed_by_the_nodes_own_values():
    order = order_of(goal(normal=(0.0, 0.0, 3.0)), "point", 5.0, 0.02)
    assert (order.force_limit, order.speed, order.deepest, order.normal.tolist()) == (5.0, 0.002, 0.02, [0.0, 0.0, 1.0])


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="expected standoff < clearance"):
        PokeArmControllerConfig(standoff=0.05, clearance=0.03)


# ---- the node in its graph ---------------------------------------------------------------------------------------


class Spring:
    """A block whose upper side is at z = 0 and gives way like a spring.

    Attributes:
        stiffness: [N/m]. top: height of its upper side [m].
    """

    def __init__(self):
        self.stiffness, self.top = STIFFNESS, 0.0

    def press(self, points):
        force = np.zeros((len(points), 3))
        force[:, 2] = self.stiffness * np.maximum(0.0, self.top - points[:, 2]) / len(points)
        return SimpleNamespace(force=force.sum(axis=0), torque=np.cross(points, force).sum(axis=0))


class Robot(LedRobot):
    """The robot with a probe before a spring; `said` changes what its sensor says (force of the last moment -> [N], wrist's axes)."""

    def __init__(self, ros):
        self.spring = Spring()
        box = np.array([[-0.2, -0.2, -0.2], [0.2, 0.2, 0.03]])
        around = PokedObject(self.spring, box, PROBES["point"](), "spring", (POINT[0], POINT[1], TOP))
        self.kinematics = ArmKinematics(load_model(ROBOT), "probe_tip")
        self.samples, self.metas = (
            ros.listen(PokeSample, "poke_arm/sample", STATE),
            ros.listen(PokeMeta, "poke_arm/meta", LEDGER),
        )
        super().__init__(ros, ROBOT, PokeObject, "poke_arm/poke", poked=around)

    @property
    def out(self):
        """Height of the tip over the point [m]."""
        return float(self.kinematics.at(self.plant.true_q).position[2]) - TOP

    @property
    def doing(self):
        return self.status[-1].message if self.status else ""

    def ask(self, asked=None, halted=False):
        """The handle of a goal."""
        heard = [] if halted else self.feedback
        heard.clear()
        sent = self.client.send_goal_async(asked or goal(speed=0.01), heard.append)
        while not sent.done():
            self.tell() if halted else self.step()
        return sent.result()

    def result(self, handle, longest=60.0):
        """(result, status), once it has come."""
        ended, until = handle.get_result_async(), self.now + longest
        while not ended.done():
            assert self.now < until, self.doing
            self.step()
        return ended.result().result, ended.result().status

    def until(self, condition, longest=40.0):
        until = self.now + longest
        while not condition():
            assert self.now < until, self.doing
            self.step()

    def in_contact(self, force=1.5):
        """The handle of a poke that presses by now."""
        handle = self.ask()
        assert handle.accepted
        self.until(lambda: self.plant.poked.force[2] > force)
        return handle

    def check_back(self):
        """It is out of the object, at the clearance."""
        assert self.plant.poked.force[2] == 0.0 and self.out > 0.027


@pytest.fixture(scope="module")
def one(shared_ros):
    process = shared_ros.start(
        "poke_arm", robot=ROBOT, lockstep=True, halt_patience=1.0, object="spring", sensor_range=40.0, **FAST
    )
    shared_ros.up("/poke_arm")
    robot = Robot(shared_ros)
    robot.permit(SupervisorStatus.STATE_READY)
    yield robot
    code, _, output = shared_ros.finish(process)
    assert code == 0 and "Traceback" not in output, output


@pytest.fixture
def robot(one):
    one.calm()
    one.spring.stiffness, one.spring.top = STIFFNESS, 0.0
    one.until(lambda: "waiting" in one.doing)
    return one


def test_a_poke_ends_at_its_force_and_says_all_it_felt(robot):
    del robot.samples[:], robot.metas[:]
    handle = robot.ask()
    heard = list(robot.feedback)
    assert not robot.ask().accepted, "one at a time"
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.DONE, S.STATUS_SUCCEEDED), result.message
    d, f = np.array(result.displacement), np.array(result.force)
    # One reading at most is over the limit, and that is the last one.
    assert (f[:-1] < 5.0).all() and 5.0 <= f[-1] <= result.peak < 5.5
    np.testing.assert_allclose(f, STIFFNESS * np.maximum(d, 0.0), atol=0.15)
    assert d[0] < -0.002 and abs(result.drift) < 0.05 and len(result.wrench) == len(d)
    assert max(abs(np.array([w.torque.x for w in result.wrench]))) < 0.02  # about the tip there is none
    robot.check_back()
    robot.ros.until(lambda: robot.metas and robot.metas[-1].phase == PokeMeta.ENDED, what="the last phase")
    assert [one.phase for one in robot.metas] == [PokeMeta.APPROACH, PokeMeta.PRESS, PokeMeta.RETRACT, PokeMeta.ENDED]
    told = robot.metas[1]
    assert (told.object, told.probe, told.header.frame_id, told.force_limit) == ("spring", "point", "world", 5.0)
    # What is published while it presses is what the result says, with the stamps between those of the phases.
    robot.ros.until(lambda: len(robot.samples) == len(d), what="all samples")
    assert [one.displacement for one in robot.samples] == d.tolist()
    assert [one.force for one in robot.samples] == f.tolist()
    stamps = [seconds(one.header.stamp) for one in robot.samples]
    begun, ended = (seconds(robot.metas[k].header.stamp) for k in (1, 2))
    assert begun < stamps[0] and stamps[-1] == ended and {one.poke for one in robot.samples} == {result.poke}
    phases = [one.feedback.phase for one in heard + robot.feedback]
    assert "on the way to the stand-off" in phases and "advancing along the inward normal" in phases


@pytest.mark.parametrize(
    "change, outcome, good, says",
    [
        (dict(stiffness=0.0), O.NO_CONTACT, False, "nothing was felt up to a displacement of 6.0 mm"),
        (dict(top=-0.05), O.NO_CONTACT, False, "nothing was felt"),
        (dict(stiffness=300.0), O.DEEPEST, True, "N were felt at most up to a displacement of 6.0 mm"),
    ],
)
def test_what_is_soft_or_not_there(robot, change, outcome, good, says):
    for name, value in change.items():
        setattr(robot.spring, name, value)
    result, status = robot.result(robot.ask(goal(speed=0.01, deepest=0.006)))
    assert (result.outcome, status) == (outcome, S.STATUS_SUCCEEDED if good else S.STATUS_ABORTED), result.message
    assert says in result.message and 0.006 <= max(result.displacement) < 0.0065
    robot.check_back()


def test_a_force_far_beyond_the_limit_makes_it_let_go(robot):
    handle = robot.in_contact()
    robot.push = np.array([0.0, 0.0, 6.5])
    robot.until(lambda: "way back" in robot.doing)
    robot.push = np.zeros(3)
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.TOO_FORCEFUL, S.STATUS_ABORTED), result.message
    assert "5 N were asked for, and at most 2 N more may be" in result.message and result.peak > 7.0
    robot.check_back()


def test_something_in_the_way_sends_it_back_as_it_came(robot):
    robot.run(0.5)
    begin = robot.kinematics.at(robot.plant.true_q).position
    handle = robot.ask(goal(point=(POINT[0], POINT[1] - 0.1, TOP), speed=0.01))
    robot.until(lambda: np.linalg.norm(robot.kinematics.at(robot.plant.true_q).position - begin) > 0.05)
    robot.push = np.array([15.0, 0.0, 15.0])
    robot.until(lambda: "going away" in robot.doing)
    robot.push = np.zeros(3)
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.TOO_FORCEFUL, S.STATUS_ABORTED)
    assert "felt on the way to the stand-off, at most 20 N" in result.message and len(result.displacement) == 0
    robot.run(0.5)
    np.testing.assert_allclose(robot.kinematics.at(robot.plant.true_q).position, begin, atol=2e-3)


@pytest.mark.parametrize(
    "change, outcome, says",
    [
        (dict(deaf=True), O.SENSOR_SILENT, "no force was told for"),
        (dict(frame="camera"), O.SENSOR_SILENT, "no force was told for"),
        (dict(push=np.array([0.0, 0.0, np.nan])), O.SENSOR_SILENT, "no force was told for"),
        (dict(push=np.array([0.0, 60.0, 0.0])), O.SENSOR_SATURATED, "on one axis, and tells up to 40 N"),
    ],
)
def test_a_sensor_that_fails_while_it_presses(robot, change, outcome, says):
    handle = robot.in_contact()
    for name, value in change.items():
        setattr(robot, name, value)
    robot.until(lambda: "way back" in robot.doing)
    assert robot.plant.poked.force[2] < 5.0
    result, status = robot.result(handle)
    assert (result.outcome, status) == (outcome, S.STATUS_ABORTED) and says in result.message, result.message
    robot.check_back()
    if outcome == O.SENSOR_SILENT:
        assert np.isnan(result.drift)


def test_a_sensor_that_is_silent_from_the_start_moves_it_no_nearer(robot):
    robot.deaf = True
    result, _ = robot.result(robot.ask())
    assert result.outcome == O.SENSOR_SILENT and len(result.displacement) == 0
    robot.check_back()


def test_a_sensor_that_drifts_is_found_out(robot):
    handle = robot.in_contact()
    robot.push = np.array([0.0, 0.0, -0.8])
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.SENSOR_DRIFTED, S.STATUS_ABORTED), result.message
    assert result.drift == pytest.approx(-0.8, abs=0.05) and "0.80 N more or less than before" in result.message
    robot.check_back()


def test_an_offset_of_the_sensor_is_taken_away(robot):
    robot.push = np.array([1.0, -2.0, 3.0])
    result, _ = robot.result(robot.ask())
    assert result.outcome == O.DONE and abs(result.drift) < 0.05
    np.testing.assert_allclose(result.force, STIFFNESS * np.maximum(result.displacement, 0.0), atol=0.15)
    robot.check_back()


@pytest.mark.parametrize(
    "asked, says",
    [
        (goal(point=(1.2, 0.0, 0.3)), "The arm comes no nearer to"),
        (goal(point=(0.45, 0.0, 0.02)), "In the object the hand would come down to"),
        (goal(point=(0.1, 0.0, 0.3)), "of the base's axis"),
    ],
)
def test_out_of_reach_nothing_moves(robot, asked, says):
    robot.run(0.8)
    before = robot.plant.true_q.copy()
    result, status = robot.result(robot.ask(asked))
    assert (result.outcome, status) == (O.OUT_OF_REACH, S.STATUS_ABORTED) and says in result.message, result.message
    robot.run(0.2)
    np.testing.assert_allclose(robot.plant.true_q, before, atol=3e-4)  # its sensors are noisy, and so is its holding


def test_a_client_may_call_it_back_in_contact(robot):
    handle = robot.in_contact()
    called = handle.cancel_goal_async()
    while not called.done():
        robot.step()
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.CANCELLED, S.STATUS_CANCELED), result.message
    assert len(result.displacement) and max(result.force) < 5.0
    robot.check_back()


def test_a_stop_in_contact_and_a_resume_bring_it_back_from_where_it_is(robot):
    handle = robot.in_contact()
    robot.permit(SupervisorStatus.STATE_HALTED, "stopped by an operator")
    assert not robot.ask(halted=True).accepted, "nothing is begun in a halt"
    assert robot.plant.poked.force[2] < 3.0
    robot.permit(SupervisorStatus.STATE_READY)
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.ARM_STOPPED, S.STATUS_ABORTED)
    assert result.message == "Arm stopped: halted by the supervisor: stopped by an operator."
    robot.check_back()


def test_a_halt_that_lasts_ends_the_goal_and_the_way_back_follows(robot):
    handle = robot.in_contact()
    robot.permit(SupervisorStatus.STATE_HALTED, "stopped by an operator")
    ended = handle.get_result_async()
    robot.ros.until(lambda: robot.tell() or ended.done(), what="the result")
    result = ended.result().result
    assert result.outcome == O.ARM_STOPPED and "the probe is not back yet" in result.message and robot.out < 0.0
    robot.permit(SupervisorStatus.STATE_READY)
    robot.step()
    assert not robot.ask().accepted, "still on its way back"
    robot.until(lambda: "waiting" in robot.doing)
    robot.check_back()


def test_a_pause_without_joint_states_is_a_stop(robot):
    handle = robot.in_contact()
    robot.now += 0.5
    result, _ = robot.result(handle)
    assert result.outcome == O.ARM_STOPPED and "no joint states came for 0.5" in result.message
    robot.check_back()


def test_an_arm_that_is_held_gives_up(robot):
    robot.spring.stiffness = 2e5  # it gives way by a hair: the sensor says enough long before
    robot.push = np.zeros(3)
    handle = robot.ask()
    robot.until(lambda: "advancing" in robot.doing)
    robot.plant.poked.solid.press = lambda points: SimpleNamespace(  # a wall that the sensor is blind for
        force=np.array([0.0, 0.0, max(0.0, -2e4 * points[0, 2])]), torque=np.zeros(3)
    )
    said = robot.plant.wrench
    robot.plant.wrench = lambda: (
        said()
        - np.r_[robot.plant.world.data.site("wrist").xmat.reshape(3, 3).T @ robot.plant.poked.force, 0.0, 0.0, 0.0]
    )
    try:
        worst = 0.0
        while "way back" not in robot.doing:
            robot.step()
            worst = max(worst, float(robot.plant.poked.force[2]))
        result, _ = robot.result(handle)
    finally:
        del robot.plant.wrench, robot.plant.poked.solid.press
    assert result.outcome == O.ARM_STOPPED and "from where it shall be" in result.message
    assert worst < 25.0, worst  # what the springs of the arm give over the leash
    robot.check_back()


def test_it_goes_home_unless_it_pokes(robot):
    answer = robot.ros.call(Trigger, "poke_arm/home")
    assert (answer.success, answer.message) == (True, "The arm goes home.")
    robot.until(lambda: "on the way home" in robot.doing)
    robot.until(lambda: "waiting" in robot.doing)
    np.testing.assert_allclose(robot.commanded, robot.kinematics.home, atol=1e-6)
    handle = robot.ask()
    refused = robot.ros.call(Trigger, "poke_arm/home")
    assert not refused.success and "A poke is under way" in refused.message
    assert robot.result(handle)[0].outcome == O.DONE
