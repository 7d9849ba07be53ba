"""A meta-learnt force model as the model of one object's points: what it believes after a few pokes of the object.

    force_model = load_force_model()                    # the one that comes with the project
    known = force_model.of(surface)                     # the object is looked at once
    belief = known.condition(pokes)                     # a `PointModel`; no pokes: what it believes of objects like this
    force, deviation = belief.predict_with_deviation(surface.features, displacement)

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.5.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from config.share import shared_folder
from config.tiers import require
from sim_core.elastic.force_response.clouds import POINTS, frame_of, seen
from sim_core.elastic.force_response.network import ForceExtractor
from sim_core.elastic.force_response.training import numbers_of, pairs_of
from sim_core.elastic.poke import Poke
from sim_core.elastic.surface import Surface
from sim_core.meta.model import Belief, MetaModel
from sim_core.meta.model_file import load_model

__all__ = ["FILE", "FOLDER", "ForceModel", "LearnedPointModel", "SeenObject", "load_force_model"]

FOLDER, FILE = "data/elastic", "force_model.safetensors"


class ForceModel:
    """What other objects taught.

    Args:
        model: by `training.train_force_model`.
    """

    def __init__(self, model: MetaModel) -> None:
        self.model = model

    @property
    def meta(self) -> dict:
        """How the model came about."""
        return self.model.meta

    def of(self, surface: Surface) -> SeenObject:
        """One object, which the network looks at once."""
        return SeenObject(self.model, surface)


class SeenObject:
    """An object that the network has looked at.

    Attributes:
        frame: of the object.
    """

    def __init__(self, model: MetaModel, surface: Surface) -> None:
        self.model, self.frame = model, frame_of(surface.points)
        cloud = seen(surface.points, surface.colours, self.frame, model.meta.get("points", POINTS))
        self.encoded = model.encode(cloud)

    def condition(self, pokes: Sequence[Poke] = ()) -> LearnedPointModel:
        """What is believed of the object after pokes of it; there may be none.

        Raises:
            ValueError: forces or displacements that are not finite.
        """
        features, displacement, forces = pairs_of(pokes)
        deepest = self.frame.radius * float(self.model.meta["deepest"])
        if not len(forces):
            return LearnedPointModel(self, self.model.condition(), deepest)
        belief = self.model.condition((self.encoded, *numbers_of(features, displacement, self.frame)), forces)
        return LearnedPointModel(self, belief, max(deepest, float(displacement.max())))


class LearnedPointModel:
    """A `PointModel` of one object that knows how sure it is. Forces are never negative.

    Attributes:
        deepest: largest displacement learnt from, of other objects (in their size) or this one [m]; `extrapolation.Extrapolated` goes on
            from there.
    """

    def __init__(self, known: SeenObject, belief: Belief, deepest: float) -> None:
        self.known, self.belief, self.deepest = known, belief, deepest

    def predict(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """See `PointModel`: features (n, 9), displacement (n,) [m] to forces (n,) [N]."""
        return self.predict_with_deviation(features, displacement)[0]

    def predict_with_deviation(self, features: np.ndarray, displacement: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Forces and their standard deviations, without the noise of a reading, (n,) each [N]."""
        if not len(features):
            return np.empty(0), np.empty(0)
        numbers = numbers_of(features, displacement, self.known.frame)
        force, deviation = self.belief.predict((self.known.encoded, *numbers))
        return np.maximum(force, 0.0), deviation


def load_force_model(path: str | os.PathLike[str] | None = None) -> ForceModel:
    """A model by its file; None: the one that comes with the project.

    Raises:
        MissingTierError: torch is not installed.
        FileNotFoundError, ModelFileError: the model is not there, or cannot be read.
    """
    require("learning", "a learnt force model")
    path = shared_folder(FOLDER) / FILE if path is None else Path(path)
    size = _size(path)
    return ForceModel(load_model(path, lambda: ForceExtractor(size)))


def _size(path: Path) -> str:
    """Of the network in a file."""
    import json

    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"there is no model at {path}; data/elastic/README.md says how it is made")
    try:
        with safe_open(path, framework="pt") as file:
            return str(json.loads((file.metadata() or {})["extractor"])["size"])
    except (SafetensorError, KeyError, ValueError):
        return "small"  # `load_model` says what is wrong with it
