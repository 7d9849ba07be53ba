"""How long does a planner take from a reading to the next place, over a whole body, beside BoTorch and scikit-learn?

    ./refit bench planning

A grid of 1 cm over a chest, 40 cm by 50 cm, of which 48 places are tried one after the other, as many as an exam has at most. A step
is what follows a reading: the parameters of the prior are estimated anew, all residuals are taken anew, and expected improvement
is computed for every place. Engines go the same way (that of ours), so that all see the same readings.

Two models, since rivals have two: scikit-learn with SciPy estimates parameters as published, where readings differ from the prior by
noise alone; BoTorch by its marginal likelihood, in which the residual process counts. Ours does both. A comparison is void unless the
worth of all places agrees to 1e-6 where a rival is given our parameters' worth, and unless our estimate is as probable as the
rival's. Last comes one decision among 11,520 scoops (`benchmarks/scooping.py`). Rivals have one thread (faster here than two) and start from the last parameters; ours also searches the prior. Engines take
turns; what counts is the least time of each step over the rounds.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import multivariate_normal

from benchmarks.rivals.spar_gp import BoTorchSpar, SklearnSpar
from benchmarks.scooping import compare_decisions
from reporting import Result, SilentProgress
from sim_core.auscultation.regions import places
from sim_core.planning.acquisition import expected_improvement
from sim_core.planning.parametric_mean import LandmarkMean
from sim_core.planning.residual_process import SquaredExponential
from sim_core.planning.surrogate import MarginalSparGp, SparGp, Surrogate

SOURCE = "own target"
LIMIT = 20.0  # [ms], of the specification of this system
READINGS = {"quick": 24, "full": 48}
ROUNDS = {"quick": 2, "full": 5}
AGREEMENT = 1e-6
KERNEL, NOISE, RATER = SquaredExponential(), 0.0417, 0.0163**0.5
PACKAGES = {"scikit-learn": ("sklearn", "scikit-learn==1.9.1"), "BoTorch": ("botorch", "botorch==0.18.1")}


@dataclass
class Ours:
    """A surrogate, asked as the rivals are."""

    surrogate: Surrogate

    def fit(self, x: np.ndarray, y: np.ndarray, start: np.ndarray) -> np.ndarray:
        self._posterior = self.surrogate.fit(x, y, start)
        return self._posterior.theta

    def worth(self, at: np.ndarray, best: float) -> np.ndarray:
        means, deviations = self._posterior.predict(at)
        return expected_improvement(self._posterior.weights, means, deviations, best)


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Time all engines on the same readings."""
    result = Result("bench_planning", seed=seed, size=size)
    rng = np.random.default_rng(seed)
    truth = LandmarkMean(np.array(list(places("heart", "front").values())))
    mean = LandmarkMean(truth.landmarks + rng.uniform(-0.02, 0.02, 2), height=0.75 * rng.uniform(0.7, 1.3))
    grid = np.stack(np.meshgrid(np.arange(-0.2, 0.2, 0.01), np.arange(-0.25, 0.25, 0.01)), -1).reshape(-1, 2)
    ours = {
        "SPAR-GP": Ours(SparGp(mean, KERNEL, NOISE)),
        "SPAR-GP, joint": Ours(SparGp(mean, KERNEL, NOISE, likelihood="joint")),
        "integrated": Ours(MarginalSparGp(mean)),
    }
    engines: dict[str, Callable] = dict(ours)
    for name, (module, wanted) in PACKAGES.items():
        is_here = importlib.util.find_spec(module) is not None
        result.check(f"{name} in the same run", is_here, True, "==", "", f"{SOURCE}: {wanted}")
        if is_here:
            engines[name] = (SklearnSpar if name == "scikit-learn" else BoTorchSpar)(mean, KERNEL, NOISE)
    x, y = readings(ours["SPAR-GP"], truth, grid, READINGS[size], rng)
    took, thetas = timed(engines, mean, grid, x, y, ROUNDS[size], progress)
    _judge(result, took)
    for rival, like in (("scikit-learn", "SPAR-GP"), ("BoTorch", "SPAR-GP, joint")):
        if rival in engines:
            _agree(result, engines, rival, like, mean, grid, (x, y), thetas)
    result.detail("candidates", len(grid))
    compare_decisions(result, progress, size, seed)
    return result


