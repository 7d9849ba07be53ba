"""The simulated camera as a process: pictures in the joint states' time, where they are, faults, and silence when nobody listens."""

import io
import os

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytestmark = [
    pytest.mark.graph,
    pytest.mark.skipif(os.environ.get("MUJOCO_GL", "disable") == "disable", reason="no headless OpenGL here"),
]

from refit_interfaces.srv import SetEyeDistance
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState, PointCloud2
from tf2_msgs.msg import TFMessage

from nodes.framework.clouds import cloud_points
from nodes.framework.qos import COMMAND, LATCHED, SENSOR
from nodes.plant.sim_camera import SimCameraConfig
from sim_core.multibody import load_model

EYES = ("left_eye", "right_eye")
HOME = [1.4, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]


class States:
    """Publishes joint states whose stamps run as fast as they are asked to."""

    def __init__(self, ros):
        self.publisher, self.time = ros.node.create_publisher(JointState, "joint_states", COMMAND), 0.0
        self.names, self.quiet = [f"joint{k}" for k in range(1, 8)], False
        self.timer = ros.node.create_timer(0.02, self.say)

    def say(self):
        if self.quiet:
            return
        message = JointState(name=self.names, position=HOME[: len(self.names)])
        self.time += 0.1
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(round(1e9 * self.time), 10**9)
        self.publisher.publish(message)


@pytest.fixture(scope="module")
def graph(shared_ros):
    ros = shared_ros
    process = ros.start("sim_camera", robot="panda_stethoscope", camera="scan", patient=4, rate=2.0)
    ros.frames = ros.listen(TFMessage, "/tf_static", LATCHED)
    ros.states = States(ros)
    ros.say = ros.diagnostics("/sim_camera")
    ros.up("/sim_camera")
    yield ros
    code, _, output = ros.finish(process)
    assert code == 0 and "Traceback" not in output, output


def test_1_while_nobody_listens_nothing_is_drawn(graph):
    graph.until(lambda: graph.say()[2].get("pictures") is not None, what="diagnostics")
    graph.spin(1.0)
    assert graph.say()[2]["pictures"] == "0"


def test_2_a_person_is_seen_where_it_lies(graph):
    clouds = graph.listen(PointCloud2, "camera/depth/color/points", SENSOR)
    images, depths = graph.listen(Image, "camera/color/image_raw", SENSOR), []
    graph.listen(Image, "camera/aligned_depth_to_color/image_raw", SENSOR, depths)
    infos = graph.listen(CameraInfo, "camera/color/camera_info", SENSOR)
    graph.until(lambda: clouds and images and depths and infos and graph.frames, what="pictures")
    transform = graph.frames[-1].transforms[0]
    assert (transform.header.frame_id, transform.child_frame_id) == ("world", "scan_optical_frame")
    assert transform.transform.translation.z == pytest.approx(1.25)
    points, colours = cloud_points(clouds[-1])
    assert clouds[-1].header.frame_id == "scan_optical_frame"
    nearest = np.sort(points[:, 2])[50]
    assert 1.25 - nearest == pytest.approx(0.31, abs=0.03)  # the chest's height over the floor
    red, _, blue = colours[np.argsort(points[:, 2])[:50]].mean(0)
    assert red > 1.2 * blue  # skin
    assert (images[-1].encoding, images[-1].width, images[-1].height) == ("rgb8", 320, 240)
    assert depths[-1].encoding == "16UC1" and infos[-1].k[0] == pytest.approx(infos[-1].k[4])
    pixels = np.frombuffer(depths[-1].data, "<u2").reshape(240, 320)
    assert pixels[120, 160] == pytest.approx(1e3 * nearest, abs=40)


def test_3_pictures_come_in_the_time_of_the_joint_states(graph):
    images = graph.listen(Image, "camera/color/image_raw", SENSOR)
    graph.until(lambda: len(images) >= 6, what="pictures")
    stamps = np.array([m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in images])
    # One in each half second at most, and stamps of joint states, which are tenths.
    assert np.diff(stamps).min() > 0.05 and np.ptp(stamps) >= 0.5 * (len(stamps) - 2)
    assert np.allclose(10 * stamps, np.rint(10 * stamps), atol=1e-6)


def test_3_what_was_due_and_is_past_is_dropped_and_counted(graph):
    images = graph.listen(Image, "camera/color/image_raw", SENSOR)
    graph.until(lambda: images, what="pictures")
    before, stamp = int(graph.say()[2]["dropped"]), images[-1].header.stamp.sec
    graph.states.time += 100.0
    graph.until(lambda: images[-1].header.stamp.sec >= stamp + 100, what="the picture after it")
    graph.until(lambda: int(graph.say()[2]["dropped"]) >= before + 150, what="the count")
    images.clear()
    graph.until(lambda: len(images) > 2, what="pictures as before")


def test_3_a_joint_state_that_cannot_be_drawn_is_refused_and_the_next_is_drawn(graph):
    images = graph.listen(Image, "camera/color/image_raw", SENSOR)
    graph.states.names = graph.states.names[:6]
    graph.until(lambda: "joint7 is missing" in graph.say()[1], what="the sentence")
    assert graph.say()[0] == 1 and int(graph.say()[2]["states_refused"]) > 0
    graph.states.names = [*graph.states.names, "joint7"]
    images.clear()
    graph.until(lambda: images, what="pictures again")


def test_3_joint_states_that_stay_away_are_missed(graph):
    graph.listen(Image, "camera/color/image_raw", SENSOR)
    graph.states.quiet = True
    graph.until(lambda: "no joint states come" in graph.say()[1], what="the sentence")
    assert graph.say()[0] == 1
    graph.states.quiet = False
    graph.until(lambda: graph.say()[0] == 0, what="that all is well")


