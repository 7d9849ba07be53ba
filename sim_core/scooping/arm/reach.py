"""Whether an arm can do a scoop from where it is: the way is gone in mind, and what is in it said in a sentence.

Looked at are the tray (its floor and walls), the inverse kinematics along the whole way with the joints' limits and speeds, and, where
the surface is known, the wrist above it. What the ground does to the blade is not: that is found out by scooping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim_core.scooping.arm.execution import ScoopExecution
from sim_core.scooping.arm.primitive import ScoopTrajectory
from sim_core.scooping.arm.scoop_shape import ScoopShape
from sim_core.scooping.arm.tray import Tray
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.clutch import Pose

__all__ = ["ArmLimits", "Reach"]

#: steps in which the inverse kinematics settle where they come to a pose
SETTLING = 60
#: poses that are looked at along the scoop, and along a way through the air
ALONG, THROUGH = 16, 12


@dataclass(frozen=True)
class ArmLimits:
    """What a scoop has to be like to be planned.

    Attributes:
        position, turn: by which the blade may miss a pose [m], [rad]. manipulability: that the arm keeps at least.
        floor, wall: distance of the scoop from the tray's [m]. share: of a joint's greatest speed that may be needed.
        wrist: distance of the flange from the surface [m].
    """

    position: float = 0.003
    turn: float = 0.03
    manipulability: float = 0.15
    floor: float = 0.01
    wall: float = 0.01
    share: float = 0.6
    wrist: float = 0.05


class Reach:
    """See the module's docstring.

    Args:
        kinematics: of the blade. tray: before the arm. limits: see there. shape: of the scoop.
    """

    def __init__(
        self,
        kinematics: ArmKinematics,
        tray: Tray,
        limits: ArmLimits = ArmLimits(),
        shape: ScoopShape = ScoopShape(),
    ) -> None:
        self._kinematics, self._tray, self._limits = kinematics, tray, limits
        self._ik = QpIk(kinematics, damping=1e-4, pull=0.0, period=np.inf)
        half, t = 0.5 * shape.width + shape.wall, shape.wall
        self._corners = np.array(
            [[x, y, z] for x in (0.0, -shape.length - t) for y in (-half, half) for z in (-t, shape.height)]
        )
        self._mount = shape.mount.position

    def objection(
        self, execution: ScoopExecution, q: np.ndarray, ground: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> str:
        """Why a scoop cannot be planned from joint positions q (n,) [rad], as a sentence; "": it can.

        Args:
            ground: heights (m,) [m] of the surface at places (m, 2) [m] of the world; None: it is not looked at.
        """
        work = execution.trajectory
        times = np.linspace(0.0, work.duration, ALONG)
        poses = [execution.standoff.pose, *(work.at(t).pose for t in times)]
        if why := self.meets_the_tray(work) or (self._too_low(poses, ground) if ground else ""):
            return why
        begin = self._kinematics.at(q).pose
        to_it, back = execution.ways(begin)
        q, why = self._along([to_it.at(t)[0] for t in np.linspace(0.0, to_it.duration, THROUGH)], q, "the stand-off")
        if why:
            return why
        q, why = self._in_the_ground(poses, q, float(times[1]))
        if why:
            return why
        return self._along([back.at(t)[0] for t in np.linspace(0.0, back.duration, THROUGH)], q, "the measuring pose")[
            1
        ]

    def meets_the_tray(self, work: ScoopTrajectory) -> str:
        """Which of its walls, or that its floor, a scoop would come too near to, as a sentence; "": none.

        Between the movements' ends the scoop goes straight, but where it closes.
        """
        a, b = work.ends[1:3]
        times = (0.0, *work.ends[:2], *(a + np.array([0.35, 0.5, 0.65]) * (b - a)), *work.ends[2:])
        poses = [work.at(t).pose for t in times]
        corners = np.array([pose.position + self._corners @ pose.rotation.T for pose in poses])
        x, y, z = np.moveaxis(self._tray.to_tray(corners), -1, 0)
        size, limits = self._tray.size, self._limits
        if (lowest := float(z.min())) < limits.floor:
            return f"The scoop would come to {1e3 * lowest:.0f} mm above the tray's floor (at least {1e3 * limits.floor:.0f} mm)."
        room = np.minimum(0.5 * size[0] - np.abs(x), 0.5 * size[1] - np.abs(y))
        between = z < size[2] + limits.wall
        nearest = float(np.where(between, room, np.inf).min())
        if nearest < limits.wall:
            return f"The scoop would come to {1e3 * nearest:.0f} mm from a wall of the tray (at least {1e3 * limits.wall:.0f} mm)."
        return ""

    def _too_low(self, poses: list[Pose], ground: Callable[[np.ndarray], np.ndarray]) -> str:
        flange = np.array([pose.position + pose.rotation @ self._mount for pose in poses])
        room = float((flange[:, 2] - ground(flange[:, :2])).min())
        if room < self._limits.wrist:
            return f"The wrist would come to {1e3 * room:.0f} mm above the ground (at least {1e3 * self._limits.wrist:.0f} mm)."
        return ""

    def _in_the_ground(self, poses: list[Pose], q: np.ndarray, dt: float) -> tuple[np.ndarray, str]:
        """Along the scoop, whose times are dt [s] apart: joint positions at its end, and why it cannot be done."""
        speed = self._limits.share * self._kinematics.speed
        for k, pose in enumerate(poses):
            before = q
            q, why = self._along([pose], q, "the end of the scoop")
            if why:
                return q, why
            asked = np.abs(q - before) / dt
            if k > 1 and (asked > speed).any():
                j = int(np.argmax(asked / speed))
                return q, (
                    f"The joint {self._kinematics.joints[j]} would go at {asked[j]:.2f} rad/s (at most {speed[j]:.2f} rad/s)."
                )
        return q, ""

    def _along(self, poses: list[Pose], q: np.ndarray, where: str) -> tuple[np.ndarray, str]:
        """Joint positions at the last of some poses, and why one of them is not reached."""
        limits = self._limits
        for pose in poses:
            for _ in range(SETTLING):
                step = self._ik.step(pose, q, q)
                still = float(np.abs(step - q).max()) < 1e-5
                q = step
                if still:
                    break
            error = pose_error(pose, self._kinematics.at(q).pose)
            off, turn = float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:]))
            if off > limits.position or turn > limits.turn:
                return q, (
                    f"On the way to {where} the arm misses the blade's pose by {1e3 * off:.0f} mm and {turn:.2f} rad (at most "
                    f"{1e3 * limits.position:.0f} mm and {limits.turn:g} rad)."
                )
            if (agile := self._kinematics.manipulability(q)) < limits.manipulability:
                return q, (
                    f"On the way to {where} the arm is nearly stretched or folded: its manipulability is {agile:.2f} (at least "
                    f"{limits.manipulability:g})."
                )
        return q, ""
