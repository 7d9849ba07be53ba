"""What all training shares: one thread and one seed, all tasks in one pool, changed inputs, the descent, and when to stop."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import nn

from config.tiers import require
from sim_core.meta.model import Extractor, MeanModel
from sim_core.meta.settings import Augmentation, MeanFit, MetaSettings, ProcessFit, TaskFit
from sim_core.meta.tasks import Rows, Task

__all__ = [
    "Best",
    "ExtractorFactory",
    "Pool",
    "Progress",
    "augmented",
    "batches",
    "descend",
    "fit_mean",
    "new_mean",
    "reproducible",
    "silent",
]

#: makes an extractor with weights from torch's generator
ExtractorFactory: TypeAlias = Callable[[], Extractor]
#: is told, after each epoch, in one line how far training is
Progress: TypeAlias = Callable[[str], None]


def silent(text: str) -> None:
    """Tells nobody."""


@contextlib.contextmanager
def reproducible() -> Iterator[None]:
    """One thread, as sums of several differ from run to run, and torch's generator as it was afterwards."""
    require("learning", "meta-learning")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)


class Pool:
    """The rows of all tasks, one after the other.

    Args:
        tasks: one or more, of inputs that can be joined. scale: by which values are divided.

    Attributes:
        rows: all. values: / scale (n,). tasks: as given. of: the rows (k,) of each task.

    Raises:
        ValueError: no task, or tasks whose inputs have different shapes.
    """

    def __init__(self, tasks: Sequence[Task], scale: float) -> None:
        if not tasks:
            raise ValueError("expected one task or more, found none")
        shapes = {tuple(tuple(each.shape[1:]) for each in task.inputs) for task in tasks}
        if len(shapes) > 1:
            raise ValueError(f"expected tasks of inputs of equal shapes, found {sorted(shapes)}")
        self.tasks = tuple(tasks)
        self.rows = Rows.joined([task.rows for task in tasks])
        self.values = torch.cat([task.values for task in tasks]) / scale
        ends = np.cumsum([len(task) for task in tasks])
        self.of = [torch.arange(int(end) - len(task), int(end)) for task, end in zip(tasks, ends)]

    def rows_of(self, tasks: Sequence[int]) -> torch.Tensor:
        """Positions of all rows of some tasks (k,)."""
        return torch.cat([self.of[k] for k in tasks])


def augmented(rows: Rows, augmentation: Augmentation, rng: np.random.Generator, noise: bool) -> Rows:
    """Each view with its rows under a symmetry that is chosen at random, none among them; then, if asked for, noise."""
    views, numbers = rows.views, rows.numbers
    assert isinstance(views, torch.Tensor)
    if augmentation.symmetries:
        chosen = torch.from_numpy(rng.integers(len(augmentation.symmetries) + 1, size=len(views)))
        for k, symmetry in enumerate(augmentation.symmetries, 1):
            mine = chosen == k
            changed, *others = symmetry((rows.views, *rows.numbers))  # type: ignore[arg-type]
            views = torch.where(_along(mine, views), changed, views)
            numbers = tuple(torch.where(_along(mine[rows.which], a), b, a) for a, b in zip(numbers, others))
    if noise and augmentation.noise is not None:
        views = augmentation.noise(views, rng)
    return Rows(views, rows.which, numbers)


