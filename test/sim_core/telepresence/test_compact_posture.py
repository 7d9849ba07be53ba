"""The narrowest posture of a robot whose width is known in closed form."""

import mujoco
import numpy as np
import pytest

from sim_core.telepresence.compact_posture import MirroredArms, most_compact

#: shoulders 0.1 m off the middle of a torso 0.1 m deep; an arm is a capsule 0.4 m long that swings about z, at 0 to the side
SHOULDER, LONG, THICK, TORSO = 0.1, 0.4, 0.02, 0.05


def robot(most=1.5707963267948966, obstacle=""):
    arms = "".join(
        f"""<body name="{side}_upper" pos="0 {sign * SHOULDER} 1"><joint name="{side}" axis="0 0 {sign}" range="-{most} {most}"/>
          <geom type="capsule" fromto="0 0 0 0 {sign * LONG} 0" size="{THICK}"/></body>"""
        for side, sign in (("right", -1), ("left", 1))
    )
    text = f"""<mujoco><compiler angle="radian" autolimits="true"/><worldbody><geom type="plane" size="3 3 1"/>
      <body name="torso"><geom type="box" size="{TORSO} {TORSO} 0.1" pos="0 0 0.1"/>{obstacle}{arms}</body></worldbody></mujoco>"""
    return MirroredArms(mujoco.MjModel.from_xml_string(text), ("right_upper", "left_upper"), ["right"], ["left"], [1.0])


def test_the_width_of_a_posture_is_that_of_its_shapes():
    for q in (0.0, 0.4, -1.1):
        found = robot().measured(np.array([q]))
        assert found.arms == found.width == pytest.approx(2 * (SHOULDER + LONG * np.cos(q) + THICK), abs=1e-9)
        assert found.length == pytest.approx(TORSO + max(TORSO, LONG * abs(np.sin(q)) + THICK), abs=1e-9)
        assert found.excess == 0.0


@pytest.mark.parametrize("longest", [0.35, 0.4])
def test_the_arms_swing_ahead_as_far_as_the_length_lets_them(longest):
    found = most_compact(robot(), longest, starts=2, generations=60)
    swing = np.arcsin((longest - TORSO - THICK) / LONG)
    assert found.excess == pytest.approx(0.0, abs=1e-6)
    assert abs(found.right[0]) == pytest.approx(swing, abs=2e-3)
    assert found.width == pytest.approx(2 * (SHOULDER + LONG * np.cos(swing) + THICK), abs=1e-3)


def test_hands_that_meet_in_the_middle_are_no_posture():
    """Turned inwards by more than a right angle the arms would be narrower than the torso, and in each other."""
    inward = robot(most=2.5)
    assert inward.measured(np.array([2.5])).excess > 0.0
    found = most_compact(inward, 10.0, starts=2, generations=60)
    assert found.excess == pytest.approx(0.0, abs=1e-6)
    touching = np.arcsin((SHOULDER - THICK - 0.0025) / LONG) + np.pi / 2  # 5 mm between the arms
    assert abs(found.right[0]) <= touching + 1e-3
    assert found.width == pytest.approx(2 * (SHOULDER + THICK), abs=2e-3)  # the shoulders are what is left
