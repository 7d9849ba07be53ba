"""Deep meta-learning with controlled deployment gaps (CoDeGa): a kernel that has seen how wrong a mean is on what it never saw.

The characteristics of the tasks are split into folds. For each fold a mean is trained without it, and what it leaves on the tasks of
the fold trains the kernel, which is one for all folds. A last mean is trained on everything, and is deployed with that kernel.

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.3.2; Zhu, Thangeda, Ornik, Hauser, "Few-shot Adaptation for
Manipulating Granular Materials Under Domain Shift", RSS 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from sim_core.meta.deep_gp import DeepGp
from sim_core.meta.fitting import (
    ExtractorFactory,
    Pool,
    Progress,
    augmented,
    descend,
    fit_mean,
    new_mean,
    reproducible,
    silent,
)
from sim_core.meta.folds import Fold, characteristic_folds, random_folds
from sim_core.meta.joint import new_deep_gp
from sim_core.meta.model import Extractor, MeanModel
from sim_core.meta.settings import FoldSettings, MetaSettings
from sim_core.meta.tasks import Rows, Task, places_of
from sim_core.meta.warp import Warp

__all__ = ["Entry", "fit_kernel", "fold_means", "folds_of", "residual_entries", "train_codega"]


@dataclass(frozen=True, eq=False)
class Entry:
    """What a fold's mean leaves on a task that it never saw.

    Attributes:
        task: position in the pool. fold: position of the fold. residuals: / scale, warped (n,).
        features: by the fold's extractor (s, n, width), of the inputs as they are and under each symmetry.
    """

    task: int
    fold: int
    residuals: torch.Tensor
    features: torch.Tensor


def train_codega(
    tasks: Sequence[Task],
    extractor_factory: ExtractorFactory,
    settings: MetaSettings = MetaSettings(),
    seed: int = 0,
    progress: Progress = silent,
    held_out: Sequence[Task] = (),
) -> DeepGp:
    """Train a deep Gaussian process with controlled deployment gaps.

    Its `meta` says what came about: folds, epochs, and the negative log marginal likelihood per row of the held-out residuals
    under the folds' extractors ("nlml_fold", which is what the kernel was trained on) and under the deployed one ("nlml_final").

    Args:
        held_out: further tasks, which no part of the training sees. `meta` then also has the mean over them of the same two,
            "unseen_fold" (extractor and mean of a fold, in the mean over folds) and "unseen_final" (of the deployed model).

    Raises:
        MissingTierError: torch is not installed.
        ValueError: no task, too few characteristics for the folds, or a loss that is not finite.
    """
    with reproducible():
        pool = Pool(tasks, settings.scale)
        if settings.reach:
            places_of(pool.rows)  # now, or a sentence why not; not after minutes
        folds = folds_of(tasks, settings.folds, seed)
        shared = None
        if settings.folds.start == "shared":
            shared = _final(pool, extractor_factory, settings, seed, progress)
        means = fold_means(pool, folds, extractor_factory, settings, seed, progress, shared)
        model = new_deep_gp(extractor_factory, settings, seed)
        entries = residual_entries(pool, folds, means, settings)
        losses = fit_kernel(model, entries, pool, settings, seed, progress)
        if settings.kernel_input == "folds":
            model.branches = nn.ModuleList([mean.extractor for mean in means])
        final = shared or _final(pool, extractor_factory, settings, seed, progress)
        model.extractor, model.mean_head = final.extractor, final.mean_head
        model.meta = {
            "method": "codega",
            "seed": seed,
            "tasks": len(tasks),
            "folds": [list(fold.held_out) for fold in folds],
            "entries": len(entries),
            "kernel_epochs": len(losses),
            "deviation": final.deviation,
            "fold_deviations": [mean.deviation for mean in means],
            **_mismatch(model, means, pool, entries, settings.kernel_input),
            **_unseen(model, means, held_out, settings.kernel_input),
        }
        return model


def folds_of(tasks: Sequence[Task], settings: FoldSettings, seed: int) -> list[Fold]:
    """The folds that the settings ask for."""
    if settings.by == "tasks":
        return random_folds([task.name for task in tasks], settings.count, seed)
    return characteristic_folds([task.characteristics for task in tasks], settings.count, seed)


def fold_means(
    pool: Pool,
    folds: Sequence[Fold],
    factory: ExtractorFactory,
    settings: MetaSettings,
    seed: int,
    progress: Progress = silent,
    shared: MeanModel | None = None,
) -> list[MeanModel]:
    """The mean of each fold, from scratch, or from the extractor of `shared` with a new head."""
    means = []
    for k, fold in enumerate(folds):
        model = new_mean(factory, settings, seed + 1000 * (k + 1) if settings.folds.start == "seeds" else seed)
        if shared is not None:
            model.extractor.load_state_dict(shared.extractor.state_dict())
        rng = np.random.default_rng([seed, 71, k])
        told = f"mean of fold {k + 1} of {len(folds)}"
        rows = pool.rows_of(fold.mean)
        means.append(fit_mean(model, pool, rows, settings.mean, settings.augmentation, rng, progress, told))
    return means


def _final(pool: Pool, factory: ExtractorFactory, settings: MetaSettings, seed: int, progress: Progress) -> MeanModel:
    model = new_mean(factory, settings, seed)
    rows, rng = torch.arange(len(pool.values)), np.random.default_rng([seed, 71])
    return fit_mean(model, pool, rows, settings.mean, settings.augmentation, rng, progress, "mean of all tasks")


@torch.no_grad()
def residual_entries(
    pool: Pool, folds: Sequence[Fold], means: Sequence[MeanModel], settings: MetaSettings
) -> list[Entry]:
    """What each fold's mean leaves on the fold's tasks, with their features by its extractor, which is not trained any more."""
    entries = []
    for k, (fold, mean) in enumerate(zip(folds, means)):
        for task in fold.kernel:
            rows = pool.rows.take(pool.of[task])
            features = _variants(mean.extractor, rows, settings)
            warp = Warp(settings.warp)
            residuals = warp(pool.values[pool.of[task]]) - warp(mean.mean_head(features[0])[:, 0])
            entries.append(Entry(task, k, residuals, features))
    return entries


def _variants(extractor: Extractor, rows: Rows, settings: MetaSettings) -> torch.Tensor:
    """Features (s, n, width) of rows as they are and under each symmetry."""
    assert isinstance(rows.views, torch.Tensor)
    inputs = (rows.views, *rows.numbers)
    several = [inputs, *(symmetry(inputs) for symmetry in settings.augmentation.symmetries)]
    return torch.stack([extractor(Rows(views, rows.which, tuple(numbers))) for views, *numbers in several])


def fit_kernel(
    model: DeepGp, entries: Sequence[Entry], pool: Pool, settings: MetaSettings, seed: int, progress: Progress = silent
) -> list[float]:
    """Train a model's kernel, with its branch if it has one, by the marginal likelihood of the entries' residuals.

    A step sees one entry, by its fold's extractor.

    Returns:
        Loss per row after each epoch.
    """
    fit, rng = settings.kernel, np.random.default_rng([seed, 77])
    trained = nn.ModuleList([model.kernel, *model.branches])
    count = sum(min(fit.rows or len(entry.residuals), len(entry.residuals)) for entry in entries)

    def steps() -> Iterator[torch.Tensor]:
        for k in rng.permutation(len(entries)):
            features, residuals = _seen(model, entries[k], pool, settings, rng), entries[k].residuals
            some = torch.arange(len(residuals))
            if 0 < fit.rows < len(residuals):
                some = torch.from_numpy(rng.permutation(len(residuals))[: fit.rows])
            where = model.where(pool.rows.take(pool.of[entries[k].task][some]))
            yield model.kernel.nlml(model.kernel.embed(features[some][None], where), residuals[some])

    def tell(epoch: int, loss: float) -> None:
        progress(f"kernel: epoch {epoch}, loss per row {loss:.3f}")

    return descend(trained, fit, steps, lambda total: total / count, tell)


def _seen(model: DeepGp, entry: Entry, pool: Pool, settings: MetaSettings, rng: np.random.Generator) -> torch.Tensor:
    """Features of an entry (n, width) for one step, each view with its rows under a symmetry by chance."""
    for branch in model.branches:
        rows = pool.rows.take(pool.of[entry.task])
        return branch(augmented(rows, settings.augmentation, rng, noise=False))
    variants, n, _ = entry.features.shape
    views, which = torch.unique(pool.rows.which[pool.of[entry.task]], return_inverse=True)
    return entry.features[torch.from_numpy(rng.integers(variants, size=len(views)))[which], torch.arange(n)]


@torch.no_grad()
def _mismatch(
    model: DeepGp, means: Sequence[MeanModel], pool: Pool, entries: Sequence[Entry], kernel_input: str
) -> dict[str, float]:
    """What the held-out residuals cost under the folds' features and under the deployed ones, per row."""
    fold, final, count = 0.0, 0.0, 0
    for entry in entries:
        rows = pool.rows.take(pool.of[entry.task])
        fold += float(
            model.kernel.nlml(_prior_of_fold(model, means[entry.fold], rows, kernel_input)[1], entry.residuals)
        )
        final += float(model.kernel.nlml(model(rows)[1], entry.residuals))
        count += len(entry.residuals)
    return {"nlml_fold": fold / count, "nlml_final": final / count}


