"""Digs for data and for judgement: jobs that any process can do, kept as files, so that an interrupted run goes on where it was.

Files lie in `.refit/excavation/`, in a folder whose name says the settings of pile and path; REFIT_EXCAVATION names another one.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from config.whole_file import whole_file
from sim_core.excavation.costs import CostSettings
from sim_core.excavation.mpc import PLANNERS, Mpc
from sim_core.excavation.pile import Pile, PileSettings
from sim_core.excavation.policies import ClosedLoop, Follow, OpenLoop, Policy, RandomActions, StochasticFollow
from sim_core.excavation.predictor import Predictor, Weights
from sim_core.excavation.primitives import WIGGLE
from sim_core.excavation.reference_path import DEPTHS, PathSettings, ReferencePath, make_reference_path
from sim_core.excavation.shipped_policies import SHIPPED
from sim_core.excavation.trial import Trial, run_trial
from sim_core.excavation.trial_file import load_trial, save_trial
from sim_core.host.executors import spread

__all__ = ["BASELINES", "DEPARTURES", "STRATEGIES", "Job", "collect", "data_jobs", "pupils_jobs", "test_path"]

#: in the order in which data are collected
STRATEGIES = ("stochastic", "follow", "closed-loop", "stochastic", "open-loop", "random")
#: as whom planners dig where the network learns from them, in turn: whoever does not wiggle digs ten times as much in the same time
PUPILS = ("BF 5", "stochastic", "BF 3", "RS 7", "stochastic", "BF 5", "stochastic", "BF 3 with wiggle")
BASELINES = ("follow", "closed-loop", "open-loop")
#: behind a planner's name -> how it differs from the one that is shipped
DEPARTURES: dict[str, dict[str, Any]] = {
    " with wiggle": {"allowed": None},
    " without peaks": {"peaks": False},
    " (published weights)": {"costs": CostSettings(), "peaks": False},
}
#: first numbers of piles: of data, of calibration, of judgement; weights of J were tuned on those from 30,000 on
DATA, CALIBRATION, JUDGED = 0, 10_000, 50_000
#: actions after which a trial ends; of data, of which each wiggle costs as much time as ten other motions, fewer
LONGEST, LONGEST_OF_DATA = 100, 60
#: force at which the arm stops while data are collected [N]: they hold what jams as well
CAREFUL = 70.0


@dataclass(frozen=True)
class Job:
    """One trial.

    Attributes:
        policy: of `STRATEGIES`, or a planner's name; behind it one of `DEPARTURES`, where it is not as shipped.
        depth: of `DEPTHS`; "": a path drawn at random, as data have it. seed: of pile, path and policy.
        weights: file of the planner's model. limit: force that jams [N]; None: of the settings.
    """

    policy: str
    depth: str
    seed: int
    weights: str = ""
    limit: float | None = None

    @property
    def path(self) -> ReferencePath:
        """That is to be followed."""
        return test_path(self.depth) if self.depth else data_path(self.seed)

    @property
    def planning(self) -> tuple[str, dict[str, Any]]:
        """Of `PLANNERS`, and the words of its `Mpc`."""
        departure = next((one for one in DEPARTURES if self.policy.endswith(one)), "")
        return self.policy.removesuffix(departure), {**SHIPPED, **DEPARTURES.get(departure, {})}

    @property
    def name(self) -> str:
        """Of its file."""
        said = Path(self.weights).read_bytes() + repr(self.planning).encode() if self.weights else b""
        model = hashlib.sha256(said).hexdigest()[:8] if said else ""
        limit = PileSettings().force_limit if self.limit is None else self.limit
        way = hashlib.sha256(self.path.poses.tobytes()).hexdigest()[:6]
        words = [self.policy, self.depth or "any", str(self.seed), way, model, f"{limit:g}"]
        return "_".join(word.replace(" ", "-") for word in words if word) + ".npz"


def folder() -> Path:
    """Where trials of the present settings are kept."""
    pile = replace(PileSettings(), force_limit=0.0, torque_limit=0.0)  # which the files' names say
    said = json.dumps([asdict(pile), LONGEST, LONGEST_OF_DATA], default=str, sort_keys=True)
    root = Path(os.environ.get("REFIT_EXCAVATION", ".refit/excavation"))
    return root / hashlib.sha256(said.encode()).hexdigest()[:12]


def test_path(depth: str) -> ReferencePath:
    """One of the three paths that no data were collected on."""
    return make_reference_path(PathSettings(depth=DEPTHS[depth]))


test_path.__test__ = False  # no test of pytest's


def data_path(seed: int) -> ReferencePath:
    """A path of the data: another one for each seed."""
    rng = np.random.default_rng([seed, 76])
    drawn = {
        "depth": rng.uniform(0.02, 0.085),
        "slope": rng.uniform(0.7, 1.2),
        "drag": rng.uniform(0.08, 0.14),
        "closed": rng.uniform(0.6, 0.9),
    }
    return make_reference_path(replace(PathSettings(), **drawn))


def data_jobs(count: int, first: int = DATA) -> list[Job]:
    """The strategies in turn, each on a pile and a path of its own."""
    return [Job(STRATEGIES[k % len(STRATEGIES)], "", first + k, limit=CAREFUL) for k in range(count)]


def pupils_jobs(count: int, first: int, weights: str) -> list[Job]:
    """Planners with the network in a file, each on a pile and a path of its own: what they do wrong is what it learns next.

    Where a network believes too much of a motion, its planner makes that motion again and again, which scripted policies never do.
    """
    turns = [PUPILS[k % len(PUPILS)] for k in range(count)]
    return [Job(one, "", first + k, "" if one in STRATEGIES else weights, CAREFUL) for k, one in enumerate(turns)]


def collect(
    jobs: Sequence[Job], executor: Executor | None = None, advance: Callable[[], None] = lambda: None
) -> list[Trial]:
    """The trials of jobs, in their order; those that were done before are read."""
    done = spread(dug, [(job, str(folder())) for job in jobs], executor, lambda count: advance())
    return [load_trial(path) for path in done]


def decision_times(jobs: Sequence[Job]) -> np.ndarray:
    """How long the decisions of collected jobs of planners took, all of them [s]."""
    found = [json.loads((folder() / job.name).with_suffix(".json").read_text())["times"] for job in jobs]
    return np.concatenate(found)


def dug(job_and_folder: tuple[Job, str]) -> str:
    """Do a job, if its file is not there yet; the path of the file."""
    job, where = job_and_folder
    path = Path(where) / job.name
    if path.exists():
        return str(path)
    pile = _pile(job.limit, not (job.depth and not job.weights))
    way = job.path
    policy = policy_of(job, way, pile)
    began = time.perf_counter()
    longest = LONGEST if job.depth else LONGEST_OF_DATA
    trial = run_trial(pile, policy, way, job.seed, longest, job.policy != "random")
    if isinstance(policy, Mpc):
        said = {
            "times": policy.times,
            "trial": time.perf_counter() - began,
            "values": [p.value if p else None for p in policy.plans],
        }
        with whole_file(path.with_suffix(".json")) as partial:
            partial.write_text(json.dumps(said))
    if job.depth:
        trial = replace(trial, images=None if trial.images is None else trial.images[[0, len(trial.actions) // 2, -1]])
    save_trial(path, trial)
    return str(path)


def policy_of(job: Job, path: ReferencePath, pile: Pile) -> Policy:
    """The policy that a job names."""
    sizes = pile.settings.primitives
    makers: dict[str, Callable[[], Policy]] = {
        "follow": lambda: Follow(path, sizes),
        "closed-loop": lambda: ClosedLoop(path, sizes),
        "open-loop": lambda: OpenLoop(path, sizes),
        "random": lambda: RandomActions(primitives=sizes, seed=job.seed),
        "stochastic": lambda: StochasticFollow(path, primitives=sizes, seed=job.seed),
    }
    if job.policy in makers:
        return makers[job.policy]()
    planner, words = job.planning
    return Mpc(Predictor(Weights.load(job.weights)), path, PLANNERS[planner], primitives=sizes, seed=job.seed, **words)


def wiggles_by_force(
    trials: Sequence[Trial], edges: Sequence[float] = (0.0, 10.0, 17.5, 25.0, np.inf)
) -> list[tuple[float, float, int]]:
    """Lower edge of a class of forces [N], share of wiggles among the actions taken in it, and their number."""
    force = np.concatenate([np.linalg.norm(one.forces[:-1], axis=1) for one in trials])
    wiggled = np.concatenate([one.actions == WIGGLE for one in trials])
    found = []
    for low, high in zip(edges, edges[1:]):
        rows = (force >= low) & (force < high)
        found.append((float(low), float(wiggled[rows].mean()) if rows.any() else float("nan"), int(rows.sum())))
    return found


@functools.cache
def _pile(limit: float | None, picture: bool) -> Pile:
    settings = replace(PileSettings(), picture=picture)
    return Pile(settings if limit is None else replace(settings, force_limit=limit, torque_limit=1e9))
