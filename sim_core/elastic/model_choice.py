"""Which model learns from pokes, by the name that a parameter has."""

from __future__ import annotations

from sim_core.elastic.exploration import Fit
from sim_core.elastic.stiffness_process import StiffnessProcess
from sim_core.elastic.surface import Surface

__all__ = ["POINT_MODELS", "fit_point_model"]

#: names
POINT_MODELS = ("process",)


def fit_point_model(name: str, surface: Surface | None = None, seed: int = 0) -> Fit:
    """What makes a model of that name out of pokes.

    Args:
        surface: of the object, for models that look at its whole shape. seed: of models that are drawn by chance.

    Raises:
        ValueError: there is none of that name. MissingTierError: its packages are not installed.
    """
    if name not in POINT_MODELS:
        raise ValueError(f"there is no point model '{name}'; there are {', '.join(POINT_MODELS)}")
    return StiffnessProcess.fit
