"""What the three experiments with scoops share: data, models, sizes, and the published numbers.

Data and models are kept in a folder beside the run directories, under names that follow from all that they depend on, code included:
of the three experiments, the one that comes first makes them.

With REFIT_SCOOPING_DATA=FOLDER the public data set is learnt from and judged on, in place of the synthetic one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from identification.errors import UnusableInput
from reporting import Progress
from reporting.runs import runs_root
from sim_core.host.executors import spread
from sim_core.meta.codega import train_codega
from sim_core.meta.joint import train_joint
from sim_core.meta.model import MetaModel
from sim_core.meta.model_file import load_model, save_model
from sim_core.meta.neural_process import train_neural_process
from sim_core.meta.settings import FoldSettings, MetaSettings, TaskFit
from sim_core.scooping.bed.suite import test_recipes, training_recipes
from sim_core.scooping.learning.augmentation import AUGMENTATION
from sim_core.scooping.learning.dataset import DataSetError, TerrainRecord, generate
from sim_core.scooping.learning.network import ScoopExtractor
from sim_core.scooping.learning.public_dataset import load_public
from sim_core.scooping.learning.tasks import VOLUME_SCALE, tasks_of

__all__ = [
    "ABLATIONS",
    "FEW",
    "METHODS",
    "OWN_SETTINGS",
    "PLACES",
    "SIZES",
    "SOURCE",
    "Data",
    "Size",
    "data",
    "models",
    "public_folder",
]

SOURCE = "Zhu, PhD thesis (University of Illinois 2023), section 6.4"
ROOT = Path(__file__).resolve().parents[2]
#: what a data set and a model depend on
DATA_CODE = (
    *(
        f"bed/{name}"
        for name in ("materials", "actions", "relaxation", "swept", "suite", "terrain", "reward", "rendering")
    ),
    *("learning/crops", "learning/dataset"),
)
MODEL_CODE = ("learning/network", "learning/augmentation", "learning/tasks")
FIRST_TEST = 52  # number of the first terrain that is not learnt from


@dataclass(frozen=True)
class Size:
    """How much is learnt, from the same scoops in every size.

    Attributes:
        seeds: models of each method. crop: [px]. suites: of 16 test terrains, each drawn anew by the published rules; the published
            figures are of one.
    """

    seeds: int
    crop: int
    suites: int


SIZES = {"quick": Size(1, 32, 1), "full": Size(3, 32, 3)}
SCOOPS = 100
#: name -> settings of the ablations, all of CoDeGa
ABLATIONS: dict[str, dict[str, Any]] = {
    "2 folds": {"folds": FoldSettings(count=2)},
    "8 folds": {"folds": FoldSettings(count=8)},
    "random folds": {"folds": FoldSettings(by="tasks")},
    "own seeds": {"folds": FoldSettings(start="seeds")},
    "shared start": {"folds": FoldSettings(start="shared")},
    "kernel of the folds' features": {"kernel_input": "folds"},
    "kernel with its own branch": {"kernel_input": "branch"},
}
METHODS = ("CoDeGa", "DKMT", "CNP")
#: our own: CoDeGa whose kernel learns from few scoops of a terrain at a time, as many as there are when it is asked, and knows where they
#: are; and the first of these two changes alone
PLACES, FEW = "CoDeGa with places", "CoDeGa of few scoops"
OWN_SETTINGS: dict[str, dict[str, Any]] = {
    FEW: {"kernel": TaskFit(rows=20)},
    PLACES: {"kernel": TaskFit(rows=20), "reach": 0.12},
}


@dataclass(frozen=True)
class Data:
    """Records to learn from and to be judged on, by suites, and a name that tells what is learnt from."""

    training: list[TerrainRecord]
    suites: list[list[TerrainRecord]]
    name: str

    @property
    def test(self) -> list[TerrainRecord]:
        """Of all suites."""
        return [record for suite in self.suites for record in suite]

    @property
    def names(self) -> list[str]:
        """Of the test terrains, with the number of their suite where there are several."""
        several = len(self.suites) > 1
        return [r.name + (f" ({k})" if several else "") for k, suite in enumerate(self.suites, 1) for r in suite]


def public_folder() -> Path | None:
    """The folder that REFIT_SCOOPING_DATA names, None where it is not set."""
    folder = os.environ.get("REFIT_SCOOPING_DATA")
    return Path(folder) if folder else None


def data(
    size: Size, seed: int, progress: Progress, executor: Executor | None = None, folder: Path | None = None
) -> Data:
    """The public data set where there is one, else the synthetic one of a seed."""
    public = public_folder()
    if public is not None:
        try:
            records = load_public(public)
        except DataSetError as error:
            raise UnusableInput(f"REFIT_SCOOPING_DATA: {error}") from None
        parts = [[r for r in records if r.number < FIRST_TEST], [r for r in records if r.number >= FIRST_TEST]]
        return Data(parts[0], parts[1:], "public")
    told = f"scoops-{_digest([SCOOPS, seed, _code('scooping', DATA_CODE)])}"
    suites = [training_recipes(seed), *(test_recipes(seed + 1000 * k) for k in range(size.suites))]
    found = []
    with progress.stage("terrains", total=sum(len(recipes) for recipes in suites)) as stage:
        for k, recipes in enumerate(suites):
            part = (folder or _kept()) / told / ("training" if k == 0 else f"test-{k}")
            found.append(generate(recipes, part, SCOOPS, executor=executor, done=lambda _: stage.advance()))
    return Data(found[0], found[1:], told)


def models(
    names: Sequence[str],
    found: Data,
    size: Size,
    seed: int,
    progress: Progress,
    executor: Executor | None = None,
    folder: Path | None = None,
) -> dict[tuple[str, int], MetaModel]:
    """(name, seed) -> model, for methods and ablations by name and all seeds of a size."""
    # Small batches gain nothing from several threads, and wait for each other where cores are shared.
    torch.set_num_threads(1)
    # Paths are decided once, here: a file of code that changes during hours of training changes no name.
    jobs = [(name, size.seeds * seed + k) for name in names for k in range(size.seeds)]
    paths = {job: _path(job, found, size, folder) for job in jobs}
    lacking = [(*job, path) for job, path in paths.items() if not path.exists()]
    with progress.stage("models", total=len(lacking)) as stage:
        spread(partial(_fit, found=replace(found, suites=[]), size=size), lacking, executor, lambda _: stage.advance())
    return {job: load_model(path, _factory(size)) for job, path in paths.items()}


def settings(name: str) -> MetaSettings:
    """Of a method or an ablation."""
    base = MetaSettings(scale=VOLUME_SCALE, augmentation=AUGMENTATION)
    return replace(base, **{**ABLATIONS, **OWN_SETTINGS}.get(name, {}))


def _fit(job: tuple[str, int, Path], found: Data, size: Size) -> None:
    name, seed, path = job
    tasks = tasks_of(found.training, size.crop, places=settings(name).reach > 0.0)
    train: Callable[..., MetaModel] = {"DKMT": train_joint, "CNP": train_neural_process}.get(name, train_codega)
    save_model(path, train(tasks, _factory(size), settings(name), seed))


def _factory(size: Size) -> Callable[[], ScoopExtractor]:
    return partial(ScoopExtractor, crop=size.crop)


def _path(job: tuple[str, int], found: Data, size: Size, folder: Path | None) -> Path:
    name, seed = job
    told = {key: str(value) for key, value in asdict(replace(settings(name), augmentation=None)).items()}
    code = _code("meta", None), _code("scooping", MODEL_CODE), torch.__version__
    key = _digest([found.name, name, seed, size.crop, told, code])
    return (folder or _kept()) / f"{name.replace(' ', '-').replace(chr(39), '')}-{seed}-{key}.safetensors"


def _kept() -> Path:
    return runs_root() / "scooping"


@cache
def _code(room: str, names: tuple[str, ...] | None) -> str:
    """Digest of the files of a room."""
    folder = ROOT / "sim_core" / room
    paths = sorted(folder.glob("*.py")) if names is None else [folder / f"{name}.py" for name in names]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _digest(told: Any) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]
