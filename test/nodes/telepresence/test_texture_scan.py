"""The node texture_scan, to which the test plays a wrist's pictures: what it finds, and its bad days."""

import json

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytestmark = pytest.mark.graph

from builtin_interfaces.msg import Time
from rclpy.action import ActionClient
from refit_interfaces.action import ScanTexture
from sensor_msgs.msg import CameraInfo, Image
from std_srvs.srv import Trigger

from nodes.framework.images import camera_info_message, image_message
from nodes.framework.qos import SENSOR
from nodes.telepresence.bridge import texture_of
from nodes.telepresence.protocol import write
from nodes.telepresence.protocol_robot import MAX_ROBOT_BYTES
from nodes.telepresence.texture_scan import TextureScanConfig
from sim_core.telepresence.texture.depth_pictures import depth_pictures, surface_view
from sim_core.telepresence.texture.scans import PART, K
from sim_core.telepresence.texture.surfaces import texture_surface

SUCCEEDED, CANCELED, ABORTED = 4, 5, 6
DEPTH, INFO = "wrist/aligned_depth_to_color/image_raw", "wrist/color/camera_info"


class Wrist:
    """A camera that sends one picture after the other while somebody listens.

    Attributes:
        pictures: millimetres or metres (n, h, w); empty: it is silent. encoding, info, size: of what it sends. left: pictures until
            it falls silent, or None.
    """

    def __init__(self, ros):
        self.ros = ros
        self.depth, self.said = ros.node.create_publisher(Image, DEPTH, SENSOR), 0
        self.infos = ros.node.create_publisher(CameraInfo, INFO, SENSOR)
        self.client = ActionClient(ros.node, ScanTexture, "scan_texture")
        self.service = ros.node.create_client(Trigger, "teleop/texture_scan")
        self.good = millimetres(gravel(0.3))
        self.reset()
        self.timer = ros.node.create_timer(0.05, self.say)

    def reset(self):
        self.pictures, self.encoding, self.info, self.size, self.left = self.good, "16UC1", True, (PART, PART), None

    def say(self):
        if not self.depth.get_subscription_count() or self.left == 0 or not len(self.pictures):
            return
        if self.left is not None:
            self.left -= 1
        self.said += 1
        if self.info:
            self.infos.publish(camera_info_message(K, *self.size, Time(), "optical"))
        picture = self.pictures[self.said % len(self.pictures)]
        self.depth.publish(image_message(picture, self.encoding, Time(), "optical"))

    def ask(self, feedback=None, **goal):
        """A goal's handle."""
        self.ros.until(self.client.server_is_ready, what="the action server")
        note = None if feedback is None else lambda message: feedback.append(message.feedback)
        sent = self.client.send_goal_async(ScanTexture.Goal(**goal), note)
        self.ros.until(sent.done, what="the answer to a goal")
        return sent.result()

    def scan(self, **goal):
        """(result, status)."""
        return self.result(self.ask(**goal))

    def result(self, handle):
        future = handle.get_result_async()
        self.ros.until(future.done, what="the result")
        return future.result().result, future.result().status

    def press(self):
        self.ros.until(self.service.service_is_ready, what="the service")
        return self.service.call_async(Trigger.Request())


def gravel(distance, tilt=0.1, kind="gravel"):
    X = surface_view(distance, tilt, 0.4, 0.3)
    return depth_pictures(texture_surface(kind, 2000), X, K, (PART, PART), 6, np.random.default_rng(3))


def millimetres(depths):
    return np.rint(1e3 * np.nan_to_num(depths)).astype("<u2")


@pytest.fixture(scope="module")
def wrist(shared_ros):
    process = shared_ros.start("texture_scan", camera="wrist", seconds=0.4, patience=1.5)
    shared_ros.up("texture_scan")
    yield Wrist(shared_ros)
    code, _, output = shared_ros.finish(process)
    assert code == 0 and "Traceback" not in output, output


@pytest.fixture(autouse=True)
def _as_it_was(wrist):
    wrist.reset()


def test_a_goal_is_answered_with_heights_and_a_cue(wrist):
    feedback = []
    handle = wrist.ask(feedback, side="right")
    result, status = wrist.result(handle)
    truth = texture_surface("gravel", 2000)
    assert status == SUCCEEDED and result.success and result.surface == "gravel" and result.certainty > 0.9
    assert result.roughness == pytest.approx(truth.roughness, rel=0.15)
    assert result.frequency == pytest.approx(truth.frequency, rel=0.1)
    heights = np.array(result.heights).reshape(result.rows, result.columns)
    assert (result.rows, result.columns, result.resolution) == (101, 101, 0.001)
    assert np.nanstd(heights) == pytest.approx(result.roughness, rel=0.1)
    assert 0.0 < result.amplitude <= 1.0 and 30.0 <= result.vibration <= 320.0
    assert feedback and feedback[-1].pictures >= 4 and feedback[-1].prompt
    wrist.ros.until(lambda: not wrist.depth.get_subscription_count(), what="that nobody listens any more")


