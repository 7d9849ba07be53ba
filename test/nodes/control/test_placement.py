"""The node `placement` alone: the test leads it through time as a plant in lock-step would, before a skin that is a spring.

Robot and person together, with the whole physics, are tried in test/launch/test_placement.py.
"""

import time

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from geometry_msgs.msg import WrenchStamped
from rclpy.action import ActionClient
from refit_interfaces.action import PlaceAndRecord, RecordAudio
from refit_interfaces.msg import ControllerStatus, JointCommand, SupervisorStatus
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from nodes.control.placement import PlacementControllerConfig
from nodes.control.placement_messages import order_of
from nodes.framework.long_action import LongAction
from nodes.framework.qos import COMMAND, LATCHED, SENSOR, STATE
from sim_core.auscultation.pressing_force import wrist_load
from sim_core.multibody import load_model
from sim_core.telepresence.arm_kinematics import ArmKinematics

ROBOT, PERIOD, STIFFNESS = "panda_stethoscope", 0.016, 1500.0
P, N = np.array([0.5, 0.0, 0.3]), np.array([0.0, 0.0, 1.0])
O, S = PlaceAndRecord.Result, GoalStatus


def test_the_page_names_everything(documentation):
    files = ("placement", "arm_controller", "joint_controller", "sound_request")
    sources = [f"nodes/control/{name}.py" for name in files]
    assert not documentation.missing("placement.md", PlacementControllerConfig, *sources)


# ---- what a goal may ask for -------------------------------------------------------------------------------------


def goal(point=P, normal=N, duration=0.5, **fields):
    """A goal as a client sends it."""
    made = PlaceAndRecord.Goal(duration=duration, **fields)
    made.point.x, made.point.y, made.point.z = map(float, point)
    made.normal.x, made.normal.y, made.normal.z = map(float, normal)
    return made


def framed(frame):
    made = goal()
    made.header.frame_id = frame
    return made


