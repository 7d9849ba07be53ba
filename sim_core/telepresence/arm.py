"""One arm that follows a hand: what it is doing, and where its joints shall be next.

    arm = TeleopArm("right", ik, mount, tool, home)
    wanted = arm.propose(hand, clutched, yaw, axes, dt)       # where it would go
    arm.accept(q)                                              # where it may go: the guard decides for both arms
    arm.stop("sentence"), arm.reset(), arm.go_home(), arm.fold()

Its modes exclude each other: every one has what lets it in, and what it falls back to.

| mode | entered | leaves to |
|---|---|---|
| HOLD | at the start, when a clutch is released or the operator is lost | FOLLOW, HOMING, FOLDING |
| FOLLOW | by a clutch that is pressed, unless the arm is stopped | HOLD |
| YIELD | by a clutch that is pressed where the arm shall give way, as FOLLOW | HOLD, also where the wrench is not known |
| PRESS | by a clutch that is pressed where the arm shall press, as FOLLOW | HOLD, also at too great a force or an unknown one |
| HOMING | by the operator's wish, unless the arm is stopped or follows | HOLD when it is there, or when it may not go on |
| FOLDING | as HOMING, to the posture in which the robot is narrow | as HOMING |
| STOPPED | by a protective stop, from everywhere | HOLD by a reset alone |

Source: Zhu, PhD thesis, University of Illinois (2023), sections 8.4 and 5.3.4.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from sim_core.telepresence.admittance import Admittance, AdmittanceSettings
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_kinematics import pose_error
from sim_core.telepresence.clutch import OPENXR, Clutch, Pose
from sim_core.telepresence.hybrid_force import HybridForce, PressedTooHard
from sim_core.telepresence.turns import rotation_matrix, rotation_vector

__all__ = ["GOING", "ArmMode", "ArmSpeed", "TeleopArm"]

#: what an operator reads of an arm that something holds back
PRESSES = "The {} arm presses against something and is led no farther into it."


class ArmMode(enum.Enum):
    """What an arm is doing; the text is what an operator reads."""

    HOLD = "holds"
    FOLLOW = "follows the hand"
    YIELD = "follows the hand and gives way"
    PRESS = "follows the hand and presses"
    HOMING = "goes home"
    FOLDING = "folds"
    STOPPED = "protective stop"


#: modes in which a hand leads the arm
LED = (ArmMode.FOLLOW, ArmMode.YIELD, ArmMode.PRESS)
#: modes in which it goes to a posture by itself
GOING = (ArmMode.HOMING, ArmMode.FOLDING)
#: of the task's axes, the end effector's own, along which PRESS presses
APPROACH = 2


@dataclass(frozen=True)
class ArmSpeed:
    """At most.

    Attributes:
        linear, angular: of the end effector's target [m/s], [rad/s].
        share: of the joints' velocity limits, in everything that the arm does.
        homing: of a joint on its way home or to where it is folded [rad/s].
    """

    linear: float = 0.2
    angular: float = 1.0
    share: float = 0.6
    homing: float = 0.5


class TeleopArm:
    """See the module's docstring.

    Args:
        name: in sentences, "right".
        ik: of the arm alone, for the frame that the tool is mounted on.
        mount: of the arm's root in what carries it.
        tool: of the end effector in the frame of `ik`.
        home: joint positions (n,) [rad].
        speed: limits of its motion.
        narrow: joint positions at which the robot is narrow (n,) [rad]; None: there are none.
        pressing: how far a hand may lead the target ahead of where the end effector is [m], [rad]: what is in the way is
            pressed with no more than the arm's stiffness makes of it.

    Attributes:
        mode: what it is doing. message: why, where it does not do what was asked; "" else.
        q: joint positions that it was told last (n,) [rad].
        target: where the end effector is led to in what carries the arm; None while it does not follow.
        bias: posture that the inverse kinematics prefer (n,) [rad]; None: the middle of every joint's range.
        led_as: the mode that a clutch enters: FOLLOW, YIELD or PRESS. It holds from the next press on.
        force: [N] with which PRESS presses.
    """

    def __init__(
        self,
        name: str,
        ik: QpIk,
        mount: Pose,
        tool: Pose,
        home: np.ndarray,
        speed: ArmSpeed = ArmSpeed(),
        pressing: tuple[float, float] = (np.inf, np.inf),
        narrow: np.ndarray | None = None,
    ) -> None:
        self.name, self.speed = name, speed
        self.mode, self.message = ArmMode.HOLD, ""
        self.home, self.narrow = np.array(home, float), narrow
        self.q = self.home.copy()
        self.bias: np.ndarray | None = self.home.copy()
        self.clutch = Clutch()
        self._ik, self._mount, self._tool = ik, mount, tool
        self._most = np.asarray(ik.kinematics.model.v_limit, float) * speed.share
        self._pressing, self._presses = pressing, False
        self.led_as, self.force = ArmMode.FOLLOW, 7.0
        yields = AdmittanceSettings(linear=speed.linear, angular=speed.angular)
        self._admittance = Admittance(yields, self.effector(self.q))
        self._hybrid: HybridForce | None = None
        self._refused = ""  # why the clutch that is pressed leads nothing any more
        self.target: Pose | None = None

    def effector(self, q: np.ndarray) -> Pose:
        """Of the end effector in what carries the arm, at joint positions q (n,) [rad]."""
        flange = self._ik.kinematics.at(q).pose
        return _chain(_chain(self._mount, flange), self._tool)

    def start_at(self, q: np.ndarray) -> None:
        """The joints are there (n,) [rad], and nothing is asked of them."""
        self.q = np.clip(np.array(q, float), self._ik.lower, self._ik.upper)
        if self.mode is not ArmMode.STOPPED:
            self._hold()

    def stop(self, why: str) -> None:
        """A protective stop; only `reset` ends it."""
        if self.mode is not ArmMode.STOPPED:
            self._hold(why)
            self.mode = ArmMode.STOPPED

    def reset(self, q: np.ndarray) -> bool:
        """End a protective stop where the joints are now (n,) [rad]; whether there was one."""
        stopped = self.mode is ArmMode.STOPPED
        if stopped:
            self.mode = ArmMode.HOLD
            self.start_at(q)
        return stopped

    def go_home(self) -> str:
        """Begin to go home; "" or the sentence why not."""
        return self._go(ArmMode.HOMING)

    def fold(self) -> str:
        """Begin to go where the robot is narrow; "" or the sentence why not."""
        return self._go(ArmMode.FOLDING) if self.narrow is not None else f"The {self.name} arm has no narrow posture."

    def _go(self, mode: ArmMode) -> str:
        if self.mode is ArmMode.STOPPED:
            return f"The {self.name} arm is in a protective stop: {self.message}"
        if self.mode in LED:
            return f"The {self.name} arm follows a hand: release its clutch first."
        self.mode, self.message = mode, ""
        return ""

    def propose(
        self,
        hand: Pose | None,
        clutched: bool,
        yaw: float,
        dt: float,
        axes: np.ndarray = OPENXR,
        q: np.ndarray | None = None,
        wrench: np.ndarray | None = None,
    ) -> np.ndarray:
        """Where the joints would be after `dt` (n,) [rad].

        Args:
            hand: of the operator, in the operator's axes; None where it is not tracked.
            clutched: whether it moves the arm.
            yaw: of the headset when the clutch is pressed [rad].
            dt: [s]. axes: of the operator's world.
            q: where the joints are (n,) [rad]; None: where they were told to be.
            wrench: on the end effector, in the axes of what carries the arm (6,) [N], [N m]; None: it is not known.
        """
        self._presses = False
        if self.mode is ArmMode.STOPPED:
            return self.q
        self._refused = self._refused if clutched else ""
        if clutched and hand is not None and not self._refused:
            if self.mode not in LED:
                self._take(hand, yaw, axes)
            try:
                return self._follow(hand, dt, self.q if q is None else q, wrench)
            except PressedTooHard as error:
                self._refused = f"{error} Release the clutch of the {self.name} arm."
                self._hold()
        if self.mode in LED:
            self._hold()
        if self.mode in GOING:
            goal = self.narrow if self.mode is ArmMode.FOLDING and self.narrow is not None else self.home
            away = goal - self.q
            if np.abs(away).max() < 1e-3:
                self._hold()
                return self.q
            # All joints arrive together.
            return self.q + away * min(1.0, self.speed.homing * dt / np.abs(away).max())
        return self.q

    def accept(self, q: np.ndarray, why: str = "") -> None:
        """The joints are told to be there (n,) [rad]; `why` says why that is not what was proposed."""
        self.q = q
        if self.mode is not ArmMode.STOPPED:
            self.message = why or self._refused or (PRESSES.format(self.name) if self._presses else "")
            if why and self.mode in GOING:
                self._hold(why)

    def _take(self, hand: Pose, yaw: float, axes: np.ndarray) -> None:
        """A hand takes the arm where it is."""
        self.clutch.axes = axes
        told = self.target = self.effector(self.q)
        self.clutch.press(told, hand, yaw)
        self.mode, self.message = self.led_as, ""
        self._admittance.reset(told)
        self._hybrid = HybridForce(told.rotation, [APPROACH])

    def _follow(self, hand: Pose, dt: float, measured: np.ndarray, wrench: np.ndarray | None) -> np.ndarray:
        """Raises:
        PressedTooHard: the force felt is too great for the mode, or not known.
        """
        wanted = self.clutch.target(hand, self.effector(self.q))
        led = self._led(wanted, wrench, dt)
        self.target = _towards(self.effector(measured), led, *self._pressing)
        self._presses = self.target is not led
        in_arm = _chain(_inverse(self._mount), _chain(self.target, _inverse(self._tool)))
        most = self._most * dt
        q = self._ik.step(in_arm, self.q, self.bias)
        return self.q + np.clip(q - self.q, -most, most)

    def _led(self, wanted: Pose, wrench: np.ndarray | None, dt: float) -> Pose:
        """Where the mode takes the target to, of where the hand wants it."""
        assert self.target is not None and self._hybrid is not None
        nearer = _towards(self.target, wanted, self.speed.linear * dt, self.speed.angular * dt)
        if self.mode is ArmMode.FOLLOW:
            return nearer
        if wrench is None or not np.isfinite(wrench).all():
            raise PressedTooHard("What the end effector feels is not known, and the arm's mode needs it.")
        if self.mode is ArmMode.YIELD:
            return self._admittance.step(wanted, np.zeros(6), wrench, dt)
        desired = np.concatenate([self.force * self._hybrid.Y[0, :3], np.zeros(3)])
        led_by = pose_error(nearer, self.target) / dt
        twist = self._hybrid.velocity(led_by, desired, -wrench, dt)  # it presses with what presses on it
        turn = rotation_matrix(twist[3:] * dt)
        return Pose(self.target.position + twist[:3] * dt, turn @ self.target.rotation)

    def _hold(self, why: str = "") -> None:
        if self.clutch.pressed:
            self.clutch.release(self.effector(self.q))
        self.mode, self.message, self.target = ArmMode.HOLD, why, None


def _chain(first: Pose, second: Pose) -> Pose:
    """The second, given in the first, in what the first is given in."""
    return Pose(first.position + first.rotation @ second.position, first.rotation @ second.rotation)


def _inverse(pose: Pose) -> Pose:
    return Pose(-pose.rotation.T @ pose.position, pose.rotation.T)


def _towards(pose: Pose, target: Pose, linear: float, angular: float) -> Pose:
    """The target, or what is at most so far [m], [rad] from a pose on the way to it."""
    away = target.position - pose.position
    far = float(np.linalg.norm(away))
    turn = rotation_vector(target.rotation @ pose.rotation.T)
    angle = float(np.linalg.norm(turn))
    if far <= linear and angle <= angular:
        return target
    position = target.position if far <= linear else pose.position + away * (linear / far)
    if angle > angular:
        return Pose(position, rotation_matrix(turn * (angular / angle)) @ pose.rotation)
    return Pose(position, target.rotation)