def test_the_operators_button_is_answered_as_the_bridge_reads_it(wrist):
    wrist.pictures = gravel(0.3, kind="cobbles").astype("<f4")
    wrist.encoding = "32FC1"
    first = wrist.press()
    wrist.ros.until(lambda: wrist.depth.get_subscription_count(), what="a scan")
    second = wrist.press()
    wrist.ros.until(lambda: first.done() and second.done(), what="both answers")
    assert not second.result().success and second.result().message == "No scan: another scan is running."
    answer = first.result()
    assert answer.success and json.loads(answer.message)["surface"] == "cobbles"
    texture = texture_of(answer.message)
    assert texture.roughness_mm == pytest.approx(1e3 * texture_surface("cobbles", 2000).roughness, rel=0.15)
    assert texture.frequency_hz == pytest.approx(61.8) and max(map(abs, texture.sound)) <= 1.0
    assert len(write(texture)) < MAX_ROBOT_BYTES


def test_it_is_refused_where_it_could_not_be_done(wrist):
    assert not wrist.ask(side="left").accepted
    assert not wrist.ask(seconds=float("nan")).accepted
    assert not wrist.ask(seconds=31.0).accepted


def test_one_at_a_time_and_it_can_be_cancelled(wrist):
    handle = wrist.ask(seconds=30.0)
    assert not wrist.ask().accepted
    wrist.ros.until(handle.cancel_goal_async().done)
    result, status = wrist.result(handle)
    assert (result.success, result.message, status) == (False, "The scan was cancelled.", CANCELED)


def ends(wrist, text):
    result, status = wrist.scan()
    assert status == ABORTED and not result.success and text in result.message, result.message
    assert result.message[-1] in ".?" and "\n" not in result.message


def test_a_silent_camera(wrist):
    wrist.pictures = []
    ends(wrist, "No picture of depth came from wrist within 1.5 s")


def test_a_camera_that_is_gone_in_the_middle(wrist):
    wrist.left = 2
    ends(wrist, "The camera fell silent after 2 pictures, expected 4 at least")


def test_a_camera_without_intrinsics(wrist):
    wrist.info = False
    ends(wrist, "no camera_info came from wrist")
    wrist.info, wrist.size = True, (PART, PART - 2)
    ends(wrist, "have the driver align depth to colour")


@pytest.mark.parametrize(
    ("pictures", "encoding", "text"),
    [
        (np.zeros((1, PART, PART), "<u2"), "16UC1", "no depth is measured in the middle"),
        (np.full((1, PART, PART), np.nan, "<f4"), "32FC1", "no depth is measured in the middle"),
        (np.full((1, PART, PART), 150, "<u2"), "16UC1", "too near: 0.15 m"),
        (np.full((1, PART, PART), 900, "<u2"), "16UC1", "too far: 0.90 m"),
        (millimetres(gravel(0.3, 0.75)), "16UC1", "slanted by 4"),
        (np.zeros((1, PART, PART), "u1"), "mono8", "expected depth as 16UC1 or 32FC1, found 'mono8'"),
        (np.zeros((1, PART, PART), "u1"), "16UC1", f"expected {PART} rows of {PART} depths of 2 bytes"),
    ],
)
def test_pictures_of_which_nothing_can_be_said(wrist, pictures, encoding, text):
    wrist.pictures, wrist.encoding = pictures, encoding
    ends(wrist, text)


def test_a_surface_that_is_too_small_or_hidden(wrist):
    hidden = wrist.good.copy()
    hidden[:, :, : PART // 2 - 30] = 0
    wrist.pictures = hidden
    ends(wrist, "too small")


def test_a_small_face_is_scanned_where_a_small_square_is_asked_for(wrist):
    narrow = np.zeros_like(wrist.good)
    middle, reach = PART // 2, round(0.032 / 0.3 * K[0, 0])  # 64 mm of it
    narrow[:, :, middle - reach : middle + reach] = wrist.good[:, :, middle - reach : middle + reach]
    wrist.pictures = narrow
    ends(wrist, "too small")
    try:
        assert wrist.ros.set_parameter("texture_scan", "square", 0.055).successful
        result, _ = wrist.scan()
        assert result.success and result.rows == result.columns == 57, result.message
        wrist.pictures = wrist.good
        assert result.roughness == pytest.approx(texture_surface("gravel", 2000).roughness, rel=0.15)
    finally:
        assert wrist.ros.set_parameter("texture_scan", "square", 0.1).successful


def test_a_camera_that_moves(wrist):
    wrist.pictures = np.concatenate([millimetres(gravel(0.3 + 0.002 * k)) for k in range(3)])
    wrist.said = -1
    handle = wrist.ask(seconds=0.6)
    result, _ = wrist.result(handle)
    assert not result.success and "moved during the scan" in result.message, result.message


def test_a_node_that_stops_ends_its_scan_and_takes_none(wrist):
    handle = wrist.ask(seconds=30.0)
    wrist.ros.until(lambda: wrist.depth.get_subscription_count(), what="a scan")
    future = handle.get_result_async()
    wrist.ros.transition("texture_scan", "deactivate")
    wrist.ros.until(future.done, what="the result")
    assert future.result().result.message == "The scan was ended: the node stops."
    assert not wrist.depth.get_subscription_count() and not wrist.ask().accepted
    pressed = wrist.press()
    wrist.ros.until(pressed.done, what="the answer")
    assert pressed.result().message == "No scan: the node is not active."
    wrist.ros.transition("texture_scan", "activate")
    assert wrist.scan()[0].success


def test_its_page_names_everything(documentation):
    assert not documentation.missing("texture_scan.md", TextureScanConfig, "nodes/telepresence/texture_scan.py")