@pytest.mark.parametrize(
    "asked, says",
    [
        (framed("camera"), "frame of the arm's base, 'world' or '', found 'camera'"),
        (goal(point=[0.5, np.nan, 0.3]), "expected finite numbers"),
        (goal(normal=[np.inf, 0.0, 1.0]), "expected finite numbers"),
        (goal(normal=[0.0, 0.0, 0.0]), "expected a normal that points out of the skin"),
        (goal(duration=61.0), "expected a recording of 0.1 to 60 s, or 0 for 10 s, found 61 s"),
        (goal(duration=-1.0), "found -1 s"),
        (goal(duration=np.nan), "found nan s"),
        (goal(structure="liver"), "expected the structure heart or lung, found 'liver'"),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused_with_a_sentence(asked, says):
    with pytest.raises(ValueError, match=says):
        order_of(asked, 10.0, "runs")


def test_a_goal_is_completed_by_the_nodes_own_values(tmp_path):
    order = order_of(goal(normal=[0.0, 0.0, 2.0], duration=0.0, structure="heart"), 10.0, str(tmp_path))
    assert order.duration == 10.0 and order.normal.tolist() == [0.0, 0.0, 1.0]
    assert order.file.startswith(str(tmp_path)) and order.file.endswith("-heart.wav")
    assert order_of(framed("world"), 10.0, "runs").file.startswith("/")  # another node writes it


@pytest.mark.parametrize(
    "fields, says", [({"abort": 7.2}, "band < abort"), ({"force": 1.5}, "touch < force"), ({}, None)]
)
def test_settings_that_contradict_each_other_are_refused(fields, says):
    if says is None:
        assert PlacementControllerConfig().placement(3.0).duration == 3.0
        return
    with pytest.raises(ValueError, match=says):
        PlacementControllerConfig(**fields)


# ---- the node in its graph ---------------------------------------------------------------------------------------


class Microphone:
    """Serves `stethoscope/record` in the robot's time.

    Attributes:
        mood: "good", "refuses", "fails" or "hangs". asked: goals so far. cancelled: how many of them were.
    """

    def __init__(self, robot):
        self.robot, self.mood, self.asked, self.cancelled, self._goal = robot, "good", [], 0, None
        self._action = LongAction(
            robot.ros.node, RecordAudio, "stethoscope/record", self._begin, self._refusal, self._cancel
        )

    def _refusal(self, goal):
        self.asked.append(goal)
        return "the foam has come off" if self.mood == "refuses" else ""

    def _begin(self, handle):
        self._goal, self._end = handle, self.robot.now + handle.request.duration

    def _cancel(self, handle):
        self.cancelled += 1
        self._finish(RecordAudio.Result(message="cancelled"), "canceled")

    def attend(self):
        if self._goal is None or self.robot.now < self._end or self.mood == "hangs":
            return
        if self.mood == "fails":
            self._finish(RecordAudio.Result(message="the cable was pulled out"), "abort")
        else:
            file = self._goal.request.file
            self._finish(RecordAudio.Result(success=True, file=file), "succeed")

    def _finish(self, result, state):
        goal, self._goal = self._goal, None
        self._action.finish(goal, result, state)

    def close(self):
        self._action.destroy()


class Robot:
    """Joints that are where they are told to be, a skin that is a spring, and a supervisor.

    Attributes:
        skin: height of its surface [m]. extra: force besides the skin's [N]. deaf: no wrench comes. frame: of the wrench.
        stuck: the joints stay. peak, speed: greatest force [N] and speed of the membrane [m/s] so far.
    """

    def __init__(self, ros):
        self.ros, model = ros, load_model(ROBOT)
        self.kinematics, self.load = ArmKinematics(model, "membrane"), wrist_load(model, "wrist", "membrane")
        self.names, self.q = list(model.joint_names), np.array(model.q_home, float)
        self.now, self.state = 1.0, SupervisorStatus.STATE_READY
        self.supervisor = ros.rclpy.create_node("supervisor", context=ros.context)
        self.says = self.supervisor.create_publisher(SupervisorStatus, "supervisor/status", LATCHED)
        self.states = ros.node.create_publisher(JointState, "joint_states", COMMAND)
        self.wrenches = ros.node.create_publisher(WrenchStamped, "wrench", SENSOR)
        self.commands = ros.listen(JointCommand, "joint_command", COMMAND)
        self.status = ros.listen(ControllerStatus, "controller/status", STATE)
        self.client = ActionClient(ros.node, PlaceAndRecord, "auscultation/place_and_record")
        self.microphone = Microphone(self)
        self.feedback = []
        self.calm()
        ros.until(lambda: self.states.get_subscription_count() and self.wrenches.get_subscription_count())
        ros.until(self.client.server_is_ready)

    def calm(self):
        """A good day."""
        self.skin, self.extra, self.deaf, self.stuck, self.frame = P[2], 0.0, False, False, "wrist"
        self.peak = self.speed = 0.0
        self.microphone.mood, self.microphone.asked, self.microphone.cancelled = "good", [], 0

    @property
    def place(self):
        """Of the membrane (3,) [m]."""
        return self.kinematics.at(self.q).position

    def pressed(self):
        return STIFFNESS * max(0.0, self.skin - self.place[2]) + self.extra

    def permit(self, state, message=""):
        """The supervisor's word, and time for it to arrive."""
        self.state = state
        self.says.publish(SupervisorStatus(state=state, message=message))
        wanted = (
            ControllerStatus.STATE_TRACKING if state == SupervisorStatus.STATE_READY else ControllerStatus.STATE_STOPPED
        )
        self.ros.until(lambda: self.tell() or (self.status and self.status[-1].state == wanted), what="permission")

    def tell(self):
        """The present state once more, in a time that goes on a little: nothing answers it in a halt."""
        self.now += 0.06
        self._publish()
        self.ros.spin(0.02)

    def _publish(self):
        posture = self.kinematics.at(self.q)
        wrist = posture.rotation @ self.load.wrist
        force = wrist.T @ self.load.weight - self.pressed() * self.load.outward
        wrench, state = WrenchStamped(), JointState(name=self.names, position=self.q.tolist(), velocity=[0.0] * 7)
        wrench.header.frame_id = self.frame
        wrench.wrench.force.x, wrench.wrench.force.y, wrench.wrench.force.z = map(float, force)
        for message in (wrench, state):
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(round(1e9 * self.now), 10**9)
        if not self.deaf:
            self.wrenches.publish(wrench)
        self.states.publish(state)

    def step(self):
        """One period: wrench and state, and the command that answers them."""
        self.now += PERIOD
        heard, told = len(self.commands), time.monotonic()
        self.peak = max(self.peak, self.pressed())
        self._publish()
        while len(self.commands) == heard:
            self.ros.spin(0.002)
            if time.monotonic() > told + 1.0:  # the message was lost on a busy machine
                self._publish()
                told = time.monotonic()
        command, before = self.commands[-1], self.place
        if not self.stuck:
            self.q = np.array(command.position)
        self.speed = max(self.speed, float(np.linalg.norm(self.place - before)) / PERIOD)
        del self.commands[:]
        self.microphone.attend()

    def run(self, seconds):
        for _ in range(round(seconds / PERIOD)):
            self.step()

    def until(self, condition, longest=60.0):
        """Let time go on until something is so."""
        end = self.now + longest
        while not condition():
            assert self.now < end, f"did not happen within {longest:g} s; it says {self.status[-1].message}"
            self.step()

    def ask(self, asked=None, **fields):
        """The goal's handle; None where it is refused."""
        self.feedback = []
        sent = self.client.send_goal_async(
            asked or goal(**fields), lambda message: self.feedback.append(message.feedback)
        )
        self.ros.until(sent.done, what="the answer to a goal")
        return sent.result() if sent.result().accepted else None

    def doing(self, phase):
        return lambda: bool(self.status) and phase in self.status[-1].message

    def result(self, handle, steps=True):
        """(result, status), while time goes on or stands still."""
        future, end = handle.get_result_async(), self.now + 60.0
        while not future.done():
            assert self.now < end, f"no result; it says {self.status[-1].message}"
            self.step() if steps else self.ros.spin(0.02)
        return future.result().result, future.result().status

    def in_contact(self):
        """A goal's handle, once it is recorded."""
        handle = self.ask(duration=2.0)
        assert handle is not None
        self.until(self.doing("holding still for the recording"))
        self.until(lambda: self.microphone.asked)
        return handle

    def is_back(self):
        return self.place[2] - self.skin

    def close(self):
        self.microphone.close()
        self.client.destroy()
        self.supervisor.destroy_node()


@pytest.fixture(scope="module")
def one(shared_ros):
    parameters = dict(lockstep=True, control_period=PERIOD, robot=ROBOT, halt_patience=1.0, sound_patience=0.5)
    shared_ros.start("placement", **parameters)
    shared_ros.up("placement")
    robot = Robot(shared_ros)
    robot.permit(SupervisorStatus.STATE_READY)
    robot.run(0.1)
    yield robot
    robot.close()


@pytest.fixture
def robot(one):
    one.calm()
    one.until(one.doing("waiting"))
    one.run(0.1)
    return one


def test_it_places_records_and_comes_back(robot, tmp_path):
    handle = robot.ask(duration=1.0, file=str(tmp_path / "mitral.wav"))
    assert robot.ask() is None, "one at a time"
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.RECORDED, S.STATUS_SUCCEEDED), result.message
    assert result.file == robot.microphone.asked[0].file == str(tmp_path / "mitral.wav")
    assert robot.microphone.asked[0].duration == 1.0
    assert len(result.force) * result.period >= 1.0 and np.abs(np.array(result.force) - 7.0).max() < 1.0
    assert robot.peak < 14.0 and robot.speed <= 0.065
    assert robot.is_back() == pytest.approx(0.08, abs=2e-3)
    phases = [said.phase for said in robot.feedback]
    assert phases[0].startswith("on the way to the stand-off") and "holding still for the recording" in phases
    assert max(said.recorded for said in robot.feedback) > 0.5


@pytest.mark.parametrize(
    "mood, says",
    [
        ("refuses", "No sound: the microphone's node refused to record"),
        ("fails", "No sound: the microphone recorded nothing of use: the cable was pulled out"),
        ("hangs", "No sound: the recording had not come 0.5 s after its end"),
    ],
)
def test_without_sound_it_comes_back_first_and_says_why(robot, mood, says):
    robot.microphone.mood = mood
    result, status = robot.result(robot.ask())
    assert (result.outcome, status) == (O.NO_SOUND, S.STATUS_ABORTED) and says in result.message
    assert result.file == "" and robot.is_back() > 0.07 and robot.peak < 14.0
    if mood == "hangs":
        robot.ros.until(lambda: robot.microphone.cancelled == 1, what="the recording is cancelled")


@pytest.mark.parametrize(
    "change, outcome, says",
    [
        (dict(skin=-1.0), O.NO_CONTACT, "nothing was touched up to 30 mm beyond the point"),
        (dict(extra=6.0), O.TOO_MUCH_FORCE, "at most 11 N may be"),
        (dict(deaf=True), O.SENSOR_SILENT, "no force was told"),
        (dict(frame="camera"), O.SENSOR_SILENT, "no force was told"),
        (dict(skin=P[2] - 0.06), O.CONTACT_LOST, "contact was lost after"),
    ],
)
def test_a_bad_day_in_contact(robot, change, outcome, says):
    if "skin" in change and change["skin"] < 0.0:
        robot.skin, handle = change["skin"], robot.ask()
    else:
        handle = robot.in_contact()
        for name, value in change.items():
            setattr(robot, name, value)
    robot.until(robot.doing("on the way back"))
    robot.extra = 0.0
    result, status = robot.result(handle)
    assert (result.outcome, status) == (outcome, S.STATUS_ABORTED) and says in result.message, result.message
    assert robot.place[2] - P[2] > 0.07 and result.file == ""
    assert robot.speed <= 0.065 and robot.peak < 14.0
    if outcome is not O.NO_CONTACT:
        robot.ros.until(lambda: robot.microphone.cancelled == 1, what="the recording is cancelled")


def test_an_arm_that_does_not_follow_is_given_up_and_does_not_jump_when_it_does(robot):
    handle = robot.ask()
    robot.until(lambda: robot.is_back() < 0.04)
    robot.stuck = True
    robot.until(robot.doing("on the way back"))
    robot.stuck, robot.speed = False, 0.0
    result, status = robot.result(handle)
    assert (result.outcome, status) == (
        O.ARM_STOPPED,
        S.STATUS_ABORTED,
    ) and "mm from where it shall be" in result.message
    assert robot.is_back() > 0.07 and robot.speed <= 0.065 and not robot.microphone.asked


def test_out_of_reach_nothing_moves(robot):
    before = robot.q.copy()
    result, status = robot.result(robot.ask(point=[1.2, 0.0, 0.3]))
    assert (result.outcome, status) == (O.OUT_OF_REACH, S.STATUS_ABORTED)
    assert "Out of reach: The arm comes no nearer to the stand-off than" in result.message
    robot.run(0.2)
    np.testing.assert_array_equal(robot.q, before)
    assert not robot.microphone.asked


def test_a_client_may_call_it_back_in_contact(robot):
    handle = robot.in_contact()
    cancelled = handle.cancel_goal_async()
    robot.ros.until(cancelled.done)
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.CANCELLED, S.STATUS_CANCELED)
    assert robot.is_back() == pytest.approx(0.08, abs=2e-3) and result.file == ""
    robot.ros.until(lambda: robot.microphone.cancelled == 1, what="the recording is cancelled")


