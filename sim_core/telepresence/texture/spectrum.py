"""Roughness and spectrum of a height map, with the camera's own noise taken out.

The two halves of the pictures have the surface in common and their noise not. With a and b their heights, windowed by Hann's window g over
both axes, and A, B the two-dimensional Fourier transforms,

    S(k) = Re(A(k) conj(B(k))) p^2 / sum g^2   [m^4]          expected: the spectral density of the surface alone
    R^2  = mean(a b)                                          expected: its mean square, without a window
    P(q) = sum of S(k) / L^2 over q - 1 / 2L <= |k| < q + 1 / 2L   [m^2]     the mean square by wave number, in rings

with the pitch p and the side L [m] of the map. The frequency that stands out is the centre of the highest ring and two on either side, if
they hold enough of the whole and are not the lowest ones, which belong to the form rather than to the texture.

Source: Bendat & Piersol, Random Data (2010) (cross-spectral density, windows); ISO 25178-2 (root mean square height Sq).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.telepresence.texture.height_map import HeightMap

__all__ = ["FLOOR", "Texture", "texture_of_map", "texture_of_heights"]

#: [m] root mean square that depths in whole millimetres leave on a plane at most (`height_map`): below it nothing is said of a spectrum
FLOOR = 0.00015
#: rings on either side of the highest, share that they must hold, and the lowest ring that may stand out
RINGS, SHARE, LOWEST = 2, 0.4, 3


@dataclass(frozen=True, eq=False)
class Texture:
    """What a height map says.

    Attributes:
        roughness: root mean square [m]. noise: what a height is uncertain by [m].
        frequency: that stands out [1/m]; 0: none.
        numbers: wave number in the middle of each ring (n,) [1/m]. power: mean square in it (n,) [m^2].
        direction: 0: all directions alike; 1: waves run in one.
    """

    roughness: float
    noise: float
    frequency: float
    numbers: np.ndarray
    power: np.ndarray
    direction: float


def texture_of_map(scan: HeightMap) -> Texture:
    """The texture of what was scanned."""
    return _texture(scan.first, scan.second, scan.pitch, scan.noise, FLOOR)


def texture_of_heights(heights: np.ndarray, pitch: float) -> Texture:
    """The texture of heights that are known (rows, columns) [m], `pitch` [m] apart."""
    heights = np.asarray(heights, float) - np.nanmean(heights)
    return _texture(heights, heights, pitch, 0.0, 0.0)


def _texture(first: np.ndarray, second: np.ndarray, pitch: float, noise: float, floor: float) -> Texture:
    measured = np.isfinite(first) & np.isfinite(second)
    square = float(np.mean(first[measured] * second[measured]))
    roughness = float(np.sqrt(max(0.0, square)))
    rows, columns = first.shape
    window = np.outer(np.hanning(rows + 2)[1:-1], np.hanning(columns + 2)[1:-1]) * measured
    A, B = (np.fft.fft2(np.where(measured, heights, 0.0) * window) for heights in (first, second))
    energy = np.real(A * np.conj(B)) / (first.size * np.sum(window**2))  # sums to the mean square
    k = np.stack(np.meshgrid(np.fft.fftfreq(columns, pitch), np.fft.fftfreq(rows, pitch)), axis=-1)
    length, width = np.linalg.norm(k, axis=-1), 1.0 / (pitch * max(rows, columns))
    ring = np.rint(length / width).astype(int)
    count = min(rows, columns) // 2
    power = np.bincount(ring.ravel(), energy.ravel(), minlength=count)[:count]
    numbers = width * np.arange(count)
    turned = np.where(length > 0.0, (k[..., 0] + 1j * k[..., 1]) ** 2 / np.maximum(length, 1e-9) ** 2, 0.0)
    inside = (ring >= LOWEST) & (ring < count)
    whole = max(float(np.sum(energy[inside])), 0.0) + floor**2
    direction = float(min(1.0, np.abs(np.sum((energy * turned)[inside])) / whole)) if whole > 0.0 else 0.0
    frequency = _dominant(numbers, power) if roughness > floor else 0.0
    return Texture(roughness, noise, frequency, numbers, power, direction)


def _dominant(numbers: np.ndarray, power: np.ndarray) -> float:
    """The frequency that stands out [1/m]; 0: none."""
    positive = np.maximum(power, 0.0)
    whole = float(positive[1:].sum())
    peak = int(np.argmax(positive[1:])) + 1
    if peak < LOWEST:
        return 0.0
    around = slice(max(1, peak - RINGS), peak + RINGS + 1)
    share = float(positive[around].sum())
    return float(numbers[around] @ positive[around] / share) if share >= SHARE * whole else 0.0
