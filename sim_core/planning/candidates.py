"""What may be tried: a finite set of places, and why some of them may not be tried (now)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["Candidates", "NoCandidate"]


class NoCandidate(RuntimeError):
    """Nothing is left to try; the text says why each place is out."""


class Candidates:
    """Places in any number of dimensions, each of which is open or closed for named reasons.

    Args:
        places: shape (n, d), in the planner's units; no two alike.

    Raises:
        ValueError: another shape, none, not finite, or two alike.
    """

    def __init__(self, places: np.ndarray) -> None:
        places = np.array(places, float)
        if places.ndim != 2 or not len(places):
            raise ValueError(f"candidates are places of shape (n, d) with n > 0, not {places.shape}")
        if not np.isfinite(places).all():
            raise ValueError(f"candidates are finite; number {int(np.argmin(np.isfinite(places).all(1)))} is not")
        if len(np.unique(places, axis=0)) != len(places):
            raise ValueError("two candidates are the same place: give each place once")
        self.places = places
        self.places.flags.writeable = False
        self._closed: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.places)

    def within(self, center: np.ndarray, radius: float) -> np.ndarray:
        """Which places are no farther than `radius` from `center` (d,), shape (n,); rounding does not put one out."""
        return np.linalg.norm(self.places - center, axis=1) <= radius * (1.0 + 1e-9)

    def close(self, which: np.ndarray | Iterable[int] | int, reason: str) -> None:
        """Close places, by numbers or by a mask (n,), for a reason as "out of reach". Places stay closed for other reasons."""
        mask = self._closed.setdefault(reason, np.zeros(len(self), bool))
        mask[np.asarray(which)] = True

    def reopen(self, reason: str) -> None:
        """Forget a reason, as after the arm's base has moved."""
        self._closed.pop(reason, None)

    @property
    def open(self) -> np.ndarray:
        """Which places may be tried, shape (n,)."""
        return ~np.any([np.zeros(len(self), bool), *self._closed.values()], axis=0)

    @property
    def closed(self) -> dict[str, list[int]]:
        """Reason -> numbers of the places that are closed for it."""
        return {reason: np.flatnonzero(mask).tolist() for reason, mask in self._closed.items()}

    def require(self, among: np.ndarray) -> np.ndarray:
        """Numbers of the open places among some, a mask (n,).

        Raises:
            NoCandidate: there is none.
        """
        found = np.flatnonzero(among & self.open)
        if not len(found):
            why = ", ".join(f"{(mask & among).sum()} {reason}" for reason, mask in self._closed.items())
            raise NoCandidate(f"none of {int(among.sum())} candidates is left ({why or 'none was asked for'})")
        return found