def test_a_halt_in_contact_and_a_resume_bring_it_back_from_where_it_is(robot):
    handle = robot.in_contact()
    robot.permit(SupervisorStatus.STATE_HALTED, "stopped by an operator")
    assert robot.ask() is None, "nothing is begun in a halt"
    robot.q = robot.q + 0.01 * np.sin(np.arange(7))  # the arm gave way
    robot.speed = 0.0
    robot.permit(SupervisorStatus.STATE_READY)
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.ARM_STOPPED, S.STATUS_ABORTED)
    assert result.message == "Arm stopped: halted by the supervisor: stopped by an operator."
    assert robot.is_back() > 0.07 and robot.speed <= 0.065 and robot.peak < 15.0


def test_a_halt_that_lasts_ends_the_goal_and_the_way_back_follows(robot):
    handle = robot.in_contact()
    robot.permit(SupervisorStatus.STATE_HALTED, "stopped by an operator")
    result, status = robot.result(handle, steps=False)
    assert (result.outcome, status) == (O.ARM_STOPPED, S.STATUS_ABORTED)
    assert "the stethoscope is not back yet" in result.message and robot.is_back() < 0.0
    robot.permit(SupervisorStatus.STATE_READY)
    robot.run(0.1)
    assert robot.ask() is None, "still on its way back"
    robot.until(robot.doing("waiting"))
    assert robot.is_back() > 0.07


