"""How models are meta-learnt: one object of settings for all methods, so that they differ in the method alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch

from sim_core.meta.warp import Warp

__all__ = ["Augmentation", "FoldSettings", "KernelInput", "MeanFit", "MetaSettings", "ProcessFit", "TaskFit"]

#: (views (b, ...), *numbers (b or n, ...)) -> the same with other contents
Change: TypeAlias = "Callable[[tuple[torch.Tensor, ...]], tuple[torch.Tensor, ...]]"

#: see `MetaSettings`
KernelInput: TypeAlias = Literal["extractor", "folds", "branch", "numbers"]


@dataclass(frozen=True)
class Augmentation:
    """What of the inputs may change while the values stay.

    Attributes:
        symmetries: deterministic changes of the inputs that leave the value as it is: a flip. Each view is seen as it is or
            under one of them, by chance; they count for mean and kernel.
        noise: (views, random generator) -> views; for the mean alone: colours, errors of a depth camera.
    """

    symmetries: tuple[Change, ...] = ()
    noise: Callable[[torch.Tensor, np.random.Generator], torch.Tensor] | None = None


@dataclass(frozen=True)
class MeanFit:
    """How an extractor and its mean are fitted by least squares, with Adam.

    Attributes:
        rate: of Adam. batch: rows of a step. held_out: share of the rows that decide when to stop.
        patience: epochs without improvement after which training ends; the best weights are kept. epochs: most of them.
        views: among which the rows of a step are, 0: all. Where many rows share a view, as the pokes of an object do, a step costs
            as much as the views that it encodes.
    """

    rate: float = 5e-3
    batch: int = 64
    held_out: float = 0.1
    patience: int = 5
    epochs: int = 200
    views: int = 0


@dataclass(frozen=True)
class TaskFit:
    """How something is fitted by marginal likelihood, with Adam; a step sees rows of one task.

    Attributes:
        rate: of Adam. patience: epochs without improvement of the training loss after which training ends. epochs: most.
        rows: that a step of the kernel sees, at random; 0: all. The likelihood of n rows is that of each after those before it,
            so that of many rows is the likelihood after many trials, and that of few after few.
    """

    rate: float = 1e-2
    patience: int = 5
    epochs: int = 200
    rows: int = 0


@dataclass(frozen=True)
class ProcessFit:
    """How a neural process is fitted.

    Attributes:
        rate: of Adam (not published). support: rows of a task that are given, while the others are asked for.
        validation: tasks, chosen at random, that decide when to stop. patience, epochs: as `TaskFit`.
    """

    rate: float = 5e-3
    support: int = 5
    validation: int = 6
    patience: int = 5
    epochs: int = 200


@dataclass(frozen=True)
class FoldSettings:
    """How CoDeGa splits, and how its extractors begin.

    Attributes:
        count: of folds (not published). by: what is split: characteristics, or tasks at random (ablation).
        start: of the extractors: "seed": all from the same seed, from scratch (the published procedure); "seeds": each from a
            seed of its own (ablation); "shared": all go on from one that was trained on all tasks, which is also the deployed one.
    """

    count: int = 4
    by: Literal["characteristics", "tasks"] = "characteristics"
    start: Literal["seed", "seeds", "shared"] = "seed"


@dataclass(frozen=True)
class MetaSettings:
    """All that training depends on besides tasks, extractor and seed.

    Attributes:
        scale: values are divided by it inside the model, so that they are of order one [unit of the values].
        hidden: width of the heads' hidden layer. embedding: dimensions in which the kernel measures distance.
        kernel_input: what the kernel sees: "extractor": the mean's, a fold's in training and the deployed mean's afterwards (the
            published procedure). Three ways without that change: "folds": the folds' extractors are deployed too, and the
            kernel is the mean of theirs; "branch": an extractor of its own, which is trained with the kernel. "numbers": no
            extractor, but the numbers that features end in, which are the same in training and afterwards; each
            is divided by a length of its own, and there is no network.
        warp: the process speaks of the logarithm of values beyond so many scales, 0: of none (the published procedure); see `Warp`.
            The mean is fitted to the values as they are in any case.
        reach: what lies within about this distance in a task is alike, 0: the kernel knows of no places (the published procedure). Else the
            last numbers of the inputs are places (n, k), and this is where the training of that distance begins [unit of the places].
        augmentation, folds: see there. mean, kernel, joint, process: how each part is fitted.
    """

    scale: float = 1.0
    hidden: int = 32
    embedding: int = 8
    kernel_input: KernelInput = "extractor"
    warp: float = 0.0
    reach: float = 0.0
    augmentation: Augmentation = Augmentation()
    folds: FoldSettings = FoldSettings()
    mean: MeanFit = MeanFit()
    kernel: TaskFit = TaskFit()
    joint: TaskFit = TaskFit()
    process: ProcessFit = ProcessFit()

    def __post_init__(self) -> None:
        if not self.scale > 0.0:
            raise ValueError(f"expected a scale of the values greater than 0, found {self.scale}")
        Warp(self.warp)
        if not self.reach >= 0.0:
            raise ValueError(f"expected a reach of 0 or more, found {self.reach}")
