"""A material's numbers for the fast model of a scoop, from scoops that were measured, as those that grains give.

    response = fit(trials)                                   # efficiency, interlock, fall-in, resistance, scatter
    material = calibrated(MATERIALS["gravel"], response)
    save({"gravel": response}, path, command="./refit experiment scooping_calibration", seed=0)
    materials = {name: calibrated(MATERIALS[name], each) for name, each in load(path).items()}

With a resistance given, the model of `reward.py` is linear in efficiency, efficiency times interlock and efficiency times fall-in, which
are found by least squares; the resistance is the one with which volumes and forces together are told best (variable projection: Golub,
Pereyra, SIAM Journal on Numerical Analysis 10, 1973).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from config.whole_file import whole_file
from sim_core.scooping.materials import Material
from sim_core.scooping.reward import REWARD, RewardSettings

__all__ = ["Response", "Trials", "calibrated", "fit", "load", "save"]

#: resistances that are tried [N/m]
RESISTANCES = np.geomspace(10.0, 20000.0, 200)
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

    Scoops that are full to the capacity say only that they were; they are left out.

    Raises:
        ValueError: fewer than five scoops that are not full.
    """
    free = trials[trials.volume < settings.capacity]
    if len(free) < 5:
        raise ValueError(
            f"expected five scoops or more that are not full, found {len(free)}: scoop less deep, or more often"
        )
    best: tuple[float, Response] | None = None
    for resistance in RESISTANCES:
        response = _linear(free, float(resistance), settings)
        miss = _unexplained(free.volume, response.volume(free, settings)) + _unexplained(
            free.force, response.force(free, settings)
        )
        if best is None or miss < best[0]:
            best = miss, response
    assert best is not None
    response = best[1]
    told = response.volume(free, settings)
    # Of the volume over what is expected; a scoop that brings nothing has no logarithm.
    spread = float(np.std(free.volume - told) / max(float(np.mean(told)), 1e-12))
    return replace(response, scatter=float(np.sqrt(np.log1p(spread**2))))


def _linear(trials: Trials, resistance: float, settings: RewardSettings) -> Response:
    swept = settings.gain * trials.swept * _share(trials, resistance, settings)
    # A column of zeros, where no scoop went up or across, takes a coefficient of 0.
    table = np.stack([swept, -swept * trials.up, swept * trials.across], 1)
    a, b, c = np.linalg.lstsq(table, trials.volume, rcond=None)[0]
    if a <= 0.0:
        return Response(0.0, 0.0, 0.0, resistance, 0.0)
    return Response(float(a), float(b / a), float(c / a), resistance, 0.0)


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
