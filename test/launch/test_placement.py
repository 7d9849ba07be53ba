"""A simulated person, the robot with a stethoscope and its supervisor as one graph, in lock-step: good and bad days.

The microphone is the test's own, which counts the robot's time by what the plant tells of the stethoscope.
"""

import launch_pytest
import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from launch import LaunchDescription
from launched import SPARING, Processes, include, seconds, until
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from refit_interfaces.action import PlaceAndRecord, RecordAudio
from refit_interfaces.msg import StethoscopeContact, SupervisorStatus
from std_srvs.srv import Trigger

from nodes.framework.long_action import LongAction
from nodes.framework.qos import LEDGER, STATE
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.plant.patient import body_pose

PATIENT, MARK = 3, ("heart", "front", "mitral")
LIMITS = """
/**/placement:
  ros__parameters: {halt_patience: 60.0}
/**/supervisor:
  ros__parameters: {stop_timeout: 2.0}
"""
O, S = PlaceAndRecord.Result, GoalStatus


@launch_pytest.fixture(scope="module")
def graph(domain, tmp_path_factory):
    settings = tmp_path_factory.mktemp("placement") / "limits.yaml"
    settings.write_text(LIMITS + SPARING)
    processes = Processes()
    robot = include(
        "sim.launch.py",
        robot="panda_stethoscope",
        patient=PATIENT,
        lockstep=True,
        real_time_factor=0.0,
        params_file=settings,
    )
    return LaunchDescription([*processes.handlers(), robot]), processes


class Examiner:
    """Asks for placements, holds the microphone, and knows the truth about the contact.

    Attributes:
        refuses: the microphone does. began, ended: stamps of the recording under way or the last one [s].
    """

    def __init__(self, probe):
        self.probe, self.refuses, self._goal, self._owed = probe, False, None, ""
        self.began = self.ended = np.inf
        self.contacts = probe.watch(StethoscopeContact, "sim_plant/stethoscope", STATE)
        probe.node.create_subscription(StethoscopeContact, "sim_plant/stethoscope", self._attend, STATE)
        self._action = LongAction(
            probe.node, RecordAudio, "stethoscope/record", self._begin, lambda goal: "no" * self.refuses, self._cancel
        )
        torso, (axes, origin) = SimulatedPatient(PATIENT).torso["front"], body_pose()
        mark = torso.landmarks[MARK]
        normal = torso.normals[np.linalg.norm(torso.vertices - mark, axis=1).argmin()]
        self.point, self.normal = origin + axes @ mark, axes @ normal

    def _begin(self, handle):
        self._goal, self.began, self.ended = handle, np.inf, np.inf

    def _attend(self, message):
        if self._goal is None:
            return
        now = seconds(message.header.stamp)
        self.began = min(self.began, now)
        if now >= self.began + self._goal.request.duration:
            goal, self._goal, self.ended = self._goal, None, now
            self._action.finish(goal, RecordAudio.Result(success=True, file=goal.request.file), "succeed")

    def _cancel(self, handle):
        if self._goal is not None:
            goal, self._goal = self._goal, None
            self._action.finish(goal, RecordAudio.Result(message="cancelled"), "canceled")

    def ask(self, above=0.0, duration=2.0, point=None):
        """The handle of a goal on the landmark, or so far above the skin [m]."""
        goal = PlaceAndRecord.Goal(duration=duration, structure="heart", file="/nowhere/mitral.wav")
        goal.header.frame_id = "world"
        at = self.point + above * self.normal if point is None else point
        goal.point.x, goal.point.y, goal.point.z = map(float, at)
        goal.normal.x, goal.normal.y, goal.normal.z = map(float, self.normal)
        self.first, self.began, self.ended = len(self.contacts), np.inf, np.inf
        return self.probe.send_goal(PlaceAndRecord, "auscultation/place_and_record", goal)

    def in_contact(self):
        """The handle of a goal that is being recorded."""
        handle = self.ask(duration=20.0)
        until(lambda: np.isfinite(self.began), "the recording begins")
        return handle

    def result(self, handle):
        """(result, status), and that the force was bearable and the stethoscope comes to be in the air again (test/nodes/control: before)."""
        future = self.probe._sent(handle.get_result_async)
        until(future.done, "the goal's result")
        # Contacts come on another way than results, and on a busy machine later.
        self.contacts.wait_next(lambda contact: contact.force == 0.0 and contact.depth < -0.03, what="it is in the air")
        assert max(contact.force for contact in self.contacts[self.first :]) < 15.0
        return future.result().result, future.result().status


