"""The candidates of the mount design study: where an arm stands on the avatar's torso and where its gripper sits on the flange.

A candidate becomes a MuJoCo model with a table before it, the kinematics of its arm, and postures of the whole robot. What is the
same for all of them is here as well: the table, how long the robot may be, and what the published tables have.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from sim_core.multibody import load_model
from sim_core.plant.avatar.builder import SIDES, AvatarDesign, build
from sim_core.plant.avatar.home import MIRRORED
from sim_core.plant.avatar.mounts import ARM_MOUNTS, GRIPPER_MOUNTS, OTHER_READINGS, Mount, mirrored
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.compact_posture import CompactPosture, MirroredArms, most_compact
from sim_core.telepresence.operator_motion import operator_targets
from sim_core.telepresence.table_clearance import without_fingers

__all__ = [
    "ARMS",
    "CHOSEN",
    "EYES",
    "GRIPPERS",
    "JOINTS",
    "LENGTH",
    "PUBLISHED_ARMS",
    "PUBLISHED_GRIPPERS",
    "TABLE",
    "Candidate",
    "Shapes",
    "compact",
    "kinematics",
    "postures",
    "scene",
    "shapes",
    "targets",
]

#: of the whole robot [m], as the thesis has it: 1.0 x 0.68 x 1.75 m
LENGTH = 1.0
#: a table like that over which the operator's motions go: where its middle is and half its edges [m], the top 0.75 m high
TABLE, TABLE_PLACE, TABLE_HALF = "table", (0.8, 0.0, 0.73), (0.3, 0.8, 0.02)
#: the camera in the middle between the eyes
EYES = "eyes"
#: of either arm, and by which each joint of the left one turns as that of the right one does
JOINTS = 7
SIGNS = np.array([-1.0 if k in MIRRORED else 1.0 for k in range(1, JOINTS + 1)])
#: table 8.2: width [m], human-likeness (1 to 5), tracking loss and visibility on A, on B
PUBLISHED_ARMS = {
    "45 down": (0.68, 4.00, 0.0013, 0.3919, 0.4276, 0.3139),
    "forwards": (0.68, 2.25, 0.1488, 0.3775, 0.5545, 0.3171),
    "sideways": (0.91, 3.25, 0.2960, 0.4917, 0.4333, 0.3886),
    "45 sideways": (0.79, 3.25, 0.1092, 0.4126, 0.2982, 0.3502),
    "45 + 45": (0.79, 2.20, 0.0007, 0.3630, 0.3817, 0.3271),
}
#: table 8.3: tracking loss and visibility on A, on B
PUBLISHED_GRIPPERS = {
    ("right", "low"): (0.0102, 0.566, 0.2841, 0.570),
    ("right", "high"): (0.0022, 0.520, 0.2459, 0.549),
    ("right", "end"): (0.7664, 0.343, 0.8259, 0.422),
    ("left", "low"): (0.0014, 0.448, 0.2744, 0.711),
    ("left", "high"): (0.0008, 0.365, 0.0777, 0.617),
    ("left", "end"): (0.4486, 0.214, 0.3654, 0.322),
}


@dataclass(frozen=True)
class Candidate:
    """One arm with its gripper.

    Attributes:
        arm: where it stands, by its name among the mounts or their other readings.
        gripper: where the gripper or the hand sits on it, by name. The other arm carries its own low.
        side: of the robot.
    """

    arm: str
    gripper: str = "low"
    side: str = "right"

    @property
    def mount(self) -> Mount:
        """Of the right arm."""
        return {**ARM_MOUNTS, **OTHER_READINGS}[self.arm]

    @property
    def other(self) -> str:
        """The other side."""
        return SIDES[1 - SIDES.index(self.side)]


CHOSEN = "45 down"
#: what the study compares: the arms first, with low grippers, then the grippers of both sides on the arm that was chosen
ARMS = tuple(Candidate(arm) for arm in PUBLISHED_ARMS)
GRIPPERS = tuple(Candidate(CHOSEN, gripper, side) for side, gripper in PUBLISHED_GRIPPERS)


@functools.cache
def scene(candidate: Candidate, table: bool = True) -> tuple[str, mujoco.MjModel]:
    """The robot with a camera between its eyes, before a table or not: its text and its model."""
    low, own = GRIPPER_MOUNTS["low"], GRIPPER_MOUNTS[candidate.gripper]
    grippers = tuple(own if side == candidate.side else low for side in SIDES)
    spec = build(AvatarDesign(arm_mount=candidate.mount, gripper_mount=(grippers[0], grippers[1])))
    eye = spec.camera("right_eye")
    spec.body("head").add_camera(name=EYES, pos=(eye.pos[0], 0.0, eye.pos[2]), quat=eye.quat, fovy=eye.fovy)
    if table:
        box = mujoco.mjtGeom.mjGEOM_BOX
        spec.worldbody.add_geom(name=TABLE, type=box, pos=TABLE_PLACE, size=TABLE_HALF, material="wood")
    model = spec.compile()
    return spec.to_xml(), model


@functools.cache
def kinematics(candidate: Candidate) -> ArmKinematics:
    """Of the arm, in the robot's axes, with the point between the finger tips as what is moved."""
    model = scene(candidate)[1]
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    site, flange = (data.site(f"{candidate.side}_{name}") for name in ("hand_site", "flange"))
    R = flange.xmat.reshape(3, 3)
    tool = Pose(R.T @ (site.xpos - flange.xpos), R.T @ site.xmat.reshape(3, 3))
    mount = candidate.mount if candidate.side == "right" else mirrored(candidate.mount)
    return ArmKinematics(load_model("panda"), "flange", base=Pose(mount.position, mount.rotation), tool=tool)


