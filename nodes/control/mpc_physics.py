"""The physics that adaptive_mpc plans with: parameters, particles and networks, and how they change between two solves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from nav_msgs.msg import Path as PathMessage
from refit_interfaces.msg import ParameterSet, PlanningModel
from refit_interfaces.srv import LoadBlueprint, SetParameterSet, SetParticleSet
from std_srvs.srv import SetBool

from config.description import Track
from config.robot import load_robot
from nodes.control.mpc_messages import path_message
from nodes.control.robot_task import blueprint_of, control_task, physical_vector, robot_model, tool_path
from nodes.framework.parameter_book import ParameterBook
from nodes.framework.particles import vectors_of
from nodes.framework.qos import LATCHED
from sim_core.augmentation import augment, with_weights
from sim_core.control.ampc import AdaptiveMpc, AmpcConfig
from sim_core.inference.posterior.herding import herd
from sim_core.multibody import PhysicalCheck

__all__ = ["MpcPhysics"]

#: of one round of the path, as it is published
ROUND_POINTS = 120


class MpcPhysics:
    """A controller, and what may be exchanged in it while it runs.

    Args:
        node: the lifecycle node, with the configuration `AdaptiveMpcConfig`.
        now: () -> time [s]. position: () -> q where the robot is.

    Attributes:
        robot: its description. model: RobotModel without networks; hybrid: with those that are planned with.
        blueprint: their file, or ""; blueprints: how often they were exchanged.
        book: ParameterBook. task, mpc: the control task and AdaptiveMpc. stage: its stage cost as a function.

    Raises:
        ValueError: a robot, a blueprint or a parameter file that cannot be used.
    """

    def __init__(self, node, now: Callable[[], float], position: Callable[[], np.ndarray]) -> None:
        self._node, self._now, self._position, self._loading = node, now, position, None
        config = node.config
        self.model = robot_model(config.robot, config.free, config.physical_parameters)
        self.robot = load_robot(config.robot)
        self.blueprint, self.blueprints = blueprint_of(config), 0
        self.hybrid = augment(self.model, self.blueprint) if self.blueprint else self.model
        start = physical_vector(self.robot, self.model, config.physical_parameters)
        check = PhysicalCheck(self.model)
        silence = config.refit_silence_limit if config.refit == "periodic" else 0.0
        self.book = ParameterBook(
            self.robot.name,
            self.hybrid.hash,
            start,
            silence,
            config.nominal_after,
            lambda p: check.objection(p, self._position()),
        )
        self.build(config.horizon)

    def build(self, horizon: int) -> None:
        """The controller anew; horizon 0: the task's own."""
        self._use(self.hybrid, *self._controller(self.hybrid, horizon))

    def interfaces(self) -> list:
        """Create the node's services for people and for other nodes; tell these what is planned with."""
        serve = self._node.create_service
        self._planned = self._node.create_publisher(PlanningModel, "controller/model", LATCHED)
        path = self._node.create_publisher(PathMessage, "controller/path", LATCHED)
        self._tell()
        if isinstance(self.robot.task, Track):
            path.publish(path_message(self._round(), self._node.stamp_now()))
        return [
            self._planned,
            path,
            serve(SetParameterSet, "~/set_physical_parameters", self._set_physical_parameters),
            serve(SetParticleSet, "~/set_particles", self._set_particles),
            serve(LoadBlueprint, "~/load_blueprint", self._load_blueprint),
            serve(SetBool, "~/freeze", self._freeze),
        ]

    def _round(self) -> np.ndarray:
        """One round of the path that the tool follows (N, 3) [m], closed."""
        config = self._node.config
        path = tool_path(self.robot, self.model, config)
        # From the second on the path has its full speed, so that the points are as far apart as they will be.
        return np.array([path(1.0 + t) for t in np.linspace(0.0, config.path_period, ROUND_POINTS + 1)])

    def warm_up(self, mpc: AdaptiveMpc | None = None) -> None:
        """The first solve compiles nothing but touches every page of the kernels: do it before it counts."""
        mpc = mpc or self.mpc
        mpc.command(np.concatenate([self.model.q_home, np.zeros(self.model.nv)]), 0.0)
        mpc.reset()

    def offer(self, message: ParameterSet) -> None:
        """A proposal of the refit; adopted if nothing stands against it."""
        source, revision = self.book.source, self.book.revision
        why = self.book.offer(message, self._now())
        if message.accepted and why:
            self._node.get_logger().warning(self.book.message)
            self._node.diagnostics.warn(self.book.message)
        if (source, revision) != (self.book.source, self.book.revision):
            self._adopt()

    def tick(self) -> None:
        """Judge the refit's silence."""
        revision = self.book.revision
        if self.book.tick(self._now()):
            if self.book.revision != revision:  # a last good set is in use already
                self._adopt()
            self._node.get_logger().warning(self.book.message)

    # -- the controller ----------------------------------------------------------------------------

    def _controller(self, hybrid, horizon: int):
        """(task, AdaptiveMpc) of the model with the networks that are in its equations, on the parameters in force."""
        config = self._node.config
        task = control_task(self.robot, hybrid, config, horizon)
        # The published recipe has no change detection.
        factor = {"change_factor": np.inf} if config.recipe == "literal" else {}
        settings = AmpcConfig(config.delay_steps, config.time_budget, particles=config.particles, **factor)
        return task, AdaptiveMpc(task, settings, p=with_weights(hybrid, self.book.p))

    def _use(self, hybrid, task, mpc) -> None:
        self.hybrid, self.task, self.mpc = hybrid, task, mpc
        self.stage = self.task.cost.functions()["stage"]

    def _adopt(self) -> None:
        self.mpc.set_parameters(with_weights(self.hybrid, self.book.p), self.book.revision)

    def _tell(self) -> None:
        """Say what is planned with: a refit of any other model is refused."""
        message = PlanningModel(
            robot=self.model.name,
            model_hash=self.hybrid.hash,
            blueprint=str(Path(self.blueprint).absolute()) if self.blueprint else "",
        )
        message.header.stamp = self._node.stamp_now()
        self._planned.publish(message)

    # -- services ----------------------------------------------------------------------------------

    def _set_physical_parameters(self, request, response):
        return self._answer(response, *self.book.set_by_person(request.parameters, self._now()))

    def _set_particles(self, request, response):
        """Plan on several hypotheses: those that stand for the set, as many as this controller was built for."""
        particles, count = request.particles, self._node.config.particles
        response.revision = self.book.revision
        try:
            vectors = vectors_of(particles, self.model.np_)
            shown = np.reshape(particles.values, (len(vectors), -1)) if len(particles.values) else vectors
            vectors = vectors[herd(shown, count)]
        except ValueError as error:
            response.message = str(error)
            return response
        if count == 1:
            response.message = "this controller plans on one set of parameters; start it with particles of 2 or more"
            return response
        return self._answer(response, *self.book.set_particles(particles, vectors, self._now()))

    def _answer(self, response, revision: int, refusal: str):
        """What the book said to a set, as a response; a set it took is adopted."""
        response.revision, response.success = revision, not refusal
        if not refusal:
            self._adopt()
        response.message = refusal or self.book.message
        return response

    def _freeze(self, request, response):
        self.book.frozen = request.data
        response.success = True
        response.message = f"frozen at revision {self.book.revision}" if request.data else "refits are adopted again"
        return response

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

        def build() -> None:
            try:
                built = self._controller(hybrid, self.task.ilqr.horizon)
                self.warm_up(built[1])  # not while the robot waits
            except Exception as error:  # control goes on with the model it has
                built = error
            self._node.executor.create_task(self._on_built, hybrid, request.blueprint, built)

        self._loading = threading.Thread(target=build, name="blueprint", daemon=True)
        self._loading.start()
        response.success, response.revision = True, self.blueprints + 1
        response.weights = len(hybrid.parameters) - len(self.model.parameters)
        response.message = f"planned with {response.weights} weights as soon as that is compiled (see diagnostics)"
        return response

    def _on_built(self, hybrid, blueprint: str, built) -> None:
        self._loading = None
        if isinstance(built, Exception):
            self._node.get_logger().error(
                f"the model with '{blueprint}' cannot be used ({built}); the one before stays"
            )
            self._node.diagnostics.error(f"the model with '{blueprint}' cannot be used: {built}")
            return
        self._use(hybrid, *built)
        self.book.model_changed(hybrid.hash)
        self._adopt()  # parameters may have come meanwhile
        self.blueprint, self.blueprints = blueprint, self.blueprints + 1
        self._tell()
        self._node.get_logger().info(
            f"plans with the networks of {blueprint}" if blueprint else "plans without networks"
        )