@torch.no_grad()
def _unseen(model: DeepGp, means: Sequence[MeanModel], tasks: Sequence[Task], kernel_input: str) -> dict[str, float]:
    """What the values of tasks that nothing has seen cost under the folds' means and extractors, and under the deployed ones."""
    if not tasks:
        return {}

    def cost(prior: Callable[[Rows], tuple[torch.Tensor, torch.Tensor]]) -> float:
        total = 0.0
        for task in tasks:
            mean, embedded = prior(task.rows)
            total += float(model.kernel.nlml(embedded, model.warp(task.values / model.scale) - mean))
        return total / sum(len(task) for task in tasks)

    by_fold = [cost(lambda rows: _prior_of_fold(model, mean, rows, kernel_input)) for mean in means]
    return {"unseen_fold": float(np.mean(by_fold)), "unseen_final": cost(model)}


def _prior_of_fold(model: DeepGp, mean: MeanModel, rows: Rows, kernel_input: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean / scale, warped (n,), and embedded points (1, n, q) by a fold's mean and by what the kernel saw with it in training."""
    features = mean.extractor(rows)
    seen = model.branches[0](rows) if kernel_input == "branch" else features
    return model.warp(mean.mean_head(features)[:, 0]), model.kernel.embed(seen[None], model.where(rows))
