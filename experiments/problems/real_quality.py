"""Does an estimator that learnt from synthetic recordings tell good real ones from poor ones?

The PhysioNet/CinC Challenge 2016 says of each heart recording whether its quality was good enough for a diagnosis.
The measure is the probability that a good one gets the higher quality than another (area under the curve): 0.5 is
chance. The collection is no part of the project: REFIT_CINC2016 names its folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from recording.auscultation.cinc2016 import find_cinc2016
from sim_core.auscultation.quality_estimator import QualityEstimator
from sim_core.auscultation.quality_network import QualityNetwork
from sim_core.auscultation.usability import UnusableRecording

__all__ = ["area_under_curve", "cinc2016_folder", "judged_cinc2016"]

LENGTH = 10.0  # [s] from the middle, as long as what the estimators learnt from


def cinc2016_folder() -> Path | None:
    """The folder that REFIT_CINC2016 names, None where it is not set."""
    folder = os.environ.get("REFIT_CINC2016")
    return Path(folder) if folder else None


def judged_cinc2016(folder: Path, estimators: Sequence[QualityEstimator | QualityNetwork]) -> dict:
    """Areas under the curve, one for each estimator, and how many recordings were good, poor and refused.

    Raises:
        CollectionError: the folder is damaged, or says of no recording whether it is good.
    """
    said: list[list[float]] = []
    good, refused = [], 0
    for one in find_cinc2016(folder):
        if one.usable is None:
            continue
        sound, rate = one.read()
        spare = max(0, len(sound) - round(LENGTH * rate)) // 2
        middle = sound[spare : spare + round(LENGTH * rate)]
        try:
            said.append([estimator.predict(middle, rate) for estimator in estimators])
            good.append(one.usable)
        except UnusableRecording:
            refused += 1
    found = {"good": int(np.sum(good)), "poor": int(np.sum(np.logical_not(good))), "refused": refused}
    if 0 in (found["good"], found["poor"]):
        raise ValueError(f"{folder}: expected good and poor recordings by REFERENCE_withSQI.csv, found {found}")
    return {**found, "areas": [area_under_curve(np.array(column), np.array(good)) for column in zip(*said)]}


def area_under_curve(value: np.ndarray, good: np.ndarray) -> float:
    """Probability that the value of a good one is the higher, ties counted half: Mann-Whitney's U over all pairs."""
    n, m = good.sum(), (~good).sum()
    return float((rankdata(value)[good].sum() - n * (n + 1) / 2.0) / (n * m))
