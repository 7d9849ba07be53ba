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
from sim_core.meta.settings import Augmentation, FoldSettings, MeanFit, MetaSettings, ProcessFit, TaskFit
from sim_core.meta.supervised import train_mean
from sim_core.meta.tasks import Task

__all__ = ["FORCE_SCALE", "METHODS", "PAIRS", "numbers_of", "pairs_of", "settings_for", "task_of", "train_force_model"]

#: by which models divide forces [N]
FORCE_SCALE = 4.0
#: of displacement and force that a poke becomes
PAIRS = 8
#: of the warp [scales]: a force beyond half a newton counts by its logarithm, as objects, and their places, are so many times as stiff as others
WARP = 0.125
#: distance within which places are alike, before training [radii], and the length of a normal's change that counts as much as a radius
REACH, TURN = 0.5, 1.5
#: objects of a step of the mean, each of which costs an encoding
VIEWS = 4
#: epochs without improvement after which what is fitted by marginal likelihood ends: more steps than 5 epochs of 51 terrains
PATIENCE = 20
#: by half a turn, mirrored along x, mirrored along y: an object that lies along x goes on to
TURNS = tuple(partial(symmetries, which=k) for k in (2, 4, 6))

METHODS: dict[str, Callable[..., MetaModel]] = {
    "CoDeGa": train_codega,
    "joint": train_joint,
    "neural process": train_neural_process,
    "mean": train_mean,
}


def numbers_of(features: np.ndarray, displacement: np.ndarray, frame: ObjectFrame) -> tuple[np.ndarray, np.ndarray]:
    """What a model is told of pokes at points with features (n, 9) of a surface by displacements (n,) [m].

    Returns:
        Places with displacements (n, 4) [radii], which the network sees; places with normals (n, 6) [radii, 1 / `TURN`], the patches' own.
    """
    features = np.asarray(features, float)
    numbers = frame.numbers(features[:, :3], np.asarray(displacement, float))
    return numbers, np.column_stack([numbers[:, :3], features[:, 6:] / TURN]).astype(np.float32)


def pairs_of(pokes: Sequence[Poke]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (n, 9), displacements (n,) [m] and forces (n,) [N] of pokes, `PAIRS` of each where it has more."""
    reduced = [poke if len(poke.displacement) <= PAIRS else downsampled(poke, PAIRS) for poke in pokes]
    if not reduced:
        return np.empty((0, 9)), np.empty(0), np.empty(0)
    features = [np.tile(poke.feature, (len(poke.displacement), 1)) for poke in reduced]
    displacement, forces = (
        np.concatenate([getattr(poke, told) for poke in reduced]) for told in ("displacement", "force")
    )
    return np.concatenate(features), displacement, forces


def task_of(name: str, category: str, surface: Surface, pokes: Sequence[Poke], points: int = POINTS) -> Task:
    """The pokes of one object.

    Args:
        points: of the cloud that the network sees.
    """
    frame = frame_of(surface.points)
    cloud = seen(surface.points, surface.colours, frame, points)
    features, displacement, forces = pairs_of(pokes)
    numbers = numbers_of(features, displacement, frame)
    return Task(name, (category,), tuple(map(torch.from_numpy, (cloud, *numbers))), torch.from_numpy(forces))


def settings_for(tasks: Sequence[Task], epochs: int = 200, published: bool = False) -> MetaSettings:
    """As for scoops, with one fold for each category; the objects also turned and mirrored.

    Args:
        epochs: at most, of each training. published: with the published kernel, on the mean's features. By default the kernel sees place,
            normal and displacement alone (of one object all else is the same, and nothing changes for it from the folds' extractors to the
            deployed one), and speaks of the logarithm of forces.
    """
    categories = {name for task in tasks for name in task.characteristics}
    return MetaSettings(
        scale=FORCE_SCALE,
        warp=0.0 if published else WARP,
        kernel_input="extractor" if published else "numbers",
        reach=0.0 if published else REACH,
        augmentation=Augmentation(TURNS),
        folds=FoldSettings(len(categories)),
        mean=MeanFit(batch=256, epochs=epochs, views=VIEWS),
        kernel=TaskFit(patience=PATIENCE, epochs=epochs),
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
