"""An operator, the avatar and its supervisor as one graph: what is pressed, what is lost, and who may come back how.

A quarter of real time and wide limits for the machine's own delays, so that a busy one is not mistaken for a lost node; the
operator's limits are those of every session, in simulated time.
"""

import threading
import uuid

import launch_pytest
import numpy as np
import pytest
from launch import LaunchDescription
from launched import Processes, include, seconds, until
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from refit_interfaces.msg import OperatorSample, SupervisorStatus, TeleopStatus
from refit_interfaces.srv import SetHeadOffset
from rosgraph_msgs.msg import Clock
from sampled import sample_message
from sensor_msgs.msg import JointState
from simulation_interfaces.msg import Result
from simulation_interfaces.srv import SpawnEntity
from std_srvs.srv import SetBool, Trigger

from nodes.framework.qos import CLOCK, COMMAND, LEDGER, STATE
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.link_ends import Devices

LIMITS = """
/**/sim_plant:
  ros__parameters: {command_age_limit: 1.0}
/**/teleop:
  ros__parameters: {state_age_limit: 1.0, sample_age_limit: 0.25, hold_after: 0.4, release_after: 2.0}
/**/supervisor:
  ros__parameters: {state_age_limit: 1.0, command_age_limit: 1.5, lease_duration: 5.0, stop_timeout: 60.0}
"""
T = TeleopStatus


@launch_pytest.fixture(scope="module")
def avatar(domain, tmp_path_factory):
    settings = tmp_path_factory.mktemp("teleop") / "limits.yaml"
    settings.write_text(LIMITS)
    processes = Processes()
    graph = include("sim.launch.py", robot="avatar", real_time_factor=0.25, params_file=settings)
    return LaunchDescription([*processes.handlers(), graph]), processes


class Operator:
    """Sends samples at 50 Hz of wall time, stamped with the robot's clock, from a thread of its own.

    Attributes:
        silent: sends nothing. right: place of the right hand (3,) [m], OpenXR. clutch, trigger: of the right hand.
        late: [s] by which stamps are older than they should be.
    """

    def __init__(self, probe):
        self.probe = probe
        self.clock = probe.watch(Clock, "clock", CLOCK)
        self.teleop = probe.watch(T, "teleop/status", STATE)
        self.states = probe.watch(JointState, "joint_states", COMMAND)
        self.supervisor = probe.watch(SupervisorStatus, "supervisor/status", LEDGER)
        self.session, self.number = str(uuid.uuid4()), 0
        self.silent, self.clutch, self.trigger, self.late = False, False, 0.0, 0.0
        self.right, self.stick = np.array([0.2, 1.0, 0.0]), [0.0, 0.0, 0.0]
        self.broken = False
        self._publisher = probe.node.create_publisher(OperatorSample, "operator/sample", STATE)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _send(self):
        while not self._end.wait(0.02):
            if not self.silent and len(self.clock):
                self._publisher.publish(self._sample())

    def _sample(self):
        self.number += 1
        level, flat = Pose(np.zeros(3), np.eye(3)), np.eye(3)
        hands = Pose(np.asarray(self.right, float), flat), Pose(np.array([-0.2, 1.0, 0.0]), flat)
        devices = Devices(level, hands, (self.clutch, False), (self.trigger, 0.0), tuple(self.stick))
        message = sample_message(devices, seconds(self.clock[-1].clock) - self.late, self.number, self.session)
        for hand in message.hands if self.broken else ():
            hand.orientation.w = 2.0
        return message

    def close(self):
        self._end.set()
        self._thread.join()
        self.probe.end(self._publisher)

    def until(self, state, what):
        return self.teleop.wait_next(lambda m: m.state == state, what=what)

    def effector(self):
        p = self.teleop.wait_next().effectors[0].position
        return np.array([p.x, p.y, p.z])

    def press(self, service, kind=Trigger, **fields):
        answer = self.probe.call(kind, service, kind.Request(**fields))
        return answer.success, answer.message

    def begin(self):
        """With an open hand, until the robot is ready; in the test itself, since the launch waits for fixtures."""
        self.probe.wait_active("sim_plant", "teleop", "supervisor")
        self.silent, self.clutch, self.late, self.broken, self.stick = False, False, 0.0, False, [0.0, 0.0, 0.0]
        self.until(T.STATE_IDLE, "ready")


@pytest.fixture
def operator(probe):
    one = Operator(probe)
    yield one
    one.close()


@pytest.mark.launch(fixture=avatar)
def test_the_arm_follows_the_hand_and_stays_when_it_is_let_go(avatar, operator):
    operator.begin()
    before = operator.effector()
    operator.clutch = True
    operator.until(T.STATE_TELEOP, "the clutch is felt")
    # OpenXR: up, and towards the operator's left, which is the robot's +z and +y
    for share in np.linspace(0.0, 1.0, 40):
        operator.right = np.array([0.2 - 0.05 * share, 1.0 + 0.06 * share, 0.0])
        operator.teleop.wait_next()
    after = until(
        lambda: (
            (at := operator.effector()) is not None and np.abs(at - before - [0.0, 0.05, 0.06]).max() < 0.01 and [at]
        ),
        "the arm is where the hand is",
    )[0]
    operator.clutch = False
    operator.until(T.STATE_IDLE, "the clutch is let go")
    operator.right = np.array([0.5, 0.5, 0.5])
    for _ in range(10):
        assert np.abs(operator.effector() - after).max() < 0.01


