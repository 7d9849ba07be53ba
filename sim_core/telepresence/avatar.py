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

from config.description import Capsule, Robot, RobotError, Teleoperate, TeleoperatedArm
from config.robot import load_robot
from sim_core.multibody import RobotModel, build, load_model
from sim_core.multibody.equations.kinematics import frame_pose
from sim_core.telepresence.arm import GOING, ArmMode, ArmSpeed, TeleopArm
from sim_core.telepresence.arm_ik import QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.collision_guard import Box, CollisionGuard, GuardedArm
from sim_core.telepresence.effector_wrench import EffectorWrench
from sim_core.telepresence.grip import Grip
from sim_core.telepresence.head import Neck
from sim_core.telepresence.model_forces import ModelForces
from sim_core.telepresence.omni_base import BaseLimits, OmniBase, Rangefinder
from sim_core.telepresence.operator_sample import OperatorSample
from sim_core.telepresence.range_readings import HeardRange
from sim_core.telepresence.session import Session, State
from sim_core.telepresence.standing_box import seen_from

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
        rangefinders: that the base looks with; it may have some of its own, see `own_rangefinders` and `look_with`.
        boxes: what stands around, in the frame in which the base's joints count.

    Attributes:
        boxes: as above; they may be changed at any time.
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
            self.neck = Neck(low, high, settings.head_speed, self.home[self._head], task.park)
        self.base: OmniBase | None = None
        self.look_with(rangefinders)
        guarded = [self._guarded(arm, index) for arm, index in zip(task.arms, self._arm_joints)]
        self.guard, self.boxes = CollisionGuard(guarded, [self._carried(one) for one in robot.capsules]), tuple(boxes)
        self._model_forces = ModelForces(model)
        # when, positions and velocities then, and the efforts with which the actuators begin the cycle
        self._felt: tuple[float, np.ndarray, np.ndarray, np.ndarray] | None = None
        self.grip = Grip(self._gripper, self._hand, np.asarray(model.q_lower), np.asarray(model.q_upper))
        self._p = np.asarray(model.parameters.nominal)
        self.kp, self.kd = self._gains()
        self._pressed_since: list[float | None] = [None] * len(self.arms)
        self._sample: OperatorSample | None = None
        self._session_seen, self._centred = "", False
        self._driven = np.zeros(3)  # velocity of the base's joints, as told last

    # -- construction ------------------------------------------------------------------------------

    def _indices(self, task: Teleoperate) -> None:
        def of(names: Sequence[str]) -> np.ndarray | None:
            return np.array([self.model.joint_index(name) for name in names]) if names else None

        self._range_sites, self._footprint = task.rangefinders, task.footprint
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
        narrow = np.array(arm.narrow) if arm.narrow else None
        if narrow is not None and narrow.shape != index.shape:
            raise RobotError(f"{arm.side} arm: narrow: expected {len(index)} angles, found {len(narrow)}")
        return TeleopArm(arm.side, ik, mount, tool, self.home[index], speed, pressing, narrow), wrench

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

    def own_rangefinders(self) -> tuple[Rangefinder, ...]:
        """Those that the robot carries, as its description and its model say where they look."""
        found = []
        for site in self._range_sites:
            pose = self._pose(site.site)
            sight = pose.rotation[:, 2]
            bearing, place = float(np.arctan2(sight[1], sight[0])), (float(pose.position[0]), float(pose.position[1]))
            found.append(Rangefinder(site.site, bearing, site.field_of_view, site.minimum, site.maximum, place))
        return tuple(found)

    def look_with(self, rangefinders: Sequence[Rangefinder], limits: BaseLimits = BaseLimits()) -> None:
        """From now on the base looks with these; a robot without a base does nothing.

        Raises:
            ValueError: one cannot tell what is at the distance that it has to keep, or the robot says no footprint.
        """
        if self._base is not None:
            self.base = OmniBase(rangefinders, limits, self._footprint)

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
        self._driven = np.zeros(3)
        self._sample = self._felt = None
        self._pressed_since = [None] * len(self.arms)

    def go_home(self) -> str:
        """Both arms begin to go home; "" or the sentence why one does not, in which case none does."""
        return self._all_or_none([arm.go_home() for arm in self.arms])

    def fold(self) -> str:
        """Both arms begin to go where the robot is narrow; "" or the sentence why one does not, in which case none does."""
        return self._all_or_none([arm.fold() for arm in self.arms])

    def _all_or_none(self, said: Sequence[str]) -> str:
        """The first of the arms' sentences, for which all of them stay where they are; "": there is none."""
        why = next((sentence for sentence in said if sentence), "")
        for arm in self.arms if why else ():
            if arm.mode in GOING:
                arm.accept(arm.q, why)
        return why

    def park_head(self) -> str:
        """The head goes to where it rests, until an operator's headset leads it; "" or the sentence why it does not."""
        if self.neck is None:
            return "This robot has no head that moves."
        if self.session.state is not State.DISCONNECTED:
            return "The head is not parked: an operator is connected, who looks through it."
        self.neck.park()
        return ""

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
        ranges: Mapping[str, HeardRange],
        now: float,
        denied: str = "",
        effort: np.ndarray | None = None,
    ) -> Motion:
        """What the joints shall do until the next cycle.

        Args:
            sample: that has come through the gate since the last cycle; None: none has.
            q, v: as measured (n,) [rad or m], [rad/s or m/s].
            ranges: of the rangefinders by name.
            now: [s], on the robot's clock.
            denied: why the operator may not move anything, by the word of the supervisor; "": he may.
            effort: of the actuators, as measured (n,) [N m or N]; None or not finite: forces are not known.
        """
        self._feel(q, v, effort, now)
        self._hear(sample, now, denied)
        dt, before = self.settings.period, self.position.copy()
        # Between two samples of a live session the last one holds.
        heard = self._sample if self.session.follows else None
        where = np.zeros(3) if self._base is None else q[self._base]
        self.guard.boxes = [seen_from(box, where) for box in self.boxes]
        self._move_arms(heard, q, dt, now)
        self._move_head(heard, dt)
        self._move_base(heard, ranges, dt)
        self.grip.follow(self.position, heard, self.settings.grip_speed * dt)
        velocity = (self.position - before) / dt
        feedforward = self._model_forces(q, velocity, self._acceleration(velocity))
        position = self.position.copy()
        if self._base is not None:
            position[self._base] = before[
                self._base
            ]  # as it is to be now: its slow loop would pass a place that is ahead
        motion = Motion(position, velocity, feedforward, self.kp, self.kd)
        self._felt = now, np.array(q), np.array(v), motion.torque(q, v)
        return motion

    def _acceleration(self, velocity: np.ndarray) -> np.ndarray:
        """Of the joints (n,) [rad/s^2 or m/s^2]: of the base, whose ramps are known.

        Without it a base of 150 kg would overshoot by a tenth of its speed at each ramp's end.
        """
        acceleration = np.zeros_like(velocity)
        if self._base is not None:
            driven = velocity[self._base]
            acceleration[self._base] = (driven - self._driven) / self.settings.period
            self._driven = driven
        return acceleration

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

    def _move_base(self, heard: OperatorSample | None, ranges: Mapping[str, HeardRange], dt: float) -> None:
        if self.base is None or self._base is None:
            return
        stick = None if heard is None else heard.stick
        why = "" if stick is None or not self.boxes else self._arms_in_the_way(self.base.stopping_way(stick))
        forward, left, turn = self.base.follow(None if why else stick, ranges, dt)
        self.base.obstacle = why or self.base.obstacle
        x, y, yaw = self._base
        heading = self.position[yaw] + 0.5 * turn * dt
        self.position[x] += dt * (forward * np.cos(heading) - left * np.sin(heading))
        self.position[y] += dt * (forward * np.sin(heading) + left * np.cos(heading))
        self.position[yaw] += dt * turn

    def _arms_in_the_way(self, way: np.ndarray) -> str:
        """Why the base may not go a way (forward, left [m], anticlockwise [rad]) with the arms as they are; "": it may."""
        boxes, q = self.guard.boxes, np.concatenate([arm.q for arm in self.arms])
        before = self.guard.nearest(q)[0]
        self.guard.boxes = [seen_from(box, way) for box in boxes]
        distance, which = self.guard.nearest(q)
        self.guard.boxes = boxes
        return f"The base stands: {which} would touch." if distance < min(self.guard.margin, before) else ""


def _three(vector: np.ndarray) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in vector)
    return x, y, z
