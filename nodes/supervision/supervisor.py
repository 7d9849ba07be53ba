"""The supervisor: watches states, commands, limits and the refit, and halts with a code and a sentence.

It moves nothing itself. It lends the right to command to one node at a time, for half a second, again and again: the
gates before the actuators (sim_core/gate) follow nobody else, and stop the joints when the loan ends. So a halt needs
nobody's consent, and where there is no supervisor nothing moves. That a stop is done is read off the joint
velocities, never assumed.

Page: docs/nodes/supervisor.md.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
from rclpy.task import Future
from refit_interfaces.msg import CommandLease, ControllerStatus, JointCommand, ParameterSet, SupervisorStatus
from refit_interfaces.srv import HandOver
from sensor_msgs.msg import JointState
from simulation_interfaces.srv import GetSimulationState
from std_srvs.srv import Trigger

from nodes.framework.config import setting
from nodes.framework.joint_state_gate import JointSample, JointStateGate
from nodes.framework.joint_state_parts import JointStateParts
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.polled import create_polled_service, create_polled_subscription, take, take_requests
from nodes.framework.qos import COMMAND, LEDGER
from nodes.framework.speakers import impostor, second_clock
from nodes.supervision.supervision import Event, Machine, State
from nodes.supervision.watch import Watch, WatchLimits
from sim_core.multibody import load_model

__all__ = ["SupervisorConfig", "SupervisorNode", "main"]


#: leases are renewed after this share of their duration
LEASES = 0.2
#: [s] in which a supervisor that was held up reads what has piled up; before that it judges by a past that it has half read
CATCH_UP = 0.5
#: to a plant whose time stands still within `clock_age_limit`
QUESTIONS = 4


@dataclass(frozen=True)
class SupervisorConfig:
    """Parameters of `supervisor`."""

    robot: str = setting("panda", description="model in config/robots, for joint names and limits")
    rate: float = setting(50.0, "Hz", (1.0, 1000.0), "how often the watch judges")
    state_age_limit: float = setting(0.1, "s", (0.005, 10.0), "joint states silent or invalid for longer halt")
    future_limit: float = setting(0.5, "s", (0.0, 10.0), "joint states stamped further ahead than this are invalid")
    command_age_limit: float = setting(0.25, "s", (0.01, 10.0), "a working controller silent for longer halts")
    refit_age_limit: float = setting(
        3.0, "s", (0.0, 600.0), "a periodic refit silent for longer degrades; 0: none expected"
    )
    clock_age_limit: float = setting(
        2.0, "s", (0.1, 60.0), "wall time the clock may stand still before the plant is asked why"
    )
    velocity_margin: float = setting(1.1, "", (0.5, 100.0), "velocity limit as a multiple of the model's")
    position_margin: float = setting(0.02, "rad or m", (0.0, 10.0), "how far beyond a position limit halts")
    rest_velocity: float = setting(0.02, "rad/s or m/s", (1e-4, 10.0), "joints slower than this are at rest")
    rest_time: float = setting(0.1, "s", (0.0, 10.0), "for this long, which confirms a stop")
    auto_arm: bool = setting(
        False, description="arm by itself as soon as the robot is well; otherwise somebody calls arm", read_only=True
    )
    commander: str = setting("adaptive_mpc", description="node that may command first", read_only=True)
    several_drivers: bool = setting(
        False,
        description="joint_states come in parts, from drivers of a part of the joints each; false: in whole messages",
        read_only=True,
    )
    lease_duration: float = setting(
        0.5, "s", (0.1, 10.0), "a gate that hears nothing of the supervisor for so long stops its joints"
    )
    stop_timeout: float = setting(5.0, "s", (0.1, 60.0), "wall time `stop` waits for rest before it reports failure")


@dataclass(frozen=True)
class OperatorStop:
    """A request to stop that waits for its answer.

    Attributes:
        header: of the request, for the answer.
        deadline: wall time by which the joints must rest [s].
        before: the newest joint states when it came; only newer ones tell what the stop did.
    """

    header: object
    deadline: float
    before: JointSample | None


class SupervisorNode(RefitNode):
    """See the module's docstring."""

    name = "supervisor"
    Config = SupervisorConfig

    def configure(self) -> None:
        config = self.config
        model = load_model(config.robot)
        limits = WatchLimits(
            config.state_age_limit,
            config.command_age_limit,
            config.refit_age_limit,
            config.clock_age_limit,
            config.rest_velocity,
            config.rest_time,
        )
        joints = measured_joints(model)
        names, q, v = (
            [link.joint for link in joints],
            [link.q_index for link in joints],
            [link.v_index for link in joints],
        )
        gate = JointStateParts if config.several_drivers else JointStateGate
        self.gate = gate(names, config.state_age_limit, config.future_limit)
        self.watch = Watch(
            names,
            model.q_lower[q] - config.position_margin,
            model.q_upper[q] + config.position_margin,
            config.velocity_margin * model.v_limit[v],
            limits,
        )
        self.machine = Machine()
        self._stops: list[OperatorStop] = []  # not yet answered
        self._commander = config.commander
        self._arm_by_itself = config.auto_arm
        self._behind_until = -np.inf  # wall time until which it catches up [s]
        self._judged: float | None = None  # wall time of the last judgement, which is the gates' clock
        self._lent = -np.inf  # wall time of the last lease
        self._stamp = -np.inf
        self._looked = -np.inf  # ROS time of the last look
        self._questions: list[Future] = []  # to the plant, not yet answered
        self._asked = time.monotonic()
        self.status = self.create_publisher(SupervisorStatus, "supervisor/status", LEDGER)
        self.lease = self.create_publisher(CommandLease, "supervisor/lease", COMMAND)
        self._simulation = self.create_client(GetSimulationState, "get_simulation_state")
        # Read at the watch's own rate, the newest only: most of 600 messages a second are nobody's business.
        self._states = create_polled_subscription(self, JointState, "joint_states", COMMAND)
        self._commands = create_polled_subscription(self, JointCommand, "joint_command", COMMAND, raw=True)
        self._controller = create_polled_subscription(self, ControllerStatus, "controller/status", COMMAND)
        self._stop_service = create_polled_service(self, Trigger, "stop")  # answered when the joints are at rest
        self._made = [
            self._states,
            self._commands,
            self._controller,
            self._stop_service,
            self.create_subscription(ParameterSet, "refit/parameters", self._on_refit, LEDGER),
            self.create_service(Trigger, "resume", self._on_resume),
            self.create_service(Trigger, "arm", self._on_arm),
            self.create_service(Trigger, "disarm", self._on_disarm),
            self.create_service(HandOver, "hand_over", self._on_hand_over),
            self.create_timer(1.0 / config.rate, self._judge, clock=self.steady_clock),
        ]

    def activate(self) -> None:
        for reader in (self._states, self._commands, self._controller):
            take(reader)  # what was before does not count
        self._publish()

    def stop(self) -> None:
        if hasattr(self, "machine") and self.is_active:
            self._handle(Event.SHUTDOWN, "the supervisor is shutting down")

    def cleanup(self) -> None:
        for entity in getattr(self, "_made", []):
            for destroy in (self.destroy_subscription, self.destroy_service, self.destroy_timer):
                if destroy(entity):
                    break
        self._made = []
        for name, destroy in (
            ("status", self.destroy_publisher),
            ("lease", self.destroy_publisher),
            ("_simulation", self.destroy_client),
        ):
            if hasattr(self, name):
                destroy(getattr(self, name))
                delattr(self, name)

    def time_jumped_back(self) -> None:
        if hasattr(self, "watch"):
            self._jumped()

    def _jumped(self) -> None:
        self.watch.forget()
        self._judged = None
        self._looked = -np.inf
        self._handle(Event.TIME_JUMPED, "time went back: everything before it is forgotten")

    # -- observations ------------------------------------------------------------------------------

    def _look(self) -> None:
        """Take the newest of what has arrived since the last look."""
        now = self._now()
        for message, info in take(self._states):
            sample, why = self.gate.read(message, now)
            if sample is None and not why:
                continue  # a part, and another driver leads
            if sample is None:
                self.diagnostics.tick("states_refused")
            else:
                if sample.stamp < self._stamp:
                    self._jumped()
                self._stamp = sample.stamp
            self.watch.see_state(self._reception(info, now), sample, why)
        for _, info in take(self._commands):
            self.watch.see_command(self._reception(info, now))
        for message, _ in take(self._controller):
            self.watch.see_controller(message.state in (ControllerStatus.STATE_IDLE, ControllerStatus.STATE_STOPPED))
        self._looked = now

    def _reception(self, info: dict, now: float) -> float:
        """ROS time at which a message arrived [s]: after the last look, and as long ago as the middleware says.

        The first bound is for simulated time, which may stand still while the middleware's goes on.
        """
        waited = 1e-9 * (time.time_ns() - info["received_timestamp"]) if info["received_timestamp"] else 0.0
        return min(now, max(self._looked, now - waited))

    def _on_refit(self, message: ParameterSet) -> None:
        self.watch.see_refit(self._now())

    # -- judgement ---------------------------------------------------------------------------------

    def _judge(self) -> None:
        if not self.is_active:
            self._refuse_stops()
            return
        self._answer_stops()
        self._stop_for_operators()
        self._look()
        now = self._now()
        self._judge_itself(time.monotonic())
        if time.monotonic() >= self._lent + LEASES * self.config.lease_duration or self.watch.faults(now):
            self._see_who_speaks()
        for event, sentence in self.watch.events(now):
            self._handle(event, sentence)
        if self._arm_by_itself and self.machine.state is State.DISARMED:
            if faults := self.watch.faults(now):
                self.diagnostics.warn(f"not armed by itself: {faults[0][1]}")
            else:
                self._handle(Event.ARM, "armed by itself, as auto_arm says")
        self._ask_the_plant(now)
        if time.monotonic() >= self._lent + LEASES * self.config.lease_duration:
            self._lend()
        self.diagnostics.set("commander", self._commander if self.machine.armed else "nobody")
        self.diagnostics.set("state", self.machine.state.name)
        self.diagnostics.set("code", self.machine.code.name)
        if self.machine.state in (State.HALTED, State.DEGRADED):
            self.diagnostics.warn(self.machine.message)

    def _see_who_speaks(self) -> None:
        found = [impostor(self, "supervisor/status"), impostor(self, "supervisor/lease")]
        if self.get_parameter("use_sim_time").value:
            found.append(second_clock(self))
        if None not in found:
            self.watch.see_speakers(next(filter(None, found), ""))

    def _judge_itself(self, now: float) -> None:
        """Whoever was not run for longer than its lease must not go on as if nothing had been."""
        gap, self._judged = now - (self._judged if self._judged is not None else now), now
        if gap > self.config.lease_duration:
            self._behind_until = now + CATCH_UP
            self._forget_questions()  # what was not heard meanwhile is nobody's silence
            self._handle(
                Event.HELD_UP,
                f"the supervisor was not run for {gap:.2f} s (lease {self.config.lease_duration:.2f} s), so that the "
                "gates stopped the joints: is the machine overloaded?",
            )

    def _handle(self, event: Event, sentence: str) -> None:
        if self.machine.handle(event, sentence):
            if self.machine.armed:
                self._arm_by_itself = False  # once: whom a person disarms stays disarmed
            text = f"{self.machine.state.name} ({self.machine.code.name}): {self.machine.message}"
            # Two calls, because rclpy remembers a severity for each place that logs.
            if self.machine.state in (State.HALTED, State.DEGRADED):
                self.get_logger().warning(text)
            else:
                self.get_logger().info(text)
            self._publish()

    def _ask_the_plant(self, now: float) -> None:
        """A simulation whose clock stands still is paused, waiting for a command, or gone: ask."""
        wall = time.monotonic()
        if (
            self.machine.state is State.STARTING
            or not self.get_parameter("use_sim_time").value
            or not self.watch.clock_stands_still(now, wall)
        ):
            self._forget_questions()
            return
        if any(question.done() for question in self._questions):
            self._forget_questions()  # alive; ask again as long as time stands still
        # An answer may get lost while both sides still find each other: the same is asked again before silence is believed.
        due = self._asked + len(self._questions) * self.config.clock_age_limit / QUESTIONS
        # A question put before the service is known would be lost, and its silence mean nothing.
        if len(self._questions) < QUESTIONS and wall >= due and self._simulation.service_is_ready():
            if not self._questions:
                self._asked = wall
            self._questions.append(self._simulation.call_async(GetSimulationState.Request()))
        elif wall - self._asked > self.config.clock_age_limit:
            self._handle(
                Event.PLANT_SILENT,
                f"time stands still and the plant has not answered for "
                f"{self.config.clock_age_limit:.1f} s: it crashed or hangs",
            )

    def _forget_questions(self) -> None:
        for question in self._questions:
            self._simulation.remove_pending_request(question)
        self._questions, self._asked = [], time.monotonic()

    # -- services ----------------------------------------------------------------------------------

    def _stop_for_operators(self) -> None:
        for _, header in take_requests(self._stop_service):
            self._stops.append(
                OperatorStop(header, time.monotonic() + self.config.stop_timeout, before=self.watch.sample)
            )
            self._handle(Event.STOP, "stopped by an operator")

    def _answer_stops(self) -> None:
        """Say that the joints rest, or how fast they still are; in turns after the one that began to stop them."""
        waiting, sample = [], self.watch.sample
        for stop in self._stops:
            known = sample is not None and sample is not stop.before
            if known and self.watch.at_rest:
                self._answer_stop(stop.header, True, "stopped: all joints are at rest")
            elif time.monotonic() < stop.deadline:
                waiting.append(stop)
            else:
                waited = f"after {self.config.stop_timeout:.1f} s"
                self._answer_stop(
                    stop.header,
                    False,
                    f"halted, but not at rest {waited}: the fastest joint moves at {np.abs(sample.velocity).max():.3f}"
                    if known
                    else f"halted; whether the joints rest is not known {waited}, since no joint states arrive",
                )
        self._stops = waiting

    def _refuse_stops(self) -> None:
        for _, header in take_requests(self._stop_service):
            self._answer_stop(header, False, "the supervisor is not active: it lends nobody the right to command")

    def _answer_stop(self, header, success: bool, message: str) -> None:
        self._stop_service.send_response(Trigger.Response(success=success, message=message), header)

    def _faults(self) -> list[str]:
        """Why nobody may command, asked by somebody who wishes to."""
        self._see_who_speaks()
        behind = ["the supervisor was held up and is catching up"] if time.monotonic() < self._behind_until else []
        return behind + [sentence for _, sentence in self.watch.faults(self._now())]

    def _on_arm(self, request, response):
        faults = self._faults()
        if self.machine.state is not State.DISARMED:
            response.message = f"nothing to arm: {self.machine.state.name}"
        elif faults:
            response.message = f"not armed: {faults[0]}"
        else:
            self._handle(Event.ARM, "armed by an operator")
            response.success, response.message = True, f"armed: {self._commander} may command"
        return response

    def _on_disarm(self, request, response):
        self._handle(Event.DISARM, "disarmed by an operator")
        response.success = self.machine.state is State.DISARMED
        response.message = "disarmed: nobody may command" if response.success else self.machine.state.name
        return response

    def _on_hand_over(self, request, response):
        """The right to command goes to a node that publishes joint commands."""
        there = {publisher.node_name for publisher in self.get_publishers_info_by_topic("joint_command")}
        if request.commander not in there:
            response.message = (
                f"'{request.commander}' publishes no joint_command; nodes that do: {', '.join(sorted(there)) or 'none'}"
            )
            return response
        self._commander = request.commander
        self._lend()
        self.get_logger().info(f"{self._commander} commands from now on")
        response.success, response.message = True, f"{self._commander} commands"
        return response

    def _on_resume(self, request, response):
        faults = self._faults()
        if self.machine.state is not State.HALTED:
            response.message = f"nothing to resume: {self.machine.state.name}"
        elif faults:
            response.message = f"still at fault: {faults[0]}"
        else:
            self._handle(Event.RESUME, "resumed by an operator")
            response.success, response.message = True, "ready"
        return response

    def _publish(self) -> None:
        message = SupervisorStatus(
            state=int(self.machine.state), code=int(self.machine.code), message=self.machine.message
        )
        message.header.stamp = self.get_clock().now().to_msg()
        self._lend()  # first: a controller that hears that it may command finds the gates open
        self.status.publish(message)

    def _lend(self) -> None:
        """Tell the gates who may command, or that nobody may and why."""
        self._lent = time.monotonic()
        lease = CommandLease(duration=self.config.lease_duration)
        if self.machine.armed:
            lease.commander = self._commander
        else:
            lease.message = f"{self.machine.state.name} ({self.machine.code.name}): {self.machine.message}"
        lease.header.stamp = self.get_clock().now().to_msg()
        self.lease.publish(lease)

    def _now(self) -> float:
        return 1e-9 * self.get_clock().now().nanoseconds


def measured_joints(model) -> list:
    """Links of the joints whose limits are watched: hinges and slides that neither float nor follow others."""
    links = Counter(link.joint for link in model.links)
    return [link for link in model.links if links[link.joint] == 1 and link.kind != "ball" and not link.follows]


def main(args=None) -> int:
    return spin_main(SupervisorNode, args)