def test_a_goal_waits_for_the_first_joint_state_after_a_halt(robot):
    robot.permit(SupervisorStatus.STATE_HALTED, "stopped by an operator")
    robot.says.publish(SupervisorStatus(state=SupervisorStatus.STATE_READY))
    handles = []
    robot.ros.until(lambda: handles.append(robot.ask()) or handles[-1] is not None, what="permission")
    cancelled = handles[-1].cancel_goal_async()
    robot.ros.until(cancelled.done)
    result, status = robot.result(handles[-1], steps=False)
    assert (result.outcome, status) == (O.CANCELLED, S.STATUS_CANCELED)
    handle = robot.ask()
    robot.ros.until(lambda: robot.feedback and robot.feedback[-1].phase == "waiting for joint states", what="feedback")
    assert robot.result(handle)[0].outcome == O.RECORDED


def test_a_pause_without_joint_states_is_a_stop(robot):
    handle = robot.in_contact()
    robot.now += 0.5
    result, _ = robot.result(handle)
    assert result.outcome == O.ARM_STOPPED and "no joint states came for 0.52 s" in result.message
    assert robot.is_back() > 0.07


def test_time_that_goes_back_ends_the_goal_and_moves_nothing(robot):
    handle = robot.in_contact()
    robot.now, robot.q = 1.0, robot.kinematics.home.copy()
    result, status = robot.result(handle)
    assert (result.outcome, status) == (O.ARM_STOPPED, S.STATUS_ABORTED) and "time went back" in result.message
    np.testing.assert_allclose(robot.q, robot.kinematics.home, atol=1e-9)
    assert robot.result(robot.ask())[0].outcome == O.RECORDED


