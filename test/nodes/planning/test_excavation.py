"""The node `excavation` with an arm that is played here, on good and on bad days."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytestmark = pytest.mark.graph

from action_msgs.msg import GoalStatus
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Path as PathMessage
from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse
from refit_interfaces.action import MoveBucket, RunExcavation
from refit_interfaces.msg import BucketState, ExcavationPlan, SupervisorStatus
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from nodes.framework.images import camera_info_message, image_message
from nodes.framework.qos import LATCHED, LEDGER, SENSOR, STATE
from nodes.planning.excavation_config import ExcavationConfig
from sim_core.excavation.pile import Outcome as Led
from sim_core.excavation.pile import Pile, PileSettings
from sim_core.excavation.policies import State
from sim_core.excavation.primitives import NAMES, displacements
from sim_core.excavation.reference_path import DEPTHS, PathSettings, make_reference_path
from sim_core.excavation.shipped_policies import needs_pictures, shipped_policy
from sim_core.excavation.trial import run_trial
from sim_core.planning.checkpoint import load

Motion, Outcome = MoveBucket.Goal, MoveBucket.Result
PATH = make_reference_path(PathSettings(depth=DEPTHS["medium"]))
LOAD = 0.123


class Arm:
    """Plays the node bucket_arm: nine tenths of each motion come about, or it fails as it is told.

    pile: in which it digs; None: nothing resists.
    failures: what happens at a number of the motion among the nine primitives: an outcome, or "hold".
    """

    def __init__(self, ros):
        self.ros, self.held = ros, []
        self.where = ros.node.create_publisher(String, "bucket/where", LATCHED)
        self.states = ros.node.create_publisher(BucketState, "bucket/state", STATE)
        self.fresh()
        self.server = ActionServer(
            ros.node,
            MoveBucket,
            "bucket/move",
            self.execute,
            goal_callback=lambda goal: GoalResponse.REJECT if self.refuses else GoalResponse.ACCEPT,
            handle_accepted_callback=self.accepted,
            cancel_callback=lambda handle: CancelResponse.ACCEPT,
        )

    def fresh(self):
        self.goals, self.failures, self.refuses, self.count = [], {}, False, 0
        self.pose, self.force, self.pile = np.array([0.4, 0.0, 0.3, 0.0]), np.array([3.0, 0.0, 4.0]), None
        self.commanded = self.pose.copy()
        self.say("at home")

    def say(self, where):
        self.where.publish(String(data=where))

    def state(self):
        found = BucketState(pose=self.pose.tolist(), commanded=self.commanded.tolist(), force=self.force.tolist())
        found.header.frame_id = "pile"
        return found

    @property
    def motions(self):
        return [goal.motion for goal in self.goals]

    def accepted(self, handle):
        goal = handle.request
        self.goals.append(goal)
        if goal.motion < len(NAMES):
            self.count += 1
            if self.failures.get(self.count) == "hold":
                self.held.append(handle)
                return
        handle.execute()

    def execute(self, handle):
        goal = handle.request
        handle.publish_feedback(MoveBucket.Feedback(done=0.5, force=5.0, phase="moving"))
        answer = Outcome(outcome=Outcome.DONE, message="done", peak=9.0, held=7.0, load=float("nan"))
        failure = self.failures.get(self.count if goal.motion < len(NAMES) else NAME.get(goal.motion))
        if handle.is_cancel_requested:
            handle.canceled()
            answer.outcome, answer.message = Outcome.CANCELLED, "cancelled by the client"
        elif failure not in (None, "hold"):
            handle.abort()
            answer.outcome, answer.message = failure, "it was told to"
        else:
            handle.succeed()
            self.go(goal, answer)
        answer.state = self.state()
        self.states.publish(answer.state)
        return answer

    def dig(self, goal, answer):
        """In the simulated pile."""
        if goal.motion == Motion.PLACE:
            found = Led(self.pile.reset(11, np.array(goal.pose)), False, 0.0, 0.0, np.zeros(4))
        elif goal.motion == Motion.LIFT:
            found = self.pile.lift()
            answer.load = self.pile.weigh()
        elif goal.motion < len(NAMES):
            found = self.pile.execute(goal.motion)
        else:
            return
        self.pose, self.force, self.commanded = found.state.pose, found.state.force, self.pile.commanded
        answer.peak, answer.held = found.peak, found.held
        answer.outcome = Outcome.JAMMED if found.jammed else Outcome.DONE

    def go(self, goal, answer):
        if self.pile is not None:
            self.dig(goal, answer)
        elif goal.motion < len(NAMES):
            self.commanded = self.commanded + displacements()[goal.motion]
            self.pose = self.pose + 0.9 * displacements()[goal.motion]
        elif goal.motion == Motion.PLACE:
            self.commanded = np.array(goal.pose)
            self.pose = self.commanded.copy()
            self.say("in the pile")
        elif goal.motion == Motion.LIFT:
            self.pose = self.pose + [0.0, 0.0, 0.15, 0.0]
            answer.load = LOAD
            self.say("lifted")
        else:
            self.say("over the bin" if goal.motion == Motion.EMPTY else "at home")


NAME = {Motion.PLACE: "place", Motion.LIFT: "lift", Motion.EMPTY: "empty", Motion.HOME: "home"}
OUT = [Motion.LIFT, Motion.EMPTY, Motion.HOME]


@pytest.fixture(scope="module")
def graph(shared_ros, tmp_path_factory):
    ros = shared_ros
    folder = tmp_path_factory.mktemp("excavation")
    ros.folder = folder
    ros.begin = lambda: ros.start(
        "excavation", directory=str(folder), policy="follow", patience=5.0, picture_patience=2.0
    )
    ros.planner = ros.begin()
    ros.plans = ros.listen(ExcavationPlan, "excavation/plan", LEDGER)
    ros.paths = ros.listen(PathMessage, "excavation/reference_path", LATCHED)
    ros.told = ros.listen(String, "excavation/state", LATCHED)
    ros.arm = Arm(ros)
    ros.trial = ActionClient(ros.node, RunExcavation, "excavation/run_trial")
    ros.up("/excavation")
    yield ros
    code, _, output = ros.finish(ros.planner)
    assert code == 0 and "Traceback" not in output, output


@pytest.fixture(autouse=True)
def calm(graph):
    graph.arm.fresh()
    graph.plans.clear()
    graph.told.clear()


def send(ros, feedback=None, **goal):
    ros.until(ros.trial.server_is_ready, what="the action run_trial")
    future = ros.trial.send_goal_async(RunExcavation.Goal(**goal), feedback_callback=feedback)
    ros.until(future.done, what="the answer to a trial")
    return future.result()


def result(ros, handle):
    future = handle.get_result_async()
    ros.until(future.done, what="the end of a trial")
    return future.result()


def dig(ros, **goal):
    handle = send(ros, **{"path": "medium", **goal})
    assert handle.accepted
    return result(ros, handle)


@pytest.mark.parametrize("goal", [dict(path=""), dict(path="abyss"), dict(path="deep", policy="BF 3")])
def test_1_goals_that_make_no_sense_are_refused(graph, goal):
    assert not send(graph, **goal).accepted and not graph.arm.goals


def test_2_a_trial_from_home_to_the_weighed_load(graph):
    said = []
    handle = send(graph, lambda message: said.append(message.feedback), path="medium")
    found = result(graph, handle)
    assert found.status == GoalStatus.STATUS_SUCCEEDED
    told = found.result
    assert told.success and told.finished and not told.jammed
    assert "123 g were lifted" in told.message and told.mass == pytest.approx(LOAD)
    assert graph.arm.motions[:2] == [Motion.HOME, Motion.PLACE] and graph.arm.motions[-3:] == OUT
    assert list(told.motions) == graph.arm.motions[2:-3]
    np.testing.assert_allclose(graph.arm.goals[1].pose, PATH.poses[0])
    # the same policy at the same states says the same
    policy, pose = shipped_policy("follow", PATH), PATH.poses[0]
    for motion in told.motions:
        assert policy.choose(State(pose, np.zeros(3))) == motion
        pose = pose + 0.9 * displacements()[motion]
    assert told.peak == pytest.approx(9.0) and 0.0 < told.position_error < 0.03 and 0.0 < told.angle_error < 0.3
    assert any(one.phase.startswith("motion 1, ") for one in said) and max(one.progress for one in said) > 0.5
    assert len(graph.paths[-1].poses) == len(PATH.poses) and graph.paths[-1].header.frame_id == "pile"
    graph.until(lambda: len(graph.plans) == len(told.motions), what="every plan")
    assert [plan.motions[0] for plan in graph.plans] == list(told.motions)
    assert all(np.isnan(plan.total) and not plan.poses and plan.policy == "follow" for plan in graph.plans)
    graph.until(lambda: graph.told and json.loads(graph.told[-1].data)["lifted"], what="the last state")
    state = json.loads(graph.told[-1].data)
    assert state["lifted"] == {"mass": LOAD, "jammed": False} and "pictures" not in state["trial"]
    assert load(told.checkpoint)["trial"]["actions"] == list(told.motions) == state["trial"]["actions"]


def test_2_through_the_graph_it_digs_as_without_one(graph):
    """The arm's place is taken by the simulated pile: what the node does with it is `run_trial`, to the bit."""
    settings = PileSettings(picture=False)
    path, pile = make_reference_path(PathSettings(depth=DEPTHS["shallow"])), Pile(settings)
    whole = run_trial(pile, shipped_policy("follow", path, settings.primitives), path, seed=11, longest=8)
    graph.arm.pile = pile
    told = dig(graph, path="shallow", longest=8).result
    assert list(told.motions) == whole.actions.tolist() and told.jammed == whole.jammed
    trial = load(told.checkpoint)["trial"]
    np.testing.assert_array_equal(trial["poses"], whole.poses)
    np.testing.assert_array_equal(trial["forces"], whole.forces)
    np.testing.assert_array_equal(trial["peaks"], whole.peaks)
    assert (told.mass, told.position_error, told.angle_error) == (whole.mass, whole.position_error, whole.angle_error)