@functools.cache
def compact(arm: str, starts: int = 4, seed: int = 0) -> CompactPosture:
    """The narrowest posture of the robot with its arms mounted so, grippers low."""
    model = scene(Candidate(arm), table=False)[1]
    right, left = ([f"{side}_joint{k}" for k in range(1, JOINTS + 1)] for side in SIDES)
    roots = [f"{side}_link0" for side in SIDES]
    return most_compact(MirroredArms(model, roots, right, left, SIGNS), LENGTH, starts=starts, seed=seed)


def postures(candidate: Candidate, q: np.ndarray, waiting: CompactPosture) -> np.ndarray:
    """Of the whole robot (N, nq): one arm at q (N, 7) [rad], the other one waiting, the head forward and down to the hands."""
    model = scene(candidate)[1]
    rows = np.tile(waiting.posture, (len(q), 1))
    rows[:, [model.joint(f"{candidate.side}_joint{k}").qposadr[0] for k in range(1, JOINTS + 1)]] = q
    return rows


@dataclass(frozen=True)
class Shapes:
    """Numbers of the geoms of a candidate's arm, for the table.

    Attributes:
        links: from the first link that swings to the palm. wrist: of the last link, to which the hand is fixed; not of the palm,
            which is the same however it is mounted.
        fingers: of what hangs on the palm. table: the table's own.
    """

    links: tuple[int, ...]
    wrist: tuple[int, ...]
    fingers: tuple[int, ...]
    table: int


def shapes(candidate: Candidate) -> Shapes:
    """Of the candidate's model."""
    model, side = scene(candidate)[1], candidate.side
    links = without_fingers(model, f"{side}_link2", f"{side}_palm")
    wrist = without_fingers(model, f"{side}_link7", f"{side}_link7")
    palm = model.body(f"{side}_palm").id
    fingers = [
        g
        for g in range(model.ngeom)
        if palm in (model.body_parentid[b := model.geom_bodyid[g]], model.body_parentid[model.body_parentid[b]])
    ]
    return Shapes(tuple(links), tuple(wrist), tuple(fingers), model.geom(TABLE).id)


def targets(side: str, count: int, seed: int) -> Sequence[Pose]:
    """Single poses of one hand; those of the left hand are the mirror images of those of the right."""
    found, mirror = operator_targets(count, seed), np.diag([1.0, -1.0, 1.0])
    if side == "right":
        return found
    return [Pose(mirror @ pose.position, mirror @ pose.rotation @ mirror) for pose in found]
