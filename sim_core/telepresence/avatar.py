"""A whole robot that a person acts through: from samples of the operator to the motion of every joint.

    avatar = Avatar(load_robot("avatar"), model)
    avatar.start_at(q)
    motion = avatar.cycle(sample, q, v, ranges, now)           # 125 times a second; sample None: nothing new was heard

Each part follows its own device; the session says whether any of them may. What the operator let go of, and what lost its
operator, stays where it is.

Source: Zhu, PhD thesis, University of Illinois (2023), chapter 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from config.description import Capsule, Robot, Teleoperate, TeleoperatedArm
from config.robot import load_robot
from sim_core.multibody import RobotModel, build, load_model
from sim_core.multibody.equations.kinematics import frame_pose
from sim_core.telepresence.arm import ArmMode, ArmSpeed, TeleopArm
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.collision_guard import Box, CollisionGuard, GuardedArm
from sim_core.telepresence.effector_wrench import EffectorWrench
from sim_core.telepresence.grip import Grip
from sim_core.telepresence.head import Neck
from sim_core.telepresence.model_forces import ModelForces
from sim_core.telepresence.omni_base import OmniBase, Rangefinder
from sim_core.telepresence.operator_sample import OperatorSample
from sim_core.telepresence.session import Session, State

__all__ = ["Avatar", "AvatarSettings", "Motion"]

#: frame of an arm that tools are mounted on
FLANGE = "flange"
#: [rad] and [s] by which, and for how long, a joint is pressed away from where it was told to be before its arm stops
PRESSED, PRESSED_FOR = 0.25, 0.1
#: [m] of what encloses a gripper or hand, back from the end effector
HAND_LENGTH, HAND_RADIUS = 0.13, 0.065
#: times the period: after a longer pause between two looks nothing is known of forces
PAUSE = 5.0
#: code of a fault that is the supervisor's
SUPERVISOR = 100


@dataclass(frozen=True)
class AvatarSettings:
    """Attributes:
    period: between two cycles [s].
    speed: of the arms.
    head_speed: [rad/s].
    grip_speed: share of a finger's way in a second.
    stiffness, damping: of an arm's joints (7,) [N m/rad], [N m s/rad].
    pressing: how far a hand may lead an end effector's target ahead of where it is [m], [rad]. Times the arm's stiffness it has
        to bear what the arm carries.
    bandwidth: of the other joints' position loops [rad/s], by group: base, head, gripper, hand.
    force_cutoff: of the low pass through which the end effectors' forces are seen [Hz].
    """

    period: float = 0.008
    speed: ArmSpeed = ArmSpeed()
    head_speed: float = 3.0
    grip_speed: float = 2.0
    stiffness: tuple[float, ...] = (600.0, 600.0, 600.0, 600.0, 250.0, 150.0, 60.0)
    damping: tuple[float, ...] = (50.0, 50.0, 50.0, 50.0, 30.0, 25.0, 15.0)
    pressing: tuple[float, float] = (0.03, 0.15)
    bandwidth: Mapping[str, float] = field(
        default_factory=lambda: {"base": 6.0, "head": 25.0, "gripper": 40.0, "hand": 40.0}
    )
    force_cutoff: float = 3.0


@dataclass(frozen=True, eq=False)
class Motion:
    """Of all n joints, in the model's order: tau = effort + kp (position - q) + kd (velocity - v).

    Attributes:
        position, velocity, effort, kp, kd: (n,).
    """

    position: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    kp: np.ndarray
    kd: np.ndarray

    def torque(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Of the joints (n,) [N m or N] where they are at q and v (n,) [rad or m, /s]."""
        return self.effort + self.kp * (self.position - q) + self.kd * (self.velocity - v)


