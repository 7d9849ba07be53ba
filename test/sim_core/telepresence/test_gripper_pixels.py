"""What an operator sees of a gripper: a plate before a part of it, a gripper that lags, a machine that cannot draw."""

import os

import numpy as np
import pytest

from sim_core.telepresence import gripper_pixels
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.gripper_pixels import Visibility, VisibilityJob, visibility

pytestmark = pytest.mark.process  # it draws in one
draws = pytest.mark.skipif(os.environ.get("MUJOCO_GL", "disable") == "disable", reason="no headless OpenGL here")
#: the camera looks down from 2 m at a plate 0.4 m wide, the gripper; an arm's plate 10 cm above it can be slid over it
TEXT = """<mujoco><worldbody><camera name="eyes" pos="0 0 2" fovy="40"/><light pos="0 0 3"/>
  <geom type="plane" size="3 3 0.1" pos="0 0 -1"/>
  <body name="arm"><joint name="slide" type="slide" axis="1 0 0"/><geom type="box" pos="0 0 1.9" size="0.5 0.5 0.001"/>
    <body name="palm"><joint name="lag" type="slide" axis="1 0 0"/><geom type="box" size="0.2 0.2 0.005"/></body></body>
</worldbody></mujoco>"""
HERE = Pose(np.zeros(3), np.eye(3))


def job(postures, palms):
    return VisibilityJob(TEXT, "eyes", np.array(postures, float), palms, "palm", ("arm",))


@draws
def test_a_plate_hides_what_is_behind_it():
    """The arm carries its gripper along, so the gripper is slid back to stay where it is asked to be."""
    slides = (
        5.0,
        0.5,
        -0.5,
        0.0,
    )  # far away; its left edge over the gripper's middle; its right edge there; over all of it
    found = visibility(job([(s, -s) for s in slides], [HERE] * 4))
    assert isinstance(found, Visibility)
    assert found.alone.min() == found.alone.max() > 500  # the arms are gone, and the floor hides nothing
    assert found.seen / found.alone == pytest.approx([1.0, 0.5, 0.5, 0.0], abs=0.03)
    assert found.share == pytest.approx(0.5, abs=0.02) and found.counted.all()


@draws
def test_it_counts_against_where_the_gripper_was_asked_to_be():
    near = Pose(np.array([0.0, 0.0, 1.0]), np.eye(3))  # half as far from the eyes: four times as many pixels
    beside = Pose(np.array([9.0, 0.0, 0.0]), np.eye(3))
    found = visibility(job([(5.0, -5.0)] * 3, [near, HERE, beside]))
    assert found.alone[0] == pytest.approx(4.0 * found.alone[1], rel=0.05)
    assert found.counted.tolist() == [True, True, False]  # what cannot be seen at best does not count
    assert found.share == pytest.approx(0.5 * (0.25 + 1.0), abs=0.02)


def test_nearer_than_asked_for_is_seen_whole_and_nothing_to_see_is_no_number():
    assert Visibility(np.array([90, 30]), np.array([60, 60])).share == pytest.approx(0.75)
    assert np.isnan(Visibility(np.array([5]), np.array([5])).share)


def test_a_machine_that_cannot_draw_says_so(monkeypatch):
    monkeypatch.setattr(
        gripper_pixels, "draw_in_child", lambda module, words: "Nothing can be drawn here (no library)."
    )
    assert visibility(job([(0.0, 0.0)], [HERE])) == "Nothing can be drawn here (no library)."
