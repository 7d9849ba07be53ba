"""What is asked of scans, with a declared end for each: where the sensor stands, where a body stands, what surfaces and the diode do.

A node and a command on a bag both call these functions, so that equal scans give equal numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from sim_core.lidar.fit import Fit, FitOptions, Watch, fit
from sim_core.lidar.measured import valid_scan
from sim_core.lidar.parameters import SENSOR, SURFACE
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import POSE

__all__ = ["FLAT", "FOLLOWING", "Found", "Learnt", "Outcome", "SearchOptions", "calibrate", "flat", "locate"]

#: of a pose in the plane of the scan
FLAT = ("x", "y", "yaw")
#: of an albedo that is learnt: black is not 0, whose radiance would be lost
DARKEST = 0.005


class Outcome(IntEnum):
    """How a search ended, counted as refit_interfaces/action/LocalizeScan does."""

    FOUND = 0
    NOT_CONVERGED = 1
    LOST = 2
    DISAGREES = 3
    NO_SCAN = 4
    CANCELLED = 5


@dataclass(frozen=True)
class SearchOptions:
    """How poses are looked for; the numbers are choices of ours.

    Attributes:
        place, turn: how far from the guess [m], [rad]. starts: within reach. huber: residual from which on it counts by its size [m].
        softness: stages of soft outlines [rad], where the scene has soft bodies. iterations: most of each stage.
        tolerance: a beam agrees that is nearer to what is expected [m]. agreement: least share that has to, of the beams that depend on
            what is looked for. evidence: least number of such beams: what is hardly seen agrees with anything.
        seed: of the starts.
    """

    place: float = 0.2
    turn: float = 0.4
    starts: int = 8
    huber: float = 0.1
    softness: tuple[float, ...] = (0.2, 0.05, 0.01, 0.005)
    iterations: int = 60
    tolerance: float = 0.05
    agreement: float = 0.6
    evidence: int = 10
    seed: int = 0


#: from one scan to the next, where a pose changes little
FOLLOWING = SearchOptions(place=0.05, turn=0.15, starts=3, softness=(0.05, 0.01, 0.005))


@dataclass(frozen=True, eq=False)
class Found:
    """How a search ended.

    Attributes:
        outcome, message: a kind, and a sentence. values: of what was looked for; the guess where nothing was found.
        fit: None: there was nothing to fit. residual: root mean square of the ranges' errors [m]. beams: that counted.
        agreement: share that agree of the beams which depend on what was looked for; NaN: there is none.
    """

    outcome: Outcome
    message: str
    values: dict[str, float]
    fit: Fit | None = None
    residual: float = float("nan")
    beams: int = 0
    agreement: float = float("nan")


def flat(owner: str = SENSOR) -> tuple[str, ...]:
    """Names of an owner's pose in the plane."""
    return tuple(f"{owner}.{q}" for q in FLAT)


def locate(
    lidar: Lidar,
    ranges: np.ndarray,
    guess: Mapping[str, float],
    reach: Mapping[str, float] = {},
    options: SearchOptions = SearchOptions(),
    watch: Watch | None = None,
) -> Found:
    """Poses near a guess, of the sensor or of bodies, from one scan or from several at one place.

    Args:
        lidar: the scene as far as it is known. ranges: (beams,) or (scans, beams) [m], NaN where invalid.
        guess: of what is looked for, by name. reach: of any of it, how far from the guess; else as options say.
        watch: see fit.py; if it ends the search, the outcome is CANCELLED.

    Raises:
        KeyError: an unknown parameter. ValueError: nothing is looked for, shapes that do not fit, a reach that is not positive, a
        guess that is not finite.
    """
    values = {name: float(value) for name, value in guess.items()}
    names = tuple(values)
    lidar.tracer.inputs.known([*names, *reach])
    lidar.tracer.inputs.full(values)
    data = np.atleast_2d(np.asarray(ranges, float))
    if why := valid_scan(data):
        return Found(Outcome.NO_SCAN, f"{why[0].upper()}{why[1:]}.", values)
    bounds = {name: _around(name, values[name], reach, options) for name in names}
    soft = any(body.soft for body in lidar.scene.bodies)
    how = FitOptions(
        iterations=options.iterations, huber=options.huber, gain=1e-5, softness=options.softness if soft else (0.0,),
        starts=options.starts, seed=options.seed,
    )  # fmt: skip
    ended = False

    def watched(step: int, cost: float, at: Mapping[str, float]) -> bool:
        nonlocal ended
        ended = watch is not None and watch(step, cost, at)
        return ended

    found = fit(lidar, data, values, bounds, how, ({},) * len(data), watched)
    # By the sensor's own model, every ray of a beam: the fit's last round sees an edge by one ray and a softened outline.
    scan = lidar.scan(found.values, names)
    errors = data - scan.range
    residual, beams = _spread(errors)
    share, depending = _agreement(errors, (scan.jacobian != 0.0).any(1) & np.isfinite(data), options.tolerance)

    def ended_as(outcome: Outcome, message: str, at: dict[str, float] = found.values) -> Found:
        return Found(outcome, message, at, found, residual, beams, share)

    what = " and ".join(dict.fromkeys(name.split(".")[0] for name in names))
    if ended:
        return ended_as(Outcome.CANCELLED, f"The search for {what} was cancelled after {found.iterations} steps.")
    if found.lost or np.isnan(share):
        gone = " and ".join(found.lost) or what
        said = (
            "No range depends on where the sensor stands: the guess is outside of the scene, or looks away from it."
            if gone == SENSOR
            else f"No range depends on {gone}: it is out of view."
        )
        return ended_as(Outcome.LOST, said, values)
    if depending < options.evidence * len(data):
        seen = (
            f"no more than {depending} beams depend on it"
            if len(data) == 1
            else f"{depending} beams of {len(data)} scans do"
        )
        return ended_as(Outcome.LOST, f"Hardly anything is seen of {what}: {seen}.", values)
    if share < options.agreement:
        within = f"within {1e3 * options.tolerance:.0f} mm of what is expected"
        return ended_as(
            Outcome.DISAGREES,
            f"The best that was found does not fit: {100 * share:.0f} % of the beams that depend on {what} are {within}.",
        )
    if not found.converged:
        return ended_as(Outcome.NOT_CONVERGED, f"The fit of {what} ran out of iterations.")
    rms = f"root mean square of the ranges' errors {1e3 * residual:.1f} mm"
    return ended_as(Outcome.FOUND, f"Found where {what} is, {rms}.")


