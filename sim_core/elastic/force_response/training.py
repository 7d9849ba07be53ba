"""Objects and their pokes as tasks of meta-learning, and what is learnt of them: forces in N, categories as characteristics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from sim_core.elastic.force_response.clouds import POINTS, ObjectFrame, frame_of, seen, symmetries
from sim_core.elastic.force_response.network import ForceExtractor
from sim_core.elastic.poke import Poke, downsampled
from sim_core.elastic.surface import Surface
from sim_core.meta.codega import train_codega
from sim_core.meta.deep_gp import DeepGp
from sim_core.meta.fitting import Progress, silent
from sim_core.meta.joint import train_joint
from sim_core.meta.model import MetaModel
from sim_core.meta.neural_process import train_neural_process
from sim_core.meta.settings import Augmentation, FoldSettings, KernelInput, MeanFit, MetaSettings, ProcessFit, TaskFit
from sim_core.meta.supervised import train_mean
from sim_core.meta.tasks import Task

__all__ = ["FORCE_SCALE", "METHODS", "PAIRS", "numbers_of", "settings_for", "task_of", "train_force_model"]

#: by which models divide forces [N]
FORCE_SCALE = 4.0
#: of displacement and force that a poke becomes
PAIRS = 8
#: objects of a step of the mean, each of which costs an encoding
VIEWS = 4
#: epochs without improvement after which what is fitted by marginal likelihood ends: more steps than 5 epochs of 51 terrains
PATIENCE = 20
#: of a task that a step of the kernel sees, as many as five pokes have, as it is to be used after few; of all rows the likelihood is
#: mostly that after many pokes, and the kernel then correlates the pairs of one poke and nothing across places
ROWS = 5 * PAIRS
#: by half a turn, mirrored along x, mirrored along y: an object that lies along x goes on to
TURNS = tuple(partial(symmetries, which=k) for k in (2, 4, 6))

METHODS: dict[str, Callable[..., MetaModel]] = {
    "CoDeGa": train_codega,
    "joint": train_joint,
    "neural process": train_neural_process,
    "mean": train_mean,
}


def numbers_of(pokes: Sequence[Poke], frame: ObjectFrame) -> tuple[np.ndarray, np.ndarray]:
    """Places with displacements (n, 4) [radii] and forces (n,) [N] of pokes, `PAIRS` of each where it has more."""
    reduced = [poke if len(poke.displacement) <= PAIRS else downsampled(poke, PAIRS) for poke in pokes]
    numbers = [
        frame.numbers(np.tile(poke.feature[:3], (len(poke.displacement), 1)), poke.displacement) for poke in reduced
    ]
    if not reduced:
        return np.empty((0, 4), np.float32), np.empty(0)
    return np.concatenate(numbers), np.concatenate([poke.force for poke in reduced])


def task_of(name: str, category: str, surface: Surface, pokes: Sequence[Poke], points: int = POINTS) -> Task:
    """The pokes of one object.

    Args:
        points: of the cloud that the network sees.
    """
    frame = frame_of(surface.points)
    cloud = seen(surface.points, surface.colours, frame, points)
    numbers, forces = numbers_of(pokes, frame)
    return Task(name, (category,), (torch.from_numpy(cloud), torch.from_numpy(numbers)), torch.from_numpy(forces))


def settings_for(tasks: Sequence[Task], epochs: int = 200, kernel_input: KernelInput = "numbers") -> MetaSettings:
    """As for scoops, with one fold for each category; the objects also turned and mirrored.

    Args:
        epochs: at most, of each training. kernel_input: "extractor" as published. By default the kernel sees place and displacement
            alone: of one object all else is the same, and nothing changes for it from the folds' extractors to the deployed one.
    """
    categories = {name for task in tasks for name in task.characteristics}
    return MetaSettings(
        scale=FORCE_SCALE,
        kernel_input=kernel_input,
        augmentation=Augmentation(TURNS),
        folds=FoldSettings(len(categories)),
        mean=MeanFit(batch=256, epochs=epochs, views=VIEWS),
        kernel=TaskFit(patience=PATIENCE, epochs=epochs, rows=ROWS),
        joint=TaskFit(patience=PATIENCE, epochs=epochs),
        process=ProcessFit(support=5 * PAIRS, validation=max(len(tasks) // 6, 1), epochs=epochs),
    )


def train_force_model(
    tasks: Sequence[Task],
    method: str = "CoDeGa",
    size: str = "small",
    seed: int = 0,
    settings: MetaSettings | None = None,
    progress: Progress = silent,
) -> DeepGp | MetaModel:
    """Learn from objects.

    Args:
        method: a key of `METHODS`. size: of the network, see `network.SIZES`. settings: None: `settings_for`.

    Returns:
        Model whose `meta` also has "deepest", the largest displacement that was learnt from [radii], and the categories.

    Raises:
        MissingTierError: torch is not installed.
        ValueError: another method, no task, or a loss that is not finite.
    """
    if method not in METHODS:
        raise ValueError(f"expected a method of {', '.join(METHODS)}, found '{method}'")
    model = METHODS[method](tasks, partial(ForceExtractor, size), settings or settings_for(tasks), seed, progress)
    model.meta["deepest"] = float(max(float(task.inputs[1][:, 3].max()) for task in tasks))
    model.meta["categories"] = sorted({name for task in tasks for name in task.characteristics})
    model.meta["points"] = int(tasks[0].inputs[0].shape[1])
    return model
