"""The distance from a table, by hand; and what of an arm is held against it."""

import mujoco
import numpy as np
import pytest

from sim_core.telepresence.table_clearance import FAR, landing_clearance, table_clearance, without_fingers

#: an arm that goes up and down and tilts: link, palm, finger; the table's top is at 0.75 m and its edge at x = 0.5 m
TEXT = """<mujoco><compiler angle="radian"/><worldbody>
  <geom name="table" type="box" pos="0.8 0 0.73" size="0.3 0.8 0.02"/>
  <body name="root"><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><joint name="up" type="slide" axis="0 0 1"/><joint name="ahead" type="slide" axis="1 0 0"/>
    <body name="link"><geom type="sphere" size="0.05"/><joint name="tilt" axis="0 1 0"/>
      <body name="palm"><geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.03"/>
        <body name="finger" pos="0.2 0 0"><joint name="close" type="slide" axis="0 1 0"/>
          <geom type="box" pos="0.05 0 -0.06" size="0.05 0.01 0.01"/></body></body></body></body>
</worldbody></mujoco>"""


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(TEXT)


@pytest.fixture(scope="module")
def solid(model):
    return without_fingers(model, "link", "palm")


def test_fingers_are_left_out(model, solid):
    bodies = [model.body(model.geom_bodyid[g]).name for g in solid]
    assert bodies == ["link", "palm"]
    assert without_fingers(model, "palm", "palm") == solid[1:]
    with pytest.raises(ValueError, match="'finger' does not hang on 'palm'|'palm' does not hang on 'finger'"):
        without_fingers(model, "finger", "palm")


@pytest.mark.parametrize(
    ("up", "ahead", "tilt", "expected"),
    [
        (0.90, 0.6, 0.0, 0.90 - 0.05 - 0.75),  # the sphere over the top
        (0.78, 0.6, 0.0, 0.78 - 0.05 - 0.75),  # the sphere in it: negative
        (1.00, 0.6, 0.5, 1.00 - 0.2 * np.sin(0.5) - 0.03 - 0.75),  # the capsule's end is lowest
        (0.75, 0.2, 0.0, 0.5 - 0.4 - 0.03),  # before the edge, at its height: the capsule's end ahead of it
        (0.75 + 0.06, 0.22, 0.0, np.hypot(0.06, 0.08) - 0.03),  # past the edge's corner
        (2.0, 0.6, 0.0, FAR),
    ],
)
def test_distances_by_hand(model, solid, up, ahead, tilt, expected):
    found = table_clearance(model, np.array([[up, ahead, tilt, 0.0]]), solid, model.geom("table").id)
    assert found == pytest.approx([expected], abs=1e-6)


def test_a_finger_in_the_table_is_nothing_and_the_share_counts_moments(model, solid):
    height = np.array([0.81, 0.79, 0.85, 0.9])  # the finger is 0.07 m below, the sphere 0.05 m
    postures = np.zeros((4, 4))
    postures[:, 0], postures[:, 1] = height, 0.6
    found = table_clearance(model, postures, solid, model.geom("table").id)
    assert found == pytest.approx(height - 0.8, abs=1e-6)
    assert (found < 0.0).mean() == 0.25


def test_other_postures_are_refused(model, solid):
    with pytest.raises(ValueError, match="expected postures"):
        table_clearance(model, np.zeros((2, 3)), solid, 0)
    with pytest.raises(ValueError, match="at least one geom"):
        table_clearance(model, np.zeros((2, 4)), [], 0)


@pytest.mark.parametrize("tilt", [0.0, 0.2, 0.4, 0.9])
def test_who_touches_the_table_first_when_the_hand_is_lowered(model, tilt):
    """The wrist is a sphere; the finger's lowest corner is 0.3 m ahead of it and 0.07 m below, turned by the tilt."""
    wrist, finger = without_fingers(model, "link", "link"), [model.ngeom - 1]
    expected = -0.05 - min(-x * np.sin(tilt) - (0.06 + z) * np.cos(tilt) for x in (0.2, 0.3) for z in (-0.01, 0.01))
    for up in (0.9, 1.4):  # wherever it is lowered from
        found = landing_clearance(model, np.array([[up, 0.6, tilt, 0.0]]), wrist, finger, model.geom("table").id)
        assert found == pytest.approx([min(expected, FAR)], abs=1e-6)
    if tilt == 0.0:
        assert expected == pytest.approx(0.02)


def test_a_wrist_below_the_fingers_strikes_first(model):
    posture = np.array([[1.0, 0.6, -0.3, 0.0]])  # the finger points up
    found = landing_clearance(model, posture, [1], [model.ngeom - 1], model.geom("table").id)
    assert found[0] < 0.0
