"""The model that does not adapt: one mean for all tasks, fitted by least squares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sim_core.meta.fitting import ExtractorFactory, Pool, Progress, fit_mean, new_mean, reproducible, silent
from sim_core.meta.model import MeanModel
from sim_core.meta.settings import MetaSettings
from sim_core.meta.tasks import Task

__all__ = ["train_mean"]


def train_mean(
    tasks: Sequence[Task],
    extractor_factory: ExtractorFactory,
    settings: MetaSettings = MetaSettings(),
    seed: int = 0,
    progress: Progress = silent,
) -> MeanModel:
    """Fit the mean to all tasks; with the same seed it equals the one that `train_codega` deploys with the start "seed".

    Raises:
        MissingTierError: torch is not installed.
        ValueError: no task, inputs that do not fit each other, or a loss that is not finite.
    """
    with reproducible():
        pool = Pool(tasks, settings.scale)
        model = new_mean(extractor_factory, settings, seed)
        rng = np.random.default_rng([seed, 71])
        fit_mean(model, pool, torch.arange(len(pool.values)), settings.mean, settings.augmentation, rng, progress)
        model.meta = {"method": "mean", "seed": seed, "tasks": len(tasks)}
        return model
