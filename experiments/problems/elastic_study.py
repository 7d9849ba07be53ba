"""What the experiments with soft objects share: five objects, their pokes and probe trials, and how a coupling is found.

Truth is by finite elements (sim_core/elastic/truth), which share nothing with what is fitted. Forces have noise of 0.05 N, the camera is off by
up to 4 mm and 1 degree. Models are told noisy forces and judged against noiseless ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim_core.elastic.contact import ContactSimulator
from sim_core.elastic.objects.figures import figure
from sim_core.elastic.objects.soft_object import ProbeTrial, SoftObject, noisy
from sim_core.elastic.point_model import PointModel
from sim_core.elastic.poke import Poke, downsampled
from sim_core.elastic.rigid_body import PROBES, RigidBody, cylinder_probe, line_probe
from sim_core.elastic.surface import Surface

__all__ = [
    "COUPLINGS",
    "NOISE",
    "PAIRS",
    "Collected",
    "Errors",
    "Sizes",
    "collected",
    "coupling_of",
    "onset_of",
    "simulated",
    "told",
]

#: of a wrist's force-torque sensor [N]
NOISE = 0.05
#: of displacement and force, to which a poke is reduced before it is learnt from or judged
PAIRS = 24
#: couplings that are tried [m]
COUPLINGS = 2e-3 * 1.25 ** np.arange(15)


@dataclass(frozen=True)
class Sizes:
    """Attributes:
    places: to poke, at least. cloud: points of the surface. fineness: of the finite elements. trials: lines at each place that is probed.
        probed: places where lines and cylinders go in; 0: all.
    """

    places: int
    cloud: int
    fineness: float
    trials: int
    probed: int = 0


@dataclass(frozen=True, eq=False)
class Collected:
    """What was measured of one object.

    Attributes:
        thing: the object. surface: as it is seen. pokes: noiseless, one for each place. lines, cylinders: probes at the places, upright.
            tilted: lines that lean by up to 20 degrees.
    """

    thing: SoftObject
    surface: Surface
    pokes: list[Poke]
    lines: list[ProbeTrial]
    cylinders: list[ProbeTrial]
    tilted: list[ProbeTrial]


def collected(name: str, sizes: Sizes, seed: int = 0) -> Collected:
    """Poke and probe one of the five objects all over."""
    thing = figure(name, seed, sizes.fineness)
    surface = thing.surface(sizes.cloud, seed)
    spacing, places = 0.03, np.zeros(0, int)
    while len(places) < sizes.places:
        spacing *= 0.95
        places = thing.places(surface, spacing)
    rng = np.random.default_rng([seed, len(name)])
    pokes = [thing.poke(surface.features[k]) for k in places]
    probed = places if sizes.probed == 0 else rng.permutation(places)[: sizes.probed]
    fine = {"line": line_probe(spacing=0.0015).points, "cylinder": cylinder_probe(spacing=0.002).points}

    def trial(k: int, kind: str, tilt: float = 0.0) -> ProbeTrial:
        return thing.probe(fine[kind], surface.features[k], kind, rng.uniform(0.0, np.pi), tilt)

    return Collected(
        thing,
        surface,
        pokes,
        [trial(k, "line") for k in probed for _ in range(sizes.trials)],
        [trial(k, "cylinder") for k in probed],
        [trial(k, "line", np.radians(rng.uniform(10.0, 20.0)) * rng.choice([-1.0, 1.0])) for k in probed],
    )


def told(pokes: Sequence[Poke], which: np.ndarray, seed: int) -> list[Poke]:
    """Some of the pokes, as the sensor reports them, reduced to PAIRS."""
    return [downsampled(noisy(pokes[k], np.random.default_rng([seed, int(k)]), NOISE), PAIRS) for k in which]


def onset_of(pokes: Sequence[Poke], touch: float = 0.15) -> float:
    """Median displacement at which pokes begin to be felt [m]: where a line through the first two forces above `touch` is zero."""
    found = []
    for poke in pokes:
        felt = np.flatnonzero(poke.force > touch)
        if len(felt) > 1:
            a, b = felt[0], felt[1]
            slope = (poke.force[b] - poke.force[a]) / (poke.displacement[b] - poke.displacement[a])
            found.append(poke.displacement[a] - (poke.force[a] / slope if slope > 0.0 else 0.0))
    return float(np.median(found)) if found else 0.0


def coupling_of(
    surface: Surface, model: PointModel, trials: Sequence[ProbeTrial], onset: float, solver: str = "exact"
) -> float:
    """The coupling c [m] with which the simulator fits the forces of a few probe trials best, which are not judged afterwards.

    The source chose c by eye, from how far around a probe the surface sinks (section 4.4.1).
    """
    true = np.array([t.force for t in trials])
    square = [((simulated(surface, model, trials, c, onset, solver)[0] - true) ** 2).sum() for c in COUPLINGS]
    return float(COUPLINGS[int(np.argmin(square))])


@dataclass(frozen=True)
class Errors:
    """Root mean squares over all samples of trials: force [N], torque [N m]."""

    force: float
    torque: float

    @classmethod
    def of(cls, trials: Sequence[ProbeTrial], force: np.ndarray, torque: np.ndarray) -> Errors:
        """Of predicted wrenches (trials, samples, 3)."""
        true_force, true_torque = np.array([t.force for t in trials]), np.array([t.torque for t in trials])
        return cls(
            float(np.sqrt(((force - true_force) ** 2).sum(2).mean())),
            float(np.sqrt(((torque - true_torque) ** 2).sum(2).mean())),
        )


def simulated(
    surface: Surface,
    model: PointModel,
    trials: Sequence[ProbeTrial],
    coupling: float,
    onset: float,
    solver: str = "exact",
) -> tuple[np.ndarray, np.ndarray]:
    """Forces [N] and torques [N m] (trials, samples, 3) that the contact simulator predicts."""
    simulator = ContactSimulator(surface, model, coupling, solver=solver, onset=onset)
    force, torque = [], []
    for trial in trials:
        found = simulator.queries(_body(trial.probe), trial.poses, -trial.poses[0, :3, 2])
        force.append(found.force)
        torque.append(found.torque)
    return np.array(force), np.array(torque)


def _body(name: str) -> RigidBody:
    return PROBES[name]()