def test_3_a_trial_that_is_too_short_is_lifted_and_says_so(graph):
    told = dig(graph, longest=3).result
    assert not told.success and not told.finished and not told.jammed and len(told.motions) == 3
    assert "not reached within 3 motions" in told.message and graph.arm.motions[-3:] == OUT
    ended = dig(graph, resume=told.checkpoint)
    assert ended.status == GoalStatus.STATUS_ABORTED and "has ended" in ended.result.message
    assert "is no planner's checkpoint" in dig(graph, resume="/nowhere.json").result.message


def test_3_a_jam_ends_the_trial_with_the_bucket_out_and_no_mass(graph):
    graph.arm.failures = {5: Outcome.JAMMED}
    told = dig(graph).result
    assert told.jammed and not told.success and told.mass == 0.0 and len(told.motions) == 5
    assert "jammed in motion 5" in told.message and graph.arm.motions[-3:] == OUT


def test_3_a_motion_out_of_reach_ends_the_trial_as_any_other_end(graph):
    graph.arm.failures = {4: Outcome.OUT_OF_REACH}
    told = dig(graph).result
    assert not told.success and not told.jammed and len(told.motions) == 3 and told.mass == pytest.approx(LOAD)
    assert "after 3 motions it was over: it was told to; 123 g were lifted" in told.message
    assert graph.arm.motions[-3:] == OUT and "has ended" in dig(graph, resume=told.checkpoint).result.message


