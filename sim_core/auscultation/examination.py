"""An exam of a person who was scanned: the planner's places as points and normals on the skin, and all of it as one JSON object.

    examination = Examination.begin(registration, regions=[("heart", "front", "mitral")])
    while (target := examination.ask()) is not None:
        examination.settle(target, Trial(...))      # what came of it
    examination.state()                              # from which it is resumed, or decided again by `replay`

Not every trial says something about its place. Where the arm was stopped, a sensor or the microphone was silent, the same place is
visited again, and after a few of those in a row the exam ends: somebody has to look. So it does when one placement after the other
does not find the body where it was scanned. Either way its state is whole and it can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from typing import Any

import numpy as np

from sim_core.auscultation.exam import ROBOT, Exam, ExamConfig, Visit, disc_grid
from sim_core.auscultation.regions import REGIONS, Region, Side
from sim_core.auscultation.registration import Registration
from sim_core.planning.planner import Suggestion

__all__ = ["Decision", "Examination", "Fault", "Target", "Trial", "parse_regions", "replay", "spell"]

VERSION = 1
#: trials in a row that say nothing about their places, and that did not find the body, after which an exam ends
REPEATS, MISSES = 2, 4
NOT_SCANNED = "not on the scan"


class Fault(Enum):
    """What a trial without a score says."""

    PLACE = "the place is no good"  # out of reach, or too soft
    BODY = "the body was not where it was scanned"
    EQUIPMENT = "the place is not to blame"


@dataclass(frozen=True)
class Trial:
    """What came of a visit.

    Attributes:
        region: see `Visit`. candidate: number of the place among its pair's candidates.
        score: estimated quality, 0 to 1; None: there is none, for the reason `fault`. message: in one sentence, why.
        file: of the recording; "" without one.
        force: least, mean and greatest during 95 % of the recording [N]; None without one.
    """

    region: Region
    candidate: int
    score: float | None = None
    fault: Fault | None = None
    message: str = ""
    file: str = ""
    force: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        if (self.score is None) == (self.fault is None):
            raise ValueError("a trial has a score, or a fault that explains why it has none")


@dataclass(frozen=True)
class Target:
    """Where to put the stethoscope: a visit, with point and outward normal (3,) of the skin, in the scan's axes [m]."""

    visit: Visit
    point: np.ndarray
    normal: np.ndarray


@dataclass(frozen=True)
class Decision:
    """One decision of an exam that is replayed: what was visited then, and what the planner says now."""

    visited: tuple[Region, int]
    decided: tuple[Region, int] | None

    @property
    def agrees(self) -> bool:
        """Whether they are the same."""
        return self.visited == self.decided


