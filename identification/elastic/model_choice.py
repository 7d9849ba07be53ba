"""Which model learns from pokes, by the name that a parameter has."""

from __future__ import annotations

from sim_core.elastic.exploration import Fit
from sim_core.elastic.stiffness_process import StiffnessProcess
from sim_core.elastic.surface import Surface

__all__ = ["POINT_MODELS", "fit_point_model"]

#: names
POINT_MODELS = ("process", "extra_trees", "deep_gp")


def fit_point_model(name: str, surface: Surface | None = None, seed: int = 0) -> Fit:
    """What makes a model of that name out of pokes.

    Args:
        surface: of the object; a learnt model looks at its whole shape. seed: of models that are drawn by chance.

    Raises:
        ValueError: there is none of that name. MissingTierError: its packages are not installed. FileNotFoundError: a learnt model is not
            there.
    """
    if name == "process":
        return StiffnessProcess.fit
    if name == "extra_trees":
        from config.tiers import require
        from sim_core.elastic.tree_spread import SpreadTrees

        require("learning", "the point model 'extra_trees'")
        return lambda pokes: SpreadTrees(pokes, seed)
    if name == "deep_gp":
        from sim_core.elastic.force_response.learned_model import load_force_model

        learnt = load_force_model()
        if surface is None:
            return lambda pokes: _refuse()
        return learnt.of(surface).condition
    raise ValueError(f"there is no point model '{name}'; there are {', '.join(POINT_MODELS)}")


def _refuse() -> StiffnessProcess:
    raise ValueError("a learnt model looks at the object's surface, and none was given")
