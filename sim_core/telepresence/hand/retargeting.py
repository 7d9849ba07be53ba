"""From a glove's twenty angles to the six motors of the robot's hand.

    retargeting = fit_hand(calibration, "kernel ridge", lower, upper)
    angles = retargeting(glove)                              # (20,) [rad] -> (6,) [rad], 20 microseconds

Every finger has a regression of its own, from its four channels to its motor, the thumb's to its two motors. What has not been
calibrated is led by `NominalHand`, for which all hands and gloves are alike.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.5, equation 8.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import numpy as np

from sim_core.telepresence.hand.calibration import GloveCalibration
from sim_core.telepresence.hand.kernel_regression import KernelSum, fit_gaussian_process, fit_kernel_ridge
from sim_core.telepresence.hand.poses import CALIBRATION_POSES, FINGERS, MOTORS_OF, REACH, for_hand, over_closed
from sim_core.telepresence.hand.synthetic_operator import JOINTS, joints_of

__all__ = ["METHODS", "OVER_CLOSE", "FittedHand", "Method", "NominalHand", "Retargeting", "fit_hand"]

Method = Literal["gaussian process", "kernel ridge"]
METHODS: tuple[Method, ...] = ("gaussian process", "kernel ridge")
#: [rad] by which fingers in contact are closed further in what is learnt; the thesis does not state its own
OVER_CLOSE = 0.25
#: snapshots of a held pose that are learnt from
SNAPSHOTS = 5
_CHANNELS_OF = {finger: slice(4 * k, 4 * k + 4) for k, finger in enumerate(FINGERS)}


class Retargeting(Protocol):
    """From a glove to a hand.

    Attributes:
        said: what leads the hand, for whoever asks.
    """

    said: str

    def __call__(self, glove: np.ndarray) -> np.ndarray:
        """Motor angles (6,) [rad], within the hand's limits, for angles of a glove (20,) [rad]."""
        ...


class FittedHand:
    """See the module's docstring.

    Args:
        fits: of each finger. lower, upper: limits of the motors (6,) [rad]. said: whose calibration it is.
    """

    def __init__(self, fits: Mapping[str, KernelSum], lower: np.ndarray, upper: np.ndarray, said: str) -> None:
        self.fits, self.said = dict(fits), said
        self.lower, self.upper = np.asarray(lower, float), np.asarray(upper, float)
        # All fingers at once: rows that a finger lacks have no weight.
        n = max(len(fit.centres) for fit in fits.values())
        self._centres, self._weights = np.zeros((len(FINGERS), n, 4)), np.zeros((len(FINGERS), n, 2))
        for k, finger in enumerate(FINGERS):
            fit = fits[finger]
            self._centres[k, : len(fit.centres)] = fit.centres
            self._weights[k, : len(fit.centres), : fit.weights.shape[1]] = fit.weights
        in_order = [fits[finger] for finger in FINGERS]
        self._shift, self._scale = np.array([fit.shift for fit in in_order]), np.array([fit.scale for fit in in_order])
        self._gamma = np.array([fit.gamma for fit in in_order])[:, None]
        self._mean = np.concatenate([fit.mean for fit in in_order])

    def __call__(self, glove: np.ndarray) -> np.ndarray:
        """See `Retargeting`."""
        z = (np.reshape(glove, (len(FINGERS), 4)) - self._shift) / self._scale
        away = z[:, None, :] - self._centres
        near = np.exp(-self._gamma * np.einsum("fnd,fnd->fn", away, away))
        sums = np.einsum("fn,fnk->fk", near, self._weights)
        return np.clip(self._mean + np.r_[sums[:4, 0], sums[4]], self.lower, self.upper)


class NominalHand:
    """A hand whose glove nobody has calibrated: each motor closes with the sum of its finger's flexions, as in a hand of the
    model that operators are drawn from, without any error.

    Args:
        lower, upper: limits of the motors (6,) [rad].
    """

    said = "no calibration: the glove's angles are taken as those of an average hand"

    def __init__(self, lower: np.ndarray, upper: np.ndarray) -> None:
        self.lower, self.upper = np.asarray(lower, float), np.asarray(upper, float)
        self._open, self._closed = self._features(_channels(np.zeros(6))), self._features(_channels(REACH))

    def __call__(self, glove: np.ndarray) -> np.ndarray:
        """See `Retargeting`."""
        share = (self._features(np.asarray(glove, float)) - self._open) / (self._closed - self._open)
        return self.lower + np.clip(share, 0.0, 1.0) * (self.upper - self.lower)

    @staticmethod
    def _features(glove: np.ndarray) -> np.ndarray:
        """One angle for each motor (6,) [rad]: the fingers' bend, the bend of the thumb's two ends, and its abduction."""
        fingers = glove[:16].reshape(4, 4)[:, :3].sum(1)
        return np.r_[fingers, glove[18] + glove[19], glove[17]]


def fit_hand(
    calibration: GloveCalibration,
    method: Method,
    lower: np.ndarray,
    upper: np.ndarray,
    over_close: float = OVER_CLOSE,
) -> FittedHand:
    """The retargeting of a calibrated glove.

    Args:
        method: of the regression. lower, upper: limits of the motors (6,) [rad].
        over_close: by which fingers in contact are closed further in what is learnt [rad]; 0: unbiased targets.

    Raises:
        ValueError: the method is none.
    """
    if method not in METHODS:
        raise ValueError(f"expected one of the methods {', '.join(METHODS)}, found '{method}'")
    fits = {}
    for finger in FINGERS:
        inputs, targets, groups = [], [], []
        for k, pose in enumerate(CALIBRATION_POSES):
            if finger in pose.counts:
                rows = snapshots(calibration.readings[pose.name])[:, _CHANNELS_OF[finger]]
                angles = for_hand(over_closed(pose, over_close), lower, upper)[list(MOTORS_OF[finger])]
                inputs.append(rows)
                targets.append(np.tile(angles, (len(rows), 1)))
                groups.append(np.full(len(rows), k))
        x, y = np.concatenate(inputs), np.concatenate(targets)
        fits[finger] = (
            fit_gaussian_process(x, y)
            if method == "gaussian process"
            else fit_kernel_ridge(x, y, np.concatenate(groups))
        )
    biased = f"contact grasps over-closed by {over_close:.2f} rad" if over_close else "unbiased"
    return FittedHand(fits, lower, upper, f"calibration of {calibration.operator}, {method}, {biased}")


def snapshots(rows: np.ndarray) -> np.ndarray:
    """At most `SNAPSHOTS` rows (m, 20) of a held pose, each the mean of as many readings (n, 20), in their order."""
    return np.array([part.mean(0) for part in np.array_split(rows, min(SNAPSHOTS, len(rows)))])


def _channels(angles: np.ndarray) -> np.ndarray:
    """What a glove without errors reads (20,) [rad] at motor angles (6,) [rad]."""
    return np.delete(joints_of(angles), JOINTS.index("thumb root turning"))
