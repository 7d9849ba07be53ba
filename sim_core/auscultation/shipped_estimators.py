"""The estimators that come with the project, fitted to synthetic recordings; data/auscultation/README.md says how.

shipped_estimator("heart").predict(sound, 44100.0)
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

from config.share import shared_folder
from sim_core.auscultation.quality_estimator import QualityEstimator
from sim_core.auscultation.quality_network import QualityNetwork
from sim_core.auscultation.regions import Structure

__all__ = ["FOLDER", "Kind", "shipped_estimator", "shipped_path"]

FOLDER = "data/auscultation"
Kind = Literal["network", "trees"]


def shipped_path(structure: Structure, kind: Kind = "network") -> Path:
    """Where an estimator lies."""
    return shared_folder(FOLDER) / f"{structure}_{kind}.safetensors"


@functools.cache
def shipped_estimator(structure: Structure, kind: Kind = "network") -> QualityNetwork | QualityEstimator:
    """The network, which is the better one, or the trees on features, which are of the published kind.

    Raises:
        FileNotFoundError: it is not there. EstimatorFileError: it cannot be read.
    """
    load = QualityNetwork.load if kind == "network" else QualityEstimator.load
    return load(shipped_path(structure, kind))
