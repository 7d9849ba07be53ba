"""What a planning policy expects of the sequence that it chose last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.excavation.costs import Terms
from sim_core.excavation.mpc import Mpc

__all__ = ["Expectation", "expectation"]


@dataclass(frozen=True, eq=False)
class Expectation:
    """Of k motions.

    Attributes:
        motions: (k,). poses: after each (k, 4) [m, m, m, rad]. forces: (k, 3) [N].
        progress, tracking, force: shares of the total worth, which is their sum.
        simulations: sequences that were looked at.
    """

    motions: np.ndarray
    poses: np.ndarray
    forces: np.ndarray
    progress: float
    tracking: float
    force: float
    simulations: int

    @property
    def total(self) -> float:
        """Worth of the sequence."""
        return self.progress + self.tracking + self.force


def expectation(policy: Mpc) -> Expectation | None:
    """Of the last plan, before the next state is told; None: no sequence stayed in the workspace, so there was none.

    Raises:
        ValueError: it has not planned yet.
    """
    if not policy.plans:
        raise ValueError("expected a policy that has planned, found one that was never asked")
    if (plan := policy.plans[-1]) is None:
        return None
    model, motions = policy.model, policy.model.allowed[plan.sequence]
    predictor, rows, last = model.predictor, model.predictor.start(), np.array([model.last])
    found: list[np.ndarray] = []
    terms: list[Terms] = []
    for motion in motions:
        rows = predictor.extend(rows, np.zeros(1, int), np.array([motion]))
        found.append(rows)
        terms.append(model.terms(rows, last))
        last = terms[-1].index
    poses, forces = predictor.states(np.concatenate(found))
    mean = lambda name: float(np.mean([getattr(one, name) for one in terms]))
    s = model.settings
    return Expectation(
        motions,
        poses,
        forces,
        s.progress * mean("progress"),
        s.track * mean("track"),
        s.force * mean("force"),
        plan.evaluations,
    )