def test_3_a_jam_on_the_way_out_counts_as_a_jam(graph):
    graph.arm.failures = {"lift": Outcome.JAMMED}
    told = dig(graph, longest=2).result
    assert told.jammed and told.mass == 0.0 and "jammed while it was lifted" in told.message
    assert graph.arm.motions[-2:] == [Motion.LIFT, Motion.LIFT]  # once more, and then it is left where it is


@pytest.mark.parametrize("failure, at", [(Outcome.SENSOR_SILENT, 4), (Outcome.ARM_STOPPED, 1)])
def test_4_what_the_arm_cannot_do_ends_the_trial_out_of_the_pile_and_it_goes_on(graph, failure, at):
    graph.arm.failures = {at: failure}
    found = dig(graph)
    told = found.result
    assert found.status == GoalStatus.STATUS_ABORTED and not told.success and not told.jammed
    assert "it was told to" in told.message and f"can be resumed from {told.checkpoint}" in told.message
    assert graph.arm.motions[-1] == Motion.LIFT and len(told.motions) == at - 1
    before, commanded = load(told.checkpoint), graph.arm.commanded
    graph.arm.goals.clear()
    resumed = dig(graph, resume=told.checkpoint).result
    assert resumed.success and resumed.checkpoint == told.checkpoint
    assert graph.arm.motions[0] == Motion.PLACE  # where it was told to be
    np.testing.assert_allclose(graph.arm.goals[0].pose, commanded)
    assert load(told.checkpoint)["trial"]["poses"][:at] == before["trial"]["poses"]


