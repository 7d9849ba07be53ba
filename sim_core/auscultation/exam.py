"""Where to listen next: region after region, each until it is heard well enough or its readings are used.

Regions of one structure on one side share a planner, so that what is found in one of them corrects the landmarks of the others.
Nothing here moves or listens: who does asks, visits, and tells.

Source: Zhu, PhD thesis (University of Illinois 2023), algorithm 5.1; residuals are taken anew after each estimate, as its text says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sim_core.auscultation.regions import Region, Side, Structure
from sim_core.planning.candidates import Candidates, NoCandidate
from sim_core.planning.parametric_mean import LandmarkMean, ParametricMean, ZeroMean
from sim_core.planning.planner import BayesianPlanner, Suggestion
from sim_core.planning.residual_process import SquaredExponential
from sim_core.planning.surrogate import NOISES, SIGNALS, MarginalSparGp, SparGp, Surrogate

__all__ = ["ROBOT", "SIMULATION", "Exam", "ExamConfig", "RegionReport", "Visit", "disc_grid"]

Pair = tuple[Structure, Side]


@dataclass(frozen=True)
class ExamConfig:
    """Settings of an exam; the defaults are those of the published trials with people.

    Attributes:
        readings: at most in a region. failures: trials without a reading at most in a region; None: as many as readings.
        adequate: a region ends when a reading scores more than this.
        radius: of a region around its landmark [m]. acquisition, beta: see `planning.acquisition`.
        noise: variance of a score, by structure. translation: standard deviation of the landmarks' displacement (x, y) [m].
        scale: of the quality's scale [-]. length, variance: of the residual process. height, decay: of the prior.
        signals, noises: standard deviations between which the "marginal" model decides, see there.
        choose: which of a region's readings is handed over: that of the highest "score", as published, or the one at the
            place of which most is expected after all readings ("belief"), which a lucky score does not mislead.
        model: "spar"; "fixed": its prior is never corrected; "zero": no prior; "marginal": see `MarginalSparGp`.
    """

    readings: int = 4
    failures: int | None = None
    adequate: float = 0.5
    radius: float = 0.0389
    acquisition: str = "ei"
    beta: float = 1.0
    noise: Mapping[Structure, float] = field(default_factory=lambda: {"heart": 0.0938, "lung": 0.151})
    translation: tuple[float, float] = (2.12e-4**0.5, 9.77e-5**0.5)
    scale: float = 0.03**0.5
    length: float = 0.02
    variance: float = 1.0
    height: float = 0.75
    decay: float = 0.022
    signals: tuple[float, ...] = SIGNALS
    noises: tuple[float, ...] = NOISES
    choose: Literal["score", "belief"] = "score"
    model: str = "spar"

    def surrogate(self, structure: Structure, landmarks: np.ndarray) -> Surrogate:
        """What is believed of a structure whose landmarks (m, 2) [m] were registered."""
        prior = LandmarkMean(landmarks, self.height, self.decay, self.translation, self.scale)
        if self.model == "marginal":
            return MarginalSparGp(prior, self.length, self.signals, self.noises)
        kernel = SquaredExponential(self.length, self.variance)
        kinds: dict[str, tuple[ParametricMean, bool]] = {
            "spar": (prior, True),
            "fixed": (prior, False),
            "zero": (ZeroMean(), False),
        }
        if self.model not in kinds:
            raise ValueError(f"there is no model '{self.model}'; there are {', '.join([*kinds, 'marginal'])}")
        mean, adapt = kinds[self.model]
        return SparGp(mean, kernel, self.noise[structure], adapt)


#: the published trials with people, and the published simulation
ROBOT = ExamConfig()
SIMULATION = ExamConfig(
    readings=10,
    adequate=np.inf,
    radius=0.03,
    noise={"heart": 0.0417, "lung": 0.0417},
    translation=(1.33e-4**0.5, 1.33e-4**0.5),
)


@dataclass(frozen=True)
class Visit:
    """Listen there.

    Attributes:
        region: structure, side and name. suggestion: of the planner. reading: how many the region has had, from 0.
    """

    region: Region
    suggestion: Suggestion
    reading: int


@dataclass(frozen=True)
class RegionReport:
    """How a region ended, or stands.

    Attributes:
        region: see `Visit`. state: "waiting", "heard", "exhausted" (its readings are used) or "unreachable"; why: in words.
        best: its highest score, None without any. candidate: number of the place, among the pair's candidates, whose reading
            is handed over, see `ExamConfig.choose`.
        readings, failures: how many trials.
    """

    region: Region
    state: str
    why: str
    best: float | None
    candidate: int | None
    readings: int
    failures: int


class Exam:
    """See the module's docstring.

    Args:
        regions: in the order in which they are visited, with the landmark (2,) [m] of each.
        grids: (structure, side) -> candidates; a pair that is missing gets a grid of 1 cm around its landmarks.
        config: settings. seed: decides between places of equal worth.
    """

    def __init__(
        self,
        regions: Mapping[Region, np.ndarray],
        grids: Mapping[Pair, Candidates] | None = None,
        config: ExamConfig = ROBOT,
        seed: int = 0,
    ) -> None:
        if not regions:
            raise ValueError("an exam visits at least one region; none was given")
        self.regions = {region: np.array(place, float) for region, place in regions.items()}
        self.config, self.seed = config, seed
        #: candidate, score of each reading, and failures, by region
        self.readings: dict[Region, list[tuple[int, float]]] = {region: [] for region in regions}
        self.failures: dict[Region, list[tuple[int, str]]] = {region: [] for region in regions}
        self.planners: dict[Pair, BayesianPlanner] = {}
        for pair in dict.fromkeys((structure, side) for structure, side, _ in regions):
            marks = np.array([place for region, place in self.regions.items() if region[:2] == pair])
            grid = (grids or {}).get(pair) or disc_grid(marks, config.radius)
            self.planners[pair] = BayesianPlanner(
                grid, config.surrogate(pair[0], marks), config.acquisition, config.beta, seed=seed
            )

    def candidates(self, region: Region) -> np.ndarray:
        """Which of its pair's candidates belong to a region, shape (n,)."""
        return self.planners[region[:2]].candidates.within(self.regions[region], self.config.radius)

    def ask(self) -> Visit | None:
        """Where to listen next; None when every region has ended. Asked twice, the answer is the same."""
        for region in self.regions:
            if self.report(region).state == "waiting":
                suggestion = self.planners[region[:2]].ask(self.candidates(region))
                return Visit(region, suggestion, len(self.readings[region]))
        return None

    def tell(self, visit: Visit, score: float) -> None:
        """A reading's quality, 0 to 1.

        Raises:
            ValueError: not within 0 and 1; nothing is learnt.
        """
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"a reading's quality is from 0 to 1, not {score}")
        self.planners[visit.region[:2]].tell(visit.suggestion.index, score)
        self.readings[visit.region].append((visit.suggestion.index, float(score)))

    def fail(self, visit: Visit, reason: str) -> None:
        """No reading came of a visit: its place is closed, nothing is learnt."""
        self.planners[visit.region[:2]].fail(visit.suggestion.index, reason)
        self.failures[visit.region].append((visit.suggestion.index, reason))

    def report(self, region: Region) -> RegionReport:
        """How a region stands; a reading made for a neighbour counts where it lies in both."""
        inside, config = self.candidates(region), self.config
        planner, own, lost = self.planners[region[:2]], self.readings[region], self.failures[region]
        heard = {index: value for index, value in planner.history if inside[index]}
        best = max(heard.values(), default=None)
        candidate = self._chosen(planner, heard) if heard else None
        most = config.readings if config.failures is None else config.failures
        state, why = "waiting", f"{len(own)} of at most {config.readings} readings"
        if best is not None and best > config.adequate:
            state, why = "heard", f"a reading scores {best:.2f}, more than {config.adequate:g}"
        elif len(own) >= config.readings:
            state, why = "exhausted", f"all {config.readings} readings are used"
        elif len(lost) >= most:
            state, why = "unreachable", f"{len(lost)} visits failed, the last: {lost[-1][1]}"
        else:
            try:
                planner.candidates.require(inside)
            except NoCandidate as error:
                state, why = ("exhausted" if own else "unreachable"), str(error)
        return RegionReport(region, state, why, best, candidate, len(own), len(lost))

    def _chosen(self, planner: BayesianPlanner, heard: Mapping[int, float]) -> int:
        if self.config.choose == "score":
            return max(heard, key=lambda index: heard[index])
        numbers = list(heard)
        return numbers[int(np.argmax(planner.posterior.moments(planner.candidates.places[numbers])[0]))]

    def checkpoint(self) -> dict[str, Any]:
        """All of the state as JSON; see `planning.checkpoint`."""
        return {
            "regions": [[*region, place.tolist()] for region, place in self.regions.items()],
            "readings": [self.readings[region] for region in self.regions],
            "failures": [self.failures[region] for region in self.regions],
            "planners": [[*pair, planner.checkpoint()] for pair, planner in self.planners.items()],
            "seed": self.seed,
        }

    @classmethod
    def resume(cls, checkpoint: Mapping[str, Any], config: ExamConfig = ROBOT) -> Exam:
        """The exam that wrote a checkpoint, with the same settings.

        Raises:
            ValueError: incomplete, or with other settings.
        """
        if missing := {"regions", "readings", "failures", "planners", "seed"} - set(checkpoint):
            raise ValueError(
                f"the checkpoint lacks {', '.join(sorted(missing))}: it was not written by an exam, or cut"
            )
        regions: dict[Region, np.ndarray] = {(a, b, c): np.array(place) for a, b, c, place in checkpoint["regions"]}
        exam = cls(regions, config=config, seed=checkpoint["seed"])
        for structure, side, state in checkpoint["planners"]:
            surrogate = exam.planners[(structure, side)].surrogate
            exam.planners[(structure, side)] = BayesianPlanner.resume(state, surrogate)
        for kept, told in ((exam.readings, checkpoint["readings"]), (exam.failures, checkpoint["failures"])):
            for region, trials in zip(regions, told):
                kept[region] = [tuple(trial) for trial in trials]
        return exam


def disc_grid(
    landmarks: np.ndarray | Sequence[np.ndarray],
    radius: float,
    spacing: float = 0.01,
    origin: np.ndarray | Sequence[float] = (0.0, 0.0),
) -> Candidates:
    """Places of a square grid through `origin` (2,) that are no farther than `radius` from a landmark (m, 2) [m]."""
    marks = np.asarray(landmarks, float) - origin
    low, high = np.floor((marks.min(0) - radius) / spacing), np.ceil((marks.max(0) + radius) / spacing)
    axes = [np.arange(a, b + 1) * spacing for a, b in zip(low, high)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    near = np.linalg.norm(grid[:, None] - marks, axis=-1).min(1) <= radius * (1.0 + 1e-9)
    return Candidates(grid[near] + origin)