@pytest.mark.launch(fixture=avatar)
def test_a_lost_operator_holds_and_comes_back_without_a_restart(avatar, operator):
    operator.begin()
    operator.clutch, operator.stick = True, [0.5, 0.0, 0.0]
    operator.until(T.STATE_TELEOP, "the clutch is felt")
    operator.silent = True
    held = operator.until(T.STATE_HOLD, "silence holds")
    assert "nothing was heard" in held.message
    rest = operator.teleop.wait_next(lambda m: list(m.base_velocity) == [0.0, 0.0, 0.0], what="the base stands")
    assert rest.state in (T.STATE_HOLD, T.STATE_DISCONNECTED)
    operator.until(T.STATE_DISCONNECTED, "longer silence releases")
    operator.session, operator.silent = "another", False
    joined = operator.until(T.STATE_HANDSHAKE, "a new session joins")
    assert "release both clutches" in joined.message and joined.session == "another"
    operator.clutch, operator.stick = False, [0.0, 0.0, 0.0]
    operator.until(T.STATE_IDLE, "an open hand is ready")
    operator.clutch = True
    operator.until(T.STATE_TELEOP, "and moves the arm again")


@pytest.mark.launch(fixture=avatar)
def test_stale_and_broken_samples_move_nothing_and_are_told(avatar, operator):
    operator.begin()
    before = operator.effector()
    operator.late = 3600.0
    operator.teleop.wait_next(lambda m: "older than its age limit (" in m.message, what="old samples are told")
    operator.until(T.STATE_HOLD, "old samples are silence")
    operator.late, operator.broken, operator.clutch = 0.0, True, True
    operator.right = operator.right + 0.1
    operator.teleop.wait_next(lambda m: "unit quaternion" in m.message, what="broken samples are told")
    assert np.abs(operator.effector() - before).max() < 0.01


@pytest.mark.launch(fixture=avatar)
def test_stop_resume_home_and_precision(avatar, operator):
    operator.begin()
    assert operator.press("teleop/precision", SetBool, data=True)[0]
    assert operator.teleop.wait_next(lambda m: m.precision == 0.25, what="precision")
    assert operator.press("teleop/precision", SetBool, data=False)[0]
    done, said = operator.press("teleop/set_head_offset", SetHeadOffset, yaw=0.3, pitch=0.2)
    assert done and said == "Straight ahead is now 0.30 left, 0.20 down, 0.00 to the right [rad]."
    operator.states.wait_next(lambda m: abs(m.position[m.name.index("head_yaw")] - 0.3) < 0.02, what="the head turns")
    done, said = operator.press("teleop/set_head_offset", SetHeadOffset, yaw=2.0)
    assert not done and said.startswith("yaw: expected an angle within the neck's limits")
    assert operator.press("stop")[0]
    fault = operator.until(T.STATE_FAULT, "a stop is a fault")
    assert "operator" in fault.message
    assert operator.press("teleop/home") == (False, fault.message)
    operator.states.wait_next(lambda m: np.abs(m.velocity).max() < 0.05, what="the robot rests")
    assert operator.press("resume")[0]
    operator.until(T.STATE_IDLE, "resumed")
    assert operator.press("teleop/home") == (True, "The arms go home.")
    operator.teleop.wait_next(lambda m: list(m.arm_mode) == ["holds", "holds"], what="home")
    assert operator.press("teleop/narrow")[0]
    operator.teleop.wait_next(lambda m: list(m.arm_mode) == ["folds", "folds"], what="the arms fold")
    assert operator.press("teleop/home")[0]
    done, said = operator.press("teleop/park_head")
    assert not done and "operator" in said
    assert operator.press("teleop/reset_fault") == (True, "There is no fault.")


