"""Which of the surfaces that are known a texture is of.

    known = known_surfaces()                                 # those that were learnt, data/telepresence/surfaces.json
    known.recognise(texture)                                 # Recognised(name="gravel", certainty=0.99)

Five features of a texture: the logarithm of its roughness; the mean and the standard deviation of the logarithm of the wave number,
weighted by power; how much its waves run in one direction; and the share of power near the highest ring. The smoother a surface, the
nearer all but the first are to fixed values, since they are then of the camera's terraces rather than of the surface: they count by
w = R^4 / (R^4 + R0^4), with the roughness R and R0 = 0.2 mm (ours). A kind is a normal distribution of these with its own mean and a covariance that all
kinds share (linear discriminant analysis), shrunk towards its diagonal; kinds are equally likely beforehand. What is farther from every
mean than twice the farthest sample of its own kind is none of them, unless it is smoother than the camera can tell: of such a surface only
that is known.

`python -m sim_core.telepresence.texture` learns them anew from synthetic pictures.

Source: Hastie, Tibshirani & Friedman, The Elements of Statistical Learning (2009), 4.3.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from config.share import shared_folder
from sim_core.telepresence.texture.spectrum import FLOOR, LOWEST, RINGS, Texture

__all__ = ["FEATURES", "KnownSurfaces", "Recognised", "features", "known_surfaces"]

FEATURES = ("roughness", "wave number", "its spread", "direction", "share of the peak")
#: R0 [m]; what the mean wave number tends to [1/m], and the spread of its logarithm
HALFWAY, NOWHERE, WIDE = 0.0002, 60.0, 0.7
#: towards the diagonal
SHRINKAGE = 0.1
#: times the squared distance of the farthest sample from the mean of its kind
BEYOND = 2.0


@dataclass(frozen=True)
class Recognised:
    """The nearest kind, or "" for none, and its probability among those that are known; 0 for none."""

    name: str
    certainty: float


def features(texture: Texture) -> np.ndarray:
    """What is compared (5,) [-], by the names of FEATURES."""
    power, numbers = np.maximum(texture.power[LOWEST - 1 :], 0.0), np.log(texture.numbers[LOWEST - 1 :])
    whole, peak = max(float(power.sum()), 1e-18), int(np.argmax(power))
    mean = float(power @ numbers) / whole
    spread = float(np.sqrt(power @ (numbers - mean) ** 2 / whole))
    share = float(power[max(0, peak - RINGS) : peak + RINGS + 1].sum()) / whole
    weight = texture.roughness**4 / (texture.roughness**4 + HALFWAY**4)
    shape = np.array([mean, spread, texture.direction, share])
    shape = weight * shape + (1.0 - weight) * np.array([np.log(NOWHERE), WIDE, 0.0, 0.0])
    return np.array([0.5 * np.log(texture.roughness**2 + FLOOR**2), *shape])


class KnownSurfaces:
    """See the module's docstring.

    Args:
        samples: features (n, 5) of each kind, two at least.
    """

    def __init__(self, samples: Mapping[str, np.ndarray]) -> None:
        self.names = tuple(samples)
        each = [np.asarray(samples[name], float) for name in self.names]
        self._means = np.array([one.mean(axis=0) for one in each])
        off = np.concatenate([one - mean for one, mean in zip(each, self._means)])
        covariance = off.T @ off / (len(off) - len(each))
        covariance = (1.0 - SHRINKAGE) * covariance + SHRINKAGE * np.diag(np.diag(covariance))
        self._inverse = np.linalg.inv(covariance)
        self._limit = BEYOND * float(np.max(np.einsum("ni,ij,nj->n", off, self._inverse, off)))

    def recognise(self, texture: Texture) -> Recognised:
        """The kind that is nearest."""
        off = features(texture) - self._means
        squares = np.einsum("ni,ij,nj->n", off, self._inverse, off)
        best = int(np.argmin(squares))
        if squares[best] > self._limit and texture.roughness > FLOOR:
            return Recognised("", 0.0)
        weights = np.exp(-0.5 * (squares - squares[best]))
        return Recognised(self.names[best], float(1.0 / weights.sum()))


@functools.cache
def known_surfaces() -> KnownSurfaces:
    """Those of data/telepresence/surfaces.json, read once.

    Raises:
        FileNotFoundError: it is not there.
    """
    return KnownSurfaces(shipped_samples())


def shipped_samples() -> dict[str, np.ndarray]:
    """Features (n, 5) of each kind, by its name.

    Raises:
        FileNotFoundError: they are not there.
    """
    said = json.loads((shared_folder("data/telepresence") / "surfaces.json").read_text())
    return {name: np.array(rows, float) for name, rows in said["samples"].items()}