class Examination:
    """See the module's docstring. Made by `begin` or `resume`.

    Attributes:
        exam: the planner's. trials: all of them, in order. side: which is up. frame: name of the axes of points.
        landmarks: region -> (3,) as registered [m]. skin: pair -> points and normals (n, 3) of its candidates; NaN where nothing was scanned.
    """

    def __init__(self, exam: Exam, side: Side, frame: str, skin: Mapping[tuple, tuple[np.ndarray, np.ndarray]]) -> None:
        self.exam, self.side, self.frame = exam, side, frame
        self.skin = dict(skin)
        self.trials: list[Trial] = []
        self.landmarks: dict[Region, np.ndarray] = {}
        self._scans: list[tuple[int, list]] = []  # trials before each scan, and (structure, side, candidates it lacks)
        self._repeats = self._misses = 0

    @classmethod
    def begin(
        cls,
        registration: Registration,
        regions: Sequence[Region] = (),
        config: ExamConfig = ROBOT,
        frame: str = "world",
        seed: int = 0,
    ) -> Examination:
        """An exam of a side that was registered.

        Args:
            regions: in the order in which they are visited; empty: all of the side.

        Raises:
            RegistrationRejected: the registration cannot be used. ValueError: a region of the other side.
        """
        registration.require()
        side = registration.side
        chosen = list(regions) or [region for region in REGIONS if region[1] == side]
        if wrong := [spell(region) for region in chosen if region[1] != side]:
            raise ValueError(f"the {side} was registered, and {', '.join(wrong)} is not on it: register that side")
        if missing := [spell(region) for region in chosen if region not in registration.landmarks]:
            raise ValueError(f"there is no landmark of {', '.join(missing)}")
        flat = {region: registration.project(registration.landmarks[region]) for region in chosen}
        pairs = dict.fromkeys(region[:2] for region in chosen)
        grids = {
            pair: disc_grid([place for region, place in flat.items() if region[:2] == pair], config.radius)
            for pair in pairs
        }
        exam = Exam(flat, grids, config, seed)
        made = cls(exam, side, frame, {})
        made.lay_upon(registration)
        return made

    def lay_upon(self, registration: Registration) -> None:
        """Put the candidates onto a scan: at the begin, or onto a new one because the person has moved.

        Raises:
            RegistrationRejected: the registration cannot be used. ValueError: of the other side.
        """
        registration.require()
        if registration.side != self.side:
            raise ValueError(f"this exam is of the {self.side}, the registration of the {registration.side}")
        self.landmarks = {region: registration.landmarks[region] for region in self.exam.regions}
        lacking = []
        for pair, planner in self.exam.planners.items():
            places = planner.candidates.places
            points, normals = np.full((len(places), 3), np.nan), np.full((len(places), 3), np.nan)
            for k, place in enumerate(places):
                try:
                    points[k], normals[k] = registration.deproject(place)
                except ValueError:
                    continue
            self.skin[pair] = points, normals
            lacking.append([*pair, np.flatnonzero(np.isnan(points[:, 0])).tolist()])
        self._scans.append((len(self.trials), lacking))
        self._close(lacking)
        self._repeats = self._misses = 0

    def _close(self, lacking: list) -> None:
        for structure, side, numbers in lacking:
            candidates = self.exam.planners[structure, side].candidates
            candidates.reopen(NOT_SCANNED)
            candidates.close(np.array(numbers, int), NOT_SCANNED)

    @property
    def interrupted(self) -> str:
        """Why somebody has to look before the exam may go on; "" while it may."""
        last = self.trials[-1].message if self.trials else ""
        if self._repeats >= REPEATS:
            return f"{self._repeats} trials in a row failed for no fault of the place, the last: {last}"
        if self._misses >= MISSES:
            return (
                f"{self._misses} placements in a row did not find the body where it was scanned, the last: {last}; "
                "has the person moved? Register again"
            )
        return ""

    def ask(self) -> Target | None:
        """Where to listen next; None when every region has ended. Asked twice, the answer is the same."""
        visit = self.exam.ask()
        if visit is None:
            return None
        points, normals = self.skin[visit.region[:2]]
        index = visit.suggestion.index
        return Target(visit, points[index], normals[index])

    def settle(self, target: Target, trial: Trial) -> None:
        """What came of a target.

        Raises:
            ValueError: the trial is of another target, or its score is none.
        """
        if (trial.region, trial.candidate) != (target.visit.region, target.visit.suggestion.index):
            raise ValueError(f"the trial of {spell(trial.region)} {trial.candidate} is not that of the target")
        self._settle(target.visit, trial)

    def _settle(self, visit: Visit, trial: Trial) -> None:
        if trial.score is not None:
            self.exam.tell(visit, trial.score)
        elif trial.fault is not Fault.EQUIPMENT:
            self.exam.fail(visit, trial.message)
        self._repeats = self._repeats + 1 if trial.fault is Fault.EQUIPMENT else 0
        self._misses = self._misses + 1 if trial.fault is Fault.BODY else 0
        self.trials.append(trial)

    def handed_over(self, region: Region) -> Trial | None:
        """The trial whose recording is handed over for a region; None without any."""
        candidate = self.exam.report(region).candidate
        return next(
            (t for t in self.trials if t.region[:2] == region[:2] and t.candidate == candidate and t.score is not None),
            None,
        )

    # -- as JSON -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "version": VERSION,
            "side": self.side,
            "frame": self.frame,
            "config": asdict(self.exam.config),
            "exam": self.exam.checkpoint(),
            "skin": [[*pair, _listed(points), _listed(normals)] for pair, (points, normals) in self.skin.items()],
            "landmarks": [[*region, [float(x) for x in place]] for region, place in self.landmarks.items()],
            "scans": [list(scan) for scan in self._scans],
            "trials": [
                {**asdict(trial), "fault": None if trial.fault is None else trial.fault.name} for trial in self.trials
            ],
        }

    @classmethod
    def resume(cls, state: Mapping[str, Any]) -> Examination:
        """The examination that wrote a state; what had interrupted it is taken to be mended.

        Raises:
            ValueError: of another version, or incomplete.
        """
        config = _config(state)
        made = cls._empty(state, Exam.resume(state["exam"], config))
        made.trials = [_trial(one) for one in state["trials"]]
        return made

    @classmethod
    def _empty(cls, state: Mapping[str, Any], exam: Exam) -> Examination:
        skin = {
            (structure, side): (np.array(points, float), np.array(normals, float))
            for structure, side, points, normals in state["skin"]
        }
        made = cls(exam, state["side"], state["frame"], skin)
        made.landmarks = {(a, b, c): np.array(place) for a, b, c, place in state["landmarks"]}
        made._scans = [(int(number), lacking) for number, lacking in state["scans"]]
        return made


