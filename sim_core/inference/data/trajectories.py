"""Recorded trajectories of equal length and rate: what a likelihood is held against."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Trajectories", "standard_deviation", "unwrapped"]

Rows = int | slice | np.ndarray | list[int]


@dataclass(frozen=True)
class Trajectories:
    """R trajectories of T steps.

    Hinge angles must be continuous over time (`unwrapped`): residuals are plain differences, so that a jump of 2 pi
    would count as an error of 2 pi. Windows and roll-outs inherit the recording's turn of each joint.

    Attributes:
        dt: period [s].
        x: measured states [q, v], shape (R, T+1, nx); x[:, 0] starts the roll-outs.
        u: controls held over each step, shape (R, T, nu).
        y: measured quantities other than the state (for likelihoods with an observation map), shape (R, T+1, ny).

    Raises:
        ValueError: shapes disagree or a value is not finite.
    """

    dt: float
    x: np.ndarray
    u: np.ndarray
    y: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("x", "u", "y"):
            a = getattr(self, name)
            if a is None:
                continue
            a = np.ascontiguousarray(a, dtype=float)
            object.__setattr__(self, name, a)
            if a.ndim != 3:
                raise ValueError(f"trajectories {name}: expected shape (R, steps, size), found {a.shape}")
            if a.shape[:2] != (len(self.x), self.x.shape[1] - (name == "u")):
                raise ValueError(
                    f"trajectories {name}: expected {len(self.x)} x {self.x.shape[1] - (name == 'u')} rows beside "
                    f"x of shape {self.x.shape}, found {a.shape}"
                )
            if not np.isfinite(a).all():
                r, k, i = (int(j) for j in np.argwhere(~np.isfinite(a))[0])
                raise ValueError(
                    f"trajectories {name}: expected finite values, found {a[r, k, i]} in trajectory {r}, sample {k}, "
                    f"column {i}; cut the recording there"
                )
        if len(self.x) < 1 or self.steps < 1:
            raise ValueError(f"expected at least one trajectory of at least one step, found x of shape {self.x.shape}")
        if not self.dt > 0:
            raise ValueError(f"expected a period > 0 s, found {self.dt}")

    @property
    def count(self) -> int:
        return len(self.x)

    @property
    def steps(self) -> int:
        return self.x.shape[1] - 1

    @property
    def scale(self) -> np.ndarray:
        """Standard deviation of each state dimension over all samples, (nx,); 1 where nothing moves."""
        return standard_deviation(self.x)

    def slice(self, start: int, stop: int) -> Trajectories:
        """Samples start..stop of every trajectory, both included."""
        y = None if self.y is None else self.y[:, start : stop + 1]
        return replace(self, x=self.x[:, start : stop + 1], u=self.u[:, start:stop], y=y)

    def pick(self, which: Rows) -> Trajectories:
        """Some of the trajectories, by index, slice or mask."""
        y = None if self.y is None else self.y[which]
        return replace(self, x=self.x[which], u=self.u[which], y=y)

    def windows(self, count: int) -> Trajectories:
        """Every trajectory cut into `count` windows of floor(T / count) steps, as R * count trajectories, those of one
        trajectory side by side. Neighbours share a sample; up to count - 1 steps at the end are left out.

        Raises:
            ValueError: there are fewer steps than windows.
        """
        if not 1 <= count <= self.steps:
            raise ValueError(f"expected between 1 and {self.steps} windows for {self.steps} steps, found {count}")
        h = self.steps // count
        samples = h * np.arange(count)[:, None] + np.arange(h + 1)

        def cut(a: np.ndarray, index: np.ndarray) -> np.ndarray:
            return a[:, index].reshape(len(a) * count, index.shape[1], a.shape[2])

        y = None if self.y is None else cut(self.y, samples)
        return replace(self, x=cut(self.x, samples), u=cut(self.u, samples[:, :-1]), y=y)


def standard_deviation(a: np.ndarray) -> np.ndarray:
    """Standard deviation of the last dimension's columns over everything else; 1 where a column is constant."""
    rows = a.reshape(-1, a.shape[-1])
    std = rows.std(axis=0)
    return np.where(std > 1e-9 * (1.0 + np.abs(rows).max(axis=0)), std, 1.0)


def unwrapped(x: np.ndarray, angles: Iterable[int]) -> np.ndarray:
    """`x` (..., T+1, nx) with the columns `angles` made continuous over time: jumps above pi become turns."""
    x = np.array(x, dtype=float)
    angles = list(angles)
    x[..., angles] = np.unwrap(x[..., angles], axis=-2)
    return x
