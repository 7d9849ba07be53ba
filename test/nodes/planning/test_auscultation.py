"""The exam's node: a scan, landmarks by hand, judged recordings, and exams with an arm that is played here, on good and on bad days."""

import json
import wave
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytestmark = pytest.mark.graph

from action_msgs.msg import GoalStatus
from geometry_msgs.msg import Point, TransformStamped
from lifecycle_msgs.srv import GetState
from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse
from refit_interfaces.action import PlaceAndRecord, RunExam
from refit_interfaces.msg import AuscultationBelief, AuscultationReading
from refit_interfaces.srv import EstimateQuality, RegisterPatient, SetLandmarks
from sensor_msgs.msg import PointCloud2, PointField
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from nodes.framework.qos import LATCHED, LEDGER, SENSOR
from nodes.planning.auscultation_config import AuscultationConfig
from sim_core.auscultation.depth_view import depth_view
from sim_core.auscultation.examination import MISSES, REPEATS, parse_regions, replay
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.auscultation.stethoscope_contact import ContactConditions
from sim_core.planning.checkpoint import load

Outcome = PlaceAndRecord.Result
PATIENT = SimulatedPatient(3)
AXES = AuscultationConfig().axes
ORIGIN = np.array([0.5, 0.0, 0.18])
#: of the camera in the world: it looks down from 0.9 m before the body; its cloud is in its own frame
CAMERA = np.array([0.5, 0.0, 1.08])
RATE = 16000


def in_world(points):
    """Of points in the body's axes."""
    return points @ AXES.T + ORIGIN


def cloud_message(points, stamp):
    message = PointCloud2(height=1, width=len(points), point_step=12, row_step=12 * len(points))
    message.header.frame_id, message.header.stamp = "scan_optical_frame", stamp
    message.fields = [
        PointField(name=axis, offset=4 * k, datatype=PointField.FLOAT32, count=1) for k, axis in enumerate("xyz")
    ]
    # optical axes: x right, y down, z forward; the camera's picture has the person's head on top
    off = points - CAMERA
    message.data = np.stack([-off[:, 1], -off[:, 0], -off[:, 2]], axis=1).astype("<f4").tobytes()
    return message


def camera_pose():
    """The static transform of the frame above: x to the right is -y of the world, z forward is down."""
    transform = TransformStamped(child_frame_id="scan_optical_frame")
    transform.header.frame_id = "world"
    t, r = transform.transform.translation, transform.transform.rotation
    t.x, t.y, t.z = CAMERA.tolist()
    r.x, r.y, r.z, r.w = 0.5**0.5, -(0.5**0.5), 0.0, 0.0
    return TFMessage(transforms=[transform])


