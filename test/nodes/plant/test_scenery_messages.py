"""Where a rehearsed task's things are, as a message and back, and messages that are none."""

import numpy as np
import pytest

pytest.importorskip("rclpy")

from sensor_msgs.msg import JointState

from nodes.plant.scenery_messages import scenery_joints, scenery_message

JOINTS = {"switch/lever": np.array([0.3]), "cup/free": np.array([1.0, 2.0, 3.0, 0.6, 0.0, 0.8, 0.0])}


def test_a_message_says_what_was_meant():
    message = scenery_message(JOINTS)
    assert message.name[0] == "switch/lever" and message.name[1:] == [
        f"cup/free.{p}" for p in "x y z qw qx qy qz".split()
    ]
    found = scenery_joints(message)
    assert found.keys() == JOINTS.keys() and all((found[name] == JOINTS[name]).all() for name in JOINTS)
    assert scenery_joints(JointState()) == {}


def test_a_message_that_cannot_be_drawn_is_refused():
    short, odd, part = (scenery_message(JOINTS) for _ in range(3))
    short.position = short.position[:-1]
    odd.position[3] = np.nan
    part.name, part.position = part.name[:4], part.position[:4]
    for message in (short, odd):
        with pytest.raises(ValueError, match="a finite position for every joint"):
            scenery_joints(message)
    with pytest.raises(ValueError, match="one number or seven.*cup/free"):
        scenery_joints(part)
