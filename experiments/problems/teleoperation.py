"""An operator, the link, the robot's telepresence stack and the robot in MuJoCo, in lock-step and without ROS.

    run = Teleoperation(operator, LinkConditions(delay=0.1, loss=0.02), LinkConditions(delay=0.1), seed=0)
    run.until(10.0)
    run.track.effector[:, 0]                      # where the right end effector was

What the nodes `telepresence_bridge` and `teleop` call in a cycle is called here, by the same objects: the clocks' alignment, the
gate for samples, session, arms, guard and feedback law; the plant has the command gate's limits, the servo rate and the sensor
noise of the graph. One process and one clock replace the middleware, so that a run is a function of its seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from config.robot import load_robot
from sim_core.command import Command, CommandRefused, Mode
from sim_core.gate import CommandGate
from sim_core.multibody import RobotModel, load_model
from sim_core.plant import MujocoPlant, joint_limits
from sim_core.plant.rangefinders import rangefinders_of
from sim_core.plant.rehearsal.rehearsal import Rehearsal
from sim_core.telepresence.avatar import Avatar, AvatarSettings
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.link_ends import Devices, OperatorEnd, RobotEnd
from sim_core.telepresence.operator_link import Channel, LinkConditions
from sim_core.telepresence.operator_sample import OperatorSample
from sim_core.telepresence.range_readings import HeardRange
from sim_core.telepresence.session import State

__all__ = ["Operator", "Seen", "Teleoperation", "Track"]

#: [s] of the servos; what they measure with [rad], [rad/s]: as config/robots/avatar/nodes.yaml has them
TICK, POSITION_NOISE, VELOCITY_NOISE = 0.002, 1e-5, 1e-3
#: [s] between two looks that the operator gets
STATUS_PERIOD = 0.05


@dataclass(frozen=True, eq=False)
class Seen:
    """What reaches the operator of the robot: the fields of TeleopStatus, and the picture.

    Attributes:
        stamp: when it was so [s]. state, message: of the session, with what was wrong with the last sample.
        arm_mode, arm_message: right first. effectors: in the frame of the robot's base.
        force: that the world exerts on the end effectors, by the joints' torques [N]; NaN where it is not known.
        words: what the robot has said last about something that was asked by a button, by the button's name.
        picture: poses of what the cameras show, by name, in the frame of the robot's base.
    """

    stamp: float
    state: State
    message: str
    arm_mode: tuple[str, ...]
    arm_message: tuple[str, ...]
    effectors: tuple[Pose, ...]
    force: tuple[float, ...] = ()
    words: dict[str, float] = field(default_factory=dict)
    picture: dict[str, Pose] = field(default_factory=dict)


class Operator(Protocol):
    """Somebody who sees and acts."""

    def act(self, now: float, seen: Seen | None) -> tuple[Devices, Sequence[str]]:
        """Devices as they are at now [s], and the buttons pressed, after the newest look at the robot; None: none yet."""


@dataclass
class Track:
    """One row for each cycle.

    Attributes:
        time: [s]. hand: of the right hand in the robot's axes as it is (3,). asked: the same in the newest sample taken, NaN
            while the arm follows none. effector: of the right arm (3,) in the base's frame [m], as measured. state: of the session.
        follows: whether the right arm follows. energy: kinetic, of the whole robot [J]. base: x, y [m], yaw [rad].
    """

    time: Any = field(default_factory=list)
    hand: Any = field(default_factory=list)
    asked: Any = field(default_factory=list)
    effector: Any = field(default_factory=list)
    state: Any = field(default_factory=list)
    follows: Any = field(default_factory=list)
    energy: Any = field(default_factory=list)
    base: Any = field(default_factory=list)

    def arrays(self) -> Track:
        """The same with arrays in place of lists."""
        return Track(**{name: np.array(rows) for name, rows in vars(self).items()})


class Teleoperation:
    """See the module's docstring.

    Args:
        operator: who drives.
        there, back: the link from the operator to the robot, and back.
        seed: of the link's chance and the sensors' noise.
        ahead, drift: of the operator's clock, see `OperatorEnd`.
        robot: name in config/robots; its task is teleoperate. model: of it; None: read anew.
        plant: to be driven; None: the robot alone.

    Attributes:
        avatar, plant, robot_end, operator_end: as they are. there, back: channels.
        refused: commands that the gate refused. peak_energy: greatest kinetic energy at a cycle [J].
    """

    def __init__(
        self,
        operator: Operator,
        there: LinkConditions = LinkConditions(),
        back: LinkConditions = LinkConditions(),
        seed: int = 0,
        ahead: float = 0.0,
        drift: float = 0.0,
        robot: str = "avatar",
        model: RobotModel | None = None,
        plant: MujocoPlant | None = None,
        settings: AvatarSettings = AvatarSettings(),
    ) -> None:
        self.operator, self.model = operator, load_model(robot) if model is None else model
        self.plant = operated_plant(robot, seed) if plant is None else plant
        self.avatar = Avatar(load_robot(robot), self.model, settings)
        if self.plant.rangefinders.sites:
            self.avatar.look_with(self.avatar.own_rangefinders())
        self._order = [self.plant.joints.index(name) for name in self.model.joint_names]
        self.avatar.start_at(self.q)
        self.robot_end, self.operator_end = RobotEnd(), OperatorEnd(ahead, drift)
        self.there, self.back = Channel(there, [seed, 1]), Channel(back, [seed, 2])
        self.track, self.refused = Track(), 0
        self.words: dict[str, float] = {}
        self._ticks = round(settings.period / self.plant.tick_period)
        self._seen: Seen | None = None
        self._devices = Devices()
        self._heard: OperatorSample | None = None
        self._shown = -np.inf

    q = property(lambda self: self.plant.q[self._order])
    v = property(lambda self: self.plant.v[self._order])
    now = property(lambda self: self.plant.t)

    def until(self, end: float) -> Teleoperation:
        """Go on until the time `end` [s]."""
        while self.now < end - 1e-9:
            self.cycle()
        return self

    def cycle(self) -> None:
        """One cycle of the controller; the operator's side lives at every tick of the servos in it."""
        newest = None
        for message in self.there.receive(self.now):
            sample, answers = self.robot_end.hear(message, self.now)
            newest = sample if sample is not None else newest
            for answer in answers:
                self.back.send(answer, self.now)
        for message in self.robot_end.speak(self.now):
            self.back.send(message, self.now)
        while self.robot_end.buttons:
            self._press(self.robot_end.buttons.popleft())
        self._move(newest)
        if self.now - self._shown >= STATUS_PERIOD - 1e-9:
            self._shown = self.now
            self.back.send(self.look(), self.now)
        for _ in range(self._ticks):
            self._operate()
            self.plant.tick()

    # -- the operator's side -------------------------------------------------------------------------

    def _operate(self) -> None:
        for message in self.back.receive(self.now):
            if isinstance(message, Seen):
                if self._seen is None or message.stamp > self._seen.stamp:
                    self._seen = message
            for answer in self.operator_end.hear(message, self.now):
                self.there.send(answer, self.now)
        self._devices, buttons = self.operator.act(self.now, self._seen)
        for button in buttons:
            for message in self.operator_end.press(button, self.now):
                self.there.send(message, self.now)
        for message in self.operator_end.speak(self._devices, self.now):
            self.there.send(message, self.now)

    # -- the robot's side ------------------------------------------------------------------------------

    def _press(self, button: str) -> None:
        """A button; what is not known here does nothing."""
        if button == "home":
            self.avatar.go_home()
        elif button == "reset_fault":
            self.avatar.reset_fault(self.q)

    def _move(self, sample: OperatorSample | None) -> None:
        q, v = self.q, self.v
        motion = self.avatar.cycle(sample, q, v, self.ranges(), self.now, effort=self.plant.effort[self._order])
        if sample is not None:
            self._heard = sample
        gain = np.hstack([np.diag(motion.kp), np.diag(motion.kd)])
        command = Command(
            Mode.FEEDBACK, self.now, self.model.joint_names, motion.effort, motion.position, motion.velocity, gain
        )
        try:
            self.plant.command(command)
        except CommandRefused:
            self.refused += 1
        self._remember(q)

    def ranges(self) -> dict[str, HeardRange]:
        """What the rangefinders see, by name; a plant that has none says nothing, and the base drives blind."""
        return {one.site: HeardRange(one.range, self.now - one.stamp) for one in self.plant.ranges()}

    def picture(self) -> dict[str, Pose]:
        """What the cameras show, see `Seen`."""
        return {}

    def look(self) -> Seen:
        """What the operator is sent now."""
        session, q = self.avatar.session, self.q
        arms = self.avatar.arms_with_joints()
        return Seen(
            self.now,
            session.state,
            self.robot_end.refusal or session.sentence,
            tuple(arm.mode.value for arm, _ in arms),
            tuple(arm.message for arm, _ in arms),
            tuple(arm.effector(q[index]) for arm, index in arms),
            tuple(wrench.force for wrench in self.avatar.wrenches),
            dict(self.words),
            self.picture(),
        )

    def _remember(self, q: np.ndarray) -> None:
        track, (arm, index) = self.track, self.avatar.arms_with_joints()[0]
        follows, axes = arm.clutch.pressed, arm.clutch.axes
        hand = self._devices.hands[0]
        asked = self._heard.hands[0] if follows and self._heard is not None else None
        track.time.append(self.now)
        track.hand.append(np.full(3, np.nan) if hand is None else axes @ hand.position)
        track.asked.append(np.full(3, np.nan) if asked is None else axes @ asked.position)
        track.effector.append(arm.effector(q[index]).position)
        track.state.append(int(self.avatar.session.state))
        track.follows.append(follows)
        track.energy.append(kinetic_energy(self.plant))
        track.base.append(np.array(q[:3]))


def operated_plant(robot: str = "avatar", seed: int = 0, rehearsal: Rehearsal | None = None) -> MujocoPlant:
    """A robot with the servos, the sensors, the stop state and the command gate's limits of its graph, before a task or none."""
    plant = MujocoPlant(
        robot,
        seed=seed,
        tick=TICK,
        stop_state="hold",
        position_noise=POSITION_NOISE,
        velocity_noise=VELOCITY_NOISE,
        rehearsal=rehearsal,
        rangefinders=rangefinders_of(robot),
    )
    plant.gate = CommandGate(joint_limits(plant.world), plant.tick_period, supervised=False)
    return plant


def kinetic_energy(plant: MujocoPlant) -> float:
    """Of everything that moves in the plant [J]: v' M v / 2."""
    import mujoco

    model, data = plant.world.model, plant.world.data
    Mv = np.zeros(model.nv)
    mujoco.mj_mulM(model, data, Mv, data.qvel)
    return 0.5 * float(data.qvel @ Mv)
