"""The sensor: where its beams go, how their waves are received and become a range.

Source: Heiden, PhD thesis (University of Southern California), section 3.1; Heiden, Liu, Ramachandran, Sukhatme (ICRA 2020). The sensor
is the Hokuyo URG-04LX: 682 beams over 240 degrees, modulated with 46.55 and 53.2 MHz, 40 mm wide at 4 m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["LIGHT", "SAMPLES", "LidarSettings"]

#: speed of light [m/s]
LIGHT = 299792458.0
SAMPLES, PERIODS = 30, 15


@dataclass(frozen=True)
class LidarSettings:
    """Of a scan; numbers without a source are choices of ours.

    Attributes:
        beams: of a scan. spacing: between them [rad]; angles are counter-clockwise. middle: angle of the scan's middle from the
            sensor's x [rad]: a driver's frame may be turned by half a step.
        rays: a beam is traced by, equally weighted. divergence: half angle of a beam's cone [rad].
        depth: most surfaces a ray meets one after the other.
        frequencies: of the two modulations [Hz], as 7 to 8.
        per_return: each return is shifted by its own radiance, not the sum by the sum's.
        gain: radiance of the emitter; its unit is arbitrary.
        sampled: waves are sampled 30 times over 15 periods and demodulated by Fourier sums; else in closed form, which gives the same.
        mean: the range is the mean of both frequencies' and not the first's.
        optical: paths inside of glass count by its index.
        glint: weight of a mirror's own return where a ray meets it at a right angle. glint_angle: where it has faded to 0 [rad].
        softness: half angle over which soft bodies' outlines are blurred [rad]; 0: not.
        lowest: amplitude below which a beam is invalid. nearest, farthest: range likewise [m].

    Raises:
        ValueError: a value out of its range.
    """

    beams: int = 682
    spacing: float = 2.0 * math.pi / 1024.0
    middle: float = 0.0
    rays: int = 3
    divergence: float = 0.005
    depth: int = 5
    frequencies: tuple[float, float] = (46.55e6, 53.2e6)
    per_return: bool = True
    gain: float = 1.0
    sampled: bool = False
    mean: bool = False
    optical: bool = False
    glint: float = 1.0
    glint_angle: float = 0.005
    softness: float = 0.0
    lowest: float = 1e-6
    nearest: float = 0.02
    farthest: float = 22.0

    def __post_init__(self) -> None:
        whole = {"beams": (1, 1_000_000), "rays": (1, 10_000), "depth": (1, 16)}
        real = {
            "spacing": (0.0, 2.0 * math.pi),
            "middle": (-2.0 * math.pi, 2.0 * math.pi),
            "divergence": (0.0, 0.2),
            "gain": (1e-12, 1e12),
            "glint": (0.0, 1e6),
            "glint_angle": (1e-6, 0.5),
            "softness": (0.0, 0.5),
            "lowest": (0.0, math.inf),
            "nearest": (0.0, 22.5),
            "farthest": (self.nearest, 22.54),
        }
        for name, (low, high) in (whole | real).items():
            value = getattr(self, name)
            if not low <= value <= high or name in whole and value != int(value):
                raise ValueError(
                    f"a LIDAR's {name} is {'whole and ' if name in whole else ''}between {low:g} and {high:g}, not {value}"
                )
        first, second = self.frequencies
        if not (first > 0.0 and abs(8.0 * first - 7.0 * second) < 1e-9 * second):
            raise ValueError(
                f"the frequencies are as 7 to 8, by which whole periods are told apart, not {self.frequencies} Hz"
            )

    @property
    def angles(self) -> np.ndarray:
        """Of the beams, (beams,) [rad]."""
        return self.middle + (np.arange(self.beams) - 0.5 * (self.beams - 1)) * self.spacing

    @property
    def directions(self) -> np.ndarray:
        """Of the rays, (beams, rays, 3) unit vectors in the sensor's frame."""
        across, up = np.tan(self.divergence) * spots(self.rays).T
        sine, cosine = np.sin(self.angles)[:, None], np.cos(self.angles)[:, None]
        aim = np.stack(
            [cosine - across * sine, sine + across * cosine, np.broadcast_to(up, (self.beams, self.rays))], -1
        )
        return aim / np.linalg.norm(aim, axis=-1, keepdims=True)

    @property
    def spans(self) -> tuple[float, float]:
        """Range at which either phase is back at 0 [m]."""
        return LIGHT / 2.0 / self.frequencies[0], LIGHT / 2.0 / self.frequencies[1]


def spots(rays: int) -> np.ndarray:
    """Where rays cross a beam's unit disc, (rays, 2), with the disc's mean square radius: one in the middle, up to six on a ring,
    more on a spiral."""
    if rays == 1:
        return np.zeros((1, 2))
    k = np.arange(float(rays))
    radius: np.ndarray
    turn: np.ndarray
    if rays <= 6:
        radius, turn = np.full(rays, math.sqrt(0.5)), 0.5 * math.pi + 2.0 * math.pi * k / rays
    else:
        radius, turn = np.sqrt((k + 0.5) / rays), k * math.pi * (3.0 - math.sqrt(5.0))
    return np.stack([radius * np.cos(turn), radius * np.sin(turn)], 1)


def sample_times() -> np.ndarray:
    """When a wave is sampled, (SAMPLES,) in periods: every 13/30 of one, so that 30 samples within 15 periods fall on 30 phases, evenly
    and each once. Half a period would give two phases; 29/60 of one, 30 phases that are not even, so that an offset would be seen."""
    return np.arange(SAMPLES) * 13.0 / 30.0