def _along(mask: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return mask.reshape(-1, *[1] * (like.ndim - 1))


class Best:
    """Keeps a module's best weights, and says when nothing has become better for long.

    Args:
        module: whose weights are kept. patience: epochs without improvement after which to stop.

    Attributes:
        losses: of all epochs.
    """

    def __init__(self, module: nn.Module, patience: int) -> None:
        self.module, self.patience = module, patience
        self.losses: list[float] = []
        self._kept: dict[str, torch.Tensor] = {}
        self._at = -1

    def stop(self, loss: float) -> bool:
        """Note the loss of one more epoch.

        Raises:
            ValueError: the loss is not finite.
        """
        if not math.isfinite(loss):
            raise ValueError(f"training diverged in epoch {len(self.losses) + 1}: the loss is {loss}; lower the rate")
        self.losses.append(loss)
        if self._at < 0 or loss < self.losses[self._at]:
            self._at, self._kept = len(self.losses) - 1, copy.deepcopy(self.module.state_dict())
        return len(self.losses) - 1 - self._at >= self.patience

    def restore(self) -> float:
        """Put the best weights back; their loss."""
        self.module.load_state_dict(self._kept)
        return self.losses[self._at]


def descend(
    trained: nn.Module,
    fit: MeanFit | TaskFit | ProcessFit,
    steps: Callable[[], Iterable[torch.Tensor]],
    judge: Callable[[float], float],
    tell: Callable[[int, float], None],
) -> list[float]:
    """Train a module with Adam until nothing has become better for long; it has its best weights afterwards.

    Args:
        steps: the losses of the steps of one epoch; each is asked for when the step before it has been taken.
        judge: from the sum of an epoch's losses to the loss that decides when to stop.
        tell: called with each epoch and that loss.

    Returns:
        That loss after each epoch; the weights are those of the least.

    Raises:
        ValueError: the loss that decides is not finite.
    """
    optimiser = torch.optim.Adam(trained.parameters(), fit.rate)
    best = Best(trained, fit.patience)
    for epoch in range(1, fit.epochs + 1):
        total = 0.0
        for loss in steps():
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += float(loss.detach())
        done = best.stop(judge(total))
        tell(epoch, best.losses[-1])
        if done:
            break
    best.restore()
    return best.losses


def batches(rows: torch.Tensor, which: torch.Tensor, fit: MeanFit, rng: np.random.Generator) -> Sequence[torch.Tensor]:
    """Shuffled rows (k,) in steps: of all views, or, where the settings ask for it, each step of few of them.

    Args:
        which: the view of each row (k,).
    """
    if not fit.views:
        return rows.split(fit.batch)
    share = max(fit.batch // fit.views, 1)
    parts = [part for view in torch.unique(which) for part in rows[which == view].split(share)]
    order = rng.permutation(len(parts))
    return [
        torch.cat([parts[k] for k in order[start : start + fit.views]]) for start in range(0, len(order), fit.views)
    ]


def new_mean(factory: ExtractorFactory, settings: MetaSettings, seed: int) -> MeanModel:
    """A mean that is not fitted yet; one seed gives the same weights each time."""
    torch.manual_seed(seed)
    return MeanModel(factory(), settings.hidden, settings.scale)


def fit_mean(
    model: MeanModel,
    pool: Pool,
    index: torch.Tensor,
    fit: MeanFit,
    augmentation: Augmentation,
    rng: np.random.Generator,
    progress: Progress = silent,
    name: str = "mean",
) -> MeanModel:
    """Fit extractor and mean by least squares to some rows of a pool; the same model comes back.

    Args:
        index: rows (k,) of the pool. name: of the model, for the progress.
    """
    order = index[torch.from_numpy(rng.permutation(len(index)))]
    few = max(round(fit.held_out * len(order)), 1)
    held_out, seen = order[:few], order[few:]
    if not len(seen):
        raise ValueError(f"expected two rows or more to fit a mean to, found {len(index)}")
    if fit.views:
        held_out = held_out.sort().values  # by views, each of which is encoded once or twice then

    def steps() -> Iterator[torch.Tensor]:
        shuffled = seen[torch.from_numpy(rng.permutation(len(seen)))]
        for rows in batches(shuffled, pool.rows.which[shuffled], fit, rng):
            batch = augmented(pool.rows.take(rows), augmentation, rng, noise=True)
            yield ((model(batch) - pool.values[rows]) ** 2).mean()

    @torch.no_grad()
    def error(_: float) -> float:
        left = torch.cat([model(pool.rows.take(rows)) - pool.values[rows] for rows in held_out.split(256)])
        return float((left**2).mean())

    def tell(epoch: int, loss: float) -> None:
        progress(f"{name}: epoch {epoch}, held-out error {math.sqrt(loss):.3f}")

    model.deviation = model.scale * math.sqrt(min(descend(model, fit, steps, error, tell)))
    return model
