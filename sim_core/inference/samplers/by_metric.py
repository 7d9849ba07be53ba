"""The methods "svgd" and "csvgd" of the table: one solver for each metric, chosen by name.

sample("csvgd", density, metric="adam", damping=2.0)        # AdamCSVGD(damping=2.0)
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from sim_core.inference.samplers.csvgd import AdamCSVGD
from sim_core.inference.samplers.sampler import Run, Sampler
from sim_core.inference.samplers.stein import require_windows
from sim_core.inference.samplers.svgd import AdamSVGD
from sim_core.inference.samplers.svgd_newton import NewtonCSVGD, NewtonSVGD

__all__ = ["CSVGD", "SVGD"]

Particles = tuple[np.ndarray, np.ndarray]


def svgd(
    run: Run, iterations: int, metric: str = "adam", checkpoint: str | Path | None = None, **settings: Any
) -> Particles:
    """Stein variational gradient descent: AdamSVGD as published, or NewtonSVGD.

    Args:
        metric: "adam", one step size per coordinate; "gauss-newton", for a density with a curvature and one window.
        settings: of AdamSVGD or NewtonSVGD; None takes the default.

    Raises:
        ValueError: an unknown metric or setting.
    """
    return _solver("svgd", {"adam": AdamSVGD, "gauss-newton": NewtonSVGD}, metric, settings)(
        run, iterations, checkpoint
    )


def csvgd(
    run: Run, iterations: int, metric: str = "gauss-newton", checkpoint: str | Path | None = None, **settings: Any
) -> Particles:
    """Constrained Stein variational gradient descent: NewtonCSVGD, or AdamCSVGD as published.

    Args:
        metric: "gauss-newton" or "adam".
        settings: of NewtonCSVGD or AdamCSVGD; None takes the default. `form` may be given to both, and must be "vector" for
            the former.

    Raises:
        ValueError: an unknown metric or setting, or a density without shooting windows.
    """
    require_windows(run.density)
    if metric == "gauss-newton" and (form := settings.pop("form", None)) not in (None, "vector"):
        raise ValueError(f"metric 'gauss-newton' needs form 'vector', found '{form}'; use metric 'adam'")
    return _solver("csvgd", {"adam": AdamCSVGD, "gauss-newton": NewtonCSVGD}, metric, settings)(
        run, iterations, checkpoint
    )


def _solver(method: str, solvers: dict[str, type], metric: str, settings: dict[str, Any]) -> Any:
    if metric not in solvers:
        raise ValueError(f"metric: expected one of {', '.join(solvers)}, found '{metric}'")
    known = [field.name for field in fields(solvers[metric])]
    if unknown := sorted(set(settings) - set(known)):
        raise ValueError(
            f"{method} with metric '{metric}' has no option {', '.join(unknown)}; it has {', '.join(known)}"
        )
    return solvers[metric](**{name: value for name, value in settings.items() if value is not None})


SVGD = Sampler(svgd, True, 500, "Stein variational gradient descent (Liu & Wang)")
CSVGD = Sampler(
    csvgd, True, 200, "constrained Stein variational gradient descent over multiple-shooting windows (Heiden et al.)"
)
