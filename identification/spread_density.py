"""A likelihood whose particles are evaluated by the workers of an executor.

What travels is a `Recipe`, from which every worker makes the density once: models and compiled kernels stay at home.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_core.augmentation import attaching
from sim_core.augmentation.blueprint import Blueprint
from sim_core.host.executors import spread
from sim_core.inference.data.density import Box, concatenated
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.fit.free_names import model_with
from sim_core.inference.fit.identify import dynamics_at
from sim_core.inference.shooting.curvature import Curvature
from sim_core.inference.shooting.likelihood import Evaluation, MultipleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters

__all__ = ["Recipe", "SpreadDensity"]

# Particles in one job. Fixed: the number of workers must not show in the result.
CHUNK = 16
# Densities a worker keeps.
KEPT = 4


@dataclass(frozen=True)
class Recipe:
    """Everything a likelihood is made of, picklable.

    Attributes:
        source: what load_model takes (a robot's name or MJCF text).
        limits: name -> (lower, upper), SI, see LimitedParameters.
        trajectories: what it is held against.
        windows, sigma_obs, sigma_def, combine, loss: see MultipleShooting.
        networks: Blueprints in the equations, whose weights are held.
    """

    source: str
    limits: Mapping[str, tuple[float, float]]
    trajectories: Trajectories
    windows: int = 10
    sigma_obs: float = 0.2
    sigma_def: float = 0.1
    combine: str = "product"
    loss: str = "gaussian"
    networks: tuple[Blueprint, ...] = ()

    def density(self, threads: int = 1) -> MultipleShooting:
        """The likelihood itself, on so many threads of this process."""
        model = model_with(self.source, list(self.limits), attaching(self.networks))
        return MultipleShooting(
            dynamics_at(model, self.trajectories.dt, threads),
            LimitedParameters(model, self.limits),
            self.trajectories,
            self.windows,
            self.sigma_obs,
            self.sigma_def,
            self.combine,
            self.loss,
        )


class SpreadDensity(Box):
    """The density of a recipe; every call is divided into chunks of particles, which an executor computes.

    The results are those of one process to the last bit: kernels let no particle see its neighbours.

    Attributes:
        local: the same density in this process, for everything that is not evaluated.
        not_finite: evaluations masked so far.
    """

    def __init__(self, recipe: Recipe, executor: Executor, chunk: int = CHUNK) -> None:
        self.local = recipe.density()
        super().__init__(self.local.names, self.local.lower, self.local.upper)
        self._payload = pickle.dumps(recipe)
        self._digest = hashlib.sha256(self._payload).hexdigest()
        self._executor, self._chunk, self._sent = executor, chunk, False
        self.not_finite = 0

    def __getattr__(self, name: str) -> Any:
        if name == "local":  # not made yet
            raise AttributeError(name)
        return getattr(self.local, name)

    def log_p(self, z: np.ndarray, starts: np.ndarray | None = None) -> np.ndarray:
        return np.concatenate(self._each("log_p", z, starts))

    def log_p_and_grad(self, z: np.ndarray, starts: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        log_p, grad = map(np.concatenate, zip(*self._each("log_p_and_grad", z, starts)))
        return log_p, grad

    def evaluate(
        self,
        z: np.ndarray,
        starts: np.ndarray | None = None,
        multipliers: np.ndarray | None = None,
        damping: float = 1.0,
        form: str = "vector",
    ) -> Evaluation:
        return concatenated(self._each("evaluate", z, starts, multipliers, damping, form))

    def curvature(self, z: np.ndarray, starts: np.ndarray | None = None, damping: float = 1.0) -> Curvature:
        return concatenated(self._each("curvature", z, starts, damping))

    def _each(self, method: str, *arguments: Any) -> list:
        """The method's results, chunk by chunk; arguments that are arrays have a row for each particle."""
        count = len(arguments[0])
        jobs = []
        for at in range(0, count, self._chunk):
            rows = [a[at : at + self._chunk] if isinstance(a, np.ndarray) else a for a in arguments]
            jobs.append((self._digest, None if self._sent else self._payload, method, rows))
        answers: list[tuple[Any, int] | None] = spread(_evaluate, jobs, self._executor)
        # A worker that came late, or in place of a lost one, has not seen the recipe yet.
        unknown = [i for i, answer in enumerate(answers) if answer is None]
        again = spread(_evaluate, [(self._digest, self._payload, *jobs[i][2:]) for i in unknown], self._executor)
        for i, answer in zip(unknown, again):
            answers[i] = answer
        known = [answer for answer in answers if answer is not None]
        self._sent = True
        self.not_finite += sum(masked for _, masked in known)
        return [result for result, _ in known]


_DENSITIES: OrderedDict[str, MultipleShooting] = OrderedDict()


def _evaluate(job: tuple[str, bytes | None, str, list]) -> tuple[Any, int] | None:
    """(result, evaluations masked), on a worker; None if it does not know the recipe."""
    digest, payload, method, arguments = job
    density = _DENSITIES.get(digest)
    if density is None:
        if payload is None:
            return None
        density = _DENSITIES[digest] = pickle.loads(payload).density()
        while len(_DENSITIES) > KEPT:
            _DENSITIES.popitem(last=False)
    before = density.not_finite
    return getattr(density, method)(*arguments), density.not_finite - before
