"""The plant node: a MuJoCo robot that speaks joint_states, joint_command and simulation_interfaces.

    sim_plant --ros-args -p robot:=double_cartpole -p tick:=0.02 -p lockstep:=true

Page: docs/nodes/sim_plant.md.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

from geometry_msgs.msg import WrenchStamped
from rclpy.duration import Duration
from refit_interfaces.msg import FootContacts, JointCommand, RehearsalStatus, StethoscopeContact
from refit_interfaces.srv import ResetPile, SetParameterSet
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState, PointCloud2, Range
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from nodes.frames.description import description_messages
from nodes.framework.diagnostics import ERROR, OK
from nodes.framework.gatekeeper import Gatekeeper
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.messages import command_from_message, to_stamp
from nodes.framework.parameter_book import other_model
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import CLOCK, COMMAND, LATCHED, SENSOR, SENSORS, STATE
from nodes.plant.plant_messages import PlantMessages
from nodes.plant.plant_world import PlantWorld
from nodes.plant.sim_loop import SimLoop
from nodes.plant.sim_plant_config import SimPlantConfig
from nodes.plant.simulation_interfaces_server import SimulationInterfaces
from sim_core.command import CommandRefused
from sim_core.gate import CommandGate
from sim_core.plant import MujocoPlant, PlantError, joint_limits
from sim_core.plant.rangefinders import rangefinders_of

if TYPE_CHECKING:
    from sim_core.plant.rehearsal.task import Progress

__all__ = ["SimPlant", "main"]

LAST_WORD = Duration(seconds=0.5)  # for readers to confirm the last joint state
GRAINS_PERIOD = 0.2  # [s] between two messages of where grains are, while they move
SCENERY_PERIOD = 0.05  # [s] between two messages of where a rehearsed task's things are
STETHOSCOPE_PERIOD = 0.01  # [s] between two messages of how a simulated person feels the stethoscope
CATCH_UP = 1.5  # ticks that are made up for at most where emulated motors drive: they would drive all of them alike


class SimPlant(RefitNode):
    """Thin around MujocoPlant: a callback converts, the loop's thread steps and publishes."""

    name = "sim_plant"
    Config = SimPlantConfig
    live_parameters = True
    own_loop = True
    executor_threads = 3  # services, and a step action that takes its time

    loop: SimLoop | None = None
    interfaces: SimulationInterfaces | None = None
    _entities: tuple = ()
    _commands = None
    _world: PlantWorld | None = None
    _gatekeeper: Gatekeeper | None = None

    # ---- lifecycle -------------------------------------------------------------------------
    def configure(self) -> None:
        c = self.config
        plant = MujocoPlant(
            c.robot,
            seed=c.seed,
            tick=c.tick or None,
            scenario=c.scenario,
            params_file=c.params_file,
            command_age_limit=c.command_age_limit,
            stop_state=c.stop_state,
            servo_bandwidth=c.servo_bandwidth,
            stop_damping=c.stop_damping,
            position_noise=c.position_noise,
            velocity_noise=c.velocity_noise,
            sensor_delay=c.sensor_delay,
            command_delay=c.command_delay,
            initial_q=c.initial_position or None,
            initial_v=c.initial_velocity or None,
            initial_q_std=_scatter(c.initial_position_std),
            initial_v_std=_scatter(c.initial_velocity_std),
            wrench_site=c.wrench_site,
            orientation_noise=c.orientation_noise,
            gyro_noise=c.gyro_noise,
            accelerometer_noise=c.accelerometer_noise,
            patient=_patient(c),
            tray=_tray(c, c.seed if c.tray_seed < 0 else c.tray_seed),
            poked=_poked(c),
            rehearsal=_rehearsal(c),
            rangefinders=rangefinders_of(c.robot),
        )
        self.diagnostics.hardware_id = plant.name
        self._world = PlantWorld(c.world, plant) if c.world else None
        if self._world is None:  # else the gates are those of the drivers
            plant.gate = CommandGate(joint_limits(plant.world), plant.tick_period, c.require_supervisor)
            self._gatekeeper = Gatekeeper(self, plant.gate) if c.require_supervisor else None
        # Beside emulated devices the robot's topics are the drivers'; the plant's own tell the truth under its name,
        # on the drivers' clock, and its clock tells when its time began.
        own = "~/" if c.world else ""
        self._messages = PlantMessages(plant, c.frame_prefix, self._ros_time if c.world else None)
        self._t = plant.t
        self._mjcf = plant.mjcf

        def publisher(kind, topic, qos):
            entity = self.create_publisher(kind, topic, qos)
            self._entities = (*self._entities, entity)
            return entity

        self._pub_joint_states = publisher(JointState, f"{own}joint_states", STATE)
        self._descriptions = [
            publisher(String, f"{own}robot_description", LATCHED),
            publisher(String, f"{own}robot_description_mjcf", LATCHED),
        ]
        self._pub_clock = publisher(Clock, "~/clock" if own else "/clock", CLOCK) if c.clock_period else None
        self._pub_tf = publisher(TFMessage, "/tf", STATE) if c.tf_period else None
        self._pub_tf_static = publisher(TFMessage, "/tf_static", LATCHED) if c.tf_period else None
        self._pub_wrench = publisher(WrenchStamped, f"{own}wrench", SENSOR) if c.wrench_site else None
        self._pub_imu = publisher(Imu, f"{own}imu", STATE) if c.imu_period and plant.has_imu else None
        self._pub_contacts = (
            publisher(FootContacts, f"{own}foot_contacts", STATE) if c.imu_period and plant.feet else None
        )
        self._pub_range = publisher(Range, f"{own}range", SENSORS) if plant.rangefinders.sites else None
        self._pub_stethoscope = publisher(StethoscopeContact, "~/stethoscope", STATE) if plant.patient else None
        self._pub_grains = publisher(PointCloud2, "~/grains", LATCHED) if plant.tray else None
        self._pub_rehearsal = publisher(RehearsalStatus, "~/rehearsal", LATCHED) if plant.rehearsal else None
        self._pub_scenery = publisher(JointState, "~/scenery", STATE) if plant.rehearsal else None
        self._progress_told: Progress | None = None
        self._grains_told = False  # how they lie since they moved last
        self._every = {
            name: _ticks(period, plant.tick_period)
            for name, period in (
                ("state", c.state_period),
                ("clock", c.clock_period),
                ("tf", c.tf_period),
                ("wrench", c.wrench_period),
                ("imu", c.imu_period),
                ("stethoscope", STETHOSCOPE_PERIOD),
                ("grains", GRAINS_PERIOD),
                ("scenery", SCENERY_PERIOD),
            )
        }
        control_ticks = _ticks(c.control_period, plant.tick_period)
        if c.lockstep and abs(control_ticks * plant.tick_period - c.control_period) > 1e-9 and c.control_period:
            raise PlantError(
                f"control_period {c.control_period:g} s is not a multiple of the servo tick {plant.tick_period:g} s."
            )
        if c.lockstep and control_ticks % self._every["state"]:
            raise PlantError(
                f"control_period {c.control_period:g} s is not a multiple of state_period {c.state_period:g} s: lock-step would "
                "wait for answers to states that nobody is told."
            )
        self._factor_seen = None
        self.loop = SimLoop(
            plant,
            on_tick=self._publish,
            on_idle=self._idle,
            on_refused=self._refused,
            on_turn=self._turn,
            attend=self._fetch_commands,
            real_time_factor=c.real_time_factor,
            lockstep=c.lockstep,
            control_ticks=control_ticks,
            lockstep_timeout=c.lockstep_timeout,
            **({"held": self._world.held, "catch_up": CATCH_UP * plant.tick_period} if c.world else {}),
        )
        self.loop.start()
        self._setter = self.create_service(SetParameterSet, "~/set", self._on_set)
        self._refill = self.create_service(ResetPile, "~/reset_pile", self._on_reset_pile) if plant.tray else None
        self._revision = 0
        self.interfaces = SimulationInterfaces(
            self, self.loop, c.frame_prefix, lambda: self.is_active, self.request_exit
        )
        self.get_logger().info(
            f"{plant.name}: joints {', '.join(plant.joints)}; tick {plant.tick_period:g} s, physics "
            f"{plant.physics_step:g} s, " + ("lock-step" if c.lockstep else f"real-time factor {c.real_time_factor:g}")
        )

    def activate(self) -> None:
        for description, message in zip(self._descriptions, description_messages(self._mjcf)):
            description.publish(message)
        if self._world is None:
            self._commands = create_polled_subscription(self, JointCommand, "joint_command", COMMAND)
        self.loop.call(self._publish)
        if not self.config.start_paused:
            self.loop.play()

    def stop(self) -> None:
        """Torque zero, said in a last joint state; then time stands still."""
        if self.loop is None or not self.loop.is_alive():
            return
        was_running = self.loop.playing
        self.loop.pause()
        self.loop.call(lambda plant: self._torque_zero(plant, was_running), timeout=0.5)
        # A publisher that is destroyed takes what is still under way with it.
        self._pub_joint_states.wait_for_all_acked(LAST_WORD)

    def _torque_zero(self, plant: MujocoPlant, was_running: bool) -> None:
        plant.release_command("stopped")
        if was_running:  # one tick without torque, so that the last state recorded tells it
            plant.step([0.0] * len(plant.actuators))
            plant.release_command("stopped")
            self._publish(plant, last=True)

    def _on_set(self, request, response):
        """An identified set, or a particle of a posterior, becomes the robot's physics in the middle of its motion."""
        # Only a plant whose parameters are set needs the articulated model, and CasADi with it.
        from sim_core.multibody import ModelError, PhysicalCheck, load_model

        told = request.parameters
        try:
            model = load_model(self.config.robot)
            if why := other_model(told.model_hash or "none", model.hash):
                raise PlantError(f"{why}; nothing was changed")
            if why := PhysicalCheck(model).objection(told.vector):
                raise PlantError(f"{why}; nothing was changed")
            values = dict(zip(model.parameters.names, (float(value) for value in told.vector)))
            self.loop.call(lambda plant: plant.set_parameters(values))
        except (PlantError, ModelError) as error:
            response.message = str(error)
            return response
        self._revision += 1
        self.get_logger().info(f"physical parameters replaced: {told.message or 'no reason given'}")
        response.success, response.revision, response.message = True, self._revision, "in force"
        return response

    def _on_reset_pile(self, request, response):
        """Other grains before the robot, which begins anew; they settle while the old ones still lie there."""

        def renew(plant: MujocoPlant) -> None:
            plant.replace_tray(tray)
            self._grains_told = False

        try:
            tray = _tray(self.config, request.seed)
            self.loop.call(renew)
            self.loop.reset()
        except PlantError as error:
            response.message = str(error)
            return response
        self.get_logger().info(f"{self.config.tray} with the seed {request.seed} lie before the robot")
        response.success, response.message = True, f"{self.config.tray}, seed {request.seed}"
        return response

    def deactivate(self) -> None:
        if self._commands is not None:
            self.destroy_subscription(self._commands)
            self._commands = None

    def cleanup(self) -> None:
        self.deactivate()
        if self.interfaces is not None:
            self.interfaces.destroy()
        if self.loop is not None:
            self.loop.close()
            self.destroy_service(self._setter)
            if self._refill is not None:
                self.destroy_service(self._refill)
        for entity in self._entities:
            self.destroy_publisher(entity)
        if self._world is not None:
            self._world.close()
        if self._gatekeeper is not None:
            self._gatekeeper.destroy()
        self._gatekeeper = None
        self.interfaces, self.loop, self._entities, self._world = None, None, (), None

    def config_changed(self, old, new) -> None:
        if self.loop is None:
            return
        if new.real_time_factor != old.real_time_factor:
            self.loop.set_real_time_factor(new.real_time_factor)
        if new.scenario != old.scenario:
            self.loop.call(lambda plant: plant.set_scenario(new.scenario))
        if (new.initial_position, new.initial_velocity) != (old.initial_position, old.initial_velocity):
            self.loop.call(
                lambda plant: plant.set_initial_state(new.initial_position or None, new.initial_velocity or None)
            )

    def stamp_now(self):
        """Diagnostics carry simulated time, as everything else from here."""
        if self._world is not None:
            return self.get_clock().now().to_msg()
        return to_stamp(getattr(self, "_t", 0.0))

    # ---- commands --------------------------------------------------------------------------
    def _fetch_commands(self) -> None:
        """Take what has arrived, on the loop's thread and before its next tick.

        On a busy machine the executor's threads get to a command 100 ms late, which is an age at which
        it is refused; and waking them costs a tenth of a core.
        """
        if self._world is not None:
            self._world.drive(self.loop.plant)
        if self._gatekeeper is not None:
            self._gatekeeper.attend()
        subscription = self._commands
        for message, _ in take(subscription) if subscription is not None else ():
            self._on_command(message)

    def _on_command(self, message: JointCommand) -> None:
        self.diagnostics.tick("commands")
        if self.loop is not None:
            self.loop.command(command_from_message(message))

    def _refused(self, error: CommandRefused) -> None:
        self.diagnostics.tick("commands_refused")
        self.diagnostics.tick(f"refused_{error.reason.name.lower()}")
        self.diagnostics.warn(str(error))
        self.get_logger().warning(str(error), throttle_duration_sec=2.0)

    # ---- publishing, on the loop's thread ----------------------------------------------------
    def _publish(self, plant: MujocoPlant, last: bool = False) -> None:
        """Everything due at the present tick, or its last state; the clock first, so that no state is from the future."""
        messages, index = self._messages, round(plant.t / plant.tick_period)
        if plant.t < self._t:
            self._grains_told = False
        if self._world is not None:
            if plant.t < self._t:
                self._world.rest()
            self._world.publish(plant, wrench=index % self._every["wrench"] == 0)
        self._t = plant.t
        if self._pub_clock is not None and index % self._every["clock"] == 0:
            self._pub_clock.publish(messages.fill_clock(plant))
        # Before the joint states, whose arrival tells a controller that a tick's measurements are there.
        if index % self._every["imu"] == 0:
            if self._pub_imu is not None:
                messages.fill_imu(plant)
            if self._pub_contacts is not None:
                messages.fill_foot_contacts(plant)
            self._publish_base()
        if self._pub_range is not None:
            for message in messages.ranges(plant):
                self._pub_range.publish(message)
        if last or index % self._every["clock" if self._world is not None else "state"] == 0:
            self._pub_joint_states.publish(messages.fill_joint_state(plant))
        if self._pub_wrench is not None and index % self._every["wrench"] == 0:
            self._pub_wrench.publish(messages.fill_wrench(plant))
        if self._pub_stethoscope is not None and index % self._every["stethoscope"] == 0:
            self._pub_stethoscope.publish(messages.fill_stethoscope(plant))
        if self._pub_grains is not None and index % self._every["grains"] == 0:
            self._publish_grains(plant)
        if self._pub_scenery is not None and index % self._every["scenery"] == 0:
            self._pub_scenery.publish(messages.scenery(plant))
            self._tell_progress(plant.rehearsal.progress)
        if self._pub_tf is not None and index % self._every["tf"] == 0:
            moving, static = messages.fill_tf(plant)
            self._pub_tf.publish(moving)
            if index == 0:
                self._pub_tf_static.publish(static)
        self.diagnostics.tick("ticks")

    def _publish_grains(self, plant: MujocoPlant) -> None:
        """While they move, and once when they have come to rest, for whoever joins later."""
        if plant.tray.awake or not self._grains_told:
            self._grains_told = not plant.tray.awake
            self._pub_grains.publish(self._messages.grains(plant))

    def _tell_progress(self, progress: Progress) -> None:
        """When it has changed, for whoever joins later as well."""
        told = self._progress_told
        if told is None or dataclasses.replace(progress, elapsed=told.elapsed) != told:
            self._progress_told = progress
            self._pub_rehearsal.publish(self._messages.rehearsal(self.loop.plant))

    def _publish_base(self) -> None:
        """IMU and feet as they were last read: said again they are the same, noise included."""
        if self._pub_imu is not None:
            self._pub_imu.publish(self._messages.imu)
        if self._pub_contacts is not None:
            self._pub_contacts.publish(self._messages.foot_contacts)

    def _ros_time(self) -> float:
        """[s]"""
        return 1e-9 * self.get_clock().now().nanoseconds

    def _idle(self) -> None:
        """While time stands still, late joiners still learn the time and the state to answer."""
        plant = self.loop.plant
        if self._pub_clock is not None:
            self._pub_clock.publish(self._messages.fill_clock(plant))
        if self.loop.waiting_long():
            self._publish_base()
            self._pub_joint_states.publish(self._messages.fill_joint_state(plant))

    def _turn(self) -> None:
        self.diagnostics.stand(*self._standing())
        if self.diagnostics.beat_due():
            plant = self.loop.plant
            self.diagnostics.set("real_time_factor", self.loop.factor_reached())
            self.diagnostics.set("real_time_factor_wanted", self.config.real_time_factor)
            self.diagnostics.set("time", plant.t)
            self.diagnostics.set("servos", plant.stop_reason or "following commands")
            self.diagnostics.set("lockstep", self.config.lockstep)
            self.diagnostics.beat()

    def _standing(self):
        if self.loop.halted:
            return ERROR, self.loop.halted
        if not self.loop.playing:
            return OK, "paused"
        if self._world is not None and not self._world.released:
            return OK, "on the stand until every servo has torque"
        return None, ""