def test_4_an_arm_that_refuses_or_is_stopped_before_the_start_has_dug_nothing(graph):
    graph.arm.refuses = True
    told = dig(graph).result
    assert "the arm refused motion 13: the node bucket_arm says why" in told.message
    assert "nothing was dug" in told.message and not graph.arm.goals
    # A refused goal brings no reason: if the supervisor lets nobody move, that is said.
    supervisor = graph.rclpy.create_node("supervisor", context=graph.context)
    says = supervisor.create_publisher(SupervisorStatus, "supervisor/status", LATCHED)
    says.publish(SupervisorStatus(state=SupervisorStatus.STATE_HALTED, message="stopped by an operator"))
    graph.until(says.get_subscription_count, what="somebody listens to the supervisor")
    told = dig(graph).result
    assert "the arm refused motion 13: halted by the supervisor: stopped by an operator" in told.message
    supervisor.destroy_node()
    graph.arm.refuses, graph.arm.failures = False, {"place": Outcome.JAMMED}
    told = dig(graph).result
    assert "going to where the path starts" in told.message and graph.arm.motions[-1] == Motion.LIFT


def test_5_a_cancelled_trial_ends_lifted_and_goes_on_with_the_same_motions(graph):
    whole = list(dig(graph).result.motions)
    graph.arm.fresh()
    graph.arm.failures = {6: "hold"}
    handle = send(graph, path="medium")
    graph.until(lambda: graph.arm.held, what="the arm's goal")
    assert not send(graph, path="medium").accepted  # one at a time
    cancelling = handle.cancel_goal_async()
    held = graph.arm.held.pop()
    graph.until(lambda: cancelling.done() and held.is_cancel_requested, what="the arm's own cancellation")
    held.execute()
    found = result(graph, handle)
    assert found.status == GoalStatus.STATUS_CANCELED and "can be resumed" in found.result.message
    assert list(found.result.motions) == whole[:5] and graph.arm.motions[-1] == Motion.LIFT
    resumed = dig(graph, resume=found.result.checkpoint).result
    assert resumed.success and list(resumed.motions[:6]) == whole[:6]  # then the bucket stands a little elsewhere


def test_5_an_arm_that_falls_silent_ends_the_trial(graph):
    graph.arm.failures = {2: "hold"}
    handle = send(graph, path="medium")
    graph.until(lambda: graph.arm.held, what="the arm's goal")
    told = result(graph, handle).result
    assert "has said nothing for 5 s" in told.message and "can be resumed" in told.message
    held = graph.arm.held.pop()
    graph.until(lambda: held.is_cancel_requested, what="the arm being told to stop")
    held.execute()


def test_6_a_full_disk_ends_the_trial_with_the_bucket_out(graph):
    graph.arm.failures = {3: "hold"}
    handle = send(graph, path="medium")
    graph.until(lambda: graph.arm.held, what="the arm's goal")
    graph.until(lambda: graph.told, what="the trial's state")
    file = max(Path(graph.folder).rglob("trial.json"), key=lambda path: path.stat().st_mtime)
    file.unlink()
    file.parent.rmdir()
    file.parent.write_text("in the way")  # what cannot be written stands for a disk that is full
    graph.arm.held.pop().execute()
    told = result(graph, handle).result
    assert "cannot be kept" in told.message and graph.arm.motions[-1] == Motion.LIFT


def test_7_a_planner_that_is_taken_out_leaves_a_trial_that_goes_on_with_the_same_motion(graph):
    whole = list(dig(graph).result.motions)
    graph.arm.fresh()
    graph.arm.failures = {8: "hold"}
    handle = send(graph, path="medium")
    graph.until(lambda: graph.arm.held, what="the arm's goal")
    graph.transition("/excavation", "deactivate")
    told = result(graph, handle).result
    assert "not active any more" in told.message and load(told.checkpoint)["trial"]["actions"] == whole[:7]
    held = graph.arm.held.pop()
    graph.until(lambda: held.is_cancel_requested, what="the arm being told to stop")
    graph.arm.commanded = graph.arm.commanded + [
        0.01,
        0.0,
        0.0,
        0.0,
    ]  # it did a part of the motion before it heard that
    held.execute()
    assert not send(graph, path="medium").accepted
    graph.transition("/excavation", "cleanup")
    graph.up("/excavation")
    graph.arm.say("in the pile")
    graph.arm.states.publish(graph.arm.state())
    graph.spin(0.5)
    graph.arm.goals.clear()
    resumed = dig(graph, resume=told.checkpoint).result
    assert resumed.success and list(resumed.motions[:8]) == whole[:8]
    assert graph.arm.motions[0] == Motion.PLACE


