"""Deep kernel meta-training (DKMT): mean and kernel jointly, by the marginal likelihood of the tasks that the mean learns from.

The mean over-fits, the residuals that the kernel sees become small, and the model is over-confident on tasks unlike those.
Source: Zhu, PhD thesis (University of Illinois 2023), sections 6.3.1 and 6.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from sim_core.meta.deep_gp import DeepGp
from sim_core.meta.fitting import ExtractorFactory, Pool, Progress, augmented, descend, reproducible, silent
from sim_core.meta.settings import MetaSettings
from sim_core.meta.tasks import Task

__all__ = ["new_deep_gp", "train_joint"]


def new_deep_gp(factory: ExtractorFactory, settings: MetaSettings, seed: int) -> DeepGp:
    """A deep Gaussian process that is not fitted yet; one seed gives the same weights each time.

    Raises:
        ValueError: the kernel is to see numbers alone, and the extractor's features do not end in them.
    """
    torch.manual_seed(seed)
    extractor = factory()
    branches = [factory()] if settings.kernel_input == "branch" else []
    last = extractor.numbers if settings.kernel_input == "numbers" else 0
    if settings.kernel_input == "numbers" and not last:
        raise ValueError("expected an extractor whose features end in its numbers, for a kernel that sees those alone")
    widths = settings.hidden, settings.embedding
    return DeepGp(extractor, *widths, settings.scale, branches, last, settings.reach, settings.warp)


def train_joint(
    tasks: Sequence[Task],
    extractor_factory: ExtractorFactory,
    settings: MetaSettings = MetaSettings(),
    seed: int = 0,
    progress: Progress = silent,
) -> DeepGp:
    """Fit a deep Gaussian process by the marginal likelihood of each task; a step sees one task.

    Raises:
        MissingTierError: torch is not installed.
        ValueError: no task, inputs that do not fit each other, or a loss that is not finite.
    """
    with reproducible():
        pool = Pool(tasks, settings.scale)
        model = new_deep_gp(extractor_factory, settings, seed)
        rng = np.random.default_rng([seed, 73])

        def steps() -> Iterator[torch.Tensor]:
            for k in rng.permutation(len(tasks)):
                rows = pool.of[k]
                mean, embedded = model(augmented(pool.rows.take(rows), settings.augmentation, rng, noise=False))
                yield model.kernel.nlml(embedded, model.warp(pool.values[rows]) - mean)

        def tell(epoch: int, loss: float) -> None:
            progress(f"mean and kernel jointly: epoch {epoch}, loss per row {loss:.3f}")

        losses = descend(model, settings.joint, steps, lambda total: total / len(pool.values), tell)
        model.meta = {"method": "joint", "seed": seed, "tasks": len(tasks), "epochs": len(losses)}
        return model
