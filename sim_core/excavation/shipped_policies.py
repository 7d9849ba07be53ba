"""Every policy that comes with the project, by its name; those that plan have the network in data/excavation.

policy = shipped_policy("bf3", path, seed=0)
needs_pictures(policy)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from config.share import shared_folder
from sim_core.excavation.costs import TUNED
from sim_core.excavation.mpc import PLANNERS, Mpc
from sim_core.excavation.policies import ClosedLoop, Follow, OpenLoop, Policy
from sim_core.excavation.predictor import Predictor, Weights, without_wiggle
from sim_core.excavation.primitives import PrimitiveSettings
from sim_core.excavation.reference_path import ReferencePath

__all__ = ["POLICIES", "SHIPPED", "needs_pictures", "shipped_policy", "shipped_weights"]

SCRIPTED: dict[str, Callable[[ReferencePath, PrimitiveSettings], Policy]] = {
    "follow": Follow,
    "closed-loop": ClosedLoop,
    "open-loop": OpenLoop,
}
#: planners' names without capitals and blanks, and as `PLANNERS` has them
PLANNED = {name.lower().replace(" ", ""): name for name in PLANNERS}
#: how planners plan: at the price of this pile, peaks included, and without wiggles, which brought less on piles for tuning
SHIPPED: dict[str, Any] = {"costs": TUNED, "peaks": True, "allowed": without_wiggle()}
POLICIES = (*SCRIPTED, *PLANNED)


def shipped_policy(
    name: str, path: ReferencePath, primitives: PrimitiveSettings = PrimitiveSettings(), seed: int = 0
) -> Policy:
    """A policy for one trial.

    Args:
        name: of `POLICIES`. seed: of what planners draw.

    Raises:
        ValueError: there is no such policy. FileNotFoundError: its network is not there.
    """
    if name in SCRIPTED:
        return SCRIPTED[name](path, primitives)
    if name not in PLANNED:
        raise ValueError(f"there is no policy '{name}'; there are {', '.join(POLICIES)}")
    predictor, planner = Predictor(shipped_weights()), PLANNERS[PLANNED[name]]
    return Mpc(predictor, path, planner, primitives=primitives, seed=seed, **SHIPPED)


def needs_pictures(policy: Policy) -> bool:
    """Whether it looks at the pile."""
    return isinstance(policy, Mpc) and policy.model.predictor.settings.vision


@functools.cache
def shipped_weights() -> Weights:
    """Of the network in data/excavation, read once.

    Raises:
        FileNotFoundError: it is not there.
    """
    return Weights.load(shared_folder("data/excavation") / "weights.npz")
