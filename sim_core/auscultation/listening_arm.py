"""An arm that carries a stethoscope: from its joints and the force that it feels to what its joints shall do.

    arm = ListeningArm(load_model("panda_stethoscope"), "membrane")
    arm.start_at(q)
    if not (why := arm.out_of_reach(point, normal)):
        placement = arm.place(point, normal)
    motion = arm.cycle(q, v, force, dt)              # 125 times a second

It leads one placement at a time, goes home when it is asked to, and else stays where it was told to be. Whatever happened meanwhile
(a halt, a pause without commands, a person who turned the arm aside), it begins where its joints are: `start_at`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.auscultation.placement import MARGIN, Placement, PlacementConfig, facing
from sim_core.multibody import RobotModel
from sim_core.telepresence.arm_ik import PERIOD, QpIk
from sim_core.telepresence.arm_joints import greatest_torques, joint_springs, step_time, turned_posture, unhurried
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.avatar import Motion
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.model_forces import ModelForces

__all__ = ["ArmLimits", "ListeningArm"]

#: steps in which the inverse kinematics settle where they come to a goal
SETTLING = 200
#: [rad] of a joint that counts as being there; [rad] that a joint on its way home is waited for
THERE, BEHIND = 1e-3, 0.05


@dataclass(frozen=True)
class ArmLimits:
    """What a place has to be like to be reached, and how the arm goes home.

    Attributes:
        position, turn: by which the membrane may miss a goal [m], [rad].
        lowest: height above the base's foot that it keeps [m]. aside: distance from the base's axis that it keeps [m].
        joint: speed of a joint on its way home, at most [rad/s].
    """

    position: float = 0.005
    turn: float = 0.1
    lowest: float = 0.03
    aside: float = 0.2
    joint: float = 0.4


class ListeningArm:
    """See the module's docstring.

    Args:
        model: of the robot, whose joints are all hinges and are all driven.
        frame: site that is the membrane, its z axis out of it. tool: of the membrane in the frame; None: the frame itself.
        config: of placements, unless one is told another; its speeds also hold on the way home.
        period: [s] between two cycles. limits: see there.

    Attributes:
        kinematics: of the membrane. kp, kd: of the joints (n,) [N m/rad], [N m s/rad].
        told: joint positions that it was told last (n,) [rad]. placement: the one under way, or the last one; None: none yet.

    Raises:
        ValueError: a joint has no motor, or one without a limit.
    """

    def __init__(
        self,
        model: RobotModel,
        frame: str,
        tool: Pose | None = None,
        config: PlacementConfig = PlacementConfig(),
        period: float = PERIOD,
        limits: ArmLimits = ArmLimits(),
    ) -> None:
        self.kinematics = k = ArmKinematics(model, frame, tool=tool)
        self.config, self.period, self.limits = config, period, limits
        self._ik, self._at_leisure = QpIk(k, period=period), QpIk(k, period=np.inf)
        self._forces = ModelForces(model)
        self.effort = greatest_torques(model)
        self._speed = np.asarray(model.v_limit, float)
        self.kp, self.kd = joint_springs(self.effort)
        self.told = k.home.copy()
        self.placement: Placement | None = None
        self._homing = False
        self._share = 0.0  # of the full speed, on the way home

    @property
    def busy(self) -> bool:
        """Whether a placement is under way, its way back included."""
        return self.placement is not None and not self.placement.ended

    @property
    def homing(self) -> bool:
        """Whether it is on its way home."""
        return self._homing

    @property
    def target(self) -> Pose:
        """Where the membrane was told to be."""
        return self.kinematics.at(self.told).pose

    def pose(self, q: np.ndarray) -> Pose:
        """Of the membrane at joint positions q (n,) [rad]."""
        return self.kinematics.at(q).pose

    # -- what it is asked for ----------------------------------------------------------------------

    def start_at(self, q: np.ndarray, why: str = "the arm was stopped") -> None:
        """The joints are there (n,) [rad]: everything goes on from it, without a jump.

        A placement that is under way has failed, for the reason given, and what is left of it is the way back.
        """
        # Measured at its stop, a joint may lie beyond its limit by its noise; a command may not.
        self.told = np.clip(np.array(q, float), self.kinematics.lower, self.kinematics.upper)
        self._homing = False
        if self.placement is not None and self.busy:
            self.placement.stop(why)
            self.placement.go_on(self.target)

    def stop(self, why: str) -> None:
        """Nothing moves the joints any more, for this reason; `start_at` follows when something does."""
        self._homing = False
        if self.placement is not None:
            self.placement.stop(why)

    def out_of_reach(self, point: np.ndarray, normal: np.ndarray, config: PlacementConfig | None = None) -> str:
        """By how much a place cannot be reached from where the arm is, as a sentence; "": it can.

        It goes the way in mind: to the stand-off and on to the farthest that a placement goes without contact.

        Args:
            point, normal: on the body and out of it (3,) [m], in the axes of the arm's base; the normal has a direction.
        """
        c, normal = config or self.config, np.asarray(normal, float) / np.linalg.norm(normal)
        start = self.target
        rotation = facing(-normal, start.rotation)
        q = self.told
        for depth, where in ((-c.standoff, "the stand-off"), (c.past, f"{1e3 * c.past:.0f} mm beyond the point")):
            goal = Pose(np.asarray(point, float) - depth * normal, rotation)
            if why := self._in_the_way(start.position, goal.position):
                return f"On the way to {where} {why}."
            for _ in range(SETTLING):
                q = self._at_leisure.step(goal, q, self._preferred(q))
            error = pose_error(goal, self.pose(q))
            off, turn = float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:]))
            if off > self.limits.position or turn > self.limits.turn:
                return (
                    f"The arm comes no nearer to {where} than {1e3 * off:.0f} mm and {turn:.2f} rad "
                    f"(at most {1e3 * self.limits.position:.0f} mm and {self.limits.turn:g} rad)."
                )
            start = goal
        return ""

    def place(self, point: np.ndarray, normal: np.ndarray, config: PlacementConfig | None = None) -> Placement:
        """Begin a placement from where the arm is.

        Raises:
            ValueError: point or normal are none. RuntimeError: another one is under way.
        """
        if self.busy:
            raise RuntimeError("a placement is under way")
        self.placement = Placement(point, normal, self.target, config or self.config)
        self._homing = False
        return self.placement

    def go_home(self) -> str:
        """Begin to go home; "" or the sentence why not."""
        if self.busy:
            return "A placement is under way: cancel it, or wait for its end."
        self._homing, self._share = True, 0.0
        return ""

    # -- the cycle ---------------------------------------------------------------------------------

    def cycle(self, q: np.ndarray, v: np.ndarray, force: float, dt: float) -> Motion:
        """What the joints shall do until the next cycle.

        Args:
            q, v: as measured (n,) [rad], [rad/s]. force: see `PressingForce`; not finite: it is not known.
            dt: since the last cycle [s].
        """
        dt, before = step_time(dt, self.period), self.told
        if self.placement is not None and self.busy and dt > 0.0:
            target = self.placement.step(self.pose(q), force, dt)
            step = self._ik.step(target, self.told, self._preferred(self.told)) - self.told
            self.told = self.told + unhurried(step, self._speed, dt)
        elif self._homing and dt > 0.0:
            self._home(q, force, dt)
        velocity = (self.told - before) / dt if dt > 0.0 else np.zeros_like(before)
        return Motion(self.told.copy(), velocity, self._forces(q, v, np.zeros_like(q)), self.kp, self.kd)

    def _preferred(self, q: np.ndarray) -> np.ndarray:
        """The posture that the inverse kinematics prefer at joint positions q (n,) [rad]: home's, see `turned_posture`."""
        return turned_posture(self.kinematics.home, q, self.kinematics.at(q).J)

    def _home(self, q: np.ndarray, force: float, dt: float) -> None:
        """Up from the body first, with all joints but the first, then aside with that one."""
        if np.isfinite(force) and force > self.config.abort:
            self._homing = False  # it stays where it met something
            return
        if np.abs(self.told - q).max() > BEHIND:
            self._share = 0.0
            return
        away = self.kinematics.home - self.told
        if np.abs(away[1:]).max() > THERE:
            away[0] = 0.0
        elif np.abs(away[0]) <= THERE:
            self._homing, self.told = False, self.kinematics.home.copy()
            return
        J = self.kinematics.at(self.told).J @ away
        left = max(  # [s] at full speed
            float(np.abs(away).max()) / self.limits.joint,
            float(np.linalg.norm(J[:3])) / (MARGIN * self.config.transit),
            float(np.linalg.norm(J[3:])) / (MARGIN * self.config.turning),
        )
        ramp = self.config.ramp
        self._share = min(1.0, self._share + dt / ramp, float(np.sqrt(2.0 * left / ramp)) + 1e-3)
        self.told = self.told + away * min(1.0, self._share * dt / left)

    def _in_the_way(self, start: np.ndarray, end: np.ndarray) -> str:
        """What a straight line of the membrane comes too near to; "": nothing."""
        line = start + np.linspace(0.0, 1.0, 50)[:, None] * (end - start)
        low, near = float(line[:, 2].min()), float(np.linalg.norm(line[:, :2], axis=1).min())
        if low < min(self.limits.lowest, start[2]):
            return f"it would come down to {1e3 * low:.0f} mm (at least {1e3 * self.limits.lowest:.0f} mm)"
        if near < min(self.limits.aside, float(np.linalg.norm(start[:2]))):
            return f"it would come within {near:.2f} m of the base's axis (at least {self.limits.aside:g} m)"
        return ""
