"""Probabilistic inference of simulation parameters as a lifecycle node.

A goal names bags; its inference runs in a process of its own (nodes/learning/inference_job.py) and ends as a set of particles on
`~/posterior`, from which `~/set_sim_parameters` writes one or several into controllers, and which `~/rollout_posterior`
rolls out.

Page: docs/nodes/inference.md.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from refit_interfaces.action import InferParameters
from refit_interfaces.msg import ParticleSet
from refit_interfaces.srv import RolloutPosterior, SetParameterSet, SetParticleSet, SetSimParameters

from identification.infer_settings import DRAWS, method_names
from nodes.framework.asking import ask
from nodes.framework.config import setting
from nodes.framework.job_action import JobAction
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.parameter_book import other_model
from nodes.framework.particles import matrix, one_set, particle_set, state_names, vectors_of
from nodes.framework.qos import LATCHED
from nodes.learning.inference_job import infer_job
from sim_core.augmentation import attaching, detach, with_weights
from sim_core.inference.fit.free_names import model_with
from sim_core.inference.posterior.herding import herd
from sim_core.inference.posterior.particle_posterior import ParticlePosterior
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics

__all__ = ["Inference", "InferenceConfig", "main"]

# Names of the service that takes one parameter set: a controller's, a refit worker's.
SETTERS = ("set_physical_parameters", "set")


@dataclass(frozen=True)
class InferenceConfig:
    """Parameters of `inference`."""

    targets: tuple[str, ...] = setting(
        ("adaptive_mpc",), description="nodes that set_sim_parameters writes to unless the request names some"
    )
    cluster: str = setting(
        "",
        description="where particles are computed: empty: in the job's process; processes, processes:N, or "
        "tcp://HOST:PORT of a Dask scheduler",
    )
    checkpoints: str = setting("runs/checkpoints", description="folder for checkpoints of goals that name none")
    length: float = setting(1.0, "s", (0.01, 1000.0), "length of the trajectories that a recording is cut into")
    sigma_obs: float = setting(
        0.2, "", (1e-6, 100.0), "noise of the observations in units of each state's standard deviation"
    )
    errors: str = setting(
        "auto",
        choices=("auto", "assumed", "fitted"),
        description="assumed: noise is what sigma_obs says and the simulator is right; fitted: both are inferred as well; auto: fitted "
        "where they can be, which is with rigid bodies of hinges and slides, one robot, and a method that draws",
    )
    sigma_def: float = setting(0.1, "", (1e-6, 100.0), "spread of the defects in the same units")
    combine: str = setting(
        "product", choices=("product", "sum"), description="trajectories are of one robot, or each may be of another"
    )
    changes: bool = setting(
        True,
        description="a change of the robot is looked for in a single bag of one robot, and what follows it is used alone",
    )
    threads: int = setting(1, "", (1, 64), "of a roll-out in this process")


class Inference(RefitNode):
    """See the module's docstring."""

    name = "inference"
    Config = InferenceConfig
    executor_threads = 4  # services that compute or wait for an answer beside everything else
    _inferring: JobAction | None = None

    # -- lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        self._posterior: ParticleSet | None = None
        self._revision = 0
        self._models: dict[tuple, tuple] = {}
        self._computing, self._asking = MutuallyExclusiveCallbackGroup(), ReentrantCallbackGroup()
        self.posterior = self.create_publisher(ParticleSet, "~/posterior", LATCHED)
        self._made = [
            self.create_service(
                RolloutPosterior, "~/rollout_posterior", self._rollout_posterior, callback_group=self._computing
            ),
            self.create_service(
                SetSimParameters, "~/set_sim_parameters", self._set_sim_parameters, callback_group=self._computing
            ),
        ]
        self._inferring = JobAction(
            self,
            InferParameters,
            "~/infer_parameters",
            "inference",
            infer_job,
            self._job,
            self._refusal,
            self._found,
            self._show,
        )

    def stop(self) -> None:
        if self._inferring is not None:
            self._inferring.stop("stopped; what was reached is in the checkpoint")

    def cleanup(self) -> None:
        if self._inferring is None:
            return
        self._inferring.destroy()
        for service in self._made:
            self.destroy_service(service)
        self.destroy_publisher(self.posterior)
        self._inferring = None

    def diagnose(self) -> None:
        self.diagnostics.set("inferring", self._inferring is not None and self._inferring.running)

    # -- the action --------------------------------------------------------------------------------

    def _refusal(self, goal) -> str:
        if not goal.bags:
            return "no bags; name at least one"
        if goal.method and goal.method not in (*method_names(), "cma"):
            return f"there is no method '{goal.method}'; there are {', '.join(method_names())}"
        return ""

    def _job(self, goal) -> dict:
        config, method = self.config, goal.method or "csvgd"
        settings = {
            "method": method,
            "free": tuple(goal.free),
            "robot": goal.robot,
            "particles": goal.particles or 100,
            "iterations": goal.iterations or None,
            "windows": goal.windows or None,
            "seed": goal.seed,
            "length": config.length,
            "sigma_obs": config.sigma_obs,
            "errors": config.errors if method in DRAWS else "auto",
            "sigma_def": config.sigma_def,
            "combine": config.combine,
            "changes": config.changes,
            "blueprint": str(Path(goal.blueprint).absolute()) if goal.blueprint else "",
        }
        # The same goal finds its own checkpoint again, and another goal never finds it.
        self._checkpoint = goal.checkpoint or str(Path(config.checkpoints) / _fingerprint(goal, settings))
        self.get_logger().info(f"{method} on {', '.join(goal.bags)}; checkpoint in {self._checkpoint}")
        return {
            "bags": list(goal.bags),
            "config": settings,
            "limits": goal.limits,
            "cluster": config.cluster,
            "checkpoint": self._checkpoint,
            "output_directory": goal.output_directory,
        }

    def _show(self, feedback) -> None:
        for name in ("stage", "iteration", "best_log_p", "not_finite"):
            self.diagnostics.set(name, getattr(feedback, name))

    def _found(self, found: dict) -> InferParameters.Result:
        self._revision += 1
        message = particle_set(found, self._revision, self.stamp_now())
        self._posterior = message
        self.posterior.publish(message)
        self.diagnostics.tick("posteriors")
        ratio = f"held-out error {100 * found['error_ratio']:.3g} % of the nominal model's"
        text = (
            f"{len(found['log_lik'])} particles by {found['method']}, {ratio}, {found['not_finite']} evaluations masked"
        )
        for note in found["notes"]:  # what was left out of a bag, say
            text += f"; {note}"
        if found["cancelled"]:
            text += "; stopped early" + (
                f", the same goal goes on from {self._checkpoint}" if found["resumable"] else ""
            )
        self.get_logger().info(text)
        return InferParameters.Result(
            success=found["passed"] and not found["cancelled"],
            message=text,
            report=found["report"],
            posterior=message,
            not_finite=found["not_finite"],
            metrics=list(found["metrics"]),
            values=[float(v) for v in found["metrics"].values()],
        )

    # -- services ----------------------------------------------------------------------------------

    def _rollout_posterior(self, request, response):
        try:
            return self._rolled_out(request, response)
        except (ValueError, KeyError) as error:
            response.message = str(error.args[0] if isinstance(error, KeyError) else error)
            return response

    def _rolled_out(self, request, response):
        particles = request.particles if len(request.particles.values) else self._posterior
        if particles is None:
            raise ValueError("there is no posterior yet; infer one, or send particles")
        model, dynamics = self._model(particles, request.step)
        P = with_weights(model, vectors_of(particles, detach(model).np_))
        x0 = matrix(request.state, 1, model.nx, f"state [q, v] of {model.name}")[0]
        if not np.isfinite(x0).all():
            raise ValueError("the state holds NaN or infinity; send a finite one")
        steps = len(request.controls) // max(model.nu, 1) if len(request.controls) else request.horizon
        if steps < 1:
            raise ValueError("neither controls nor a horizon; say how long to roll out")
        U = (
            matrix(request.controls, steps, model.nu, "controls")
            if len(request.controls)
            else np.zeros((steps, model.nu))
        )
        X = dynamics.rollout(x0, U, P)
        response.success, response.step, response.names = True, dynamics.dt, state_names(model)
        response.particles, response.states = len(P), X.ravel().tolist()
        response.not_finite = int((~np.isfinite(X).all(axis=(1, 2))).sum())
        return response

    def _model(self, particles: ParticleSet, step: float):
        """(model, Dynamics) of a set's robot; compiled once."""
        key = (particles.robot, particles.model_hash, particles.blueprint, tuple(particles.names), step)
        if key not in self._models:
            model = model_with(particles.robot, list(particles.names), attaching(particles.blueprint or None))
            if why := other_model(particles.model_hash, model.hash):
                raise ValueError(f"the particles of '{particles.robot}' were {why}; infer them again")
            substeps = max(1, round(step / model.timestep)) if step else 1
            self._models[key] = model, Dynamics(model, dt=step or None, substeps=substeps, threads=self.config.threads)
        return self._models[key]

    def _set_sim_parameters(self, request, response):
        try:
            posterior = self._loaded(request.posterior) if request.posterior else self._posterior
            if posterior is None:
                raise ValueError("there is no posterior yet; infer one, or name a file")
            told = self._chosen(posterior, request)
        except (ValueError, KeyError, OSError) as error:
            response.message = str(error.args[0] if isinstance(error, KeyError) else error)
            return response
        answers = [(target, *self._tell(target, told)) for target in (request.targets or self.config.targets)]
        response.success = bool(answers) and all(success for _, success, *_ in answers)
        response.message = "; ".join(f"{target}: {text}" for target, _, text, _ in answers) or "no targets"
        response.revision = max((revision for *_, revision in answers), default=0)
        return response

    def _loaded(self, path: str) -> ParticleSet:
        """A posterior's file as a message."""
        posterior = ParticlePosterior.load(path)
        robot, blueprint = posterior.meta.get("robot", ""), posterior.meta.get("blueprint", "")
        model = model_with(robot, list(posterior.names), attaching(blueprint))
        if blueprint and posterior.meta.get("networks") != model.hash.partition("+")[2]:
            raise ValueError(f"{path}: its networks {blueprint} have been trained on since; infer it again")
        vectors = LimitedParameters(
            model, dict(zip(posterior.names, zip(posterior.lower, posterior.upper)))
        ).to_physical(posterior.values)
        return particle_set(
            {
                "robot": robot,
                "model_hash": model.hash,
                "blueprint": blueprint,
                "method": posterior.meta.get("method", ""),
                "file": path,
                "names": list(posterior.names),
                "units": list(posterior.units),
                "lower": posterior.lower,
                "upper": posterior.upper,
                "values": posterior.values,
                "log_lik": posterior.log_p,
                "vectors": vectors[:, : detach(model).np_],
            },
            self._revision,
            self.stamp_now(),
        )

    def _chosen(self, posterior: ParticleSet, request):
        """What to tell: a ParameterSet, or the ParticleSet of those chosen."""
        N, M = len(posterior.log_lik), len(posterior.names)
        values, P = matrix(posterior.values, N, M, "particles"), np.reshape(posterior.vectors, (N, -1))
        if request.which == SetSimParameters.Request.MEAN:
            return one_set(posterior, P.mean(0), values.mean(0), f"mean of {N} particles")
        if request.which == SetSimParameters.Request.SET:
            keep = herd(values, request.count) if request.count else np.arange(N)
            return ParticleSet(
                **{
                    **{f: getattr(posterior, f) for f in posterior.get_fields_and_field_types()},
                    "values": values[keep].ravel().tolist(),
                    "vectors": P[keep].ravel().tolist(),
                    "log_lik": np.asarray(posterior.log_lik)[keep].tolist(),
                }
            )
        if request.which == SetSimParameters.Request.PARTICLE and not request.particle < N:
            raise ValueError(f"there are {N} particles, numbered from 0; found {request.particle}")
        i = (
            request.particle
            if request.which == SetSimParameters.Request.PARTICLE
            else int(np.argmax(posterior.log_lik))
        )
        return one_set(posterior, P[i], values[i], f"particle {i} of {N}")

    def _tell(self, target: str, told) -> tuple[bool, str, int]:
        """(success, sentence, revision) of one node."""
        if isinstance(told, ParticleSet):
            kind, names, request = SetParticleSet, ("set_particles",), SetParticleSet.Request(particles=told)
        else:
            kind, names, request = SetParameterSet, SETTERS, SetParameterSet.Request(parameters=told)
        try:
            answer = ask(self, kind, target, names, request, self._asking)
        except ConnectionError as error:
            return False, str(error), 0
        return answer.success, answer.message, int(answer.revision)


def _fingerprint(goal, settings: dict) -> str:
    """A folder's name for everything that decides a run."""
    # Networks that were trained on since, in place, are others.
    written = os.stat(goal.blueprint).st_mtime_ns if os.path.exists(goal.blueprint) else None
    text = repr((sorted(settings.items(), key=lambda item: item[0]), list(goal.bags), goal.limits, written))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main(args=None) -> int:
    return spin_main(Inference, args)
