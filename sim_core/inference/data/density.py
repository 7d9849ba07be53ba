"""What every sampler works on: an unnormalised log density over a box, in normalised coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Box", "LogDensity", "concatenated"]

Part = TypeVar("Part", bound=Any)


@runtime_checkable
class LogDensity(Protocol):
    """Unnormalised log density over z in [0, 1]^M, with theta = lower + z (upper - lower).

    The limits are the sampler's business: a density is defined on its whole space, and outside the box as well where
    the physics allows it (constrained methods may step over a limit on their way).

    Attributes:
        names: M names of theta. lower, upper: limits (M,), SI. n: M.
        not_finite: evaluations masked so far, because a roll-out was not finite.
    """

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    n: int
    not_finite: int

    def log_p(self, z: np.ndarray) -> np.ndarray:
        """Log density (N,) of z (N, M); -inf for a particle whose roll-out is not finite."""

    def log_p_and_grad(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density (N,) and its gradient with respect to z (N, M); the gradient is 0 where the density is -inf."""

    def theta(self, z: np.ndarray) -> np.ndarray:
        """theta (..., M) of z (..., M)."""

    def z(self, theta: np.ndarray) -> np.ndarray:
        """z (..., M) of theta (..., M)."""


class Box:
    """The affine map between theta (natural units, limits lower and upper) and z in [0, 1]^M.

    Raises:
        ValueError: limits that are not finite, or a lower one that is not below the upper one.
    """

    def __init__(self, names: Iterable[str], lower: ArrayLike, upper: ArrayLike) -> None:
        self.names = tuple(names)
        self.lower, self.upper = (np.asarray(a, dtype=float) for a in (lower, upper))
        self.n = len(self.names)
        for name, low, high in zip(self.names, self.lower, self.upper, strict=True):
            if not (np.isfinite([low, high]).all() and low < high):
                raise ValueError(
                    f"limits of {name}: expected finite lower < upper, found {low:g} and {high:g}; correct them"
                )

    @property
    def width(self) -> np.ndarray:
        return self.upper - self.lower

    def theta(self, z: np.ndarray) -> np.ndarray:
        return self.lower + self.checked(z) * self.width

    def z(self, theta: np.ndarray) -> np.ndarray:
        return (self.checked(theta) - self.lower) / self.width

    def checked(self, a: ArrayLike) -> np.ndarray:
        """`a` as floats (..., M).

        Raises:
            ValueError: another last dimension.
        """
        a = np.asarray(a, dtype=float)
        if a.shape[-1:] != (self.n,):
            raise ValueError(f"expected {self.n} coordinates ({', '.join(self.names)}), found shape {a.shape}")
        return a


def concatenated(parts: Sequence[Part]) -> Part:
    """Results of slices of the particles, dataclasses of arrays with a row for each, put together again."""
    kind = type(parts[0])
    return kind(*(np.concatenate([getattr(part, name) for part in parts]) for name in kind.__dataclass_fields__))
