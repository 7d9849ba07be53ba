"""The adaptive model-predictive controller as a lifecycle node.

One callback does the work: a joint state arrives, passes the gate, is turned into a command by
`sim_core.control.AdaptiveMpc`, and the command leaves. Everything else (status, plan, diagnostics)
comes after the command. What is planned with (nodes/control/mpc_physics.py) changes only between two solves, because one
thread does both.

Page: docs/nodes/adaptive_mpc.md.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque

import numpy as np
from rclpy.action import ActionClient
from rclpy.serialization import deserialize_message
from refit_interfaces.action import Refit, RunEpisode
from refit_interfaces.msg import ControllerStatus, JointCommand, ParameterSet
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.episode import Episode
from nodes.control.mpc_messages import STATE_OF, joint_command, plan_message
from nodes.control.mpc_physics import MpcPhysics
from nodes.control.robot_task import reward_of, upright
from nodes.framework.actuation import Actuation
from nodes.framework.joint_state_gate import JointSample, JointStateGate, peek_stamp, seconds
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.long_action import LongAction, Request
from nodes.framework.parameter_book import Source
from nodes.framework.permission import Permission
from nodes.framework.qos import COMMAND, LEDGER, STATE
from sim_core.control.ampc import Command, CommandSource
from sim_core.control.path_follower import PathFollower, PathSettings, PathStep

__all__ = ["AdaptiveMpcNode", "main"]

# A first state younger than this belongs to a start or a reset [s].
ORIGIN_GRACE = 1.0


class AdaptiveMpcNode(RefitNode):
    """See the module's docstring."""

    name = "adaptive_mpc"
    Config = AdaptiveMpcConfig
    _goal = episode = _solves = sample = _step = None  # until configured

    model = property(lambda self: self.physics.model)
    book = property(lambda self: self.physics.book)
    task = property(lambda self: self.physics.task)
    mpc = property(lambda self: self.physics.mpc)
    halt_reason = property(lambda self: self.permission.denied)

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        self.physics = MpcPhysics(
            self, self._now, lambda: self.model.q_home if self.sample is None else self.sample.position
        )
        self.actuation = Actuation(self.model)
        self.joint_names = list(self.model.joint_names)
        self.gate = JointStateGate(
            self.joint_names, *((np.inf, np.inf) if config.lockstep else (config.state_age_limit, config.future_limit))
        )
        # An outage is what leaves the robot to its stop state. An episode has no path, and lock-step no outages.
        gapless = config.lockstep or config.mode == "episode"
        self._longest_gap = np.inf if gapless else max(config.state_age_limit, config.control_period)
        self._path_settings = PathSettings(
            **{field.name: getattr(config, field.name) for field in dataclasses.fields(PathSettings)}
        )
        self._path = None
        self._start_over()
        self.episodes = self.cycles = self.misses = 0
        self.episode: Episode | None = None
        self._goal = None  # handle of the running episode's goal
        self._latencies, self._solves = deque(maxlen=500), deque(maxlen=500)
        self._make_interfaces()
        self.physics.warm_up()

    def _make_interfaces(self) -> None:
        self.commands = self.create_lifecycle_publisher(JointCommand, "joint_command", COMMAND)
        self.status = self.create_lifecycle_publisher(ControllerStatus, "controller/status", STATE)
        self.plan = self.create_lifecycle_publisher(JointTrajectory, "controller/plan", STATE)
        self.permission = Permission(self, self._on_permission)
        self._made = [
            # Only the newest state is of use here, so this reader keeps one (COMMAND), whatever the writer keeps.
            self.create_subscription(JointState, "joint_states", self._on_joint_state, COMMAND, raw=True),
            self.create_subscription(ParameterSet, "refit/parameters", self.physics.offer, LEDGER),
            *self.physics.interfaces(),
            self.create_timer(0.05, self._watch, clock=self.steady_clock),
        ]
        self.refit_client = ActionClient(self, Refit, "refit") if self.config.refit == "episodic" else None
        self._refit_expected = True  # it may still be starting; once seen or waited for, absence means gone
        self.run_episode = LongAction(
            self,
            RunEpisode,
            "run_episode",
            self._begin_episode,
            self._episode_refusal,
            cancel=lambda handle: self._end_episode("canceled"),
        )

    def activate(self) -> None:
        path, sample = self._path, self.sample
        self._start_over()
        if path is not None and sample is not None:
            # A path waits for a controller that was switched off, and an arm that is elsewhere is led back to it.
            path.resume(sample.stamp)
            self._path = path

    def stop(self) -> None:
        # The declared stop state is the receiver's: it enters it when commands cease.
        self._end_episode("stopped")
        self._step = None

    def cleanup(self) -> None:
        for entity in [*getattr(self, "_made", []), *(getattr(self, n, None) for n in ("commands", "status", "plan"))]:
            if entity is not None:
                self._destroy(entity)
        self._made = []
        if hasattr(self, "permission"):
            self.permission.destroy()
        for name in ("refit_client", "run_episode"):
            if getattr(self, name, None) is not None:
                getattr(self, name).destroy()
                setattr(self, name, None)

    def _destroy(self, entity) -> None:
        for destroy in (self.destroy_subscription, self.destroy_service, self.destroy_timer, self.destroy_publisher):
            if destroy(entity):
                return

    def time_jumped_back(self) -> None:
        if hasattr(self, "physics"):
            self._forget_time()

    def _forget_time(self) -> None:
        """Time went back: drop the plan and every stamp; keep what was learnt."""
        self._start_over()
        self.book.time_jumped(self._now())

    def _start_over(self) -> None:
        self.mpc.reset()
        self.sample: JointSample | None = None
        self.refusal = ""
        self._began = time.monotonic()
        self._stamp = None  # of the newest state, as a message
        self._due = -np.inf  # stamp from which the next command is due
        self._path: PathFollower | None = None  # from the first cycle on
        self._step: PathStep | None = None  # of the newest state answered
        self._read: float | None = None  # stamp of the newest state read
        self._seen = np.nan  # and of the newest of all
        self._sent: JointCommand | None = None
        self._counted = -np.inf  # stamp of the last state counted by the episode
        self._plan_due = -np.inf
        self._arrival = 0.0
        self._waiting_for_refit = False

    # -- the control cycle -------------------------------------------------------------------------

    def _on_joint_state(self, data: bytes) -> None:
        """A joint state, still serialised: of 500 a second, 50 are due, and only those are worth reading."""
        self._arrival = time.perf_counter()
        stamp = peek_stamp(data)
        if self.config.lockstep and self._sent is not None and stamp == seconds(self._sent.header.stamp):
            if self.is_active and not self.halt_reason:
                self.commands.publish(self._sent)  # the plant says again what it has heard no answer to
            return
        if self.config.lockstep and stamp == self._seen:
            self._due = -np.inf  # it waits at this state, wherever the beat here began
        self._seen = stamp
        if self._read is not None and self._read <= stamp < self._due and self.is_active:
            return
        message = deserialize_message(data, JointState)
        sample, why = self.gate.read(message, np.nan if self.config.lockstep else self._now())
        if sample is None:
            self.refusal = why
            self.diagnostics.tick("states_refused")
            self.diagnostics.warn(why)
            return
        if self.sample is not None and sample.stamp < self.sample.stamp:
            self._forget_time()
        self.sample, self._stamp, self.refusal, self._read = sample, message.header.stamp, "", stamp
        self._cycle()

    def _cycle(self) -> None:
        """Answer the newest state, if it is time to and nothing stands against it."""
        if not self.is_active or self.halt_reason or self._waiting_for_refit or self.sample is None:
            return
        if self.config.mode == "episode" and self.episode is None:
            return
        sample, period = self.sample, self.config.control_period
        if sample.stamp < self._due:
            return
        x = np.concatenate([sample.position, sample.velocity])
        if self._path is None:
            # A path begins where time begins; where time has been running for long, it begins now.
            begin = 0.0 if sample.stamp < ORIGIN_GRACE and self.episode is None else sample.stamp
            self._path = PathFollower(self._path_settings, begin, self._longest_gap)
        step = self._step = self._path.advance(self.task, x, sample.stamp)
        if self.episode is not None and not self._advance_episode(x):
            return
        # Cycles keep to their grid, unless one came so late that the next is due already.
        self._due = (
            max(self._due + period, sample.stamp + 0.5 * period) if np.isfinite(self._due) else sample.stamp + period
        )
        self._due -= 1e-6
        if step.stopped:
            return  # the declared stop state is the receiver's; _watch says why
        command = self.mpc.command(x, step.clock, step.aim)
        self._send(command)
        # Between episodes and in free-running tracking the worker looks for changes itself, at servo rate.
        if command.change_detected and self.episode is not None:
            self.get_logger().info(
                f"change detected at {sample.stamp:.3f} s: predictions err by {command.prediction_error:.1f}"
            )
            self._refit_now(self.episode.see_change())
        self._report(command, step)
        if self.episode is not None:
            self.episode.total_cost += self._stage_cost(x, command.u, step.time)

    def _stage_cost(self, x: np.ndarray, u: np.ndarray, t: float) -> float:
        cost = self.task.cost
        return float(self.physics.stage(x, u, self.mpc.revision.mean, self.task.reference(t)[0], cost.stage_weights))

    def _send(self, command: Command) -> None:
        feedback = self.config.command_mode == "feedback"
        if command.source is CommandSource.STOP and feedback and not self.config.lockstep:
            # An arm without a plan is safer in its servos' own stop state than at zero torque.
            self.diagnostics.error(command.message)
        else:
            self._sent = joint_command(
                command, self.joint_names, self.actuation, self._stamp, command.revision, feedback, self.get_name()
            )
            self.commands.publish(self._sent)
        latency = time.perf_counter() - self._arrival
        self.cycles += 1
        self.misses += latency > self.config.control_period
        self._latencies.append(latency)
        self._solves.append(command.solve_time)

    def _report(self, command: Command, step: PathStep) -> None:
        if command.source is not CommandSource.PLAN:
            self.diagnostics.error(f"{command.source.value}: {command.message}")
        # The solver may have given up the newest set by itself, see AdaptiveMpc.
        source = (
            self.book.source
            if command.revision == self.book.revision
            else Source.LAST_GOOD
            if command.revision
            else Source.NOMINAL
        )
        self._publish_status(
            STATE_OF[command.source],
            parameters_source=int(source),
            parameters_revision=command.revision,
            solve_time=command.solve_time,
            iterations=command.iterations,
            cost=float(command.cost),
            prediction_error=float(command.prediction_error),
            tracking_error=step.error,
            message=command.message or step.message or self.book.message,
        )
        if self.config.plan_period and self.sample.stamp >= self._plan_due:
            self._plan_due = self.sample.stamp + self.config.plan_period
            solver = self.mpc.solver
            self.plan.publish(
                plan_message(solver.X, solver.U, self.task.ilqr.dt, self.joint_names, self.actuation, self._stamp)
            )

    def _publish_status(self, state: int, message: str, **values) -> None:
        status = ControllerStatus(
            **{
                "state": state,
                "parameters_source": int(self.book.source),
                "period": self.config.control_period,
                "cycles": self.cycles,
                "deadline_misses": self.misses,
                "parameters_revision": self.book.revision,
                "parameters_age": self.book.age(self._now()),
                "path_time": self._step.time if self._step is not None else 0.0,
                "message": message,
                **values,
            }
        )
        status.header.stamp = self._stamp or self.stamp_now()
        self.status.publish(status)

    def _watch(self) -> None:
        """On the wall clock: silence of states and of the refit, and a sign of life while idle."""
        now = self._now()
        self.physics.tick()
        self.permission.attend()
        if not self.is_active:
            return
        stopped = self.halt_reason
        if not stopped and not self.config.lockstep and (self.config.mode == "track" or self.episode is not None):
            # Between a start or a reset and its first joint state nothing is late yet.
            age = now - self.sample.stamp if self.sample is not None else time.monotonic() - self._began
            if age > self.config.state_age_limit:
                stopped = self.refusal or (f"no joint states for {age:.2f} s" if self.sample else "no joint states yet")
                if self.sample is not None:
                    stopped = f"stopped: {stopped} (limit {self.config.state_age_limit:.2f} s)"
        if not stopped and self._step is not None and self._step.stopped:
            stopped = self._step.message
        if stopped:
            self._publish_status(ControllerStatus.STATE_STOPPED, stopped)
        elif self.config.mode == "episode" and self.episode is None:
            self._publish_status(ControllerStatus.STATE_IDLE, "waiting for run_episode")

    def diagnose(self) -> None:
        if self._solves is None:
            return
        say = self.diagnostics.set
        self.diagnostics.set_percentiles("solve_time", self._solves)
        self.diagnostics.set_percentiles("latency", self._latencies)
        say("cycles", self.cycles)
        say("deadline_misses", self.misses)
        say("blueprint", self.physics.blueprint or "none")
        say("parameters_source", self.book.source.name)
        say("parameters_revision", self.book.revision)
        say("parameters_age", self.book.age(self._now()))
        say("prediction_error", float(self.mpc.monitor.error))
        if self.refusal:
            self.diagnostics.warn(self.refusal)
        if self.halt_reason:
            self.diagnostics.warn(self.halt_reason)
        elif self._step is not None and self._step.message:
            (self.diagnostics.error if self._step.stopped else self.diagnostics.warn)(self._step.message)

    def _on_permission(self) -> None:
        if self.permission.starting:
            return
        if self.halt_reason:
            self._end_episode(self.halt_reason)
            return
        self.mpc.reset()  # the plan made before the halt is no longer where the robot is
        if self._path is not None and self.sample is not None:
            self._path.resume(self.sample.stamp)
            self._step = None
        self._due = -np.inf
        self._cycle()  # in lock-step the present state has been waiting

    # -- episodes ----------------------------------------------------------------------------------

    def _episode_refusal(self, goal) -> str:
        if not self.is_active:
            return "not active"
        if self.config.mode != "episode":
            return "mode is 'track'; set mode: episode"
        if self._goal is not None:
            return "another episode is running"
        if len(goal.goal):
            return "goals other than the task's are not supported; leave goal empty"
        return "" if self.permission.starting else self.halt_reason

    def _begin_episode(self, handle) -> None:
        goal = handle.request
        if goal.horizon and goal.horizon != self.task.ilqr.horizon:
            self.physics.build(goal.horizon)
        self.mpc.reset()
        self._due = self._counted = -np.inf
        self._path = None
        every = self.config.refit_every if self.episodes == 0 and self.refit_client is not None else 0
        self.episodes += 1
        self._goal = handle
        self.episode = Episode(
            goal.steps or self.config.episode_steps,
            self.config.control_period,
            reward_of(self.physics.robot),
            upright(self.physics.robot, self.model),
            every,
            self.mpc.config.change_window,
        )
        self._cycle()  # in lock-step the first state has been waiting

    def _advance_episode(self, x: np.ndarray) -> bool:
        """Count state x; False if no command shall follow (the episode ended, or a refit is awaited)."""
        if self.sample.stamp == self._counted:
            return True
        episode, self._counted = self.episode, self.sample.stamp
        episode.see(x)
        self._goal.publish_feedback(
            RunEpisode.Feedback(step=episode.step, reward=episode.rewards[-1] if episode.rewards else 0.0)
        )
        if episode.finished:
            self._end_episode("")
            return False
        window = episode.refit_window()
        if window is not None:
            self._refit_now(window)
        return not self._waiting_for_refit

    def _refit_now(self, window: float) -> None:
        """A refit during the episode. In lock-step no further state is answered before it is done: time
        stands still. Otherwise control goes on, never delayed."""
        if self.refit_client is not None:
            self._waiting_for_refit = self.config.lockstep
            self._refit(self.episode, window, self._go_on)

    def _go_on(self) -> None:
        if self._waiting_for_refit:
            self._waiting_for_refit = False
            self._cycle()

    def _end_episode(self, why: str) -> None:
        """The last state has been seen, or the episode is broken off for a reason."""
        if self._goal is None or self.episode is None:
            return
        episode, self.episode, self._waiting_for_refit = self.episode, None, False
        if not why and self._goal.request.refit_at_end and self.refit_client is not None:
            self._refit(episode, episode.final_window, lambda: self._close_episode(episode, ""))
        else:
            self._close_episode(episode, why)

    def _close_episode(self, episode: Episode, why: str) -> None:
        handle, self._goal = self._goal, None
        if handle is None:
            return
        outcome = "canceled" if why == "canceled" else "abort" if why else "succeed"
        self.run_episode.finish(
            handle,
            RunEpisode.Result(
                success=not why,
                message=why or f"{episode.step} steps, score {episode.score:.3f}",
                score=episode.score,
                total_cost=episode.total_cost,
                up_time=episode.up_time,
                refits=episode.refits,
            ),
            outcome,
        )

    def _refit(self, episode: Episode, window: float, then) -> None:
        """Have the worker fit the last `window` seconds, then call `then`; a worker that does not answer is gone."""

        def done(result) -> None:
            if result is None:
                self.book.silent(self._now(), f"the refit gave no answer within {self.config.refit_wait:.0f} s")
                self.get_logger().warning(self.book.message)
            else:
                self.physics.offer(result.parameters)
                episode.refits += result.accepted
            then()

        if self.refit_client.server_is_ready() or self._refit_expected:
            self._refit_expected = False
            goal = Refit.Goal(window=window, window_end=self.sample.stamp)
            Request(self, self.refit_client, goal, self.config.refit_wait, done)
        else:
            self.book.silent(self._now(), "the refit worker is not running")
            self.get_logger().warning(self.book.message)
            then()

    def _now(self) -> float:
        return 1e-9 * self.get_clock().now().nanoseconds


def main(args=None) -> int:
    return spin_main(AdaptiveMpcNode, args)