def readings(engine: Ours, truth: LandmarkMean, grid: np.ndarray, count: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Where an exam over the whole grid listens, and what it is told."""
    open_, x, y = np.ones(len(grid), bool), np.zeros((0, 2)), np.zeros(0)
    theta = engine.surrogate.mean.default
    for _ in range(count):
        theta = engine.fit(x, y, theta)
        k = int(np.argmax(np.where(open_, engine.worth(grid, max(y, default=0.0)), -1.0)))
        open_[k] = False
        heard = truth.value(truth.default, grid[[k]]) + RATER * rng.standard_normal(1)
        x, y = np.vstack([x, grid[k]]), np.append(y, np.clip(heard, 0.0, 1.0))
    return x, y


def timed(engines, mean: LandmarkMean, grid, x, y, rounds: int, progress):
    """Least time of each step [ms], and parameters after it, by engine."""
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
    took = {name: np.full(len(y), np.inf) for name in engines}
    thetas = {name: np.zeros((len(y), 3)) for name in engines}
    for _ in progress.track(range(rounds), "rounds"):
        for name, engine in engines.items():
            theta = mean.default
            for n in range(1, len(y) + 1):
                began = time.perf_counter()
                theta = engine.fit(x[:n], y[:n], theta)
                np.argmax(engine.worth(grid, y[:n].max()))
                took[name][n - 1] = min(took[name][n - 1], 1e3 * (time.perf_counter() - began))
                thetas[name][n - 1] = theta
    return took, thetas


def _judge(result: Result, took: dict[str, np.ndarray]) -> None:
    for name, steps in took.items():
        result.detail(
            f"{name} [ms]", {"mean": float(steps.mean()), "last": float(steps[-1]), "most": float(steps.max())}
        )
        if name not in PACKAGES:
            result.check(f"{name}: longest step", float(steps.max()), LIMIT, "<=", "ms", SOURCE)
    for rival, like in (("scikit-learn", "SPAR-GP"), ("BoTorch", "SPAR-GP, joint")):
        share = float(took[like].mean() / took[rival].mean()) if rival in took else None
        result.check(f"{like}: time of a step over {rival}'s", share, 1.0, "<=", "1", f"{SOURCE}: no slower")


def _agree(result: Result, engines, rival: str, like: str, mean: LandmarkMean, grid, told, thetas) -> None:
    """The same model: worth under the same parameters, and how probable each one's own are."""
    x, y = told
    covariance = NOISE * np.eye(len(y)) + (KERNEL(x, x) if like.endswith("joint") else 0.0)

    def log_posterior(theta: np.ndarray, n: int) -> float:
        z = (theta - mean.default) / mean.deviation
        off = y[:n] - mean.value(theta, x[:n])
        return float(multivariate_normal(np.zeros(n), covariance[:n, :n]).logpdf(off) - 0.5 * z @ z)

    behind = [
        log_posterior(thetas[rival][n - 1], n) - log_posterior(thetas[like][n - 1], n) for n in range(1, len(y) + 1)
    ]
    said = "same task: at most the rounding of an optimiser"
    result.check(f"{like}: least probable estimate beside {rival}'s", max(behind), 1e-3, "<=", "nats", said)
    result.detail(f"{rival}: farthest behind ours [nats]", min(behind))
    result.detail(f"{rival}: steps more than 0.01 nats behind ours", int(np.sum(np.array(behind) < -0.01)))
    theta = engines[rival].fit(x, y, thetas[like][-1])
    fixed = SparGp(
        LandmarkMean(mean.landmarks + theta[:2], mean.height * theta[2], mean.decay), KERNEL, NOISE, adapt=False
    )
    same = Ours(fixed)
    same.fit(x, y, theta)
    apart = np.abs(same.worth(grid, y.max()) - engines[rival].worth(grid, y.max())).max()
    result.check(f"worth of all places, ours beside {rival}'s", float(apart), AGREEMENT, "<=", "1", "same task")
