"""What the contact simulator is held against: wrenches learnt directly from probes of the same shape, without a model of contact.

The source's baseline (Zhu, PhD thesis, section 4.5.2): the same regressor, told ten line or cylinder pokes, and asked for other ones. Here it
has as many probe pokes as the simulator has point pokes and calibration pokes together, and answers in the probe's frame, so that it need not
learn what a turn does to a vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.problems.elastic_study import NOISE
from sim_core.elastic.objects.soft_object import ProbeTrial
from sim_core.elastic.regressors import AUTO_TREES, Budget, regressor

__all__ = ["PureLearning"]

#: of a wrist's torque [N m]
TORQUE_NOISE = 1e-3


class PureLearning:
    """Learns wrenches of one probe.

    Args:
        trials: to learn from. seed: of their noise and of the search. budget: of the search; one is made for the force along the probe, and
            the other five components are fitted with what it chose.
    """

    def __init__(self, trials: Sequence[ProbeTrial], seed: int, budget: Budget) -> None:
        rng = np.random.default_rng([seed, 77])
        x = np.concatenate([_asked(t) for t in trials])
        y = np.concatenate([_local(t, t.force, t.torque) for t in trials])
        y = y + rng.standard_normal(y.shape) * np.repeat([NOISE, TORQUE_NOISE], 3)
        main = regressor(AUTO_TREES, seed, budget).fit(x, y[:, 2])
        self._models = [main if k == 2 else main.like(x, y[:, k]) for k in range(6)]

    def predict(self, trials: Sequence[ProbeTrial]) -> tuple[np.ndarray, np.ndarray]:
        """Forces [N] and torques [N m] (trials, samples, 3) along the world's axes, torques about the tip."""
        x = np.concatenate([_asked(t) for t in trials])
        local = np.stack([model.predict(x) for model in self._models], 1).reshape(len(trials), -1, 2, 3)
        turns = np.array([t.poses[0, :3, :3] for t in trials])
        world = np.einsum("tab,tswb->tswa", turns, local)
        return world[:, :, 0], world[:, :, 1]


def _asked(trial: ProbeTrial) -> np.ndarray:
    """Feature of the point, axis and direction of the probe, displacement (samples, 16)."""
    known = np.concatenate([trial.feature, trial.poses[0, :3, 2], trial.poses[0, :3, 0]])
    return np.column_stack([np.tile(known, (len(trial.displacement), 1)), trial.displacement])


def _local(trial: ProbeTrial, force: np.ndarray, torque: np.ndarray) -> np.ndarray:
    turn = trial.poses[0, :3, :3]
    return np.hstack([force @ turn, torque @ turn])
