"""The node `scooping` with an arm that is played here and does not get to where it is sent."""

import time

import pytest

pytest.importorskip("rclpy")
pytestmark = pytest.mark.graph

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from refit_interfaces.action import CollectSample
from std_msgs.msg import String
from std_srvs.srv import Trigger

from nodes.framework.qos import LATCHED


class Arm:
    """Plays the node scoop_arm: says what it is told to whenever it is sent to the measuring pose."""

    def __init__(self, ros):
        self.told = ros.node.create_publisher(String, "scoop/state", LATCHED)
        self.service = ros.node.create_service(Trigger, "scoop/measure_pose", self.sent)
        self.says, self.count = ("at rest",), 0
        self.told.publish(String(data="at home"))

    def sent(self, request, response):
        self.count += 1
        for words in self.says:
            self.told.publish(String(data=words))
        response.success, response.message = (
            bool(self.says),
            "The scoop goes to the measuring pose." if self.says else "Not now.",
        )
        return response


@pytest.fixture(scope="module")
def graph(shared_ros, tmp_path_factory):
    arm = Arm(shared_ros)
    node = shared_ros.start("scooping", directory=str(tmp_path_factory.mktemp("scooping")), patience=60.0)
    shared_ros.up("scooping")
    client = ActionClient(shared_ros.node, CollectSample, "scoop/collect_sample")
    shared_ros.until(client.server_is_ready, what="the action")

    def search(meanwhile=lambda: None):
        sent = client.send_goal_async(CollectSample.Goal(threshold=1e-4, budget=1, gamma=-1.0))
        shared_ros.until(sent.done, what="the goal's answer")
        assert sent.result().accepted
        ended = sent.result().get_result_async()
        meanwhile()
        shared_ros.until(ended.done, 50.0, what="the search's end")
        return ended.result().result, ended.result().status

    yield arm, search
    client.destroy()
    code, _, output = shared_ros.finish(node)
    assert code == 0 and "Traceback" not in output, output


@pytest.mark.parametrize(
    "says, sentence",
    [
        (("on the way to the measuring pose", "at rest"), "the arm is at rest and not at the measuring pose"),
        (("halted",), "the arm is halted and not at the measuring pose"),
        ((), "Not now."),
    ],
)
def test_an_arm_that_stays_elsewhere_ends_the_search_before_its_patience_does(graph, says, sentence):
    arm, search = graph
    arm.says, arm.count = says, 0
    found, status = search()
    assert status == GoalStatus.STATUS_ABORTED and not found.success and arm.count == 1
    assert sentence in found.message and "can be resumed" in found.message


def test_an_arm_that_does_not_know_yet_where_it_is_is_not_sent_anywhere(graph, shared_ros):
    arm, search = graph
    arm.says, arm.count = ("halted",), 0
    arm.told.publish(String(data="waiting for joint states"))
    asked = []

    def meanwhile():
        end = time.monotonic() + 1.0
        shared_ros.until(lambda: time.monotonic() > end, what="a second")
        asked.append(arm.count)
        arm.told.publish(String(data="at home"))

    found, _ = search(meanwhile)
    assert asked == [0] and arm.count == 1 and "not at the measuring pose" in found.message
