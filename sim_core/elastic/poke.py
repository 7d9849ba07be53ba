"""Pokes: how far a probe went along the inward normal of a point on a surface, and what it felt.

Displacements count from the surface as it was seen, which calibration and a camera's bias put up to 5 mm off; negative ones are valid data,
and nothing is shifted to where contact begins. Source: Zhu, PhD thesis (2023), sections 4.3.1, 4.4.2 and 6.5.1.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from config.whole_file import whole_file
from sim_core.elastic.surface import COLUMNS

__all__ = [
    "PAIRS", "ExtractedPoke", "Poke", "downsampled", "extract_poke", "extrapolated", "load_pokes", "rows", "save_pokes",
]  # fmt: skip

#: of displacement and force that a poke is reduced to (section 6.5.1)
PAIRS = 8
#: mean force of eight samples that a touch exceeds [N]; below, a poke has not touched
TOUCH = 0.15
#: drift of a force-torque sensor that is tolerated between the beginning and the end of a poke [N]
DRIFT = 0.3
#: samples in a row with the very same large force that are a sensor at its end
STUCK = 12


@dataclass(frozen=True, eq=False)
class Poke:
    """One poke, or what is kept of it.

    Attributes:
        feature: (9,) position [m], colour and outward normal of the point on the surface, as `Surface.features`.
        displacement: (m,) of the tip from there along the inward normal [m]. force: (m,) along the outward normal [N].
        probe: its name. direction: (3,) of the motion; by default the inward normal.

    Raises:
        ValueError: shapes that do not fit.
    """

    feature: np.ndarray
    displacement: np.ndarray
    force: np.ndarray
    probe: str = "point"
    direction: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("feature", "displacement", "force"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), float))
        if self.feature.shape != (9,) or self.displacement.ndim != 1 or self.displacement.shape != self.force.shape:
            raise ValueError(
                "a poke is a feature (9,) with displacements and forces of one shape (m,), found "
                f"{self.feature.shape}, {self.displacement.shape} and {self.force.shape}"
            )
        if self.direction is None:
            object.__setattr__(self, "direction", -self.feature[6:])

    def __len__(self) -> int:
        return len(self.displacement)


def downsampled(poke: Poke, count: int = PAIRS) -> Poke:
    """The poke at `count` displacements, uniformly from its first to its deepest; forces are interpolated.

    Raises:
        ValueError: the poke has no sample, or count is below 2.
    """
    if len(poke) == 0 or count < 2:
        raise ValueError(
            f"a poke of at least one sample is reduced to at least two pairs, found {len(poke)} and {count}"
        )
    order = np.argsort(poke.displacement, kind="stable")
    d, f = poke.displacement[order], poke.force[order]
    asked = np.linspace(d[0], d[-1], count)
    return replace(poke, displacement=asked, force=np.interp(asked, d, f))


def last_slope(displacement: np.ndarray, force: np.ndarray, window: float = 0.2) -> float:
    """Slope [N/m] of forces over the last share `window` of displacements in ascending order, by least squares; not negative."""
    d = np.asarray(displacement, float)
    last = d >= d[-1] - window * (d[-1] - d[0])
    last[-2:] = True
    away = d[last] - d[last].mean()
    spread = float(away @ away)
    return max(0.0, float(away @ np.asarray(force, float)[last]) / spread) if spread > 0.0 else 0.0


def extrapolated(poke: Poke, reach: float = 3.0, window: float = 0.2, count: int = PAIRS) -> Poke:
    """The poke with `count` more samples beyond its deepest, on a straight line with its last slope.

    Bodies that are simulated press deeper than pokes did, where trees would answer with a constant. The source says to follow the
    estimated slope (section 4.4.2) and gives neither range nor width: three times the deepest displacement and a fifth are choices.

    Args:
        reach: of the last added sample, as a multiple of the deepest displacement. window: share of the poke from which the slope is.
    """
    order = np.argsort(poke.displacement, kind="stable")
    d, f = poke.displacement[order], poke.force[order]
    if len(d) < 2 or d[-1] <= 0.0:
        return poke
    beyond = np.linspace(d[-1], reach * d[-1], count + 1)[1:]
    added = f[-1] + last_slope(d, f, window) * (beyond - d[-1])
    return replace(poke, displacement=np.concatenate([d, beyond]), force=np.concatenate([f, added]))


def rows(pokes: Iterable[Poke]) -> tuple[np.ndarray, np.ndarray]:
    """What a regressor learns from: features with displacement (n, 10), and forces (n,) [N].

    Raises:
        ValueError: there are no samples, or some are not finite.
    """
    pokes = [poke for poke in pokes if len(poke)]
    if not pokes:
        raise ValueError(
            "a model of forces needs a poke with a sample, and there is none: poke the object once at least"
        )
    x = np.concatenate([np.column_stack([np.tile(p.feature, (len(p), 1)), p.displacement]) for p in pokes])
    f = np.concatenate([p.force for p in pokes])
    bad = ~(np.isfinite(x).all(1) & np.isfinite(f))
    if bad.any():
        raise ValueError(f"samples of pokes are finite, but {int(bad.sum())} of {len(f)} are not; leave those out")
    return x, f


@dataclass(frozen=True, eq=False)
class ExtractedPoke:
    """A poke out of a log, and what there is to say against it.

    Attributes:
        poke: the stretch of the log in which the probe goes in, at the log's rate; its forces count from those in the air.
        touched: whether the force exceeded TOUCH. saturated: whether the sensor was at its end; from there on samples are left out.
        drift: of the force in the air from before to after [N]; NaN where the log ends in contact. rate: of the log [Hz].
    """

    poke: Poke
    touched: bool
    saturated: bool
    drift: float
    rate: float

    @property
    def usable(self) -> bool:
        """Whether a model should learn from it."""
        return len(self.poke) >= 2 and not abs(self.drift) > DRIFT

    @property
    def complaint(self) -> str:
        """What is wrong, in a sentence; empty: nothing."""
        if abs(self.drift) > DRIFT:
            return f"the force in the air drifted by {self.drift:.2f} N during the poke, beyond {DRIFT:g} N; zero the sensor and repeat it"
        if self.saturated:
            return "the force-torque sensor was at its end; samples from there on are left out: lower the force limit"
        return (
            ""
            if self.touched
            else f"the probe has not touched: no force beyond {TOUCH:g} N; the surface may be off, or go deeper"
        )


def extract_poke(
    feature: np.ndarray,
    time: np.ndarray,
    displacement: np.ndarray,
    force: np.ndarray,
    probe: str = "point",
    tare: float = 0.1,
    largest: float | None = None,
) -> ExtractedPoke:
    """The way in, out of a log of approach, press and retraction.

    Args:
        feature: (9,) of the poked point. time: (m,) [s], ascending. displacement, force: (m,) at these times [m], [N].
        tare: how long at the beginning the probe is in the air, from which the sensor's zero is taken [s]; 0: forces are as they are.
        largest: force at which the sensor saturates [N]; None: known only by many equal readings in a row.

    Raises:
        ValueError: no samples, as in a bag without a wrench; shapes that do not fit; times that do not ascend; values that are not finite.
    """
    t, d, f = (np.asarray(a, float) for a in (time, displacement, force))
    if not len(t):
        raise ValueError(
            "a log of a poke has times, displacements and forces, and this one is empty; was the wrench recorded?"
        )
    if not t.shape == d.shape == f.shape or t.ndim != 1:
        raise ValueError(
            f"a log has one displacement and force for each time, found {t.shape}, {d.shape} and {f.shape}"
        )
    if not (np.isfinite(t).all() and np.isfinite(d).all() and np.isfinite(f).all()):
        raise ValueError(
            "times, displacements and forces of a log are finite, and some here are not; leave those samples out"
        )
    if (np.diff(t) <= 0.0).any():
        raise ValueError(f"times of a log ascend, but that of sample {int(np.argmax(np.diff(t) <= 0.0)) + 1} does not")
    rate = (len(t) - 1) / (t[-1] - t[0]) if len(t) > 1 else float("nan")
    air = t <= t[0] + tare
    zero = float(np.median(f[air])) if tare > 0.0 else 0.0
    f = f - zero
    end = int(np.argmax(d)) + 1
    full = _full(f[:end] + zero, largest)
    stop = end if full is None else full
    after = (d <= d[0] + 2e-4) & (t > t[end - 1])
    drift = float(np.median(f[after])) if after.any() else float("nan")
    way = np.flatnonzero(np.maximum.accumulate(d[:stop]) <= d[:stop])  # a probe that shakes has gone in once
    poke = Poke(np.asarray(feature, float), d[:stop][way], f[:stop][way], probe)
    return ExtractedPoke(
        poke,
        bool((np.convolve(f[:end], np.full(8, 0.125), "valid") > TOUCH).any()),
        full is not None,
        drift,
        float(rate),
    )


def _full(force: np.ndarray, largest: float | None) -> int | None:
    """Number of the first sample of a sensor at its end; None: it never is."""
    if largest is not None:
        beyond = np.flatnonzero(np.abs(force) >= largest)
        if len(beyond):
            return int(beyond[0])
    same = np.diff(force) == 0.0
    run = 0
    for k, still in enumerate(same):
        run = run + 1 if still and abs(force[k]) > TOUCH and abs(force[k]) >= np.abs(force).max() else 0
        if run >= STUCK:
            return k + 1 - run
    return None


HEADER = ("poke", "probe", *COLUMNS, "displacement", "force")


def save_pokes(path: str | os.PathLike[str], pokes: Sequence[Poke]) -> Path:
    """Write a CSV file, whole or not at all, with one row for each sample, that `load_pokes` reads back to the last bit."""
    with whole_file(path) as partial, open(partial, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for k, poke in enumerate(pokes):
            for d, f in zip(poke.displacement, poke.force):
                writer.writerow([k, poke.probe, *(float(x).__repr__() for x in (*poke.feature, d, f))])
    return Path(path)


def load_pokes(path: str | os.PathLike[str]) -> list[Poke]:
    """Pokes of a CSV file.

    Raises:
        FileNotFoundError: there is none. ValueError: its columns are others, or a row is no numbers.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"pokes are expected at {path}, and nothing is there")
    with open(path, newline="") as file:
        reader = csv.reader(file)
        if tuple(next(reader, ())) != HEADER:
            raise ValueError(f"{path} holds no pokes: its first row is expected to be {','.join(HEADER)}")
        found: dict[str, list[list[str]]] = {}
        for line, row in enumerate(reader, 2):
            if len(row) != len(HEADER):
                raise ValueError(f"row {line} of {path} has {len(row)} values, and {len(HEADER)} are expected")
            found.setdefault(row[0], []).append(row)
    pokes = []
    for name, some in found.items():
        try:
            values = np.array([row[2:] for row in some], float)
        except ValueError as error:
            raise ValueError(f"poke {name} of {path} holds what is no number: {error}") from None
        pokes.append(Poke(values[0, :9], values[:, 9], values[:, 10], some[0][1]))
    return pokes
