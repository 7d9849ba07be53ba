"""Which tasks a mean may learn from, so that others show what it leaves on a task whose like it never saw.

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.3.2: the characteristics, not the tasks, are split into folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Fold", "characteristic_folds", "random_folds"]


@dataclass(frozen=True)
class Fold:
    """One split, by positions in the list of tasks.

    Attributes:
        held_out: characteristics, or names of tasks, that the mean does not see.
        kernel: tasks whose residuals train the kernel. mean: all others, which train the mean.
    """

    held_out: tuple[str, ...]
    kernel: tuple[int, ...]
    mean: tuple[int, ...]


def characteristic_folds(characteristics: Sequence[Sequence[str]], count: int, seed: int = 0) -> list[Fold]:
    """Split the characteristics at random into folds of sizes that differ by one at most.

    A task belongs to the kernel's tasks of a fold if one of its characteristics does, so that a task of two characteristics in
    different folds is a kernel's task of both, and every task is one of at least one fold.

    Args:
        characteristics: of each task. count: of folds, 2 or more.

    Raises:
        ValueError: fewer characteristics than folds, or a fold that leaves its mean no task.
    """
    names = sorted({name for each in characteristics for name in each})
    folds = []
    for held_out in _parts(names, count, seed, "characteristics"):
        kernel = tuple(k for k, each in enumerate(characteristics) if set(each) & set(held_out))
        folds.append(_fold(held_out, kernel, len(characteristics)))
    return folds


def random_folds(names: Sequence[str], count: int, seed: int = 0) -> list[Fold]:
    """Split the tasks themselves, whatever their characteristics: the ablation, which leaves no gap.

    Args:
        names: of the tasks. count: of folds, 2 or more.

    Raises:
        ValueError: fewer tasks than folds, or tasks of equal names.
    """
    if len(set(names)) < len(names):
        raise ValueError("expected tasks of different names, found equal ones")
    where = {name: k for k, name in enumerate(names)}
    return [
        _fold(held_out, tuple(sorted(where[name] for name in held_out)), len(names))
        for held_out in _parts(list(names), count, seed, "tasks")
    ]


def _parts(names: list[str], count: int, seed: int, what: str) -> list[tuple[str, ...]]:
    if not 2 <= count <= len(names):
        raise ValueError(f"expected from 2 to {len(names)} folds, as there are {len(names)} {what}, found {count}")
    order = np.random.default_rng([seed, 61]).permutation(len(names))
    return [tuple(sorted(names[k] for k in part)) for part in np.array_split(order, count)]


def _fold(held_out: tuple[str, ...], kernel: tuple[int, ...], count: int) -> Fold:
    mean = tuple(sorted(set(range(count)) - set(kernel)))
    if not mean:
        raise ValueError(
            f"every task has one of {', '.join(held_out)}, so that no task is left for the mean; take more folds"
        )
    return Fold(held_out, kernel, mean)
