"""Frames from joint states, against MuJoCo's own kinematics; what is wrong moves nothing."""

import xml.etree.ElementTree as ElementTree

import mujoco
import numpy as np
import pytest

pytest.importorskip("rclpy")

from sensor_msgs.msg import JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from config.robot import robot_file
from nodes.frames.robot_state import RobotStateConfig
from nodes.frames.transforms import TransformBuffer
from nodes.framework.qos import LATCHED, STATE


def test_frames_are_those_of_the_model(ros):
    process = ros.start("robot_state", robot="dxl_arm")
    ros.up("robot_state")
    moving, static, text = (
        ros.listen(TFMessage, "/tf", STATE),
        ros.listen(TFMessage, "/tf_static", LATCHED),
        ros.listen(String, "robot_description_mjcf", LATCHED),
    )
    urdf = ros.listen(String, "robot_description", LATCHED)
    publisher = ros.node.create_publisher(JointState, "joint_states", STATE)
    ros.until(lambda: publisher.get_subscription_count() and static and text and urdf, what="the node listens")
    names = ["gripper", "wrist_roll", "wrist_pitch", "forearm_roll", "elbow", "shoulder", "waist"]
    q = np.array([0.3, -0.4, 0.5, -0.6, 0.7, -0.2, 0.9])
    message = JointState(name=names, position=q, velocity=np.zeros(7))
    message.header.stamp.sec = 12
    broken = JointState(name=names, position=[np.nan] * 7, velocity=np.zeros(7))
    broken.header.stamp.sec = 13

    def heard():
        publisher.publish(message)
        ros.spin(0.05)
        return moving

    ros.until(heard, what="moving frames")
    model = mujoco.MjModel.from_xml_path(str(robot_file("dxl_arm")))
    data = mujoco.MjData(model)
    for name, angle in zip(names[1:], q[1:]):
        data.joint(name).qpos = angle
    mujoco.mj_kinematics(model, data)
    transforms = TransformBuffer()
    transforms.add_static(static[-1])
    transforms.add(moving[-1])
    X = transforms.lookup("world", "hand_site", 12.0)
    np.testing.assert_allclose(X[:3, 3], data.site("hand_site").xpos, atol=1e-9)
    np.testing.assert_allclose(X[:3, :3].ravel(), data.site("hand_site").xmat, atol=1e-9)
    assert '<mujoco model="dxl_arm">' in text[-1].data
    assert urdf[-1].data.startswith('<robot name="dxl_arm">')
    links = {link.get("name") for link in ElementTree.fromstring(urdf[-1].data).findall("link")}
    assert links == {"world"} | {t.child_frame_id for m in (static[-1], moving[-1]) for t in m.transforms}
    diagnostics = ros.diagnostics("robot_state")
    publisher.publish(broken)
    ros.until(lambda: int(diagnostics()[2].get("states_refused", 0)) >= 1, what="the refusal")
    # A good one after it: frames come in order, and none of the broken state is among them.
    message.header.stamp.sec = 14
    publisher.publish(message)
    ros.until(lambda: any(m.transforms[0].header.stamp.sec == 14 for m in moving), what="frames after the broken state")
    assert {m.transforms[0].header.stamp.sec for m in moving} == {12, 14}
    code, _, output = ros.finish(process)
    assert code == 0 and "Traceback" not in output, output


def test_page_names_everything(documentation):
    assert documentation.missing("robot_state.md", RobotStateConfig, "nodes/frames/robot_state.py") == []
