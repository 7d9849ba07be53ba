"""An arm that carries a scoop: from its joints and the wrench that it feels to what its joints shall do.

    arm = ScoopArm(load_model("ur5e_scoop"))
    arm.start_at(q)
    if not (why := arm.out_of_reach(action)):
        execution = arm.scoop(action)
    motion = arm.cycle(q, v, wrench, dt)              # 125 times a second

It leads one scoop at a time, to the measuring pose. From there it is told to `empty` the scoop, or to `go_home` or to `measure`, and
else stays where it was told to be. Whatever happened meanwhile (a halt, a pause without commands), it begins where its joints are:
`start_at`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim_core.multibody import RobotModel
from sim_core.scooping.arm.blade_path import LEAST, BladePath, Place, place_of
from sim_core.scooping.arm.execution import ExecutionConfig, ScoopExecution
from sim_core.scooping.arm.impedance import CartesianImpedance
from sim_core.scooping.arm.primitive import ScoopAction, ScoopTrajectory
from sim_core.scooping.arm.reach import ArmLimits, Reach
from sim_core.scooping.arm.tray import Tray
from sim_core.telepresence.arm_ik import PERIOD, QpIk
from sim_core.telepresence.arm_joints import greatest_torques, joint_springs, step_time, unhurried
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.avatar import Motion
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.model_forces import ModelForces

__all__ = ["BLADE", "WRIST", "ArmPlaces", "ScoopArm"]

#: sites of a robot's model: the middle of the scoop's edge, and its force-torque sensor
BLADE, WRIST = "blade", "wrist"
#: [s] for which the edge points down over the bin; at the end of a way, in which the joints come to where they were told to be
POURING, SETTLING = 1.0, 0.3
#: [m/s^2], [rad/s^2] of a target that are made up for at most: a scoop that stops need not stop at once
SUDDEN = np.array([2.0, 2.0, 2.0, 10.0, 10.0, 10.0])


@dataclass(frozen=True, eq=False)
class ArmPlaces:
    """Where the blade goes besides the ground; the heights are those of the edge.

    Attributes:
        over_bin: closed, above the bin. pouring: angle at which it is emptied there [rad].
    """

    over_bin: Place
    pouring: float = float(np.deg2rad(110.0))


class ScoopArm:
    """See the module's docstring.

    Args:
        model: of the robot, whose joints are all hinges and are all driven, with the sites `blade`, `wrist` and `tray`.
        config: of scoops; its speeds also hold between them. period: [s] between two cycles. limits: of what is in reach.
        places: see there; None: the bin stands to the right of the arm, 0.58 m away. tray: in which it scoops; None: the model's.

    Attributes:
        kinematics: of the blade. tray: before the arm. kp, kd: of the joints in the air (n,) [N m/rad], [N m s/rad].
        told: joint positions that it was told last (n,) [rad]. execution: the scoop under way, or the last one; None: none yet.
        why: the last way to one of its places ended before that; "": it did not.

    Raises:
        ValueError: a joint has no motor, or one without a limit, or there is no tray.
    """

    def __init__(
        self,
        model: RobotModel,
        config: ExecutionConfig = ExecutionConfig(),
        period: float = PERIOD,
        limits: ArmLimits = ArmLimits(),
        places: ArmPlaces | None = None,
        tray: Tray | None = None,
    ) -> None:
        self.kinematics = k = ArmKinematics(model, BLADE)
        self.config, self.period = config, period
        self.tray = tray or Tray.of(model)
        self.effort = greatest_torques(model)
        self._speed = np.asarray(model.v_limit, float)
        self._ik = QpIk(k, damping=1e-4, pull=0.0, period=period)
        self._forces = ModelForces(model)
        self._impedance = CartesianImpedance(model, k, self.effort)
        self._reach = Reach(k, self.tray, limits)
        self.kp, self.kd = joint_springs(self.effort)
        closed = config.primitive.closing
        self.places = places or ArmPlaces(Place(np.array([0.0, -0.52, config.safe]), -np.pi / 2.0, closed))
        self.told = k.home.copy()
        self.execution: ScoopExecution | None = None
        self._path: BladePath | None = None
        self._t, self._waited, self._twist, self.why = 0.0, 0.0, np.zeros(6), ""
        self._yaw = 0.0  # of the blade, in whose turns the wrist goes on

    @property
    def busy(self) -> bool:
        """Whether a scoop is under way."""
        return self.execution is not None and not self.execution.ended

    @property
    def moving(self) -> bool:
        """Whether it is under way to one of its places."""
        return self._path is not None

    @property
    def target(self) -> Pose:
        """Where the blade was told to be."""
        return self.kinematics.at(self.told).pose

    def pose(self, q: np.ndarray) -> Pose:
        """Of the blade at joint positions q (n,) [rad]."""
        return self.kinematics.at(q).pose

    # -- what it is asked for ----------------------------------------------------------------------

    def start_at(self, q: np.ndarray, why: str = "the arm was stopped") -> None:
        """The joints are there (n,) [rad]: everything goes on from it, without a jump.

        A scoop that is under way has failed, for the reason given, and what is left of it is the way back.
        """
        # Measured at its stop, a joint may lie beyond its limit by its noise; a command may not.
        self.told = np.clip(np.array(q, float), self.kinematics.lower, self.kinematics.upper)
        self._path, self._twist, self._yaw = None, np.zeros(6), place_of(self.target, self._yaw).yaw
        if self.execution is not None and self.busy:
            self.execution.stop(why)
            self.execution.go_on(self.target)

    def stop(self, why: str) -> None:
        """Nothing moves the joints any more, for this reason; `start_at` follows when something does."""
        self._path = None
        if self.execution is not None:
            self.execution.stop(why)

    def out_of_reach(self, action: ScoopAction, ground: Callable[[np.ndarray], np.ndarray] | None = None) -> str:
        """Why a scoop cannot be planned from where the arm is, as a sentence; "": it can.

        Args:
            ground: heights (m,) [m] of the surface at places (m, 2) [m], in the world's axes, which the wrist has to stay above;
                None: it is not looked at.
        """
        # Most of what a grid over the tray offers fails here, and costs a hundredth of the rest.
        if why := self._reach.meets_the_tray(ScoopTrajectory(action, self.config.primitive)):
            return why
        return self._reach.objection(ScoopExecution(action, self.target, self.config, self._yaw), self.told, ground)

    def scoop(self, action: ScoopAction) -> ScoopExecution:
        """Begin a scoop from where the arm is.

        Raises:
            RuntimeError: another one is under way.
        """
        self._free()
        self.execution = ScoopExecution(action, self.target, self.config, self._yaw)
        return self.execution

    def measure(self) -> None:
        """Begin to go to the measuring pose, as to calibrate the empty scoop there. Raises RuntimeError: a scoop is under way."""
        self._go([self.config.measuring])

    def empty(self) -> None:
        """Begin to go to the bin, to pour out what is in the scoop, and to come back to the measuring pose.

        It goes by way of that pose: straight from home to the bin the arm would have to fold itself over its base.

        Raises:
            RuntimeError: a scoop is under way.
        """
        over, measuring = self.places.over_bin, self.config.measuring
        down = Place(over.position, over.yaw, self.places.pouring)
        self._go([measuring, over, down, *[down] * round(POURING / LEAST), over, measuring])

    def go_home(self) -> None:
        """Begin to go where the camera sees all of the tray. Raises RuntimeError: a scoop is under way."""
        self._go([place_of(self.kinematics.at(self.kinematics.home).pose)])

    def _free(self) -> None:
        if self.busy:
            raise RuntimeError("a scoop is under way: cancel it, or wait for its end")
        self._path = None

    def _go(self, places: list[Place]) -> None:
        self._free()
        here, safe, first = self.target, self.config.safe, places[0]
        way = []
        if here.position[2] < safe - 1e-6:
            now = place_of(here, self._yaw)
            way.append(Place(np.r_[now.position[:2], safe], now.yaw, now.angle))
        if first.position[2] < safe - 1e-6:
            way.append(Place(np.r_[first.position[:2], safe], first.yaw, first.angle))
        self._path = BladePath(here, [*way, *places], self.config.transit, self.config.turning, self._yaw)
        self._t, self._waited, self.why = 0.0, 0.0, ""

    # -- the cycle ---------------------------------------------------------------------------------

    def cycle(self, q: np.ndarray, v: np.ndarray, wrench: np.ndarray, dt: float) -> Motion:
        """What the joints shall do until the next cycle.

        Args:
            q, v: as measured (n,) [rad], [rad/s]. wrench: of the ground on the scoop about its edge (6,) [N], [N m], see
                `FeltWrench`; not finite: it is not known. dt: since the last cycle [s].
        """
        dt = step_time(dt, self.period)
        if self.execution is not None and self.busy and dt > 0.0:
            target = self.execution.step(self.pose(q), float(np.linalg.norm(wrench[:3])), dt)
            self._yaw = place_of(target.pose, self._yaw).yaw
            if target.impedance is None:
                return self._follow(target.pose, q, v, dt)
            self.told = np.clip(q, self.kinematics.lower, self.kinematics.upper)
            faster = np.clip((target.twist - self._twist) / dt, -SUDDEN, SUDDEN)
            self._twist = target.twist
            return self._impedance.motion(target.pose, q, v, target.impedance, target.twist, faster)
        if self._path is not None and dt > 0.0:
            return self._go_on(self._path, q, v, dt)
        return self._hold(np.zeros_like(q), q, v)

    def _go_on(self, path: BladePath, q: np.ndarray, v: np.ndarray, dt: float) -> Motion:
        """Along a way of its own, for which an arm that is behind is waited for, but not for ever."""
        apart = float(np.linalg.norm(path.at(self._t)[0].position - self.pose(q).position))
        if apart < self.config.leash:
            self._t, self._waited = self._t + dt, 0.0
        else:
            self._waited += dt
        if self._waited > self.config.stopped:
            self._path, self.why = None, f"the arm is {1e3 * apart:.0f} mm from where it shall be and stays there"
            return self._hold(np.zeros_like(q), q, v)
        if self._t >= path.duration + SETTLING:
            self._path = None
        pose, _ = path.at(self._t)
        self._yaw = place_of(pose, self._yaw).yaw
        return self._follow(pose, q, v, dt)

    def _follow(self, pose: Pose, q: np.ndarray, v: np.ndarray, dt: float) -> Motion:
        """Stiffly, by inverse kinematics."""
        step = unhurried(self._ik.step(pose, self.told, self.told) - self.told, self._speed, dt)
        self.told = self.told + step
        return self._hold(step / dt, q, v)

    def _hold(self, velocity: np.ndarray, q: np.ndarray, v: np.ndarray) -> Motion:
        self._twist = np.zeros(6)
        return Motion(self.told.copy(), velocity, self._forces(q, v, np.zeros_like(q)), self.kp, self.kd)
