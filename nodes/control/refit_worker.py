"""The refit in a process of its own: joint states in, versioned physical parameters out.

Samples are taken in batches. Fits run in a thread, one at a time; samples that arrive meanwhile wait in
line, so that a round sees exactly the samples up to its window end, however long it takes. Whatever happens in here,
the controller only ever sees a message on `refit/parameters`, or none.

Page: docs/nodes/refit_worker.md.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
from refit_interfaces.action import Refit
from refit_interfaces.msg import Parameter, ParameterSet, PlanningModel
from refit_interfaces.srv import LoadBlueprint, SetParameterSet
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

from config.description import Robot
from nodes.control.refit_session import RefitSession, Round, session_model
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.control.robot_task import own_hash, quantities
from nodes.framework.joint_state_gate import JointSample, JointStateGate
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.long_action import LongAction
from nodes.framework.parameter_book import other_model
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import LATCHED, LEDGER, STATE
from sim_core.augmentation import attached, augment, save_blueprints
from sim_core.multibody import PhysicalCheck
from sim_core.multibody.model.parameter_file import ParameterFile

__all__ = ["RefitWorkerNode", "main"]

# A requested round waits this long for the sample it is to end with [s of wall time].
SAMPLE_WAIT = 2.0
# Time between two looks for new samples [s]; the reader keeps those of half a second at 1 kHz.
TAKE_PERIOD = 0.02


class RefitWorkerNode(RefitNode):
    """See the module's docstring."""

    name = "refit_worker"
    Config = RefitWorkerConfig

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        self.model = session_model(self.config)
        self._check = PhysicalCheck(self.model)
        self.session = RefitSession(self.model, self.config)
        self.gate = JointStateGate(self.model.joint_names)
        self.frozen = False
        self._queue: deque[JointSample] = deque()
        self._thread: threading.Thread | None = None
        self._outcome: Round | Exception | None = None
        self._loading: threading.Thread | None = None
        self._loaded = None  # (blueprint, the refit around it or why there is none), until no fit runs
        self._planned: PlanningModel | None = None  # what the controller plans with
        self._behind = False  # not yet followed there
        self._obstacle = ""  # why it cannot be followed
        self._kept: dict[int, Path] = {}  # number of exchanges -> file of the networks, in the run's directory
        self._request = None  # goal handle that waits for its sample or for its fit
        self._requested = False  # the fit that runs is that request's
        self._deadline = 0.0
        self._frozen_due = -np.inf
        self.parameters = self.create_publisher(ParameterSet, "refit/parameters", LEDGER)
        self._states = create_polled_subscription(self, JointState, "joint_states", STATE)
        self._controller = self.create_subscription(PlanningModel, "controller/model", self._on_planned, LATCHED)
        self._made = [
            self.create_service(SetBool, "~/freeze", self._freeze),
            self.create_service(SetParameterSet, "~/set", self._set),
            self.create_service(LoadBlueprint, "~/load_blueprint", self._load_blueprint),
        ]
        self._action = LongAction(self, Refit, "refit", self._on_request, self._request_refusal)
        self._timer = self.create_timer(TAKE_PERIOD, self._turn, clock=self.steady_clock)
        self.session.warm_up()

    def activate(self) -> None:
        take(self._states)  # what was before does not count
        self._queue.clear()

    def cleanup(self) -> None:
        if getattr(self, "_action", None) is not None:
            self._action.destroy()
            self.destroy_timer(self._timer)
            self.destroy_subscription(self._states)
            self.destroy_subscription(self._controller)
            for service in self._made:
                self.destroy_service(service)
            self.destroy_publisher(self.parameters)
            self._action = None

    def time_jumped_back(self) -> None:
        # The samples themselves say so, at an exact place in their sequence; the clock only says it
        # some time around then, which no replay could repeat.
        pass

    # -- samples -----------------------------------------------------------------------------------

    def _turn(self) -> None:
        if self.is_active:
            self._receive()
            self._drain()
        else:
            self._serve()

    def _receive(self) -> None:
        """Queue the samples that have arrived."""
        for message, _ in take(self._states):
            sample, why = self.gate.read(message)
            if sample is None:
                self.diagnostics.tick("states_refused")
                self.diagnostics.warn(why)
                continue
            self.diagnostics.tick("states")
            self._queue.append(sample)

    def _drain(self) -> None:
        """Hand queued samples to the session; start a periodic round if one is due with the newest.

        A fit that took longer than a period is followed by one over the newest window, not by all that
        were missed: old news would delay what matters now.
        """
        if self._thread is not None:
            return
        while self._queue and self._thread is None:
            self.session.see(self._queue.popleft())
            self._serve()  # before a later sample is seen: a requested round knows none after its window's end
        if self._thread is not None:
            return
        if self.session.due and not self.frozen:
            self._start()
            return
        if (
            self.frozen
            and self.config.schedule == "periodic"
            and abs(self.session.newest - self._frozen_due) > self.config.period
        ):
            # A sign of life, so that nobody takes a frozen worker for a lost one.
            self._frozen_due = self.session.newest
            self._publish(Round(None, False, "frozen", self.session.p, self.session.online.revision, 0.0, 0.0))
        self._serve()

    # -- rounds ------------------------------------------------------------------------------------

    def _start(self, window: float = 0.0, window_end: float = 0.0) -> None:
        def work() -> None:
            try:
                self._outcome = self.session.round(window, window_end)
            except Exception as error:  # the worker outlives any fit; what went wrong is published
                self._outcome = error
            if self.executor is not None:
                self.executor.create_task(self._on_fitted)

        # A daemon: an ending process does not wait for a fit.
        self._thread = threading.Thread(target=work, name="fit", daemon=True)
        self._thread.start()

    def _on_fitted(self) -> None:
        if self._thread is None or self._outcome is None:
            return
        self._thread.join()
        outcome, self._thread, self._outcome = self._outcome, None, None
        if isinstance(outcome, Exception):
            self.get_logger().error(f"fit failed: {type(outcome).__name__}: {outcome}")
            self.diagnostics.error(f"fit failed: {outcome}")
            outcome = Round(
                None, False, f"fit failed: {outcome}", self.session.p, self.session.online.revision, 0.0, 0.0
            )
        message = self._publish(outcome)
        if outcome.accepted:
            self._write(outcome)
        self._say(outcome)
        if self._requested:
            handle, self._request, self._requested = self._request, None, False
            self._action.finish(
                handle, Refit.Result(accepted=message.accepted, message=message.message, parameters=message)
            )
        self._exchange()
        self._drain()

    def _say(self, outcome: Round) -> None:
        verdict = "accepted" if outcome.accepted else "rejected"
        self.diagnostics.tick(verdict)
        self.diagnostics.set("revision", outcome.revision)
        self.diagnostics.set("last", outcome.reason)
        if outcome.result is not None:
            self.diagnostics.set("fit_time", outcome.result.fit_time)
            self.diagnostics.set("iterations", outcome.result.iterations)
        self.get_logger().debug(f"{verdict}: {outcome.reason}")

    def _publish(self, outcome: Round) -> ParameterSet:
        message = parameter_set(self.session.robot, self.session.hybrid.hash, outcome)
        message.header.stamp = self.get_clock().now().to_msg()
        self.parameters.publish(message)
        return message

    def _write(self, outcome: Round) -> None:
        """Keep an accepted revision on disk, whole or not at all."""
        if not self.config.run_directory:
            return
        result, nominal = outcome.result, self.model.parameters.nominal
        jacobian = result.spec.jacobian(result.xi)
        # What was estimated before, and is held now, is of the set as well.
        moved = [n for n, a, b in zip(self.model.parameters.names, outcome.p, nominal) if a != b]
        file = ParameterFile.from_vector(
            self.model,
            outcome.p,
            jacobian @ result.covariance @ jacobian.T,
            names=dict.fromkeys([*result.spec.written, *moved]),
            model_hash=own_hash(self.session.robot, self.model),
        )
        folder = Path(self.config.run_directory)
        try:
            networks = self._keep(folder)
            replace(file, blueprint=networks and f"../{networks}").save(
                folder / "revisions" / f"revision-{outcome.revision:04d}.yaml"
            )
            replace(file, blueprint=networks).save(folder / "parameters.yaml")
        except OSError as error:
            self.get_logger().error(f"revision {outcome.revision} not written to {folder}: {error.strerror}")
            self.diagnostics.error(f"revision {outcome.revision} not written: {error.strerror}")

    def _keep(self, folder: Path) -> str:
        """The networks in force as a file in the run's directory, written once; its path from there, or ""."""
        session = self.session
        if not session.blueprint:
            return ""
        if session.blueprints not in self._kept:
            path = folder / "networks" / f"{session.blueprints}" / "blueprint.yaml"
            self._kept[session.blueprints] = save_blueprints(path, attached(session.hybrid))
        return str(self._kept[session.blueprints].relative_to(folder))

    def diagnose(self) -> None:
        if getattr(self, "_action", None) is not None:
            self.diagnostics.set("blueprint", self.session.blueprint or "none")
            planned = self._planned
            if planned is not None and (why := other_model(self.session.hybrid.hash, planned.model_hash)):
                self.diagnostics.warn(
                    f"the controller plans with {planned.blueprint or 'no networks'} and refuses refits from here: they are "
                    f"{why} ({self._obstacle or ('being compiled' if self._loading else 'load_blueprint on both')})"
                )

    # -- requests ----------------------------------------------------------------------------------

    def _request_refusal(self, goal) -> str:
        if not self.is_active:
            return "not active"
        return "frozen" if self.frozen else "another request is being served" if self._request is not None else ""

    def _on_request(self, handle) -> None:
        self._request, self._deadline = handle, time.monotonic() + SAMPLE_WAIT
        self._turn()

    def _serve(self) -> None:
        """Start the requested fit once the sample it is to end with is here, or will not come."""
        if self._request is None or self._thread is not None:
            return
        goal = self._request.request
        if goal.window_end <= self.session.newest + 1e-9 or time.monotonic() > self._deadline:
            self._requested = True
            self._start(goal.window or self.config.window, goal.window_end)

    def _freeze(self, request, response):
        self.frozen = request.data
        response.success = True
        response.message = "frozen" if self.frozen else f"refitting again from revision {self.session.online.revision}"
        return response

    def _set(self, request, response):
        online = self.session.online
        response.revision = online.revision
        vector = np.array(request.parameters.vector, dtype=float)
        if self._thread is not None:
            response.message = "a fit is running; try again"
        elif why := other_model(request.parameters.model_hash, self.session.hybrid.hash):
            response.message = why
        elif why := self._check.objection(vector):
            response.message = why
        else:
            try:
                response.revision = self.session.set_parameters(vector)
                response.success, response.message = True, f"revision {response.revision} set by a person"
            except ValueError as error:
                response.message = str(error)
        return response

    # -- networks ----------------------------------------------------------------------------------

    def _load_blueprint(self, request, response):
        """Fit around other networks: checked now, compiled beside the fits, put in between two of them."""
        session = self.session
        response.revision, response.weights = session.blueprints, session.hybrid.np_ - self.model.np_
        if self._loading is not None:
            response.message = "another blueprint is being compiled; try again"
            return response
        try:
            weights = self._with(request.blueprint).np_ - self.model.np_
        except (ValueError, OSError) as error:
            response.message = f"{error}; the model before stays"
            return response
        self._compile(request.blueprint)
        response.success, response.revision, response.weights = True, session.blueprints + 1, weights
        response.message = f"fitted around {weights} weights as soon as that is compiled (see diagnostics)"
        return response

    def _with(self, blueprint: str):
        """The model with the networks of a file, or with none."""
        return augment(self.model, blueprint) if blueprint else self.model

    def _on_planned(self, message: PlanningModel) -> None:
        self._planned, self._behind = message, True
        self._follow()

    def _follow(self) -> None:
        """Fit around the networks that the controller has come to plan with: it refuses what is fitted around others."""
        if not self._behind or self._loading is not None:
            return
        planned, self._behind, self._obstacle = self._planned, False, ""
        if planned.model_hash == self.session.hybrid.hash:
            return
        try:
            if why := other_model(planned.model_hash, self._with(planned.blueprint).hash):
                raise ValueError(f"what {planned.blueprint or 'this model'} holds here is another: {why}")
        except (ValueError, OSError) as error:
            self._obstacle = str(error)
            self.get_logger().warning(f"cannot follow the controller: {error}")
            return
        self._compile(planned.blueprint)

    def _compile(self, blueprint: str) -> None:
        """Build the refit around other networks in a thread of its own."""
        session = self.session

        def build() -> None:
            try:
                built = session.around(blueprint)
            except Exception as error:  # fits go on with the model they have
                built = error
            if self.executor is not None:
                self.executor.create_task(self._on_built, session, blueprint, built)

        self._loading = threading.Thread(target=build, name="blueprint", daemon=True)
        self._loading.start()

    def _on_built(self, session: RefitSession, blueprint: str, built) -> None:
        if session is self.session:  # not configured anew meanwhile
            self._loaded = blueprint, built
            self._exchange()

    def _exchange(self) -> None:
        """Put in the networks that are ready; not while a fit runs on those before."""
        if self._loaded is None or self._thread is not None:
            return
        (blueprint, built), self._loaded, self._loading = self._loaded, None, None
        if isinstance(built, Exception):
            self.get_logger().error(f"the model with '{blueprint}' cannot be used ({built}); the one before stays")
            self.diagnostics.error(f"the model with '{blueprint}' cannot be used: {built}")
            self._obstacle = str(built)
        else:
            self.session.exchange(blueprint, built)
            self.get_logger().info(f"fits around the networks of {blueprint}" if blueprint else "fits without networks")
        self._follow()


def parameter_set(robot: Robot, model_hash: str, outcome: Round) -> ParameterSet:
    """A round as a message: the vector for the controller, the estimates for people. The hash is of the model that was fitted."""
    message = ParameterSet(
        robot=robot.name,
        model_hash=model_hash,
        revision=outcome.revision,
        source=ParameterSet.SOURCE_REFIT,
        accepted=outcome.accepted,
        vector=outcome.p.tolist(),
        window_start=outcome.window_start,
        window_end=outcome.window_end,
        loss_before=np.nan,
        loss_after=np.nan,
        message=outcome.reason,
    )
    result = outcome.result
    if result is None:
        return message
    message.loss_before, message.loss_after = float(result.loss_before), float(result.loss_after)
    message.rank, message.fit_time = int(result.rank), float(result.fit_time)
    message.parameters = [
        Parameter(
            name=e.name,
            unit=e.unit,
            value=e.value,
            std=e.std,
            lower=e.lower,
            upper=e.upper,
            free=True,
            excited=e.name not in result.unexcited,
            at_bound=e.name in result.at_bound,
        )
        for e in quantities(robot, result.spec, result.xi, result.covariance)
    ]
    return message


def main(args=None) -> int:
    return spin_main(RefitWorkerNode, args)
