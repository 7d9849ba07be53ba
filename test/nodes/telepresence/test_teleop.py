"""The page of the node `teleop`, and its messages; the whole graph is tried in test/launch/test_teleop.py."""

from pathlib import Path

import numpy as np
import pytest
from refit_interfaces.msg import OperatorSample
from scipy.spatial.transform import Rotation

from nodes.control.arm_messages import pose_message
from nodes.plant.sim_plant_config import rehearsed_boxes
from nodes.telepresence.teleop import TeleopConfig, _rangefinder
from nodes.telepresence.teleop_messages import sample_of
from sim_core.telepresence.clutch import OPENXR, UNITY, Pose
from sim_core.telepresence.session import diagram
from sim_core.telepresence.standing_box import standing_boxes

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_names_everything(documentation):
    assert not documentation.missing(
        "teleop.md", TeleopConfig, "nodes/telepresence/teleop.py", "nodes/control/joint_controller.py"
    )


def test_the_machine_is_drawn_as_it_is():
    assert f"```mermaid\n{diagram()}\n```" in (ROOT / "docs" / "telepresence.md").read_text()


def message():
    sample = OperatorSample(sequence=7, session="one", axes=OperatorSample.AXES_UNITY, head_tracked=True)
    sample.header.stamp.sec, sample.header.stamp.nanosec = 12, 500_000_000
    sample.head.orientation.w = 1.0
    sample.hand_tracked = [True, False]
    sample.hands[0].position.x = 0.3
    x, y, z, w = Rotation.from_rotvec([0.0, 0.4, 0.0]).as_quat()
    q = sample.hands[0].orientation
    q.x, q.y, q.z, q.w = float(x), float(y), float(z), float(w)
    sample.clutch, sample.trigger, sample.stick = [True, False], [0.5, 0.0], [0.1, -0.2, 1.0]
    return sample


def test_a_message_becomes_a_sample():
    sample = sample_of(message())
    assert (sample.stamp, sample.sequence, sample.session) == (12.5, 7, "one")
    assert sample.axes is UNITY and sample.hands[1] is None and sample.glove is None
    assert sample.hands[0].position == pytest.approx([0.3, 0.0, 0.0])
    assert Rotation.from_matrix(sample.hands[0].rotation).as_rotvec() == pytest.approx([0.0, 0.4, 0.0])
    assert sample.clutch == (True, False) and sample.trigger == (0.5, 0.0) and sample.stick == (0.1, -0.2, 1.0)
    other = message()
    other.axes, other.glove = OperatorSample.AXES_OPENXR, [0.1] * 20
    assert sample_of(other).axes is OPENXR and sample_of(other).glove.shape == (20,)


def test_what_is_no_sample():
    for change, said in (
        (lambda m: setattr(m, "axes", 9), "expected axes 0 or 1, found 9"),
        (lambda m: setattr(m.hands[0].orientation, "w", 3.0), "unit quaternion of the right hand"),
        (lambda m: setattr(m.head.orientation, "w", float("nan")), "unit quaternion of the head"),
        (lambda m: setattr(m.hands[0].position, "x", float("inf")), "finite numbers in a pose"),
        (lambda m: setattr(m, "trigger", [2.0, 0.0]), "expected trigger within 0 and 1"),
        (lambda m: setattr(m, "glove", [0.0] * 3), "20 finite angles"),
    ):
        broken = message()
        change(broken)
        with pytest.raises(ValueError, match=said):
            sample_of(broken)


def test_a_pose_goes_there_and_back():
    rotation = Rotation.from_rotvec([0.3, -0.5, 0.8]).as_matrix()
    sent = pose_message(Pose(np.array([1.0, 2.0, 3.0]), rotation))
    q = sent.orientation
    assert Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix() == pytest.approx(rotation)
    assert [sent.position.x, sent.position.y, sent.position.z] == [1.0, 2.0, 3.0]


def test_rangefinders_as_they_are_written():
    finder = _rangefinder("range_front: -90")
    assert finder.name == "range_front" and finder.bearing == pytest.approx(-np.pi / 2)
    assert finder.place is None and _rangefinder("left: 90 0.1 0.3").place == (0.1, 0.3)
    for text in ("front", "front: 90 0.1", "front: nan"):
        with pytest.raises(ValueError, match=f"'frame: bearing x y', or 'none' alone, found '{text}'"):
            _rangefinder(text)


def test_a_rehearsed_task_tells_its_table_as_the_launch_argument_has_it():
    (table,) = standing_boxes(rehearsed_boxes("canisters").split(";"))
    assert table.name == "table" and table.pose.position[2] + table.half[2] == pytest.approx(0.75)
    assert rehearsed_boxes("") == rehearsed_boxes("switch") == ""