class Arm:
    """Plays the node placement: it hears what is to be heard at the point, or fails as it is told."""

    def __init__(self, ros):
        self.ros, self.goals, self.failures, self.hold, self.sound = ros, [], [], False, "good"
        self.field = PATIENT.field["front"]
        self.server = ActionServer(
            ros.node,
            PlaceAndRecord,
            "auscultation/place_and_record",
            self.execute,
            goal_callback=lambda goal: GoalResponse.REJECT if self.failures[:1] == ["refuse"] else GoalResponse.ACCEPT,
            handle_accepted_callback=self.accepted,
            cancel_callback=lambda handle: CancelResponse.ACCEPT,
        )
        self.held = []

    def accepted(self, handle):
        self.goals.append(handle.request)
        if self.hold:
            self.held.append(handle)
        else:
            handle.execute()

    def execute(self, handle):
        goal = handle.request
        handle.publish_feedback(PlaceAndRecord.Feedback(phase="holding still for the recording", force=7.0))
        if handle.is_cancel_requested:
            handle.canceled()
            return Outcome(outcome=Outcome.CANCELLED, message="cancelled by the client")
        if self.failures:
            handle.abort()
            return Outcome(outcome=self.failures.pop(0), message="it was told to")
        point = np.array([goal.point.x, goal.point.y, goal.point.z])
        place = ((point - ORIGIN) @ AXES)[:2]
        heard = self.field.listen(place, ContactConditions(7.0), goal.duration, RATE, seed=len(self.goals)).sound
        heard = 0.0 * heard if self.sound == "silent" else heard
        Path(goal.file).parent.mkdir(parents=True, exist_ok=True)
        with wave.open(goal.file, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes((heard * 32767).astype("<i2").tobytes())
        handle.succeed()
        return Outcome(
            outcome=Outcome.RECORDED, message="10 s were recorded", file=goal.file, force=[7.0] * 10, period=0.1
        )


@pytest.fixture(scope="module")
def graph(shared_ros, tmp_path_factory):
    ros = shared_ros
    folder = tmp_path_factory.mktemp("auscultation")
    ros.begin = lambda: ros.start("auscultation", directory=str(folder), duration=5.0, placement_patience=10.0)
    ros.planner = ros.begin()
    ros.node.create_publisher(TFMessage, "/tf_static", LEDGER).publish(camera_pose())
    ros.cloud = ros.node.create_publisher(PointCloud2, "camera/depth/color/points", SENSOR)
    ros.readings = ros.listen(AuscultationReading, "auscultation/reading", LEDGER)
    ros.beliefs = ros.listen(AuscultationBelief, "auscultation/belief", LEDGER)
    ros.states = ros.listen(String, "auscultation/exam", LATCHED)
    ros.arm = Arm(ros)
    ros.exam = ActionClient(ros.node, RunExam, "auscultation/run_exam")
    ros.up("/auscultation")
    yield ros
    code, _, output = ros.finish(ros.planner)
    assert code == 0 and "Traceback" not in output, output


@pytest.fixture(scope="module")
def points():
    return in_world(depth_view(PATIENT.torso["front"], width=100, height=100))


@pytest.fixture(autouse=True)
def calm(graph):
    graph.arm.failures, graph.arm.hold, graph.arm.sound, graph.arm.goals = [], False, "good", []
    graph.readings.clear()


def scanned(ros, points):
    """Register, with a camera that sends clouds while somebody listens."""
    timer = ros.node.create_timer(
        0.1, lambda: ros.cloud.publish(cloud_message(points, ros.node.get_clock().now().to_msg()))
    )
    try:
        return ros.call(RegisterPatient, "auscultation/register_patient", side="front")
    finally:
        ros.node.destroy_timer(timer)


def send(ros, feedback=None, **goal):
    ros.until(ros.exam.server_is_ready, what="the action run_exam")
    future = ros.exam.send_goal_async(RunExam.Goal(**goal), feedback_callback=feedback)
    ros.until(future.done, what="the answer to an exam")
    return future.result()


def result(ros, handle):
    future = handle.get_result_async()
    ros.until(future.done, what="the end of an exam")
    return future.result()


def test_1_before_anybody_is_scanned_nothing_moves(graph):
    assert not send(graph, regions=["heart/front"]).accepted
    answer = graph.call(SetLandmarks, "auscultation/set_landmarks", regions=["heart/front/mitral"], landmarks=[Point()])
    assert not answer.success and "nobody was scanned" in answer.message
    assert not graph.arm.goals


def test_2_a_scan_of_nobody_is_refused(graph, points):
    answer = graph.call(RegisterPatient, "auscultation/register_patient", side="above")
    assert not answer.success and "front or back" in answer.message
    table = np.stack([*np.random.default_rng(0).uniform([0.2, -0.3], [0.8, 0.3], (2000, 2)).T, np.full(2000, 0.02)], 1)
    stamp = graph.node.get_clock().now().to_msg()
    answer = graph.call(
        RegisterPatient, "auscultation/register_patient", side="front", cloud=cloud_message(table, stamp)
    )
    assert not answer.success and answer.message
    strange = cloud_message(points, stamp)
    strange.header.frame_id = "nowhere"
    answer = graph.call(RegisterPatient, "auscultation/register_patient", side="front", cloud=strange)
    assert not answer.success and "nowhere" in answer.message
    assert not send(graph, regions=["heart/front"]).accepted


def test_3_a_scan_gives_landmarks_on_the_body(graph, points):
    answer = scanned(graph, points)
    assert answer.success, answer.message
    assert answer.frame_id == "world" and len(answer.regions) == 8
    true = {"/".join(region): in_world(place) for region, place in PATIENT.torso["front"].landmarks.items()}
    errors = [
        np.linalg.norm(true[name] - [p.x, p.y, p.z]) for name, p in zip(answer.regions, answer.landmarks, strict=True)
    ]
    assert np.mean(errors) < 0.0173, errors


def test_4_an_exam_from_the_first_place_to_the_recordings(graph):
    said = []
    handle = send(graph, lambda message: said.append(message.feedback.phase), regions=["heart/front"])
    assert handle.accepted
    found = result(graph, handle)
    assert found.status == GoalStatus.STATUS_SUCCEEDED and found.result.success
    assert list(found.result.regions) == ["/".join(region) for region in parse_regions(["heart/front"])]
    assert set(found.result.states) <= {"heard", "exhausted"}
    assert all(Path(file).is_file() for file in found.result.files) and np.isfinite(found.result.scores).all()
    assert "holding still for the recording" in said
    graph.until(lambda: len(graph.readings) == len(graph.arm.goals), what="every reading")
    state = load(found.result.checkpoint)
    graph.until(lambda: json.loads(graph.states[-1].data) == state, what="the exam's last state")
    assert [t["candidate"] for t in state["trials"]] == [r.candidate for r in graph.readings]
    decisions = replay(state)
    assert len(decisions) == len(graph.readings) and all(one.agrees for one in decisions)
    belief = graph.beliefs[-1]
    assert len(belief.x) == len(belief.mean) == len(belief.deviation) == len(belief.points)
    assert belief.header.frame_id == "world"


@pytest.mark.parametrize(
    "outcomes, why, trials",
    [
        ([Outcome.ARM_STOPPED] * REPEATS, "no fault of the place", REPEATS),
        ([Outcome.NO_SOUND] * REPEATS, "no fault of the place", REPEATS),
        ([Outcome.NO_CONTACT] * MISSES, "Register again", MISSES),
    ],
)
def test_5_what_fails_again_and_again_ends_the_exam_with_a_state_from_which_it_goes_on(graph, outcomes, why, trials):
    graph.arm.failures = list(outcomes)
    found = result(graph, send(graph, regions=["heart/front/aortic"], readings=6))
    assert found.status == GoalStatus.STATUS_ABORTED and not found.result.success
    assert why in found.result.message and found.result.checkpoint in found.result.message
    assert len(load(found.result.checkpoint)["trials"]) == trials
    resumed = result(graph, send(graph, resume=found.result.checkpoint))
    assert resumed.result.success or "visits failed" in resumed.result.message
    assert all(one.agrees for one in replay(load(found.result.checkpoint)))


def test_5_one_failure_does_not_end_an_exam(graph):
    graph.arm.failures = [Outcome.TOO_MUCH_FORCE, Outcome.SENSOR_SILENT, Outcome.OUT_OF_REACH]
    found = result(graph, send(graph, regions=["heart/front/aortic"]))
    assert found.result.success, found.result.message
    graph.until(lambda: len(graph.readings) == len(graph.arm.goals), what="every reading")
    assert [r.outcome for r in graph.readings[:3]] == [
        Outcome.TOO_MUCH_FORCE,
        Outcome.SENSOR_SILENT,
        Outcome.OUT_OF_REACH,
    ]
    # a sensor's silence is not the place's fault: the same place was visited again
    assert graph.readings[1].candidate == graph.readings[2].candidate != graph.readings[0].candidate


def test_5_a_silent_microphone_is_not_taken_for_a_bad_place(graph):
    graph.arm.sound = "silent"
    found = result(graph, send(graph, regions=["heart/front/aortic"]))
    assert not found.result.success and "silent" in found.result.message
    graph.until(lambda: len(graph.readings) == REPEATS, what="the readings")
    assert all(np.isnan(reading.score) for reading in graph.readings)


def test_5_an_arm_that_refuses_ends_the_exam(graph):
    graph.arm.failures = ["refuse"]
    found = result(graph, send(graph, regions=["heart/front/aortic"]))
    assert not found.result.success and "refused" in found.result.message and not graph.arm.goals


def test_6_a_cancelled_exam_waits_for_the_arm_and_can_be_resumed(graph):
    graph.arm.hold = True
    handle = send(graph, regions=["heart/front"])
    graph.until(lambda: graph.arm.held, what="the arm's goal")
    assert not send(graph, regions=["heart/front"]).accepted  # one at a time
    busy = graph.call(RegisterPatient, "auscultation/register_patient", side="front")
    assert not busy.success and "under way" in busy.message
    cancelling = handle.cancel_goal_async()
    held = graph.arm.held.pop()
    graph.until(lambda: cancelling.done() and held.is_cancel_requested, what="the arm's own cancellation")
    held.execute()
    found = result(graph, handle)
    assert found.status == GoalStatus.STATUS_CANCELED and "resumed" in found.result.message
    graph.arm.hold = False
    resumed = result(graph, send(graph, resume=found.result.checkpoint))
    assert resumed.result.success


def test_6_an_arm_that_falls_silent_ends_the_exam(graph):
    graph.arm.hold = True
    handle = send(graph, regions=["heart/front/aortic"])
    graph.until(lambda: graph.arm.held, what="the arm's goal")
    found = result(graph, handle)
    assert not found.result.success and "has said nothing for 10 s" in found.result.message
    held = graph.arm.held.pop()
    graph.until(lambda: held.is_cancel_requested, what="the arm being told to come back")
    held.execute()


def test_7_landmarks_by_hand_lead_the_exam(graph):
    true = in_world(PATIENT.torso["front"].landmarks["heart", "front", "aortic"])
    far = graph.call(
        SetLandmarks, "auscultation/set_landmarks", regions=["heart/front/aortic"], landmarks=[Point(x=5.0)]
    )
    assert not far.success and "not on the scan" in far.message
    wrong = graph.call(SetLandmarks, "auscultation/set_landmarks", regions=["heart/front/knee"], landmarks=[Point()])
    assert not wrong.success and "no region 'heart/front/knee'" in wrong.message
    moved = true + AXES @ np.array([0.0, -0.03, 0.0])
    x, y, z = moved.tolist()
    answer = graph.call(
        SetLandmarks,
        "auscultation/set_landmarks",
        regions=["heart/front/aortic"],
        landmarks=[Point(x=x, y=y, z=z)],
    )
    assert answer.success, answer.message
    graph.arm.failures = ["refuse"]
    found = result(graph, send(graph, regions=["heart/front/aortic"]))
    place = np.array(load(found.result.checkpoint)["exam"]["regions"][0][3])
    expected = ((moved - ORIGIN) @ AXES)[:2]
    assert np.linalg.norm(place - expected) < 0.03  # put onto the scan, in the registration's own coronal plane


def test_8_a_recording_is_judged_and_one_that_cannot_be_is_refused(graph, tmp_path):
    field = PATIENT.field["front"]
    good = field.listen(field.landmarks["heart"]["mitral"], ContactConditions(7.0), 10.0, RATE).sound
    ask = lambda **fields: graph.call(EstimateQuality, "auscultation/estimate_quality", **fields)
    answer = ask(structure="heart", samples=good.astype("f4").tolist(), rate=float(RATE))
    assert answer.success and 0.0 <= answer.score <= 1.0 and len(answer.features) == len(answer.values) == 5
    for fields, why in (
        (dict(structure="knee"), "heart or lung"),
        (dict(structure="heart", samples=[0.0] * 160000, rate=float(RATE)), "silent"),
        (dict(structure="lung", samples=good[:RATE].tolist(), rate=float(RATE)), "short"),
        (dict(structure="lung", file=str(tmp_path / "none.wav")), "cannot be read"),
    ):
        answer = ask(**fields)
        assert not answer.success and why in answer.message


def test_91_a_planner_that_is_killed_leaves_an_exam_that_goes_on(graph, points):
    """Killed while the arm is on the body; the next one resumes from the file, on a new scan."""
    graph.until(
        lambda: graph.call(GetState, "/auscultation/get_state").current_state.label == "active", what="the node"
    )
    assert scanned(graph, points).success
    handle = send(graph, regions=["heart/front"])
    assert handle.accepted
    graph.until(lambda: len(graph.readings) == 2, what="two readings")
    graph.arm.hold = True
    graph.until(lambda: graph.arm.held, what="the arm's goal")
    file = Path(graph.arm.goals[-1].file).parent / "exam.json"
    graph.planner.kill()
    graph.planner.communicate()
    graph.processes.remove(graph.planner)
    graph.arm.held.pop().execute()  # the arm comes back by itself, and nobody takes its result
    before = load(file)
    assert len(before["trials"]) >= 2
    graph.arm.hold = False
    graph.until(lambda: "auscultation" not in graph.node.get_node_names(), what="the end of the killed node's lease")
    graph.planner = graph.begin()
    graph.up("/auscultation")
    assert scanned(graph, points).success
    found = result(graph, send(graph, resume=str(file)))
    assert found.result.success, found.result.message
    after = load(file)
    assert after["trials"][: len(before["trials"])] == before["trials"] and len(after["trials"]) > len(before["trials"])
    assert all(one.agrees for one in replay(after))


def test_9_its_page_names_everything(documentation):
    files = ("nodes/planning/auscultation.py", "nodes/frames/transform_listener.py")
    assert not documentation.missing("auscultation.md", AuscultationConfig, *files)