def _scatter(values: tuple[float, ...]):
    return values[0] if len(values) == 1 else values


def _patient(c: SimPlantConfig):
    if c.patient < 0:
        return None
    from sim_core.plant.patient import Patient  # only where somebody lies there

    return Patient(c.patient, c.patient_side, c.patient_position)


def _tray(c: SimPlantConfig, seed: int):
    if not c.tray:
        return None
    from sim_core.plant.scene import build_model, robot_mjcf
    from sim_core.plant.tray_fills import filled_tray  # only where grains lie there

    return filled_tray(c.tray, c.robot, float(build_model(robot_mjcf(c.robot)[1]).opt.timestep), seed)


def _rehearsal(c: SimPlantConfig):
    if not c.rehearsal:
        return None
    from sim_core.plant.rehearsal.tasks import rehearse  # only where one stands there

    return rehearse(c.rehearsal, c.seed if c.rehearsal_seed < 0 else c.rehearsal_seed)


def _poked(c: SimPlantConfig):
    if not c.object:
        return None
    from sim_core.plant.soft_object import poked_object  # only where an object stands there

    return poked_object(c.object, c.object_seed, c.probe, c.object_position)


def _ticks(period: float, tick: float) -> int:
    """Servo ticks in a period, at least one."""
    return max(1, round(period / tick))


def main(args=None) -> int:
    # Two busy threads share the interpreter; the default switch interval of 5 ms would be 2.5
    # servo ticks late. 0.5 ms costs nothing measurable.
    sys.setswitchinterval(0.0005)
    return spin_main(SimPlant, args)