class Avatar:
    """See the module's docstring.

    Args:
        robot: whose task is `Teleoperate`.
        model: of the robot.
        settings: of its motion.
        rangefinders: that the base looks with.
        boxes: what stands around.

    Attributes:
        session: its state; whoever owns the robot tells it of faults.
        arms: right first. neck, base: None where it has none.
        guard: keeps the arms from each other.
        wrenches: that the world exerts on each arm's end effector.
        grip: its fingers.

    Raises:
        config.description.RobotError: the robot's task is another.
    """

    def __init__(
        self,
        robot: Robot,
        model: RobotModel,
        settings: AvatarSettings = AvatarSettings(),
        rangefinders: Sequence[Rangefinder] = (),
        boxes: Sequence[Box] = (),
    ) -> None:
        task = robot.task_as(Teleoperate)
        self.model, self.settings = model, settings
        self.session = Session()
        self.home = np.asarray(model.q_home, float).copy()
        self.position = self.home.copy()
        self._indices(task)
        made = [self._arm(arm, index) for arm, index in zip(task.arms, self._arm_joints)]
        self.arms, self.wrenches = tuple(arm for arm, _ in made), tuple(wrench for _, wrench in made)
        self.neck = None
        if self._head is not None:
            low, high = model.q_lower[self._head], model.q_upper[self._head]
            self.neck = Neck(low, high, settings.head_speed, self.home[self._head])
        self.base = OmniBase(rangefinders) if self._base is not None else None
        guarded = [self._guarded(arm, index) for arm, index in zip(task.arms, self._arm_joints)]
        self.guard = CollisionGuard(guarded, [self._carried(capsule) for capsule in robot.capsules], boxes)
        self._model_forces = ModelForces(model)
        # when, positions and velocities then, and the efforts with which the actuators begin the cycle
        self._felt: tuple[float, np.ndarray, np.ndarray, np.ndarray] | None = None
        self.grip = Grip(self._gripper, self._hand, np.asarray(model.q_lower), np.asarray(model.q_upper))
        self._p = np.asarray(model.parameters.nominal)
        self.kp, self.kd = self._gains()
        self._pressed_since: list[float | None] = [None] * len(self.arms)
        self._sample: OperatorSample | None = None
        self._session_seen, self._centred = "", False

    # -- construction ------------------------------------------------------------------------------

    def _indices(self, task: Teleoperate) -> None:
        def of(names: Sequence[str]) -> np.ndarray | None:
            return np.array([self.model.joint_index(name) for name in names]) if names else None

        self._sides = [arm.side for arm in task.arms]
        self._arm_joints = []
        for arm in task.arms:
            alone = load_model(load_robot(arm.robot).folder)
            self._arm_joints.append(np.array([self.model.joint_index(arm.prefix + name) for name in alone.joint_names]))
        self._base, self._head, self._hand = of(task.base), of(task.head), of(task.hand)
        self._gripper = of([task.gripper] if task.gripper else [])
        self._home_at_origin = self.home.copy()
        if self._base is not None:
            self._home_at_origin[self._base] = 0.0

    def _arm(self, arm: TeleoperatedArm, index: np.ndarray) -> tuple[TeleopArm, EffectorWrench]:
        alone = load_model(load_robot(arm.robot).folder)
        mount, tool = self._mount(arm), self._between(arm.prefix + FLANGE, arm.frame)
        ik = QpIk(ArmKinematics(alone, FLANGE))
        wrench = EffectorWrench(ik.kinematics, mount, tool, self.settings.force_cutoff)
        speed, pressing = self.settings.speed, self.settings.pressing
        return TeleopArm(arm.side, ik, mount, tool, self.home[index], speed, pressing), wrench

    def _guarded(self, arm: TeleoperatedArm, index: np.ndarray) -> GuardedArm:
        alone = load_model(load_robot(arm.robot).folder)
        own = load_robot(arm.robot).capsules
        tool = self._between(arm.prefix + own[-1].body, arm.frame)
        root = tool.position - HAND_LENGTH * tool.rotation[:, 2]
        hand = Capsule(own[-1].body, _three(root), _three(tool.position), HAND_RADIUS)
        return GuardedArm(arm.side, alone, self._mount(arm), (*own, hand))

    def _carried(self, capsule: Capsule) -> Capsule:
        """The same in the frame that carries the arms, with the robot at home."""
        pose = self._pose(capsule.body)
        start, end = (_three(pose.position + pose.rotation @ np.array(point)) for point in (capsule.start, capsule.end))
        return Capsule(capsule.body, start, end, capsule.radius)

    def _mount(self, arm: TeleoperatedArm) -> Pose:
        """Of an arm's root in the frame of the robot's first joints, which is the world's where the base is at its origin."""
        return self._pose(arm.mount)

    def _pose(self, frame: str) -> Pose:
        q = ca.SX.sym("q", self.model.nq)
        p = ca.SX(ca.DM(self.model.parameters.nominal))
        position, R = ca.Function("pose", [q], list(frame_pose(self.model, frame, q, p)))(self._home_at_origin)
        return Pose(np.asarray(position).ravel(), np.asarray(R))

    def _between(self, first: str, second: str) -> Pose:
        """The second frame in the first, which it is fixed to."""
        a, b = self._pose(first), self._pose(second)
        return Pose(a.rotation.T @ (b.position - a.position), a.rotation.T @ b.rotation)

    def _gains(self) -> tuple[np.ndarray, np.ndarray]:
        M = np.diag(np.asarray(build.mass_matrix(self.model)(self.home, self._p)))
        kp, kd = np.zeros(self.model.nv), np.zeros(self.model.nv)
        groups = (("base", self._base), ("head", self._head), ("gripper", self._gripper), ("hand", self._hand))
        for name, index in groups:
            if index is not None:
                w = self.settings.bandwidth[name]
                kp[index], kd[index] = w**2 * M[index], 2.0 * w * M[index]
        for index in self._arm_joints:
            kp[index], kd[index] = self.settings.stiffness, self.settings.damping
        return kp, kd

    # -- what others ask of it ---------------------------------------------------------------------

    def arms_with_joints(self) -> list[tuple[TeleopArm, np.ndarray]]:
        """Each arm with the places of its joints among the robot's."""
        return list(zip(self.arms, self._arm_joints))

    def start_at(self, q: np.ndarray) -> None:
        """The joints are there (n,) [rad or m]: everything goes on from it, and nothing is asked of it."""
        # Measured at its stop, a joint may lie beyond its limit by its noise; a command may not.
        self.position = np.clip(np.array(q, float), self.model.q_lower, self.model.q_upper)
        for arm, index in zip(self.arms, self._arm_joints):
            arm.start_at(self.position[index])
        if self.neck is not None:
            self.neck.start_at(self.position[self._head])
        if self.base is not None:
            self.base.velocity = np.zeros(3)
        self._sample = self._felt = None
        self._pressed_since = [None] * len(self.arms)

    def go_home(self) -> str:
        """Both arms begin to go home; "" or the sentence why one does not, in which case none does."""
        why = [said for arm in self.arms if (said := arm.go_home())]
        if why:
            for arm in self.arms:
                if arm.mode is ArmMode.HOMING:
                    arm.accept(arm.q, why[0])
        return why[0] if why else ""

    def reset_fault(self, q: np.ndarray) -> str:
        """Clear what can be cleared, where the joints are now; the sentence what was."""
        cleared = [
            f"the {arm.name} arm's protective stop" for arm, i in zip(self.arms, self._arm_joints) if arm.reset(q[i])
        ]
        if self.session.reset():
            cleared.append(f"the fault '{self.session.sentence}'")
            self.session.cleared()
        self.start_at(np.where(self._moved_by_arms(), q, self.position))
        return f"Cleared: {', '.join(cleared)}." if cleared else "There is no fault."

    def _moved_by_arms(self) -> np.ndarray:
        mask = np.zeros(self.model.nv, bool)
        for index in self._arm_joints:
            mask[index] = True
        return mask

    def lead_as(self, mode: ArmMode) -> None:
        """What a clutch makes of its arm from its next press on: ArmMode.FOLLOW, YIELD or PRESS."""
        for arm in self.arms:
            arm.led_as = mode

    def set_precision(self, sensitivity: float) -> None:
        """How far an arm goes for each metre or radian of the hand; a pressed clutch goes on without a jump."""
        for arm in self.arms:
            arm.clutch.sensitivity = sensitivity

    # -- the cycle ---------------------------------------------------------------------------------

    def cycle(
        self,
        sample: OperatorSample | None,
        q: np.ndarray,
        v: np.ndarray,
        ranges: Mapping[str, float],
        now: float,
        denied: str = "",
        effort: np.ndarray | None = None,
    ) -> Motion:
        """What the joints shall do until the next cycle.

        Args:
            sample: that has come through the gate since the last cycle; None: none has.
            q, v: as measured (n,) [rad or m], [rad/s or m/s].
            ranges: of the rangefinders by name [m].
            now: [s], on the robot's clock.
            denied: why the operator may not move anything, by the word of the supervisor; "": he may.
            effort: of the actuators, as measured (n,) [N m or N]; None or not finite: forces are not known.
        """
        self._feel(q, v, effort, now)
        self._hear(sample, now, denied)
        dt, before = self.settings.period, self.position.copy()
        # Between two samples of a live session the last one holds.
        heard = self._sample if self.session.follows else None
        self._move_arms(heard, q, dt, now)
        self._move_head(heard, dt)
        self._move_base(heard, ranges, dt)
        self.grip.follow(self.position, heard, self.settings.grip_speed * dt)
        velocity = (self.position - before) / dt
        feedforward = self._model_forces(q, velocity, np.zeros_like(q))
        motion = Motion(self.position.copy(), velocity, feedforward, self.kp, self.kd)
        self._felt = now, np.array(q), np.array(v), motion.torque(q, v)
        return motion

    def _feel(self, q: np.ndarray, v: np.ndarray, effort: np.ndarray | None, now: float) -> None:
        """What the world does to the end effectors, from what moved the joints since the last look."""
        before = self._felt
        if effort is None or before is None or not 0.0 < now - before[0] < PAUSE * self.settings.period:
            for wrench in self.wrenches:
                wrench.forget()
            return
        then, q_then, v_then, began = before
        dt = now - then
        # Between two looks a new command's jolt dies away: the mean effort is between the one that the command began with and
        # the one that is measured at the end, as the mean acceleration is between the velocities.
        modelled = self._model_forces(0.5 * (q_then + q), 0.5 * (v_then + v), (v - v_then) / dt)
        residual = modelled - 0.5 * (began + effort)
        for index, wrench in zip(self._arm_joints, self.wrenches):
            wrench.feel(q[index], residual[index], dt)

    def _hear(self, sample: OperatorSample | None, now: float, denied: str) -> None:
        if denied:
            self.session.fault(SUPERVISOR, denied)
        elif self.session.state is State.FAULT and self.session.code == SUPERVISOR:
            self.session.reset()
            self.session.cleared()
        if sample is not None:
            self._sample = sample
            self.session.heard(sample.session, any(sample.clutch), now)
            if sample.session != self._session_seen:
                self._session_seen, self._centred = sample.session, False
                self.grip.forget()
            if self.neck is not None and sample.head is not None and not self._centred:
                self.neck.centre(sample.head, sample.axes)
                self._centred = True
        self.session.look(now)

    def _move_arms(self, heard: OperatorSample | None, q: np.ndarray, dt: float, now: float) -> None:
        wanted = []
        for i, (arm, index) in enumerate(zip(self.arms, self._arm_joints)):
            self._watch(i, arm, q[index], now)
            hand, clutched, yaw, axes = self._hand_of(heard, arm.name)
            wanted.append(
                arm.propose(hand, clutched, yaw, dt, axes, q[index], self.wrenches[i].wrench)
                if axes is not None
                else arm.propose(None, False, 0.0, dt)
            )
        told = [arm.q for arm in self.arms]
        found, why = self.guard.pass_or_hold(np.concatenate(told), np.concatenate(wanted))
        reasons = [why] * len(self.arms)
        if why and len(self.arms) == 2:
            # One of them may be able to go on while the other waits.
            for k in (0, 1):
                alone = [wanted[i] if i == k else told[i] for i in (0, 1)]
                if not np.array_equal(wanted[k], told[k]):
                    tried, hindered = self.guard.pass_or_hold(found, np.concatenate(alone))
                    if not hindered:
                        found, reasons = (
                            tried,
                            [why if i != k and not np.array_equal(wanted[i], told[i]) else "" for i in (0, 1)],
                        )
                        break
        at = 0
        for arm, index, reason in zip(self.arms, self._arm_joints, reasons):
            arm.accept(found[at : at + len(index)], reason)
            self.position[index] = arm.q
            at += len(index)

    def _hand_of(self, heard: OperatorSample | None, side: str) -> tuple[Pose | None, bool, float, np.ndarray | None]:
        if heard is None:
            return None, False, 0.0, None
        k = ("right", "left").index(side)
        yaw = 0.0
        if heard.head is not None:
            forward = (heard.axes @ heard.head.rotation @ heard.axes.T)[:, 0]
            yaw = float(np.arctan2(forward[1], forward[0]))
        return heard.hands[k], heard.clutch[k] and self.session.state is State.TELEOP, yaw, heard.axes

    def _watch(self, i: int, arm: TeleopArm, q: np.ndarray, now: float) -> None:
        """An arm that is pressed away from where it was told to be stops by itself, alone."""
        pressed = np.abs(q - arm.q)
        if pressed.max() < PRESSED or arm.mode is ArmMode.STOPPED:
            self._pressed_since[i] = None
            return
        since = self._pressed_since[i]
        if since is None or now < since:
            self._pressed_since[i] = now
        elif now - since > PRESSED_FOR:
            joint = int(np.argmax(pressed)) + 1
            arm.start_at(q)
            arm.stop(
                f"The {arm.name} arm is pressed {pressed.max():.2f} rad away at joint {joint}: it touches something hard. "
                "Clear its way and ask for reset_fault."
            )

    def _move_head(self, heard: OperatorSample | None, dt: float) -> None:
        if self.neck is not None and self._head is not None:
            head = None if heard is None else heard.head
            axes = heard.axes if heard is not None else np.eye(3)
            self.position[self._head] = self.neck.follow(head, dt, axes)

    def _move_base(self, heard: OperatorSample | None, ranges: Mapping[str, float], dt: float) -> None:
        if self.base is None or self._base is None:
            return
        forward, left, turn = self.base.follow(None if heard is None else heard.stick, ranges, dt)
        x, y, yaw = self._base
        heading = self.position[yaw] + 0.5 * turn * dt
        self.position[x] += dt * (forward * np.cos(heading) - left * np.sin(heading))
        self.position[y] += dt * (forward * np.sin(heading) + left * np.cos(heading))
        self.position[yaw] += dt * turn


def _three(vector: np.ndarray) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in vector)
    return x, y, z