def test_it_goes_home_unless_it_listens(robot):
    robot.result(robot.ask())
    begun = robot.place
    answer = robot.ros.call(Trigger, "auscultation/home")
    assert (answer.success, answer.message) == (True, "The arm goes home.")
    robot.until(robot.doing("on the way home"))
    robot.until(robot.doing("waiting"))
    np.testing.assert_allclose(robot.q, robot.kinematics.home, atol=1e-9)
    assert robot.speed <= 0.065 and np.linalg.norm(robot.place - begun) > 0.05
    handle = robot.in_contact()
    refused = robot.ros.call(Trigger, "auscultation/home")
    assert not refused.success and "A placement is under way" in refused.message
    assert robot.result(handle)[0].outcome == O.RECORDED


def test_a_microphone_that_is_not_there_is_not_waited_for(robot):
    robot.microphone.close()
    robot.ros.until(lambda: not robot.ros.node.get_publishers_info_by_topic("/stethoscope/record/_action/status"))
    try:
        handle = robot.ask()
        robot.until(robot.doing("holding still for the recording"))
        # Its patience is of the wall's time.
        while not robot.doing("on the way back")():
            robot.step()
            robot.ros.spin(0.02)
        result, _ = robot.result(handle)
    finally:
        robot.microphone = Microphone(robot)
    assert result.outcome == O.NO_SOUND and "nobody answered on 'stethoscope/record' within 0.5 s" in result.message
    assert robot.is_back() > 0.07


def test_a_node_that_is_deactivated_ends_its_goal_and_comes_back_when_it_may(robot):
    handle = robot.in_contact()
    future = handle.get_result_async()
    robot.ros.transition("placement", "deactivate")
    robot.ros.until(future.done)
    assert future.result().result.outcome == O.ARM_STOPPED and "not active any more" in future.result().result.message
    assert robot.is_back() < 0.0
    robot.ros.transition("placement", "activate")
    robot.until(robot.doing("on the way back"))
    robot.until(robot.doing("waiting"))
    assert robot.is_back() > 0.07