def replay(
    state: Mapping[str, Any],
    watch: Callable[[Examination, Visit, Trial], None] = lambda examination, visit, trial: None,
) -> list[Decision]:
    """Decide an exam again from its state: each decision beside the one that was taken.

    The planner begins anew with what the exam began with, and is told only what the trials brought.

    Args:
        watch: called after each trial, with the examination as it was then.

    Raises:
        ValueError: of another version, or incomplete.
    """
    config, told = _config(state), state["exam"]
    regions: dict[Region, np.ndarray] = {(a, b, c): np.array(place) for a, b, c, place in told["regions"]}
    again = Examination._empty(state, Exam(regions, config=config, seed=told["seed"]))
    decisions = []
    for number, trial in enumerate(_trial(one) for one in state["trials"]):
        for before, lacking in again._scans:
            if before == number:
                again._close(lacking)
        visit = again.exam.ask()
        decided = None if visit is None else (visit.region, visit.suggestion.index)
        decisions.append(Decision((trial.region, trial.candidate), decided))
        # What follows is decided from what was visited, whether or not it would be visited now.
        place = again.exam.planners[trial.region[:2]].candidates.places[trial.candidate]
        visited = Visit(trial.region, Suggestion(trial.candidate, place, np.nan, np.nan, np.nan), 0)
        again._settle(visited, trial)
        watch(again, visited, trial)
    return decisions


def parse_regions(words: Sequence[str]) -> list[Region]:
    """Regions of "heart/front/mitral", or of "heart/front" for all of a structure on a side, or of "heart" or "front".

    Raises:
        ValueError: there is no such region; the text lists those there are.
    """
    found: dict[Region, None] = {}
    for word in words:
        parts = [part.strip() for part in word.split("/")]
        matching = [region for region in REGIONS if all(part in region for part in parts)]
        if not word.strip() or not matching:
            raise ValueError(f"there is no region '{word}'; there are {', '.join(map(spell, REGIONS))}")
        found.update(dict.fromkeys(matching))
    return list(found)


def spell(region: Region) -> str:
    """A region as one word."""
    return "/".join(region)


def _config(state: Mapping[str, Any]) -> ExamConfig:
    if state.get("version") != VERSION:
        raise ValueError(f"an examination's state has version {VERSION}, this one {state.get('version')}")
    if missing := {"side", "frame", "config", "exam", "skin", "landmarks", "scans", "trials"} - set(state):
        raise ValueError(f"the state lacks {', '.join(sorted(missing))}: it was not written by an examination, or cut")
    known = {field.name for field in fields(ExamConfig)}
    if unknown := set(state["config"]) - known:
        raise ValueError(f"the state's settings {', '.join(sorted(unknown))} are not known here")
    told: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in state["config"].items()
    }
    return replace(ROBOT, **told)


def _trial(told: Mapping[str, Any]) -> Trial:
    fault = None if told["fault"] is None else Fault[told["fault"]]
    structure, side, name = told["region"]
    force = None if told["force"] is None else tuple(told["force"])
    return Trial(**{**told, "region": (structure, side, name), "fault": fault, "force": force})


def _listed(rows: np.ndarray) -> list[list[float | None]]:
    return [[None if np.isnan(x) else float(x) for x in row] for row in rows]
