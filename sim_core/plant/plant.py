"""A simulated robot as a library: servo ticks over MuJoCo physics, with hidden changes.

    plant = MujocoPlant("double_cartpole", seed=0, tick=0.02)
    for k in range(140):
        plant.step(controller(plant.q, plant.v, plant.t))       # u, held over one tick

or, as the ROS node does, commands that arrive when they may:

    plant.command(Command(Mode.FEEDBACK, stamp=plant.t, joints=plant.joints, ...))
    plant.tick()

Two plants with the same arguments, seed and calls move bit-equally.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from config.description import RangeSite
from sim_core.command import Command, CommandRefused, Refusal, check_command
from sim_core.gate import CommandGate
from sim_core.plant.base_sensors import BaseSensors, BaseState, Imu
from sim_core.plant.errors import EntityError, PlantError
from sim_core.plant.physical_parameters import read_parameter_file
from sim_core.plant.rangefinders import Rangefinders, RangeReading
from sim_core.plant.scenario import PATIENT_SPEED, Change, Event, Scenario, parse_scenario
from sim_core.plant.scene import Entity, entity_content, robot_mjcf, shape_content
from sim_core.plant.sensors import MAX_DELAY, DelayLine, JointSensor
from sim_core.plant.servo import Servo
from sim_core.plant.world import EntityState, World

if TYPE_CHECKING:
    from sim_core.plant.grains_at_tool import GrainsAtTool
    from sim_core.plant.patient import Patient
    from sim_core.plant.soft_object import PokedObject

__all__ = ["MujocoPlant"]


class Surroundings(Protocol):
    """What a robot touches that MuJoCo's scene does not hold: a person, loose matter."""

    def meet(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Like `press`, with a robot that is new or was put elsewhere, so that where its links are has not been computed."""

    def press(self, model: mujoco.MjModel, data: mujoco.MjData, t: float) -> None:
        """Say what presses on the robot's links from time t [s] on, for the physics step to come."""

    def reset(self) -> None:
        """Back to how it was at the start."""


class Staged(Surroundings, Protocol):
    """A task that stands before a robot: what it consists of, what is to be done, and how far it is (`rehearsal`)."""

    task: Any
    progress: Any

    @property
    def scenery(self) -> tuple[Entity, ...]:
        """What stands there, beside the robot, in MuJoCo's scene."""


class MujocoPlant:
    """The robot: measured joints out, joint efforts in.

    Attributes:
        t: simulated time [s]; a whole number of physics steps, free of rounding drift.
        q, v: what the joint sensors report at t, shape (n,) [rad or m], [rad/s or m/s].
        true_q, true_v: the true state; for tests and oracles.
        u: actuator inputs in force over the tick that ended at t (their mean), shape (nu,).
        effort: the same as joint efforts, zero for passive joints, shape (n,) [N m or N]. It is the
            servo's own account: a hidden change of an actuator's gain does not show.
        rangefinders: of the robot.
        has_imu, feet: whether the robot carries an IMU, and the names of the feet that feel the ground.
        gate: what commands have to pass and what bounds the servos' efforts; None: every well-formed command passes,
            as for a library's own loop.
        stop_reason: why the servos are in their stop state; "" while they follow a command.

    Args:
        robot: name in config/robots, path of an MJCF file, or MJCF text.
        seed: of sensor noise and initial scatter.
        tick: servo period [s], a multiple of the physics step; None: the physics step.
        scenario: hidden changes, see `scenario`; YAML text, file, or list.
        params_file, parameters: physical parameters that differ from the MJCF (an identified set),
            as an identification's YAML file (its sensor delay holds unless `sensor_delay` is given), as
            a mapping by name, or both (the mapping wins).
        command_age_limit: a command older than this at reception is refused, and after this long
            without a new one the servos fall into `stop_state` [s].
        stop_state: "zero", "damped" or "hold", see `Servo`.
        servo_bandwidth: of the position loop [rad/s].
        stop_damping: of the stop state "damped" [1/s].
        position_noise, velocity_noise: sensor standard deviations [rad or m], [rad/s or m/s].
        sensor_delay, command_delay: constant delays [s], 0 to 0.5; hidden like the scenario's.
        initial_q, initial_v: state after a reset, shape (n,); None: the home keyframe at rest.
        initial_q_std, initial_v_std: scatter of that state, scalar or shape (n,).
        wrench_site: site with a force-torque sensor; "" for none.
        orientation_noise, gyro_noise, accelerometer_noise: of the IMU [rad], [rad/s], [m/s^2].
        patient: who lies before a robot with a stethoscope; None: nobody.
        tray: grains before a robot with a scoop or a bucket; None: there are none.
        poked: soft object before a robot with a probe; None: there is none.
        rehearsal: a task that is set up before a robot which a person acts through; None: there is none.
        rangefinders: of the robot, see `ranges`.

    Raises:
        PlantError: any of these cannot work; the text says what was expected.
    """

    def __init__(
        self,
        robot: str,
        *,
        seed: int = 0,
        tick: float | None = None,
        scenario: Scenario = (),
        params_file: str = "",
        parameters: Mapping[str, float] | None = None,
        command_age_limit: float = 0.1,
        stop_state: str = "zero",
        servo_bandwidth: float = 25.0,
        stop_damping: float = 10.0,
        position_noise: float = 0.0,
        velocity_noise: float = 0.0,
        sensor_delay: float = 0.0,
        command_delay: float = 0.0,
        initial_q: Sequence[float] | None = None,
        initial_v: Sequence[float] | None = None,
        initial_q_std: ArrayLike = 0.0,
        initial_v_std: ArrayLike = 0.0,
        wrench_site: str = "",
        orientation_noise: float = 0.0,
        gyro_noise: float = 0.0,
        accelerometer_noise: float = 0.0,
        patient: Patient | None = None,
        tray: GrainsAtTool | None = None,
        poked: PokedObject | None = None,
        rehearsal: Staged | None = None,
        rangefinders: Sequence[RangeSite] = (),
    ) -> None:
        self.patient, self.tray, self.poked, self.rehearsal = patient, tray, poked, rehearsal
        self._surroundings: list[Surroundings] = [one for one in (patient, tray, poked, rehearsal) if one is not None]
        self.name, self.mjcf = robot_mjcf(robot)
        values, file_delay = read_parameter_file(params_file, robot) if params_file else ({}, 0.0)
        sensor_delay = sensor_delay or file_delay
        scenery = rehearsal.scenery if rehearsal is not None else ()
        self.world = World(self.name, self.mjcf, {**values, **(parameters or {})}, wrench_site, scenery)
        self.wrench_site = wrench_site
        self.joints: list[str] = self.world.joints
        self.actuators: list[str] = self.world.actuators
        self.actuated_joints = [self.joints[j] for j in self.world.joint_of]
        self.u_lower, self.u_upper = self.world.u_lower, self.world.u_upper
        self.physics_step = float(self.world.model.opt.timestep)
        self.tick_period = self.physics_step if tick is None else float(tick)
        self._substeps = round(self.tick_period / self.physics_step)
        if self._substeps < 1 or not math.isclose(self._substeps * self.physics_step, self.tick_period, rel_tol=1e-9):
            raise PlantError(
                f"The servo tick {self.tick_period:g} s is not a multiple of the "
                f"physics step {self.physics_step:g} s of '{self.name}'."
            )
        if not command_age_limit > 0.0:
            raise PlantError("command_age_limit must be positive [s].")
        self.command_age_limit = command_age_limit
        self._seed = seed
        self.set_initial_state(initial_q, initial_v)
        self._scatter = (initial_q_std, initial_v_std)
        home_q, _ = self.world.home()
        self._servo = Servo(
            self.world.nominal,
            self.world.qpos,
            self.world.dof,
            self.world.actuated,
            home_q[self.world.qpos],
            servo_bandwidth,
            stop_state,
            stop_damping,
        )
        self._sensor = JointSensor(self.physics_step, position_noise, velocity_noise)
        self._base_sensors = BaseSensors(self.world.nominal, orientation_noise, gyro_noise, accelerometer_noise)
        self.rangefinders = Rangefinders(self.world.nominal, rangefinders, seed)
        self.has_imu, self.feet = self._base_sensors.has_imu, self._base_sensors.feet
        self._inputs = DelayLine(len(self.actuators))
        for delay in (sensor_delay, command_delay):
            if not 0.0 <= delay <= MAX_DELAY:
                raise PlantError(f"A delay lies between 0 and {MAX_DELAY} s, found {delay:g}.")
        self._own_delays = {"sensor": sensor_delay, "command": command_delay}
        self._own_changes: tuple[Change, ...] = ()  # applied for good, whatever the time
        self.gate: CommandGate | None = None
        self._drive: np.ndarray | None = None
        self._command: Command | None = None
        self._steps = 0
        self._next_event = 0
        self.scenario: tuple[Event, ...] = ()
        self.set_scenario(scenario)
        self.reset()

    @staticmethod
    def _vector(name: str, value: ArrayLike, size: int) -> np.ndarray:
        array = np.asarray(value, dtype=float).ravel()
        if array.size != size or not np.isfinite(array).all():
            raise PlantError(f"{name} must be {size} finite numbers, found {array.tolist()}.")
        return array

    # ---- time and motion -------------------------------------------------------------------
    @property
    def t(self) -> float:
        """Simulated time [s]."""
        return self._steps * self.physics_step

    @property
    def true_q(self) -> np.ndarray:
        """True joint positions (n,) [rad or m]."""
        return self.world.data.qpos[self.world.qpos]

    @property
    def true_v(self) -> np.ndarray:
        """True joint velocities (n,) [rad/s or m/s]."""
        return self.world.data.qvel[self.world.dof]

    @property
    def effort(self) -> np.ndarray:
        """Joint efforts (n,) [N m or N] as the servos account for them."""
        tau = np.zeros(len(self.joints))
        tau[self.world.joint_of] = self.world.ratio * self.u
        return tau

    def step(self, u: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """One servo tick with actuator inputs u, shape (nu,), held; returns the new (q, v).

        Inputs beyond the limits are clipped.

        Raises:
            PlantError: wrong size, not finite, or the simulation diverged.
        """
        u = self._vector("u", u, len(self.actuators))
        self.stop_reason = ""
        self._advance(np.clip(u, self.u_lower, self.u_upper))
        return self.q, self.v

    def command(self, command: Command) -> None:
        """Take a command; it is followed from the next tick on.

        Raises:
            CommandRefused: nothing changes; the last good command stays in force until its age
                limit.
        """
        age = self.t - command.stamp
        if not math.isfinite(age):
            raise CommandRefused(Refusal.NOT_FINITE, "the stamp is not finite")
        if age < -1e-6:
            raise CommandRefused(Refusal.FUTURE, f"stamped {-age:.4f} s in the future")
        if command.stamp < self._commands_from - 1e-6:
            raise CommandRefused(Refusal.OLD, "computed from a state before the last reset")
        if age > self.command_age_limit + 1e-6:
            raise CommandRefused(Refusal.OLD, f"{age:.4f} s old, limit {self.command_age_limit:g} s")
        checked = check_command(command, self.joints, self.actuated_joints)
        if self.gate is not None:
            self.gate.admit(checked, time.monotonic())
        self._command = checked
        self._received = self.t

    def release_command(self, reason: str = "stopped") -> None:
        """Forget the command in force: the servos enter their stop state at the next tick."""
        self._command = None
        self._no_command = reason

    def drive(self, effort: ArrayLike) -> None:
        """Joint efforts (n,) [N m or N] of the next ticks; from now on servos outside the plant drive it."""
        self._drive = self._vector("effort", effort, len(self.joints))

    def tick(self) -> None:
        """One servo tick under the command in force, in the stop state, or with the efforts given to `drive`.

        Raises:
            PlantError: the simulation diverged.
        """
        if self._drive is None:
            self._advance(self._servo_inputs())
            return
        self.stop_reason = ""
        u = self._drive[self.world.joint_of] / self.world.ratio
        self._advance(np.clip(u, self.u_lower, self.u_upper))

    def _servo_inputs(self) -> np.ndarray:
        gate = self.gate
        if gate is not None and (why := gate.closed(time.monotonic())):
            self.release_command(why)
        if self._command is not None:
            silence = self.t - self._received
            if silence > self.command_age_limit + 1e-6:
                self.release_command(f"no command for {silence:.3f} s, limit {self.command_age_limit:g} s")
        if self._command is None:
            self.stop_reason = self._no_command
            tau = self._servo.stop(self.q, self.v)
        else:
            self.stop_reason = ""
            tau = self._servo.follow(self._command, self.t, self.q, self.v)
        if gate is not None:
            tau = gate.bound(tau, self.q, self.v, self.t)
        u = tau[self.world.joint_of] / self.world.ratio
        return np.minimum(np.maximum(u, self.u_lower), self.u_upper)

    def _advance(self, u: np.ndarray) -> None:
        self._inputs.push(self.t, u)
        total = np.zeros_like(u)
        for _ in range(self._substeps):
            self._apply_due_events()
            world = self.world
            applied = self._inputs.at(self.t)
            world.data.ctrl[:] = applied
            for surrounding in self._surroundings:
                surrounding.press(world.model, world.data, self.t)
            mujoco.mj_step(world.model, world.data)
            self._steps += 1
            self._sensor.push(self.true_q, self.true_v)
            total += applied
        self.world.data.time = self.t
        self.u = total / self._substeps
        self.q, self.v = self._sensor.read(self._rng)
        if not math.isfinite(float(self.q.sum() + self.v.sum())):
            raise PlantError(
                f"The simulation diverged at t = {self.t:.3f} s; reset it, and check "
                "masses, gains and the physics step."
            )

    # ---- reset -----------------------------------------------------------------------------
    def reset(self, time: bool = True, state: bool = True, spawned: bool = True, seed: int | None = None) -> None:
        """Back to the start, in any of three scopes; safe between any two ticks.

        Args:
            time: t = 0 and the scenario begins anew: its changes so far are undone, noise and
                scatter repeat. Changes applied for good stay.
            state: joints and free bodies back to their initial state.
            spawned: spawned entities are removed.
            seed: a new seed from here on.

        The command in force and all that is under way in delays is dropped, whatever the scope.
        """
        if seed is not None:
            self._seed = seed
        keep = [e for e in self.world.entities if (e.spawned and not spawned) or (not e.spawned and not time)]
        self.world.rebuild(entities=keep, changes=self._own_changes if time else None)
        if time:
            for surrounding in self._surroundings:
                surrounding.reset()
        if time:
            self._steps = 0
            self._next_event = 0
            self._set_delays(**self._own_delays)
        if time or seed is not None:
            self._rng = np.random.default_rng(self._seed)
        self.rangefinders.reset(self.t, self._seed)
        if state:
            self._start_over()
        self.world.data.time = self.t
        self._state_changed()
        self._commands_from = self.t
        self.release_command("no command yet")
        self.stop_reason = self._no_command
        self._servo.release()
        self._inputs.clear()
        self.u = np.zeros(len(self.actuators))

    def replace_tray(self, tray: GrainsAtTool) -> None:
        """Other grains instead of those that lie there, at once.

        Raises:
            PlantError: none lie there, or these do not fit before the robot; nothing changed.
        """
        if self.tray is None:
            raise PlantError("No grains lie before this robot that others could replace.")
        tray.meet(self.world.model, self.world.data, self.t)
        self._surroundings[self._surroundings.index(self.tray)] = tray
        self.tray = tray

    def set_initial_state(self, q: ArrayLike | None = None, v: ArrayLike | None = None) -> None:
        """State after the next reset, shape (n,); None: the home keyframe, at rest."""
        n = len(self.joints)
        self.initial_q = None if q is None else self._vector("initial_q", q, n)
        self.initial_v = None if v is None else self._vector("initial_v", v, n)

    def _start_over(self) -> None:
        world, data = self.world, self.world.data
        data.qpos[:], data.qvel[:] = world.home()
        data.qacc_warmstart[:] = 0.0
        if self.initial_q is not None:
            data.qpos[world.qpos] = self.initial_q
        if self.initial_v is not None:
            data.qvel[world.dof] = self.initial_v
        for array, index, std in ((data.qpos, world.qpos, self._scatter[0]), (data.qvel, world.dof, self._scatter[1])):
            if np.any(std):
                array[index] += np.asarray(std) * self._rng.standard_normal(len(index))

    def set_state(self, q: ArrayLike, v: ArrayLike) -> None:
        """Put the robot's joints at q, v, shape (n,), at the present time."""
        self.world.data.qpos[self.world.qpos] = self._vector("q", q, len(self.joints))
        self.world.data.qvel[self.world.dof] = self._vector("v", v, len(self.joints))
        self._state_changed()

    def _state_changed(self) -> None:
        for surrounding in self._surroundings:
            surrounding.meet(self.world.model, self.world.data, self.t)
        self._sensor.clear(self.true_q, self.true_v)
        self.q, self.v = self._sensor.read(self._rng)

    # ---- hidden changes --------------------------------------------------------------------
    def set_scenario(self, scenario: Scenario) -> None:
        """Replace the scenario: what the old one changed is undone, events whose time has passed
        happen at the next tick.

        Raises:
            PlantError: an event cannot happen on this robot; the scenario stays as it was.
        """
        events = tuple(e if e.time is not None else dataclasses.replace(e, time=0.0) for e in parse_scenario(scenario))
        spawned = [e for e in self.world.entities if e.spawned]
        # All events are tried on a copy of the world, so that a typo shows now and not at t = 60 s.
        copy = World(self.name, self.mjcf, {}, self.wrench_site, self.world.scenery)
        copy.rebuild(entities=spawned, changes=self._own_changes)
        for event in events:
            entities, changes, _ = self._after(event, copy.entities, copy.changes)
            copy.rebuild(entities=entities, changes=changes)
        self.world.rebuild(entities=spawned, changes=self._own_changes)
        if self.patient is not None:
            self.patient.move_back(self.t)
        self._set_delays(**self._own_delays)
        self.scenario, self._next_event = events, 0

    def apply(self, scenario: Scenario) -> None:
        """Change the plant now.

        Events without a time are for good: no reset undoes them (what they attach counts as
        spawned). Events with a time are added to the scenario.
        """
        for event in parse_scenario(scenario):
            if event.time is not None:
                rest = self.scenario[self._next_event :]
                done = self.scenario[: self._next_event]
                self.scenario = done + tuple(sorted((*rest, event), key=lambda e: e.due))
                continue
            before = self.world.changes
            entities, changes, delays = self._after(event, self.world.entities, before)
            self._move_patient(event, for_good=True)
            self.world.rebuild(entities=entities, changes=changes)
            self._own_changes += changes[len(before) :]
            self._own_delays.update(delays)
            self._set_delays(**delays)

    def _apply_due_events(self) -> None:
        while self._next_event < len(self.scenario) and self.scenario[self._next_event].due <= self.t + 1e-9:
            event = self.scenario[self._next_event]
            self._next_event += 1
            entities, changes, delays = self._after(event, self.world.entities, self.world.changes)
            self._move_patient(event)
            self.world.rebuild(entities=entities, changes=changes)
            self._set_delays(**delays)

    def _move_patient(self, event: Event, for_good: bool = False) -> None:
        if event.action == "patient" and self.patient is not None:
            a = event.arguments
            self.patient.move(a["shift"], a.get("speed", PATIENT_SPEED), self.t, for_good)

    def _after(
        self, event: Event, entities: tuple[Entity, ...], changes: tuple[Change, ...]
    ) -> tuple[tuple[Entity, ...], tuple[Change, ...], dict[str, Any]]:
        """Entities, changes and delays after `event`; nothing is touched."""
        a = event.arguments
        if event.action == "attach":
            shape = shape_content(**{k: a[k] for k in ("shape", "mass", "size", "com") if k in a})
            entities = (
                *entities,
                Entity(
                    a.get("name", "payload"),
                    shape,
                    a["frame"],
                    tuple(a.get("position", (0, 0, 0))),
                    tuple(a.get("quaternion", (1, 0, 0, 0))),
                    spawned=event.time is None,
                ),
            )
        elif event.action == "detach":
            if a["name"] not in {e.name for e in entities}:
                raise EntityError(
                    "not_found", f"Nothing called '{a['name']}' is attached at that time of the scenario."
                )
            entities = tuple(e for e in entities if e.name != a["name"])
        elif event.action in ("scale", "set"):
            changes = (*changes, Change(a["target"], a.get("factor"), a.get("value")))
        elif event.action == "actuator_gain":
            joints = a.get("joints") or self.actuated_joints
            changes = (*changes, *(Change(f"{j}.gain", a["factor"]) for j in joints))
        elif event.action == "patient" and self.patient is None:
            raise PlantError("The scenario moves a patient, and nobody lies before this robot.")
        delays = dict(a) if event.action == "delay" else {}
        return entities, changes, delays

    def _set_delays(self, sensor: float | None = None, command: float | None = None) -> None:
        if sensor is not None:
            self._sensor.delay = float(sensor)
        if command is not None:
            self._inputs.delay = float(command)

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Physical parameters of the robot from now on, by name; motion, scenario and what is attached go on.

        Raises:
            PlantError: a value that is not finite, an unknown name, a body that is not physical; nothing changed.
        """
        if bad := [name for name, value in values.items() if not np.isfinite(value)]:
            raise PlantError(f"Parameter '{bad[0]}' is not finite; nothing was changed.")
        self.world.set_parameters(values)

    # ---- entities and observation ----------------------------------------------------------
    def spawn(
        self,
        name: str,
        uri: str = "",
        text: str = "",
        parent: str = "",
        position: Sequence[float] = (0.0, 0.0, 0.0),
        quaternion: Sequence[float] = (1.0, 0.0, 0.0, 0.0),
    ) -> None:
        """Add an object: welded to a body or site `parent`, or free in the world ("").

        Args:
            uri, text: what it is, see `scene.entity_content`.
            position, quaternion: in the parent's frame [m], wxyz.

        Raises:
            EntityError: refused, nothing changed.
        """
        pose = np.array([*position, *quaternion], dtype=float)
        if not np.isfinite(pose).all() or abs(np.linalg.norm(pose[3:]) - 1.0) > 1e-2:
            raise EntityError("pose", f"The pose of '{name}' is not finite or its quaternion is not of unit length.")
        self.world.add_entity(
            Entity(name, entity_content(uri, text), parent, tuple(map(float, position)), tuple(map(float, quaternion)))
        )

    def delete(self, name: str) -> None:
        """Remove an entity; EntityError if there is none of that name, or it is the robot's."""
        self.world.remove_entity(name)

    def entities(self) -> dict[str, str]:
        """Entity name -> "robot", "dynamic" or "static"."""
        return self.world.entity_names()

    def entity_state(self, name: str) -> EntityState:
        """True state of an entity in the world."""
        return self.world.entity_state(name)

    def set_entity_state(self, name: str, **state: ArrayLike | None) -> None:
        """Place a free body, see `World.set_entity_state`."""
        self.world.set_entity_state(name, **state)

    def imu(self) -> Imu:
        """What the IMU on the trunk reads now, noise included; joint sensors' delay does not concern it.

        Raises:
            PlantError: the robot has none.
        """
        return self._base_sensors.imu(self.world.observe(), self._rng)

    def base_state(self) -> BaseState:
        """Truth about a robot whose first joint is free.

        Raises:
            PlantError: its base is fixed.
        """
        return self._base_sensors.base_state(self.world.data)

    def foot_forces(self) -> np.ndarray:
        """Normal force under every foot of `feet`, (len(feet),) [N]."""
        return self._base_sensors.foot_forces(self.world.observe())

    def ranges(self) -> list[RangeReading]:
        """The newest reading of each rangefinder; those that are due are made now."""
        return self.rangefinders.read(self.t, lambda: (self.world.model, self.world.observe()))

    def wrench(self) -> np.ndarray:
        """[force; torque] that all beyond the wrench site exerts on it, in its axes, (6,) [N, N m].

        A load m at rest shows its weight, pointing down; MuJoCo's sensors give the reaction.
        """
        if not self.wrench_site:
            raise PlantError("This plant has no wrench_site.")
        probe, _model = self.world.observe(), self.world.model
        force, torque = (probe.sensor("refit/force").data, probe.sensor("refit/torque").data)
        return -np.concatenate([force, torque])
