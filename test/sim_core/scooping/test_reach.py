"""What an arm says of a scoop before it moves: what it can do, and in a sentence why it cannot do the rest."""

import numpy as np
import pytest

from sim_core.multibody import load_model
from sim_core.scooping.arm.primitive import ScoopAction
from sim_core.scooping.arm.scoop_arm import ScoopArm
from sim_core.scooping.arm.tray import Tray
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure


@pytest.fixture(scope="module")
def arm():
    return ScoopArm(load_model("ur5e_scoop"))


def action(arm, x, y, z, yaw=0.0, depth=0.05):
    """In the tray's frame: x along its long side."""
    return ScoopAction(
        arm.tray.to_world(np.array([x, y, z])), (arm.tray.yaw + yaw + np.pi) % (2 * np.pi) - np.pi, depth
    )


def test_the_published_grid_is_within_reach(arm):
    """Its corners and its middle, in all eight directions, low and high."""
    for k in range(8):
        x, y = [(-0.21, -0.11), (0.21, -0.11), (-0.21, 0.11), (0.21, 0.11), (0.0, 0.0)][k % 5]
        assert arm.out_of_reach(action(arm, x, y, 0.10 + 0.02 * k, k * np.pi / 4, 0.03 + 0.05 * (k % 2))) == ""


@pytest.mark.parametrize(
    "where, yaw, depth, why",
    [
        ((0.0, 0.0, 0.05), 0.0, 0.06, r"-1\d mm above the tray's floor \(at least 10 mm\)|The scoop would come to"),
        ((0.40, 0.0, 0.15), 0.0, 0.05, "from a wall of the tray"),
        ((0.0, 0.27, 0.15), 0.0, 0.05, "from a wall of the tray"),
    ],
)
def test_floor_and_walls_are_kept_away_from(arm, where, yaw, depth, why):
    assert why.split("|")[-1].replace("\\", "") in arm.out_of_reach(action(arm, *where, yaw, depth))


def test_over_the_walls_there_is_room(arm):
    """What begins beside a wall and above it, and never comes down between the walls, meets none."""
    assert "wall" not in arm.out_of_reach(action(arm, 0.40, 0.0, 0.30, 0.0, 0.03))


def test_a_place_that_is_too_far_is_told_by_how_much(arm):
    far = ScoopArm(load_model("ur5e_scoop"), tray=Tray(Pose(np.array([1.0, 0.0, 0.0]), arm.tray.pose.rotation)))
    why = far.out_of_reach(action(far, 0.0, -0.1, 0.15))
    assert why.startswith("On the way to") and ("misses the blade's pose by" in why or "nearly stretched" in why)


def test_the_wrist_stays_above_the_ground(arm):
    """Level ground is far below it; ground that rises steeply before the scoop is not."""
    start = action(arm, 0.0, 0.0, 0.12, 0.0, 0.08)

    def level(places):
        return np.full(len(places), 0.12)

    def hill(places):
        return 0.12 + np.maximum(0.0, places[:, 1] - start.point[1])  # a slope of one ahead

    assert arm.out_of_reach(start, level) == ""
    assert "The wrist would come to" in arm.out_of_reach(start, hill)


def test_a_scoop_whose_joints_would_have_to_hurry_is_refused(arm):
    from sim_core.scooping.arm.execution import ExecutionConfig
    from sim_core.scooping.arm.primitive import PrimitiveConfig

    hasty = ScoopArm(arm.kinematics.model, ExecutionConfig(primitive=PrimitiveConfig(speed=3.0, turning=30.0)))
    assert "rad/s (at most 1.88 rad/s)" in hasty.out_of_reach(action(arm, 0.0, 0.0, 0.15))
