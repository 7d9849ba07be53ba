"""How a point model that was given few pokes is judged: other pokes of the object, wrenches of lines, a box that is seen off.

All models get the same pokes. A support is k pokes drawn at random; asked are all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from experiments.problems.elastic_study import onset_of, simulated
from experiments.problems.force_study import NOISE, PAIRS, PokedObject
from sim_core.elastic.objects.categories import category_object
from sim_core.elastic.objects.soft_object import ProbeTrial, SoftObject
from sim_core.elastic.point_model import PointModel, fit_regressor
from sim_core.elastic.poke import Poke, downsampled
from sim_core.elastic.regressors import AUTO_TREES, Budget, regressor
from sim_core.elastic.rigid_body import line_probe

__all__ = [
    "BOX_DEPTH",
    "BOX_OFFSET",
    "BOX_POKES",
    "Box",
    "Fitter",
    "ScratchJob",
    "box",
    "box_scores",
    "line_trials",
    "point_errors",
    "scratch",
    "scratch_errors",
    "support",
    "wrench_errors",
]

#: pokes -> point model of the object
Fitter = Callable[[Sequence[Poke]], PointModel]
#: published: a tissue box at a displacement of 3 mm; the target: a camera 4 mm off, five pokes
BOX_DEPTH, BOX_OFFSET, BOX_POKES = 0.003, 0.004, 5
#: spacing of the points with which lines truly touch [m]
FINE = 1e-3


def scratch(pokes: Sequence[Poke], budget: Budget, seed: int, reach: float = 1.0) -> PointModel:
    """From scratch: extra trees that are searched for within a budget, on the pokes of this object alone.

    Args:
        reach: see `fit_regressor`; samples beyond each poke, along its last slope.
    """
    return fit_regressor(regressor(AUTO_TREES, seed, budget), pokes, reach=reach)


def support(found: PokedObject, k: int, draw: int) -> tuple[list[Poke], np.ndarray]:
    """k pokes, and the positions of all others (n - k,)."""
    order = np.random.default_rng([k, draw, sum(map(ord, found.name))]).permutation(len(found.pokes))
    return [found.pokes[int(j)] for j in order[:k]], order[k:]


def point_errors(found: PokedObject, k: int, draw: int, fit: Fitter) -> np.ndarray:
    """Mean absolute error [N] against the truth and against what a sensor felt (2,)."""
    given, asked = support(found, k, draw)
    others = [found.pokes[int(j)] for j in asked]
    features = np.repeat([poke.feature for poke in others], PAIRS, axis=0)
    displacement = np.concatenate([poke.displacement for poke in others])
    force = fit(given).predict(features, displacement)
    felt = np.concatenate([poke.force for poke in others])
    return np.array([np.abs(force - found.truth[asked].ravel()).mean(), np.abs(force - felt).mean()])


def line_trials(found: PokedObject, soft: SoftObject, count: int, seed: int) -> list[ProbeTrial]:
    """A line, pressed at places that face up, rolled at random, as `soft` answers."""
    rng = np.random.default_rng([seed, 103, sum(map(ord, found.name))])
    places = soft.places(found.surface, 0.03, margin=0.02, flattest=0.5)
    line = line_probe(spacing=FINE).points
    return [
        soft.probe(line, found.surface.features[k], "line", float(rng.uniform(0.0, np.pi)))
        for k in rng.permutation(places)[:count]
    ]


def wrench_errors(
    found: PokedObject, trials: Sequence[ProbeTrial], given: Sequence[Poke], fit: Fitter, coupling: float
) -> np.ndarray:
    """Mean magnitudes of the errors of force [N] and of torque about the tip [N m] (2,)."""
    force, torque = simulated(found.surface, fit(given), trials, coupling, onset_of(given))
    true_force, true_torque = np.array([t.force for t in trials]), np.array([t.torque for t in trials])
    off = np.linalg.norm(force - true_force, axis=2), np.linalg.norm(torque - true_torque, axis=2)
    return np.mean(off, axis=(1, 2))


@dataclass(frozen=True, eq=False)
class Box:
    """The top of a box that a camera sees below where it is.

    Attributes:
        found: surface and pokes of the top. features: asked points (n, 9). truth: forces there at `BOX_DEPTH` (n,) [N].
    """

    found: PokedObject
    features: np.ndarray
    truth: np.ndarray


def box(seed: int, index: int = 7) -> Box:
    """A box that is in no collection."""
    soft = category_object("boxes", index, seed, np.array([0.0, 0.0, -BOX_OFFSET]))
    rng = np.random.default_rng([seed, 107])
    surface = soft.surface(4000, seed)
    places = soft.places(surface, 0.02, margin=0.004, flattest=0.9)
    truth = [downsampled(soft.poke(surface.features[k]), PAIRS) for k in places]
    felt = [Poke(p.feature, p.displacement, p.force + NOISE * rng.standard_normal(PAIRS)) for p in truth]
    found = PokedObject(soft.name, soft.category, surface, felt, np.stack([p.force for p in truth]))
    features = surface.features[places]
    normals = features[:, 6:]
    points = features[:, :3] - BOX_DEPTH * normals
    forces = np.array([soft.truth.press(point[None]).force @ normal for point, normal in zip(points, normals)])
    return Box(found, features, forces)


def box_scores(seen: Box, draw: int, fit: Fitter) -> np.ndarray:
    """Signed mean error at `BOX_DEPTH` [N] and rank correlation with the truth (2,), of the points that were not poked."""
    given, asked = support(seen.found, BOX_POKES, draw)
    force = fit(given).predict(seen.features[asked], np.full(len(asked), BOX_DEPTH))
    truth = seen.truth[asked]
    return np.array([(force - truth).mean(), _rank_correlation(force, truth)])


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    from scipy.stats import rankdata

    ranks = rankdata(a), rankdata(b)
    if np.ptp(ranks[0]) == 0.0:  # one force everywhere says nothing of places
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


@dataclass(frozen=True, eq=False)
class ScratchJob:
    """What is judged of learning from scratch in one go: an object with k pokes of one draw.

    Attributes:
        trials: of a line; empty: wrenches are not asked for.
    """

    found: PokedObject
    k: int
    draw: int
    budget: Budget
    trials: tuple[ProbeTrial, ...] = ()
    coupling: float = 0.01


def scratch_errors(job: ScratchJob) -> np.ndarray:
    """(4,): `point_errors`, then `wrench_errors` or NaN.

    Wrenches are asked of a model with samples beyond its pokes, as published; points of one without, which tells them better.
    """
    plain, beyond = (partial(scratch, budget=job.budget, seed=job.draw, reach=reach) for reach in (1.0, 3.0))
    errors = point_errors(job.found, job.k, job.draw, plain)
    wrench = np.full(2, np.nan)
    if job.trials:
        given, _ = support(job.found, job.k, job.draw)
        wrench = wrench_errors(job.found, job.trials, given, beyond, job.coupling)
    return np.concatenate([errors, wrench])
