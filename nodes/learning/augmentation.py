"""Networks in the simulator's equations, as a lifecycle node: trained from bags, swapped at run time, watched on the robot.

`~/train_augmentation` trains a blueprint in a process of its own (nodes/learning/training_job.py); `~/load_blueprint` puts the result
into this node's predictor and into the controllers that it names; `~/prediction_error` says what it is worth on live data.

Page: docs/nodes/augmentation.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from refit_interfaces.action import TrainAugmentation
from refit_interfaces.msg import ParameterSet, PredictionError
from refit_interfaces.srv import LoadBlueprint, PredictRollout
from sensor_msgs.msg import JointState

from config.robot import load_robot
from identification.training import LOSSES
from nodes.control.robot_task import blueprint_of, physical_vector
from nodes.framework.actuation import Actuation
from nodes.framework.asking import ask
from nodes.framework.config import setting
from nodes.framework.job_action import JobAction
from nodes.framework.joint_state_gate import JointStateGate
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.particles import matrix, state_names
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import LEDGER, STATE
from nodes.learning.prediction_watch import PredictionWatch
from nodes.learning.training_job import train_job
from sim_core.augmentation import augment, with_weights
from sim_core.multibody import Dynamics, load_model

__all__ = ["Augmentation", "AugmentationConfig", "Predictor", "main"]

TAKE_PERIOD = 0.02  # [s] between two looks for joint states


@dataclass(frozen=True)
class AugmentationConfig:
    """Parameters of `augmentation`."""

    robot: str = setting("panda", description="model in config/robots")
    blueprint: str = setting("", description="trained blueprint file to start with; empty: none")
    physical_parameters: str = setting("", description="parameter file to start from; empty: the model's own values")
    targets: tuple[str, ...] = setting(
        (), description="nodes that load_blueprint hands the file on to, e.g. adaptive_mpc, refit_worker"
    )
    period: float = setting(
        0.1, "s", (0.02, 60.0), "time between published prediction errors; of the samples between, none is lost"
    )
    horizon: float = setting(0.5, "s", (0.01, 10.0), "length of the longer prediction")
    length: float = setting(
        1.0, "s", (0.01, 1000.0), "length of the trajectories that a recording is cut into for training"
    )


class Predictor:
    """A model with or without networks, compiled once for each period.

    Args:
        base: RobotModel without networks. blueprint: trained file, or "".

    Raises:
        BlueprintFileError, AugmentationError: a file that cannot be used, or does not fit the model.
    """

    def __init__(self, base, blueprint: str = "") -> None:
        self.blueprint, self._base = blueprint, base
        self.model = augment(base, blueprint) if blueprint else base
        self.weights = len(self.model.parameters) - len(base.parameters)
        self._dynamics: dict[float, Dynamics] = {}
        self.at(base.timestep)

    def vector(self, p: np.ndarray) -> np.ndarray:
        """The physical vector of this model from that of the base (np_,)."""
        return with_weights(self.model, p)

    def at(self, dt: float) -> Dynamics:
        """Dynamics with this period [s], in steps of the model."""
        if dt not in self._dynamics:
            self._dynamics[dt] = Dynamics(self.model, dt=dt, substeps=max(1, round(dt / self.model.timestep)))
        return self._dynamics[dt]


class Augmentation(RefitNode):
    """See the module's docstring."""

    name = "augmentation"
    Config = AugmentationConfig
    executor_threads = 4
    _training: JobAction | None = None

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        self.model = load_model(config.robot)
        self._p, self._p_revision = physical_vector(load_robot(config.robot), self.model, config.physical_parameters), 0
        self._plain = Predictor(self.model)
        blueprint = blueprint_of(config)
        self._predictor = Predictor(self.model, blueprint) if blueprint else self._plain
        self._revision = 0
        self._watch = PredictionWatch(self.model, Actuation(self.model).control, config.horizon)
        self._gate, self._newest = JointStateGate(self.model.joint_names), None
        computing, self._asking = MutuallyExclusiveCallbackGroup(), ReentrantCallbackGroup()
        self.error = self.create_publisher(PredictionError, "~/prediction_error", STATE)
        self._states = create_polled_subscription(self, JointState, "joint_states", STATE)
        self._refits = self.create_subscription(ParameterSet, "refit/parameters", self._on_parameters, LEDGER)
        self._made = [
            self.create_service(LoadBlueprint, "~/load_blueprint", self._load_blueprint, callback_group=computing),
            self.create_service(PredictRollout, "~/predict_rollout", self._predict_rollout, callback_group=computing),
        ]
        self._training = JobAction(
            self,
            TrainAugmentation,
            "~/train_augmentation",
            "training",
            train_job,
            self._job,
            self._refusal,
            self._trained,
        )
        self._periodic = [
            self.create_timer(period, callback, clock=self.steady_clock)
            for period, callback in ((TAKE_PERIOD, self._receive), (config.period, self._judge))
        ]

    def activate(self) -> None:
        take(self._states)
        self._watch.forget()

    def stop(self) -> None:
        if self._training is not None:
            self._training.stop("stopped")

    def cleanup(self) -> None:
        if self._training is None:
            return
        self._training.destroy()
        for timer in self._periodic:
            self.destroy_timer(timer)
        for service in self._made:
            self.destroy_service(service)
        self.destroy_subscription(self._states)
        self.destroy_subscription(self._refits)
        self.destroy_publisher(self.error)
        self._training = None

    def time_jumped_back(self) -> None:
        if self._training is not None:
            self._watch.forget()

    # -- live prediction ---------------------------------------------------------------------------

    def _receive(self) -> None:
        if not self.is_active:
            return
        for message, _ in take(self._states):
            sample, why = self._gate.read(message)
            if sample is None:
                self.diagnostics.tick("states_refused")
                self.diagnostics.warn(why)
                continue
            self.diagnostics.tick("states")
            self._newest, self._stamp = sample, message.header.stamp
            self._watch.see(sample)

    def _judge(self) -> None:
        """Predict the newest state from the past, with and without networks."""
        watch, predictor = self._watch, self._predictor
        if not (self.is_active and watch.ready):
            return
        message = PredictionError(
            robot=self.model.name,
            blueprint=predictor.blueprint,
            names=state_names(self.model),
            step=watch.period,
            horizon=watch.steps * watch.period,
            one_step_rms_plain=np.nan,
            at_horizon_rms=np.nan,
            at_horizon_rms_plain=np.nan,
        )
        message.header.stamp = self._stamp
        scale = watch.scale()
        for suffix, model in (("", predictor), *([("_plain", self._plain)] if predictor.blueprint else [])):
            one, far = watch.errors(model.at(watch.period), model.vector(self._p))
            setattr(message, f"one_step{suffix}", one.tolist())
            setattr(message, f"one_step_rms{suffix}", _rms(one / scale))
            if far is not None:
                setattr(message, f"at_horizon{suffix}", far.tolist())
                setattr(message, f"at_horizon_rms{suffix}", _rms(far / scale))
        self.error.publish(message)
        self.diagnostics.set("at_horizon_rms", message.at_horizon_rms)
        if not np.isfinite(message.one_step_rms):
            self.diagnostics.error("the prediction is not finite; take the networks out with an empty blueprint")

    def _on_parameters(self, message: ParameterSet) -> None:
        vector = np.array(message.vector, dtype=float)
        if (
            message.accepted
            and message.robot == self.model.name
            and vector.shape == self._p.shape
            and np.isfinite(vector).all()
        ):
            self._p, self._p_revision = vector, int(message.revision)

    def diagnose(self) -> None:
        if self._training is not None:
            self.diagnostics.set("blueprint", self._predictor.blueprint or "none")
            self.diagnostics.set("training", self._training.running)

    # -- services ----------------------------------------------------------------------------------

    def _load_blueprint(self, request, response):
        response.revision, response.weights = self._revision, self._predictor.weights
        try:
            predictor = Predictor(self.model, request.blueprint) if request.blueprint else self._plain
            if self._watch.period:
                predictor.at(self._watch.period)  # compiled before it is asked
        except (ValueError, OSError) as error:
            response.message = f"{error}; the one before stays"
            return response
        self._predictor = predictor  # at once: whoever predicts has taken the old or the new one
        self._revision += 1
        response.revision, response.weights, response.success = self._revision, predictor.weights, True
        said = [f"{predictor.weights} weights in use here" if request.blueprint else "no networks in use here"]
        for target in self.config.targets:
            success, text = self._hand_on(target, request)
            response.success &= success
            said.append(f"{target}: {text}")
        response.message = "; ".join(said)
        self.get_logger().info(response.message)
        return response

    def _hand_on(self, target: str, request) -> tuple[bool, str]:
        try:
            answer = ask(self, LoadBlueprint, target, ("load_blueprint",), request, self._asking)
        except ConnectionError as error:
            return False, str(error)
        return answer.success, answer.message

    def _predict_rollout(self, request, response):
        predictor, model = self._predictor, self.model
        try:
            if not len(request.state) and self._newest is None:
                raise ValueError("no joint states yet; send a state")
            newest = () if self._newest is None else np.concatenate([self._newest.position, self._newest.velocity])
            x0 = matrix(request.state if len(request.state) else newest, 1, model.nx, f"state [q, v] of {model.name}")[
                0
            ]
            steps = max(1, len(request.controls) // max(model.nu, 1))
            U = matrix(request.controls, steps, model.nu, "controls")
            dynamics = predictor.at(request.step or model.timestep)
            X = dynamics.rollout(x0, U, predictor.vector(self._p))
        except ValueError as error:
            response.message = str(error)
            return response
        response.success = bool(np.isfinite(X).all())
        response.message = "" if response.success else "the prediction is not finite"
        response.step, response.names, response.states = dynamics.dt, state_names(model), X.ravel().tolist()
        response.revision, response.blueprint = self._p_revision, predictor.blueprint
        return response

    # -- training ----------------------------------------------------------------------------------

    def _refusal(self, goal) -> str:
        if not goal.bags or not goal.blueprint:
            return "expected bags and a blueprint"
        if goal.loss and goal.loss not in LOSSES:
            return f"there is no loss '{goal.loss}'; there are {', '.join(LOSSES)}"
        return ""

    def _job(self, goal) -> dict:
        return {
            "bags": list(goal.bags),
            "blueprint": goal.blueprint,
            "output_directory": goal.output_directory,
            "config": {
                "robot": goal.robot,
                "loss": goal.loss or LOSSES[0],
                "iterations": goal.iterations or None,
                "horizon": goal.horizon or None,
                "seed": goal.seed,
                "length": self.config.length,
            },
        }

    def _trained(self, trained: dict) -> TrainAugmentation.Result:
        self.diagnostics.tick("trained")
        share = trained["metrics"]["roll-out error, with / without networks"]
        return TrainAugmentation.Result(
            success=trained["better"],
            blueprint=trained["blueprint"],
            report=trained["report"],
            metrics=list(trained["metrics"]),
            values=[float(v) for v in trained["metrics"].values()],
            message=f"held-out roll-out error {100 * share:.3g} % of that without networks, {trained['diverged']} evaluations diverged",
        )


def _rms(a: np.ndarray) -> float:
    return float(np.sqrt(np.mean(a * a)))


def main(args=None) -> int:
    return spin_main(Augmentation, args)