def _agreement(errors: np.ndarray, counts: np.ndarray, tolerance: float) -> tuple[float, int]:
    """Of the beams that count (scans, beams), those measured that depend on what is sought: the share whose errors [m] are within
    `tolerance` [m], NaN where none counts, and how many count."""
    with np.errstate(invalid="ignore"):
        near = np.abs(errors) < tolerance
    return (float(near[counts].mean()) if counts.any() else float("nan")), int(counts.sum())


def _around(name: str, value: float, reach: Mapping[str, float], options: SearchOptions) -> tuple[float, float]:
    quantity = name.split(".")[1]
    by = reach.get(name, options.turn if quantity in POSE[3:] else options.place)
    if not by > 0.0:
        raise ValueError(f"{name} is looked for within a positive reach, not {by}")
    low, high = value - by, value + by
    return (
        (max(low, 0.0), min(high, 1.0))
        if quantity in SURFACE and quantity not in ("index", "emission")
        else (low, high)
    )


def _spread(residual: np.ndarray) -> tuple[float, int]:
    known = residual[np.isfinite(residual)]
    return (float(np.sqrt(np.mean(known**2))) if len(known) else float("nan")), len(known)


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a calibration learnt: `values` by name; `before` and `after`, root mean square errors of the ranges [m] with the old and
    the new ones, of the same beams; `weak`, parameters that scans do not tell apart; `cancelled`, whether it was ended by who watched."""

    values: dict[str, float]
    before: float
    after: float
    fit: Fit
    cancelled: bool = False
    weak: tuple[str, ...] = field(default=())


def calibrate(
    lidar: Lidar, ranges: np.ndarray, names: Sequence[str], huber: float = 0.03, watch: Watch | None = None
) -> Learnt:
    """What surfaces and the diode do, from scans (scans, beams) [m] of a scene whose shapes and poses are known.

    Scans are averaged, beam by beam, over those in which it is valid. Ranges do not tell the scale of radiance: hold one albedo.

    Raises:
        KeyError: an unknown parameter. ValueError: none is named, or no beam was measured.
    """
    lidar.tracer.inputs.known(names)
    data = np.atleast_2d(np.asarray(ranges, float))
    if why := valid_scan(data):
        raise ValueError(why)
    count = np.isfinite(data).sum(0)
    mean = np.where(count > 0, np.nansum(data, 0) / np.maximum(count, 1), np.nan)
    start = {name: float(np.clip(lidar.values[name], *_limits(name))) for name in names}
    bounds = {name: _limits(name) for name in names}
    ended = False

    def watched(step: int, cost: float, at: Mapping[str, float]) -> bool:
        nonlocal ended
        ended = watch is not None and watch(step, cost, at)
        return ended

    found = fit(lidar, mean, start, bounds, FitOptions(huber=huber, iterations=60), watch=watched)
    old, new = lidar.scan().range, lidar.scan(found.values).range
    both = np.isfinite(old) & np.isfinite(new) & np.isfinite(mean)
    before, after = (float(np.sqrt(np.mean((r - mean)[both] ** 2))) for r in (old, new))
    return Learnt(found.values, before, after, found, ended, tuple(dict.fromkeys((*found.weak, *_unseen(found)))))


def _limits(name: str) -> tuple[float, float]:
    quantity = name.split(".")[1]
    if quantity == "albedo":
        return DARKEST, 1.0
    return (0.0, 1.0) if quantity in SURFACE and quantity not in ("index", "emission") else (-np.inf, np.inf)


def _unseen(found: Fit) -> list[str]:
    return [name for name in found.values if name.split(".")[0] in found.lost]