def test_4_faults_are_played(graph):
    clouds = graph.listen(PointCloud2, "camera/depth/color/points", SENSOR)
    assert graph.set_parameter("/sim_camera", "fault", "no_depth").successful
    depths = graph.listen(Image, "camera/aligned_depth_to_color/image_raw", SENSOR)
    graph.until(lambda: clouds and clouds[-1].width == 0, what="a cloud without points")
    graph.until(lambda: depths and not any(depths[-1].data), what="depths of zero")
    assert graph.set_parameter("/sim_camera", "fault", "frozen").successful
    graph.until(lambda: graph.say()[2].get("fault") == "frozen", what="the fault")
    before = graph.say()[2]["pictures"]
    count = graph.say.count
    graph.until(lambda: graph.say.count > count + 1, what="diagnostics")
    assert int(graph.say()[2]["pictures"]) <= int(before) + 1
    assert not graph.set_parameter("/sim_camera", "fault", "blind").successful
    assert graph.set_parameter("/sim_camera", "fault", "").successful
    clouds.clear()
    graph.until(lambda: clouds and clouds[-1].width > 1000, what="a cloud again")


def test_5_a_camera_that_is_not_there_is_refused(ros):
    process = ros.start("sim_camera", "-r", "__node:=other", robot="panda_stethoscope", camera="nose")
    assert not ros.try_transition("/other", "configure")
    _, _, output = ros.finish(process)
    assert "no camera 'nose'; there are overview, side, scan" in output


def test_6_a_camera_on_a_link_is_told_in_it_and_sends_what_it_shall(ros):
    frames = ros.listen(TFMessage, "/tf_static", LATCHED)
    here = dict(robot="avatar", camera="left_eye", frame_id="eye", frame_prefix="far/", depth=False, points=False)
    process = ros.start("sim_camera", "-r", "__ns:=/avatar", **here)
    ros.transition("/avatar/sim_camera", "configure")

    def told():
        return [t for message in frames for t in message.transforms if t.child_frame_id == "eye"]

    ros.until(told, what="where it is")
    assert told()[0].header.frame_id == "far/head"
    assert told()[0].transform.translation.y == pytest.approx(0.032)
    topics = {name for name, _ in ros.node.get_topic_names_and_types() if name.startswith("/avatar/camera")}
    assert topics == {"/avatar/camera/color/image_raw", "/avatar/camera/color/camera_info"}
    ros.finish(process)


def test_7_eyes_are_seen_through_as_jpeg(ros):
    from PIL import Image as Picture

    pictures = {name: ros.listen(CompressedImage, f"/eyes/camera/{name}/image/compressed", SENSOR) for name in EYES}
    here = dict(robot="avatar", camera="", streams=list(EYES))
    process = ros.start("sim_camera", "-r", "__ns:=/eyes", **here)
    ros.up("/eyes/sim_camera")
    joints = list(load_model("avatar").joint_names)
    states = ros.node.create_publisher(JointState, "/eyes/joint_states", COMMAND)

    def come(yaw, first):
        message = JointState(name=joints, position=[yaw if name == "base_yaw" else 0.0 for name in joints])
        message.header.stamp.sec = first

        def is_there():
            message.header.stamp.sec += 1
            states.publish(message)
            ros.spin(0.05)
            return all(seen and seen[-1].header.stamp.sec > first for seen in pictures.values())

        ros.until(is_there, what="a picture of each eye")
        shown = {name: Picture.open(io.BytesIO(bytes(seen[-1].data))) for name, seen in pictures.items()}
        assert {p.format for p in shown.values()} == {"JPEG"} and {p.size for p in shown.values()} == {(320, 240)}
        return {name: np.asarray(picture, float) for name, picture in shown.items()}

    ahead, aside = come(0.0, 0), come(0.8, 1_000_000)
    assert np.abs(ahead["left_eye"] - ahead["right_eye"]).mean() > 1.0  # 64 mm apart
    assert np.abs(ahead["left_eye"] - aside["left_eye"]).max() > 30.0
    for distance, said in (
        (0.08, "The eyes are 0.0800 m apart."),
        (0.2, "expected the distance of a person's eyes"),
        (np.nan, "found nan"),
    ):
        answer = ros.call(SetEyeDistance, "/eyes/teleop/set_eye_distance", distance=distance)
        assert answer.success == (distance == 0.08) and said in answer.message
    wide = come(0.0, 2_000_000)
    assert np.abs(ahead["left_eye"] - wide["left_eye"]).mean() > 0.5  # 8 mm further out
    assert pictures["left_eye"][-1].header.frame_id == "left_eye_optical_frame"
    topics = {name for name, _ in ros.node.get_topic_names_and_types() if name.startswith("/eyes/camera")}
    assert topics == {f"/eyes/camera/{name}/image/compressed" for name in EYES}
    code, _, output = ros.finish(process)
    assert code == 0, output


def test_7_eyes_that_nobody_has_are_refused():
    for distance in (0.02, 0.049):
        with pytest.raises(ValueError, match=r"eye_distance: expected 0.05 to 0.08 \[m\], found"):
            SimCameraConfig(eye_distance=distance)


def test_7_something_is_to_be_drawn():
    with pytest.raises(ValueError, match="found neither: name what is to be drawn"):
        SimCameraConfig(camera="")


def test_7_where_a_face_is_takes_three_numbers():
    with pytest.raises(ValueError, match="surface_normal: expected three numbers, found 2"):
        SimCameraConfig(surface="rock", surface_normal=(0.0, 1.0))


def test_7_its_page_names_everything(documentation):
    assert not documentation.missing("sim_camera.md", SimCameraConfig, "nodes/plant/sim_camera.py")
