"""Simulations of the prior as summaries: made once, for every conditional density that learns from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from scipy.signal import lfilter

from sim_core.codegen import compile_library
from sim_core.inference.bayessim.summaries import SUMMARIES, summary
from sim_core.inference.shooting.observation import observed

__all__ = ["Simulations", "simulate"]

CHUNK = 2**22  # numbers in the states of those simulated at once: their trajectories are not kept


@dataclass(frozen=True)
class Simulations:
    """What a network learns from, and what it is asked about.

    Attributes:
        z (N, M): parameters.   summaries: name -> (N, R, F), not finite where a simulation is not.
        recorded: name -> (R, F), of the R recordings.   not_finite: simulations that flew apart.
    """

    z: np.ndarray
    summaries: dict[str, np.ndarray]
    recorded: dict[str, np.ndarray]
    not_finite: int


def simulate(
    density: Any,
    z: np.ndarray,
    names: Sequence[str] = tuple(SUMMARIES),
    every: int = 20,
    depth: int = 3,
    noise: float = 0.0,
    lasting: float = 0.0,
    seed: int = 0,
) -> Simulations:
    """Simulate the recordings of a SingleShooting density at z (N, M), in its observations.

    Observations are those of the density, its map applied, in units of its scale, without the known first sample.

    Args:
        names, every, depth: of the summaries, see `summary`.
        noise: standard deviation added to every simulated observation, in units of the density's scale. 0, as published:
            the posterior of a simulator without noise, which no recording comes from.
        lasting: samples over which the noise's correlation falls to 1/e (a first-order process); 0: white.
    """
    functions = {name: summary(name, every, depth) for name in names}
    recorded, measured = density.trajectories, density.measured[:, 1:] / density.scale
    observe = _observation(density)
    rng = np.random.default_rng(seed)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    not_finite = 0
    at_once = max(1, CHUNK // recorded.x.size)
    for rows in (slice(i, i + at_once) for i in range(0, len(z), at_once)):
        theta = density.theta(z[rows])
        p = density.parameters.to_physical(theta)
        X = density.dynamics.rollout(recorded.x[:, 0], recorded.u, p[:, None, :])[:, :, 1:]
        y = observe(X, theta) / density.scale
        if noise:
            y += noise * _process(rng, y.shape, lasting)
        not_finite += int((~np.isfinite(y).all((1, 2, 3))).sum())
        with np.errstate(over="ignore", invalid="ignore"):
            for name, psi in functions.items():
                parts[name].append(psi(y))
    return Simulations(
        z,
        {name: np.concatenate(part) for name, part in parts.items()},
        {name: psi(measured) for name, psi in functions.items()},
        not_finite,
    )


def _process(rng: np.random.Generator, shape: tuple[int, ...], lasting: float) -> np.ndarray:
    """Stationary noise (N, R, T, ny) of variance 1."""
    w = rng.standard_normal(shape)
    if not lasting:
        return w
    a = np.exp(-1 / lasting)
    w[:, :, 1:] *= np.sqrt(1 - a**2)
    return lfilter([1.0], [1.0, -a], w, axis=2)


def _observation(density: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """y (N, R, T, ny) of X (N, R, T, nx) and theta (N, M)."""
    if density.observe is None:
        return lambda X, theta: X
    if not isinstance(density.observe, ca.Function):
        to_physical = density.parameters.to_physical

        def seen(X: np.ndarray, theta: np.ndarray) -> np.ndarray:
            p = to_physical(theta)[:, None, None]
            return density.observe(X, np.broadcast_to(p, (*X.shape[:3], p.shape[-1])))

        return seen
    x, theta = ca.SX.sym("x", density.dynamics.nx), ca.SX.sym("theta", density.n)
    y = observed(density.observe, x, density.parameters.expression(theta), density.dynamics.np_)
    library = compile_library("refit_observation", {"observe": ca.Function("observe", [x, theta], [y])})
    return lambda X, theta: library.call(
        "observe", X, np.broadcast_to(theta[:, None, None], (*X.shape[:3], density.n))
    )[0]
