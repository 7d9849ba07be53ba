"""A material's numbers for the fast model of a scoop, from scoops that were measured, as those that grains give.

    response = fit(trials)                                   # efficiency, interlock, fall-in, resistance, scatter
    material = calibrated(MATERIALS["gravel"], response)
    save({"gravel": response}, path, command="./refit experiment scooping_calibration", seed=0)
    materials = {name: calibrated(MATERIALS[name], each) for name, each in load(path).items()}

With a resistance given, the model of `reward.py` is linear in efficiency, efficiency times interlock and efficiency times fall-in, but for
the limit of the scoop's capacity: the linear least squares begin a search with the limit. The resistance is the one with which volumes and
forces together are told best (variable projection: Golub, Pereyra, SIAM Journal on Numerical Analysis 10, 1973).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from config.whole_file import whole_file
from sim_core.scooping.bed.materials import Material
from sim_core.scooping.bed.reward import REWARD, RewardSettings

__all__ = ["Response", "Trials", "calibrated", "fit", "load", "save"]

#: resistances that are tried [N/m]
RESISTANCES = np.geomspace(10.0, 20000.0, 40)
#: greatest interlock and fall-in, of either sign
MOST = 3.0
VERSION = 1


@dataclass(frozen=True)
class Trials:
    """n scoops and what they brought; each (n,).

    Attributes:
        swept: volume of the terrain that the blade passes through [m^3]. up, across: `reward.alignment` [1].
        depth: [m]. stiff: the arm. volume: brought [m^3]. force: greatest [N].
    """

    swept: np.ndarray
    up: np.ndarray
    across: np.ndarray
    depth: np.ndarray
    stiff: np.ndarray
    volume: np.ndarray
    force: np.ndarray

    def __post_init__(self) -> None:
        shapes = {np.shape(value) for value in vars(self).values()}
        if len(shapes) != 1 or len(shapes.pop()) != 1:
            raise ValueError(
                "expected seven arrays (n,) of one length for the trials: give each scoop a row in all of them"
            )

    def __len__(self) -> int:
        return len(self.swept)

    def __getitem__(self, which: np.ndarray | slice) -> Trials:
        """Some of them."""
        return Trials(**{name: value[which] for name, value in vars(self).items()})


@dataclass(frozen=True)
class Response:
    """What `Material` says of a material's answer to a scoop; see there."""

    efficiency: float
    interlock: float
    fall_in: float
    resistance: float
    scatter: float

    def volume(self, trials: Trials, settings: RewardSettings = REWARD) -> np.ndarray:
        """What scoops would bring (n,) [m^3], limited by the scoop's capacity."""
        loss = np.maximum(1.0 - self.interlock * trials.up + self.fall_in * trials.across, 0.0)
        share = _share(trials, self.resistance, settings)
        volume: np.ndarray = settings.gain * self.efficiency * trials.swept * loss * share
        return np.minimum(volume, settings.capacity)

    def force(self, trials: Trials, settings: RewardSettings = REWARD) -> np.ndarray:
        """Greatest force (n,) [N]."""
        share = _share(trials, self.resistance, settings)
        force: np.ndarray = self.resistance * share * trials.depth * (1.0 + max(self.interlock, 0.0) * trials.up)
        return force


def _share(trials: Trials, resistance: float, settings: RewardSettings) -> np.ndarray:
    """Of its way that the blade goes."""
    arm = np.where(trials.stiff, settings.stiff, settings.soft)
    share: np.ndarray = arm / (arm + resistance)
    return share


def fit(trials: Trials, settings: RewardSettings = REWARD) -> Response:
    """The response that tells the trials' volumes and forces best, each by its variance.

    A scoop that is told to be full says nothing more about a material that would fill it anyway: the model's limit is part of the fit.

    Raises:
        ValueError: fewer than five scoops.
    """
    if len(trials) < 5:
        raise ValueError(
            f"expected five scoops or more to fit a material's numbers to, found {len(trials)}: scoop more often"
        )
    best: tuple[float, Response] | None = None
    for resistance in RESISTANCES:
        response = _limited(trials, _linear(trials, float(resistance), settings), settings)
        miss = _unexplained(trials.volume, response.volume(trials, settings))
        miss += _unexplained(trials.force, response.force(trials, settings))
        if best is None or miss < best[0]:
            best = miss, response
    assert best is not None
    response = best[1]
    told = response.volume(trials, settings)
    # The variance of a lognormal factor of mean 1 is exp(scatter^2) - 1; a full scoop hides its luck.
    free = (told > 0.0) & (told < settings.capacity)
    spread = trials.volume[free] / told[free] - 1.0
    return replace(response, scatter=float(np.sqrt(np.log1p((spread**2).mean()))) if free.any() else 0.0)


def _linear(trials: Trials, resistance: float, settings: RewardSettings) -> Response:
    """Least squares without the limit, of the scoops below it."""
    free = trials[trials.volume < settings.capacity]
    swept = settings.gain * free.swept * _share(free, resistance, settings)
    # A column of zeros, where no scoop went up or across, takes a coefficient of 0.
    table = np.stack([swept, -swept * free.up, swept * free.across], 1)
    a, b, c = np.linalg.lstsq(table, free.volume, rcond=None)[0]
    if a <= 0.0:
        return Response(0.0, 0.0, 0.0, resistance, 0.0)
    return Response(float(a), float(b / a), float(c / a), resistance, 0.0)


def _limited(trials: Trials, start: Response, settings: RewardSettings) -> Response:
    """The same with the limit, of all scoops."""

    def response(x: np.ndarray) -> Response:
        return Response(float(x[0]), float(x[1]), float(x[2]), start.resistance, 0.0)

    def misses(x: np.ndarray) -> np.ndarray:
        return (response(x).volume(trials, settings) - trials.volume) / settings.capacity

    first = np.array([max(start.efficiency, 1e-3), start.interlock, start.fall_in])
    low, high = np.array([0.0, -MOST, -MOST]), np.array([np.inf, MOST, MOST])
    return response(least_squares(misses, np.clip(first, low, high), bounds=(low, high)).x)


def _unexplained(measured: np.ndarray, told: np.ndarray) -> float:
    return float(((measured - told) ** 2).mean() / max(float(measured.var()), 1e-30))


def calibrated(material: Material, response: Response) -> Material:
    """A material with the numbers of a response; its looks, grains and repose stay."""
    return replace(material, **asdict(response))


def save(responses: Mapping[str, Response], path: Path, command: str, seed: int) -> None:
    """Write a table as JSON, with the command and the seed that made it."""
    content = {
        "version": VERSION,
        "command": command,
        "seed": seed,
        "materials": {name: asdict(response) for name, response in responses.items()},
    }
    with whole_file(path) as part:
        part.write_text(json.dumps(content, indent=1) + "\n")


def load(path: Path) -> dict[str, Response]:
    """The table of a file that `save` wrote.

    Raises:
        ValueError: it is of another version, or no such table.
    """
    content = json.loads(Path(path).read_text())
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise ValueError(f"{path}: expected a calibration of version {VERSION}; make it anew with its command")
    return {name: Response(**row) for name, row in content["materials"].items()}