@pytest.mark.launch(fixture=avatar)
def test_what_stands_around_is_told_while_no_clutch_is_pressed(avatar, operator):
    operator.begin()

    def tell(*boxes):
        request = SetParameters.Request(parameters=[Parameter("boxes", value=list(boxes)).to_parameter_msg()])
        answer = operator.probe.call(SetParameters, "teleop/set_parameters", request).results[0]
        return answer.successful, answer.reason

    done, why = tell("table: 1 2")
    assert not done and "boxes: expected 'name: x y z dx dy dz'" in why and "found 'table: 1 2'" in why
    assert tell("shelf: 0.9 -0.2 1.05 0.3 0.4 0.03")[0]
    operator.clutch = True
    operator.until(T.STATE_TELEOP, "the clutch is felt")
    done, why = tell("post: 5 5 1 0.1 0.1 2")
    assert not done and "while no clutch is pressed" in why
    for share in np.linspace(0.0, 1.0, 30):  # forward, which is OpenXR's -z: the shelf is 0.15 m before the hand
        operator.right = np.array([0.2, 1.0, -0.3 * share])
        operator.teleop.wait_next()
    operator.teleop.wait_next(lambda m: "shelf would be" in m.arm_message[0], what="the arm holds before it")
    operator.clutch, operator.right = False, np.array([0.2, 1.0, 0.0])
    operator.until(T.STATE_IDLE, "the clutch is let go")
    request = SetParameters.Request(parameters=[Parameter("boxes", Parameter.Type.STRING_ARRAY, []).to_parameter_msg()])
    assert operator.probe.call(SetParameters, "teleop/set_parameters", request).results[0].successful
    assert operator.press("teleop/home")[0]
    operator.teleop.wait_next(lambda m: list(m.arm_mode) == ["holds", "holds"], what="home")


@pytest.mark.launch(fixture=avatar)
def test_the_base_stands_before_what_is_spawned_in_its_way(avatar, operator):
    operator.begin()
    where = operator.states.wait_next()
    x, y, yaw = (where.position[where.name.index(name)] for name in ("base_x", "base_y", "base_yaw"))
    forward, far = np.array([np.cos(yaw), np.sin(yaw)]), 1.2
    request = SpawnEntity.Request(name="box", allow_renaming=False)
    request.entity_resource.resource_string = '<geom type="box" size="0.1 0.6 0.3" mass="500"/>'
    pose = request.initial_pose.pose
    pose.position.x, pose.position.y = (float(value) for value in np.array([x, y]) + far * forward)
    pose.position.z, pose.orientation.z, pose.orientation.w = 0.3, float(np.sin(yaw / 2)), float(np.cos(yaw / 2))
    answer = operator.probe.call(SpawnEntity, "spawn_entity", request).result
    assert answer.result == Result.RESULT_OK, answer.error_message
    operator.stick = [1.0, 0.0, 0.0]
    operator.teleop.wait_next(lambda m: m.base_velocity[0] > 0.15, what="the base drives")
    told = operator.teleop.wait_next(
        lambda m: m.message.startswith("The base stands: the rangefinder range_") and not any(m.base_velocity[:2]),
        what="the base stands and says why",
    )
    assert "sees something 0.3" in told.message or "sees something 0.4" in told.message
    at = operator.states.wait_next(lambda m: np.abs(m.velocity).max() < 0.02, what="it is at rest")
    gone = (np.array([at.position[at.name.index(name)] for name in ("base_x", "base_y")]) - [x, y]) @ forward
    # the box's front is 0.1 m before its middle, the base's 0.26 m
    assert 0.34 < far - 0.1 - gone - 0.26 < 0.42


@pytest.mark.launch(fixture=avatar)
def test_a_killed_controller_leaves_the_robot_holding_and_comes_back_without_a_launch(avatar, operator):
    operator.begin()
    operator.clutch = True
    operator.until(T.STATE_TELEOP, "the clutch is felt")
    for share in np.linspace(0.0, 1.0, 20):  # the arm is on its way
        operator.right = np.array([0.2, 1.0 + 0.05 * share, 0.0])
        operator.teleop.wait_next()
    said, pid = len(operator.supervisor), avatar[1].pid["/teleop"]
    avatar[1].kill("/teleop")
    halted = operator.supervisor.wait(
        lambda m: m.state == SupervisorStatus.STATE_HALTED, after=said, what="the supervisor halts"
    )
    assert halted.code == SupervisorStatus.CODE_COMMAND_LOST and "controller" in halted.message
    held = operator.states.wait_next(lambda m: np.abs(m.velocity).max() < 0.02, what="the robot stands")
    until(lambda: avatar[1].pid["/teleop"] != pid, "it is started again")
    told = operator.teleop.wait_next(lambda m: m.state == T.STATE_FAULT, what="it is there, and says why nothing moves")
    assert "halted" in told.message.lower()
    operator.right = operator.right + 0.1  # the hand goes on, clenched
    assert operator.press("resume")[0]
    joined = operator.teleop.wait_next(lambda m: m.state == T.STATE_IDLE or m.state == T.STATE_HANDSHAKE, what="joined")
    for _ in range(10):
        assert not any(joined.clutched) and joined.state != T.STATE_TELEOP
        joined = operator.teleop.wait_next()
    now = operator.states.wait_next()
    # Nothing that a clutch leads has moved in all that time. The head follows whoever looks through it, from its home on.
    led = [not name.startswith("head") for name in now.name]
    assert np.abs(np.subtract(now.position, held.position)[led]).max() < 0.02
    operator.clutch = False
    operator.until(T.STATE_IDLE, "the hand has opened")
    operator.clutch = True
    operator.until(T.STATE_TELEOP, "and leads the arm again")


@pytest.mark.launch(fixture=avatar, shutdown=True)
def test_everybody_ends_well(avatar):
    avatar[1].assert_ended_well()