#: pictures after which a camera says where it is
LATE = 15


class Camera:
    """0.9 m above the pile, which is level and of one colour; its picture's top is towards +x of the pile.

    Where it is becomes known while it sends already.
    """

    def __init__(self, ros):
        self.node, self.wrong, self.sent = ros.node, False, 0
        self.colour = ros.node.create_publisher(Image, "camera/color/image_raw", SENSOR)
        self.depth = ros.node.create_publisher(Image, "camera/aligned_depth_to_color/image_raw", SENSOR)
        self.info = ros.node.create_publisher(CameraInfo, "camera/color/camera_info", SENSOR)
        self.transform = transform = TransformStamped(child_frame_id="overhead_optical_frame")
        transform.header.frame_id = "pile"
        t, r = transform.transform.translation, transform.transform.rotation
        t.x, t.z = 0.5, 0.9
        r.x, r.y, r.w = 0.5**0.5, -(0.5**0.5), 0.0
        self.frames = ros.node.create_publisher(TFMessage, "/tf_static", LEDGER)
        self.timer = ros.node.create_timer(0.05, self.send)

    def send(self):
        stamp, frame = self.node.get_clock().now().to_msg(), "overhead_optical_frame"
        colour, depth = np.full((240, 320, 3), 150, np.uint8), np.full((240, 320), 0 if self.wrong else 900, "<u2")
        K = np.array([[250.0, 0.0, 159.5], [0.0, 250.0, 119.5], [0.0, 0.0, 1.0]])
        self.colour.publish(image_message(colour, "rgb8", stamp, frame))
        self.depth.publish(image_message(depth, "16UC1", stamp, frame))
        self.sent += 1
        if self.sent == LATE:
            self.frames.publish(TFMessage(transforms=[self.transform]))
        self.info.publish(camera_info_message(K, 320, 240, stamp, frame))


@pytest.mark.skipif(
    not needs_pictures(shipped_policy("bf3", PATH)), reason="the network that is shipped looks at nothing"
)
def test_8_a_planner_that_sees_needs_a_camera_that_does(graph):
    """Follow, which looks at nothing, did without one in all tests above."""
    told = dig(graph, policy="bf3", longest=2).result
    assert not told.success and "no picture came within 2 s" in told.message and "nothing was dug" in told.message
    camera = Camera(graph)
    told = dig(graph, policy="bf3", longest=3, seed=5).result
    assert "not reached within 3 motions" in told.message and len(told.motions) == 3
    graph.until(lambda: len(graph.plans) == 3, what="every plan")
    for plan, motion in zip(graph.plans, told.motions, strict=True):
        assert plan.policy == "bf3" and list(plan.motions)[0] == motion and len(plan.motions) == 3
        assert len(plan.poses) == 12 and len(plan.forces) == 9 and plan.simulations == 8**3 and plan.time > 0.0
        assert plan.total == pytest.approx(plan.progress + plan.tracking + plan.force) and np.isfinite(plan.total)
    state = load(told.checkpoint)
    assert state["seed"] == 5 and len(state["trial"]["pictures"]) == 4
    # what the arm cannot make is planned anew, and nothing of it counts
    graph.arm.fresh()
    graph.arm.failures = {2: Outcome.OUT_OF_REACH}
    told = dig(graph, policy="bf3", longest=3, seed=5).result
    tried = [motion for motion in graph.arm.motions if motion < len(NAMES)]
    assert len(tried) == 4 and list(told.motions) == [tried[0], *tried[2:]] and tried[1] != tried[2]
    assert "not reached within 3 motions" in told.message and graph.arm.motions[-3:] == OUT
    camera.wrong = True
    told = dig(graph, policy="bf3", longest=3).result
    assert "0 % of the pile" in told.message and graph.arm.motions[-1] == Motion.LIFT
    graph.node.destroy_timer(camera.timer)


def test_9_its_page_names_everything(documentation):
    files = ("planning/excavation", "planning/bucket_client", "planning/tray_camera", "frames/transform_listener")
    assert not documentation.missing("excavation.md", ExcavationConfig, *(f"nodes/{name}.py" for name in files))
