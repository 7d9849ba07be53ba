"""The adaptive model-predictive controller as a lifecycle node.

One callback does the work: a joint state arrives, passes the gate, is turned into a command by
`sim_core.control.AdaptiveMpc`, and the command leaves. Everything else (status, plan, diagnostics)
comes after the command. Parameters change only between two solves, because one thread does both.

Page: docs/nodes/adaptive_mpc.md.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
from rclpy.action import ActionClient
from rclpy.serialization import deserialize_message
from refit_interfaces.action import Refit, RunEpisode
from refit_interfaces.msg import ControllerStatus, JointCommand, ParameterSet, SupervisorStatus
from refit_interfaces.srv import LoadBlueprint, SetParameterSet, SetParticleSet
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from nodes.actuation import Actuation
from nodes.config import setting
from nodes.episode import Episode
from nodes.joint_state_gate import JointSample, JointStateGate, peek_stamp
from nodes.lifecycle import RefitNode, spin_main
from nodes.long_action import LongAction, Request
from nodes.mpc_messages import STATE_OF, joint_command, plan_message
from nodes.parameter_book import ParameterBook, Source
from nodes.particles import vectors_of
from nodes.path_clock import PathClock
from nodes.profiles import control_task, physical_vector, reward_of, upright
from nodes.qos import COMMAND, LEDGER, STATE
from sim_core.articulated import build, load_model
from sim_core.augmentation import augment, with_weights
from sim_core.control.ampc import AdaptiveMpc, AmpcConfig, Command, CommandSource
from sim_core.inference.herding import herd

__all__ = ["AdaptiveMpcConfig", "AdaptiveMpcNode", "main"]

# A first state younger than this belongs to a start or a reset [s].
ORIGIN_GRACE = 1.0


@dataclass(frozen=True)
class AdaptiveMpcConfig:
    """Parameters of `adaptive_mpc`."""

    robot: str = setting("panda", description="model in config/robots")
    mode: str = setting("track", choices=("track", "episode"),
                        description="track a path from activation on, or wait for run_episode")
    command_mode: str = setting("feedback", choices=("feedback", "effort"),
                                description="send the feedback law with every command, or the effort alone")
    lockstep: bool = setting(False, description="the plant waits for every command; ages are not checked")
    control_period: float = setting(0.02, "s", (0.001, 0.2), "time between commands")
    horizon: int = setting(0, "steps", (0, 200), "lookahead; 0: the task's own")
    max_iterations: int = setting(0, "", (0, 100), "solver iterations per cycle; 0: the task's own")
    time_budget: float = setting(0.0, "s", (0.0, 1.0), "per solve; 0: none")
    delay_steps: int = setting(0, "periods", (0, 10), "known delay between command and effect")
    state_age_limit: float = setting(0.1, "s", (0.005, 5.0), "joint states older than this are refused; "
                                     "silence beyond it stops control")
    future_limit: float = setting(0.5, "s", (0.0, 10.0), "stamps further ahead than this are refused")
    refit: str = setting("periodic", choices=("off", "periodic", "episodic"),
                         description="who starts refits: nobody, the worker's own period, or this node's episodes")
    refit_silence_limit: float = setting(2.0, "s", (0.0, 60.0), "a periodic refit silent for longer is lost; 0: never")
    nominal_after: float = setting(10.0, "s", (0.1, 3600.0), "silence after which nominal parameters return")
    recipe: str = setting("robust", choices=("robust", "literal"), description="for cart-poles: the published recipe "
                          "plans with semi-implicit Euler and detects no changes")
    refit_wait: float = setting(10.0, "s", (0.1, 120.0), "wall time an episodic refit is waited for in lock-step")
    refit_every: int = setting(50, "steps", (0, 10000), "refit rhythm within the first episode; 0: none")
    particles: int = setting(1, "", (1, 16), "hypotheses about the physics that are planned on at once, their mean cost counts; see "
                             "set_particles")
    physical_parameters: str = setting("", description="parameter file to start from; "
                                       "empty: the model's own values; start: the published wrong start of a cart-pole")
    blueprint: str = setting("", description="trained networks in the model's equations to start with; empty: none; see load_blueprint")
    episode_steps: int = setting(140, "steps", (1, 100000), "length of an episode whose goal does not say")
    plan_period: float = setting(0.1, "s", (0.0, 10.0), "time between published plans; 0: none")
    path_width: float = setting(0.15, "m", (0.0, 0.4), "half width of the tracked figure eight, along y")
    path_height: float = setting(0.1, "m", (0.0, 0.3), "half height of the tracked figure eight, along z")
    path_period: float = setting(4.0, "s", (0.5, 60.0), "time of one round")


class AdaptiveMpcNode(RefitNode):
    """See the module's docstring."""

    name = "adaptive_mpc"
    Config = AdaptiveMpcConfig
    event_driven = True
    _goal = episode = _solves = _loading = None        # until configured

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        self.model = load_model(config.robot)
        self.hybrid, self.blueprint, self.blueprints = self.model, config.blueprint, 0
        if config.blueprint:
            self.hybrid = augment(self.model, config.blueprint)
        start = physical_vector(self.model, config.physical_parameters)
        self.mass_matrix = build.mass_matrix(self.model)
        silence = config.refit_silence_limit if config.refit == "periodic" else 0.0
        self.book = ParameterBook(config.robot, self.model.hash, start, silence, config.nominal_after, self._not_physical)
        self.actuation = Actuation(self.model)
        self.joint_names = list(self.model.joint_names)
        self.gate = JointStateGate(self.joint_names, *((np.inf, np.inf) if config.lockstep else
                                                       (config.state_age_limit, config.future_limit)))
        # An outage is what leaves the robot to its stop state. An episode has no path, and lock-step no outages.
        gapless = config.lockstep or config.mode == "episode"
        self._longest_gap = np.inf if gapless else max(config.state_age_limit, config.control_period)
        self._build(config.horizon)
        self._start_over()
        self.episodes = self.cycles = self.misses = 0
        self.halt_reason = ""
        self.episode: Episode | None = None
        self._goal = None                        # handle of the running episode's goal
        self._latencies, self._solves = deque(maxlen=500), deque(maxlen=500)
        self._make_interfaces()
        # The first solve compiles nothing but touches every page of the kernels: do it before it counts.
        self.mpc.command(np.concatenate([self.model.q_home, np.zeros(self.model.nv)]), 0.0)
        self.mpc.reset()

    def _build(self, horizon: int) -> None:
        self._use(self.hybrid, *self._controller(self.hybrid, horizon))

    def _controller(self, hybrid, horizon: int):
        """(task, AdaptiveMpc) of the model with the networks that are in its equations, on the parameters in force."""
        config = self.config
        task = control_task(hybrid, config, horizon)
        # The published recipe has no change detection.
        factor = {"change_factor": np.inf} if config.recipe == "literal" else {}
        settings = AmpcConfig(config.delay_steps, config.time_budget, particles=config.particles, **factor)
        return task, AdaptiveMpc(task, settings, p=with_weights(hybrid, self.book.p))

    def _use(self, hybrid, task, mpc) -> None:
        self.hybrid, self.task, self.mpc = hybrid, task, mpc
        self.stage = self.task.cost.functions()["stage"]

    def _make_interfaces(self) -> None:
        self.commands = self.create_lifecycle_publisher(JointCommand, "joint_command", COMMAND)
        self.status = self.create_lifecycle_publisher(ControllerStatus, "controller/status", STATE)
        self.plan = self.create_lifecycle_publisher(JointTrajectory, "controller/plan", STATE)
        self._made = [
            # Only the newest state is of use here, so this reader keeps one (COMMAND), whatever the writer keeps.
            self.create_subscription(JointState, "joint_states", self._on_joint_state, COMMAND, raw=True),
            self.create_subscription(ParameterSet, "refit/parameters", self._on_parameters, LEDGER),
            self.create_subscription(SupervisorStatus, "supervisor/status", self._on_supervisor, LEDGER),
            self.create_service(SetParameterSet, "~/set_physical_parameters", self._set_physical_parameters),
            self.create_service(SetParticleSet, "~/set_particles", self._set_particles),
            self.create_service(LoadBlueprint, "~/load_blueprint", self._load_blueprint),
            self.create_service(SetBool, "~/freeze", self._freeze),
            self.create_timer(0.05, self._watch, clock=self.steady_clock),
        ]
        self.refit_client = ActionClient(self, Refit, "refit") if self.config.refit == "episodic" else None
        self._refit_expected = True         # it may still be starting; once seen or waited for, absence means gone
        self.run_episode = LongAction(self, RunEpisode, "run_episode", self._begin_episode, self._episode_refusal,
                                      cancel=lambda handle: self._end_episode("canceled"))

    def activate(self) -> None:
        self._start_over()

    def stop(self) -> None:
        # The declared stop state is the receiver's: it enters it when commands cease.
        self._end_episode("stopped")

    def cleanup(self) -> None:
        for entity in [*getattr(self, "_made", []), *(getattr(self, n, None) for n in ("commands", "status", "plan"))]:
            if entity is not None:
                self._destroy(entity)
        self._made = []
        for name in ("refit_client", "run_episode"):
            if getattr(self, name, None) is not None:
                getattr(self, name).destroy()
                setattr(self, name, None)

    def _destroy(self, entity) -> None:
        for destroy in (self.destroy_subscription, self.destroy_service, self.destroy_timer, self.destroy_publisher):
            if destroy(entity):
                return

    def time_jumped_back(self) -> None:
        if hasattr(self, "mpc"):
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
        self._stamp = None                       # of the newest state, as a message
        self._due = -np.inf                      # stamp from which the next command is due
        self._path_clock: PathClock | None = None       # from the first cycle on
        self._path_time = 0.0                    # along the path, of the newest state answered
        self._read: float | None = None          # stamp of the newest state read
        self._counted = -np.inf                  # stamp of the last state counted by the episode
        self._plan_due = -np.inf
        self._arrival = 0.0
        self._waiting_for_refit = False

    # -- the control cycle -------------------------------------------------------------------------

    def _on_joint_state(self, data: bytes) -> None:
        """A joint state, still serialised: of 500 a second, 50 are due, and only those are worth reading."""
        self._arrival = time.perf_counter()
        stamp = peek_stamp(data)
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
        if self._path_clock is None:
            # A path begins where time begins; where time has been running for long, it begins now.
            begin = 0.0 if sample.stamp < ORIGIN_GRACE and self.episode is None else sample.stamp
            self._path_clock = PathClock(begin, self._longest_gap)
        self._path_time = self._path_clock.advance(sample.stamp)
        if self.episode is not None and not self._advance_episode(x):
            return
        # Cycles keep to their grid, unless one came so late that the next is due already.
        self._due = max(self._due + period, sample.stamp + 0.5 * period) if np.isfinite(self._due) else sample.stamp + period
        self._due -= 1e-6
        command = self.mpc.command(x, self._path_time)
        self._send(command)
        # Between episodes and in free-running tracking the worker looks for changes itself, at servo rate.
        if command.change_detected and self.episode is not None:
            self.get_logger().info(f"change detected at {sample.stamp:.3f} s: predictions err by {command.prediction_error:.1f}")
            self._refit_now(self.episode.see_change())
        self._report(command, x)
        if self.episode is not None:
            self.episode.total_cost += self._stage_cost(x, command.u, self._path_time)

    def _stage_cost(self, x: np.ndarray, u: np.ndarray, t: float) -> float:
        cost = self.task.cost
        return float(self.stage(x, u, self.mpc.revision.mean, self.task.reference(t)[0], cost.stage_weights))

    def _send(self, command: Command) -> None:
        feedback = self.config.command_mode == "feedback"
        if command.source is CommandSource.STOP and feedback and not self.config.lockstep:
            # An arm without a plan is safer in its servos' own stop state than at zero torque.
            self.diagnostics.error(command.message)
        else:
            self.commands.publish(joint_command(command, self.joint_names, self.actuation, self._stamp,
                                                command.revision, feedback))
        latency = time.perf_counter() - self._arrival
        self.cycles += 1
        self.misses += latency > self.config.control_period
        self._latencies.append(latency)
        self._solves.append(command.solve_time)

    def _report(self, command: Command, x: np.ndarray) -> None:
        if command.source is not CommandSource.PLAN:
            self.diagnostics.error(f"{command.source.value}: {command.message}")
        # The solver may have given up the newest set by itself, see AdaptiveMpc.
        source = (self.book.source if command.revision == self.book.revision
                  else Source.LAST_GOOD if command.revision else Source.NOMINAL)
        self._publish_status(
            STATE_OF[command.source], parameters_source=int(source), parameters_revision=command.revision, solve_time=command.solve_time, iterations=command.iterations,
            cost=float(command.cost), prediction_error=float(command.prediction_error),
            tracking_error=float(self.task.error(x, self._path_time)),
            message=command.message or self.book.message)
        if self.config.plan_period and self.sample.stamp >= self._plan_due:
            self._plan_due = self.sample.stamp + self.config.plan_period
            solver = self.mpc.solver
            self.plan.publish(plan_message(solver.X, solver.U, self.task.ilqr.dt, self.joint_names, self.actuation, self._stamp))

    def _publish_status(self, state: int, message: str, **values) -> None:
        status = ControllerStatus(**{
            "state": state, "parameters_source": int(self.book.source), "period": self.config.control_period,
            "cycles": self.cycles, "deadline_misses": self.misses, "parameters_revision": self.book.revision,
            "parameters_age": self.book.age(self._now()), "message": message, **values})
        status.header.stamp = self._stamp or self.stamp_now()
        self.status.publish(status)

    def _watch(self) -> None:
        """On the wall clock: silence of states and of the refit, and a sign of life while idle."""
        now = self._now()
        revision = self.book.revision
        if self.book.tick(now):
            if self.book.revision != revision:      # a last good set is in use already
                self._adopt()
            self.get_logger().warning(self.book.message)
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
        if stopped:
            self._publish_status(ControllerStatus.STATE_STOPPED, stopped)
        elif self.config.mode == "episode" and self.episode is None:
            self._publish_status(ControllerStatus.STATE_IDLE, "waiting for run_episode")

    def diagnose(self) -> None:
        if self._solves is None:
            return
        say = self.diagnostics.set
        if len(self._solves) >= 2:
            for q in (50, 95, 99):
                say(f"solve_time_p{q}", float(np.percentile(self._solves, q)))
                say(f"latency_p{q}", float(np.percentile(self._latencies, q)))
        say("cycles", self.cycles)
        say("deadline_misses", self.misses)
        say("blueprint", self.blueprint or "none")
        say("parameters_source", self.book.source.name)
        say("parameters_revision", self.book.revision)
        say("parameters_age", self.book.age(self._now()))
        say("prediction_error", float(self.mpc.monitor.error))
        if self.refusal:
            self.diagnostics.warn(self.refusal)
        if self.halt_reason:
            self.diagnostics.warn(self.halt_reason)

    # -- parameters --------------------------------------------------------------------------------

    def _on_parameters(self, message: ParameterSet) -> None:
        source, revision = self.book.source, self.book.revision
        why = self.book.offer(message, self._now())
        if message.accepted and why:
            self.get_logger().warning(self.book.message)
            self.diagnostics.warn(self.book.message)
        if (source, revision) != (self.book.source, self.book.revision):
            self._adopt()

    def _adopt(self) -> None:
        self.mpc.set_parameters(with_weights(self.hybrid, self.book.p), self.book.revision)

    def _load_blueprint(self, request, response):
        """Swap the networks in the equations: checked now, compiled beside control, put in between two solves."""
        response.revision, response.weights = self.blueprints, len(self.hybrid.parameters) - len(self.model.parameters)
        if self._loading is not None:
            response.message = "another blueprint is being compiled; try again"
            return response
        try:
            hybrid = augment(self.model, request.blueprint) if request.blueprint else self.model
        except (ValueError, OSError) as error:
            response.message = f"{error}; the model before stays"
            return response

        def build():
            try:
                built = self._controller(hybrid, self.task.ilqr.horizon)
                # The first solve touches every page of the kernels: not while the robot waits.
                built[1].command(np.concatenate([self.model.q_home, np.zeros(self.model.nv)]), 0.0)
                built[1].reset()
            except Exception as error:      # control goes on with the model it has
                built = error
            self.executor.create_task(self._on_built, hybrid, request.blueprint, built)

        self._loading = threading.Thread(target=build, name="blueprint", daemon=True)
        self._loading.start()
        response.success, response.revision = True, self.blueprints + 1
        response.weights = len(hybrid.parameters) - len(self.model.parameters)
        response.message = f"planned with {response.weights} weights as soon as that is compiled (see diagnostics)"
        return response

    def _on_built(self, hybrid, blueprint: str, built) -> None:
        self._loading = None
        if isinstance(built, Exception):
            self.get_logger().error(f"the model with '{blueprint}' cannot be used ({built}); the one before stays")
            self.diagnostics.error(f"the model with '{blueprint}' cannot be used: {built}")
            return
        self._use(hybrid, *built)
        self._adopt()                       # parameters may have come meanwhile
        self.blueprint, self.blueprints = blueprint, self.blueprints + 1
        self.get_logger().info(f"plans with the networks of {blueprint}" if blueprint else "plans without networks")

    def _not_physical(self, p: np.ndarray) -> str:
        """The sentence why p cannot be planned with, or ""."""
        q = self.model.q_home if self.sample is None else self.sample.position
        M = np.asarray(self.mass_matrix(q, p), dtype=float)
        return "" if np.all(np.linalg.eigvalsh(M) > 0.0) else "the mass matrix is not positive definite where the robot is"

    def _set_physical_parameters(self, request, response):
        response.revision, response.message = self.book.set_by_person(request.parameters, self._now())
        response.success = not response.message
        if response.success:
            self._adopt()
            response.message = self.book.message
        return response

    def _set_particles(self, request, response):
        """Plan on several hypotheses: those that stand for the set, as many as this controller was built for."""
        particles, response.revision = request.particles, self.book.revision
        try:
            vectors = vectors_of(particles, self.model.np_)
            shown = np.reshape(particles.values, (len(vectors), -1)) if len(particles.values) else vectors
            vectors = vectors[herd(shown, self.config.particles)]
        except ValueError as error:
            response.message = str(error)
            return response
        if self.config.particles == 1:
            response.message = "this controller plans on one set of parameters; start it with particles of 2 or more"
            return response
        response.revision, response.message = self.book.set_particles(particles, vectors, self._now())
        response.success = not response.message
        if response.success:
            self._adopt()
            response.message = self.book.message
        return response

    def _freeze(self, request, response):
        self.book.frozen = request.data
        response.success = True
        response.message = (f"frozen at revision {self.book.revision}" if request.data else "refits are adopted again")
        return response

    def _on_supervisor(self, message: SupervisorStatus) -> None:
        was_halted = bool(self.halt_reason)
        halted = message.state in (SupervisorStatus.STATE_HALTED, SupervisorStatus.STATE_SHUTDOWN)
        self.halt_reason = f"halted by the supervisor: {message.message}" if halted else ""
        if halted:
            self._end_episode(self.halt_reason)
        elif was_halted:
            self.mpc.reset()    # the plan made before the halt is no longer where the robot is
            if self._path_clock is not None and self.sample is not None:
                self._path_clock.stand_still(self.sample.stamp)

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
        return self.halt_reason

    def _begin_episode(self, handle) -> None:
        goal = handle.request
        if goal.horizon and goal.horizon != self.task.ilqr.horizon:
            self._build(goal.horizon)
        self.mpc.reset()
        self._due = self._counted = -np.inf
        self._path_clock = None
        every = self.config.refit_every if self.episodes == 0 and self.refit_client is not None else 0
        self.episodes += 1
        self._goal = handle
        self.episode = Episode(goal.steps or self.config.episode_steps, self.config.control_period, reward_of(self.model),
                               upright(self.model), every, self.mpc.config.change_window)
        self._cycle()                       # in lock-step the first state has been waiting

    def _advance_episode(self, x: np.ndarray) -> bool:
        """Count state x; False if no command shall follow (the episode ended, or a refit is awaited)."""
        if self.sample.stamp == self._counted:
            return True
        episode, self._counted = self.episode, self.sample.stamp
        episode.see(x)
        self._goal.publish_feedback(RunEpisode.Feedback(
            step=episode.step, reward=episode.rewards[-1] if episode.rewards else 0.0))
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
        self.run_episode.finish(handle, RunEpisode.Result(
            success=not why, message=why or f"{episode.step} steps, score {episode.score:.3f}", score=episode.score,
            total_cost=episode.total_cost, up_time=episode.up_time, refits=episode.refits), outcome)

    def _refit(self, episode: Episode, window: float, then) -> None:
        """Have the worker fit the last `window` seconds, then call `then`; a worker that does not answer is gone."""
        def done(result):
            if result is None:
                self.book.silent(self._now(), f"the refit gave no answer within {self.config.refit_wait:.0f} s")
                self.get_logger().warning(self.book.message)
            else:
                self._on_parameters(result.parameters)
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