@pytest.fixture(scope="module")
def examiner(probe):
    return Examiner(probe)


@pytest.mark.launch(fixture=graph)
def test_it_records_at_the_landmark_with_seven_newton(graph, probe, examiner):
    probe.wait_active("sim_plant", "placement", "supervisor")
    probe.watch(SupervisorStatus, "supervisor/status", LEDGER).wait(
        lambda m: m.state in (SupervisorStatus.STATE_READY, SupervisorStatus.STATE_RUNNING), what="armed"
    )
    result, status = examiner.result(examiner.ask())
    assert (result.outcome, status) == (O.RECORDED, S.STATUS_SUCCEEDED), result.message
    assert result.file == "/nowhere/mitral.wav"
    during = examiner.contacts[examiner.first :]
    recorded = [c for c in during if examiner.began <= seconds(c.header.stamp) <= examiner.ended]
    assert len(recorded) > 150 and all(abs(c.force - 7.0) < 1.0 for c in recorded)
    assert np.abs(np.array(result.force) - 7.0).max() < 1.0 and len(result.force) * result.period >= 2.0
    assert max(c.force for c in during) < 14.0
    landmark = SimulatedPatient(PATIENT).field["front"].landmarks["heart"]["mitral"]
    assert max(np.linalg.norm(np.array(c.place) - landmark) for c in recorded) < 0.006


@pytest.mark.launch(fixture=graph)
def test_a_microphone_that_refuses(graph, examiner):
    examiner.refuses = True
    try:
        result, status = examiner.result(examiner.ask())
    finally:
        examiner.refuses = False
    assert (result.outcome, status, result.file) == (O.NO_SOUND, S.STATUS_ABORTED, "")
    assert "the microphone's node refused to record" in result.message


@pytest.mark.launch(fixture=graph)
def test_nobody_where_the_point_is(graph, examiner):
    result, status = examiner.result(examiner.ask(above=0.06))
    assert (result.outcome, status) == (O.NO_CONTACT, S.STATUS_ABORTED)
    assert "nothing was touched up to 30 mm beyond the point" in result.message


@pytest.mark.launch(fixture=graph)
def test_out_of_reach(graph, examiner):
    result, status = examiner.result(examiner.ask(point=[1.3, 0.0, 0.3]))
    assert (result.outcome, status) == (O.OUT_OF_REACH, S.STATUS_ABORTED) and "no nearer to" in result.message


@pytest.mark.launch(fixture=graph)
def test_a_client_calls_it_back_in_contact(graph, probe, examiner):
    handle = examiner.in_contact()
    probe._sent(handle.cancel_goal_async)
    result, status = examiner.result(handle)
    assert (result.outcome, status) == (O.CANCELLED, S.STATUS_CANCELED) and result.file == ""


@pytest.mark.launch(fixture=graph)
def test_a_stop_in_contact_and_a_resume(graph, probe, examiner):
    handle = examiner.in_contact()
    probe.call(Trigger, "stop")  # time stands still in lock-step: whether the joints rest is not known
    assert until(lambda: probe.call(Trigger, "resume").success, "the supervisor resumes")
    result, status = examiner.result(handle)
    assert (result.outcome, status) == (O.ARM_STOPPED, S.STATUS_ABORTED)
    assert "halted by the supervisor: stopped by an operator" in result.message


@pytest.mark.launch(fixture=graph)
def test_the_arm_goes_home_when_it_is_asked_to(graph, probe, examiner):
    begin = len(examiner.contacts)
    assert probe.call(Trigger, "auscultation/home").success
    # The home posture is turned aside, so that a camera sees the person.
    examiner.contacts.wait_next(lambda c: c.position.x < 0.1 and c.position.y > 0.29, what="the arm is aside")
    assert max(c.force for c in examiner.contacts[begin:]) == 0.0


@pytest.mark.launch(fixture=graph)
def test_a_person_who_moves_away(graph, probe, examiner):
    handle = examiner.in_contact()
    scenario = Parameter("scenario", value="[{action: patient, shift: [0.0, 0.0, -0.06], speed: 0.1}]")
    request = SetParameters.Request(parameters=[scenario.to_parameter_msg()])
    answer = probe.call(SetParameters, "sim_plant/set_parameters", request).results[0]
    assert answer.successful, answer.reason
    result, status = examiner.result(handle)
    assert (result.outcome, status, result.file) == (O.CONTACT_LOST, S.STATUS_ABORTED, "")


@pytest.mark.launch(fixture=graph, shutdown=True)
def test_everybody_ends_well(graph):
    graph[1].assert_ended_well()
