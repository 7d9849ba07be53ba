"""What a planning policy expects of the sequence that it chose last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.excavation.costs import step_terms
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
    rows, found = model.predictor.start(), []
    for motion in motions:
        rows = model.predictor.extend(rows, np.zeros(1, int), np.array([motion]))
        found.append(rows)
    rows = np.concatenate(found)
    poses, forces = model.predictor.states(rows)
    inside = model.predictor.inside(rows) if model.peaks else None
    s = model.settings
    terms = step_terms(model.path, poses, forces, model.last, s, inside)
    return Expectation(
        motions,
        poses,
        forces,
        s.progress * float(np.mean(terms.progress)),
        s.track * float(np.mean(terms.track)),
        s.force * float(np.mean(terms.force)),
        plan.evaluations,
    )
