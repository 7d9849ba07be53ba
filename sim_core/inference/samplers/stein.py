"""Stein variational gradients: the direction in which a set of particles comes closer to a density, and Adam to follow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.distance import cdist, pdist

__all__ = [
    "Adam",
    "bounded",
    "decayed",
    "largest_norm",
    "median_bandwidth",
    "require_curvature",
    "require_windows",
    "stein_direction",
]


# The median of all pairs takes longer than everything else from some hundred particles on. Particles keep the order of
# their Sobol sequence, whose beginning is spread as evenly as the whole.
MEDIAN_OF = 512


def median_bandwidth(z: np.ndarray) -> float:
    """h = med^2 / log N of particles z (N, M), med the median distance of pairs among the first 512; 1 without distances.

    Source: Liu & Wang, "Stein variational gradient descent", NeurIPS 2016, section 5.
    """
    if len(z) < 2:
        return 1.0
    h = float(np.median(pdist(z[:MEDIAN_OF], "sqeuclidean"))) / np.log(len(z))
    return h if h > 0 else 1.0


def stein_direction(z: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, float]:
    """phi (N, M) and the bandwidth h at particles z (N, M) with score = d log p / dz (N, M).

        phi_i = 1/N sum_j [k(z_j, z_i) score_j + d k(z_j, z_i) / d z_j],   k(a, b) = exp(-|a - b|^2 / h)

    Source: Liu & Wang 2016, Eq. 8; thesis Eq. 4.1.
    """
    h = median_bandwidth(z)
    K = cdist(z, z, "sqeuclidean")
    K *= -1.0 / h
    np.exp(K, out=K)
    # One product: K (score - 2 z / h), and the other half of sum_j (z_i - z_j) k_ij.
    return (K @ (score - (2.0 / h) * z) + (2.0 / h) * z * K.sum(axis=1)[:, None]) / len(z), h


# A roll-out on the verge of divergence has a gradient of any size, which the kernel would hand to its neighbours and
# Adam's second moment remember for thousands of steps.
STEEPEST = 100.0


def bounded(gradient: np.ndarray) -> np.ndarray:
    """Gradients (N, ...) of N particles, none longer than 100 times the median length of those that are not zero."""
    length = np.sqrt(np.einsum("ni,ni->n", *[gradient.reshape(len(gradient), -1)] * 2))
    some = length[length > 0]
    if not len(some) or length.max() <= (longest := STEEPEST * float(np.median(some))):
        return gradient
    return gradient * np.minimum(1.0, longest / np.maximum(length, longest)).reshape(-1, *(1,) * (gradient.ndim - 1))


@dataclass
class Adam:
    """Ascent by Adam on any number of arrays at once; moments belong to each number, so particles do not mix.

    Source: Kingma & Ba, ICLR 2015, Alg. 1.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    t: int = 0
    moments: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def step(self, size: float, *gradients: np.ndarray) -> list[np.ndarray]:
        """What to add to each array, given its gradient; `size` is the length of a step in a steady gradient."""
        if not self.moments:
            self.moments = [(np.zeros_like(g), np.zeros_like(g)) for g in gradients]
        self.t += 1
        unbias1, unbias2 = 1 - self.beta1**self.t, 1 - self.beta2**self.t
        steps = []
        for (m, v), g in zip(self.moments, gradients, strict=True):
            m += (1 - self.beta1) * (g - m)
            v += (1 - self.beta2) * (g * g - v)
            steps.append(size * (m / unbias1) / (np.sqrt(v / unbias2) + self.epsilon))
        return steps

    def arrays(self) -> dict[str, np.ndarray]:
        """The moments by name, for a checkpoint."""
        return {f"{name}{k}": a for k, pair in enumerate(self.moments) for name, a in zip("mv", pair)}

    def resume(self, t: int, arrays: Mapping[str, np.ndarray], count: int) -> None:
        """Go on after `t` steps with the moments of `count` arrays, as `arrays` gave them."""
        self.t, self.moments = t, [(arrays[f"m{k}"], arrays[f"v{k}"]) for k in range(count)]


def decayed(first: float, last: float, i: int, count: int) -> float:
    """Geometric from `first` at i = 0 to `last` at i = count - 1."""
    return first * (last / first) ** (i / max(count - 1, 1))


def largest_norm(defects: np.ndarray) -> float:
    """Norm of the largest defect of any particle, in sigma_def; 0 where there are none."""
    return float(np.sqrt(np.einsum("nrsi,nrsi->nrs", defects, defects).max(initial=0.0)))


def require_windows(density: object) -> None:
    """Refuse a density without shooting windows.

    Raises:
        ValueError: names it.
    """
    if not hasattr(density, "evaluate"):
        raise ValueError(
            f"csvgd needs a density with shooting windows (MultipleShooting), found {type(density).__name__}; use svgd"
        )


def require_curvature(density: object) -> None:
    """Refuse a density that knows no curvature.

    Raises:
        ValueError: names it.
    """
    if not hasattr(density, "curvature"):
        raise ValueError(
            f"metric 'gauss-newton' needs a density with a curvature (SingleShooting, MultipleShooting), found "
            f"{type(density).__name__}; use metric 'adam'"
        )
