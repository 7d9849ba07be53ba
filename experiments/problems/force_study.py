"""What is learnt from and judged on in the study of few pokes: objects of seven categories, their pokes, and models of them.

Pokes and models are kept in a folder beside the run directories, under names that follow from all that they depend on, code included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from config.whole_file import whole_file
from reporting import Progress
from reporting.runs import runs_root
from sim_core.elastic.force_response.learned_model import ForceModel, load_force_model
from sim_core.elastic.force_response.training import PAIRS, settings_for, task_of, train_force_model
from sim_core.elastic.objects.categories import CATEGORIES, category_object
from sim_core.elastic.objects.soft_object import SoftObject
from sim_core.elastic.poke import Poke, downsampled
from sim_core.elastic.surface import Surface
from sim_core.host.executors import spread
from sim_core.meta.model_file import save_model
from sim_core.meta.tasks import Task

__all__ = ["HELD_OUT", "NOISE", "PUBLISHED", "SOURCE", "PokedObject", "collection", "models", "poked", "tasks_of"]

SOURCE = "Zhu, PhD thesis (University of Illinois 2023), section 6.5"
ROOT = Path(__file__).resolve().parents[2]
#: CoDeGa with the kernel on the mean's features
PUBLISHED = "CoDeGa, published kernel"
#: categories that nothing is learnt from, with two objects each
HELD_OUT = ("boxes", "dog toys")
#: standard deviation of a force sensor [N]
NOISE = 0.05
#: points of a surface
POINTS = 4000
DATA_CODE = ("objects/categories", "objects/soft_object", "truth/analytic", "poke")
MODEL_CODE = ("force_response/clouds", "force_response/grouping", "force_response/network", "force_response/training")


@dataclass(frozen=True, eq=False)
class PokedObject:
    """An object as a robot knows it.

    Attributes:
        name, category: of it. surface: as seen. pokes: `PAIRS` pairs each, as a sensor felt them.
        truth: forces without noise at the same displacements (pokes, PAIRS) [N].
    """

    name: str
    category: str
    surface: Surface
    pokes: list[Poke]
    truth: np.ndarray

    def first(self, count: int) -> PokedObject:
        """The object with its first pokes, which are any, as their order is one of chance."""
        return replace(self, pokes=self.pokes[:count], truth=self.truth[:count])


def collection(held_out: Sequence[str] = HELD_OUT) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Categories and numbers of 17 objects to learn from and of 4 to be judged on."""
    learnt = [name for name in CATEGORIES if name not in held_out]
    counts = dict(zip(learnt, (4, 4, 3, 3, 3)))
    return [(name, k) for name in learnt for k in range(counts[name])], [(name, k) for name in held_out for k in (0, 1)]


def poked(
    objects: Sequence[tuple[str, int]], pokes: int, seed: int, progress: Progress, executor: Executor | None = None
) -> list[PokedObject]:
    """Objects with at most so many pokes each; those that were poked before are read."""
    with progress.stage("objects", total=len(objects)) as stage:
        return spread(partial(_poked, pokes=pokes, seed=seed), list(objects), executor, lambda _: stage.advance())


def poke_all(soft: SoftObject, pokes: int, rng: np.random.Generator) -> PokedObject:
    """Poke an object all over but below, at most so many times, where cubes of 1.5 to 3 cm divide its surface."""
    surface = soft.surface(POINTS, int(rng.integers(2**31)))
    spacing = 0.015 + 0.015 * (float(np.ptp(surface.points, axis=0).max()) - 0.15) / 0.25
    places = soft.places(surface, float(np.clip(spacing, 0.015, 0.03)), margin=-1e-3, flattest=-0.2)
    places = rng.permutation(places)[:pokes]
    truth = [downsampled(soft.poke(surface.features[k]), PAIRS) for k in places]
    felt = [replace(poke, force=poke.force + NOISE * rng.standard_normal(PAIRS)) for poke in truth]
    return PokedObject(soft.name, soft.category, surface, felt, np.stack([poke.force for poke in truth]))


def _poked(which: tuple[str, int], pokes: int, seed: int) -> PokedObject:
    category, index = which
    key = _digest([category, index, pokes, seed, NOISE, POINTS, _code(DATA_CODE)])
    path = _kept() / f"{category.replace(' ', '-')}-{index}-{key}.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as file:
            surface = Surface(file["points"], file["colours"], file["normals"])
            felt = [Poke(*each) for each in zip(file["features"], file["displacements"], file["forces"])]
            return PokedObject(f"{category} {index}", category, surface, felt, file["truth"])
    rng = np.random.default_rng([seed, CATEGORIES.index(category), index, 101])
    found = poke_all(category_object(category, index, seed), pokes, rng)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as part, part.open("wb") as file:
        np.savez_compressed(
            file,
            allow_pickle=False,
            points=found.surface.points,
            colours=found.surface.colours,
            normals=found.surface.normals,
            features=np.stack([poke.feature for poke in found.pokes]),
            displacements=np.stack([poke.displacement for poke in found.pokes]),
            forces=np.stack([poke.force for poke in found.pokes]),
            truth=found.truth,
        )
    return found


def tasks_of(objects: Sequence[PokedObject]) -> list[Task]:
    """As tasks of meta-learning."""
    return [task_of(each.name, each.category, each.surface, each.pokes) for each in objects]


def models(
    jobs: Sequence[tuple[str, int]],
    objects: Sequence[PokedObject],
    network: str,
    progress: Progress,
    executor: Executor | None = None,
) -> dict[tuple[str, int], ForceModel]:
    """(method, seed) -> model, learnt from objects; those that were learnt before are read.

    Args:
        jobs: methods are keys of `training.METHODS`, or `PUBLISHED`. network: a key of `network.SIZES`.
    """
    torch.set_num_threads(1)
    told = hashlib.sha256()
    for each in objects:
        told.update(each.name.encode() + np.stack([poke.force for poke in each.pokes]).tobytes())
    key = _digest([told.hexdigest(), network, _code(MODEL_CODE), _meta_code(), torch.__version__])
    paths = {job: _kept() / f"{job[0].replace(', ', '-').replace(' ', '-')}-{job[1]}-{key}.safetensors" for job in jobs}
    lacking = [(*job, path) for job, path in paths.items() if not path.is_file()]
    with progress.stage("models", total=len(lacking)) as stage:
        spread(partial(_fit, objects=list(objects), network=network), lacking, executor, lambda _: stage.advance())
    return {job: load_force_model(path) for job, path in paths.items()}


def _fit(job: tuple[str, int, Path], objects: list[PokedObject], network: str) -> None:
    import time

    method, seed, path = job
    tasks = tasks_of(objects)
    settings = settings_for(tasks, published=method == PUBLISHED)
    started = time.process_time()
    model = train_force_model(tasks, "CoDeGa" if method == PUBLISHED else method, network, seed, settings)
    model.meta["processor seconds"] = time.process_time() - started
    path.parent.mkdir(parents=True, exist_ok=True)
    save_model(path, model)


def _kept() -> Path:
    return runs_root() / "elastic"


@cache
def _code(names: tuple[str, ...]) -> str:
    """Digest of files of the room."""
    paths = [ROOT / "sim_core" / "elastic" / f"{name}.py" for name in names]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


@cache
def _meta_code() -> str:
    paths = sorted((ROOT / "sim_core" / "meta").glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _digest(told: Any) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]
