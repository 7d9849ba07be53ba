"""An exam as it was recorded: from the bag of a run, or from the file in which it keeps its state."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from identification.exam.pictures import Told, told
from recording.auscultation.wav_file import CollectionError, read_wav
from recording.bag_reader import BagError, BagReader
from sim_core.auscultation.exam import Visit
from sim_core.auscultation.examination import Decision, Examination, Trial, replay
from sim_core.auscultation.preparation import at_common_rate
from sim_core.auscultation.regions import Region
from sim_core.planning.checkpoint import load

__all__ = ["TOPIC", "ExamRecord", "read_exam"]

TOPIC = "auscultation/exam"


@dataclass(frozen=True)
class ExamRecord:
    """An exam.

    Attributes:
        source: where it was read. examination: as it stood at the end. decisions: the ones taken, each beside what the planner
            decides now. told: what was believed after each trial with a recording.
    """

    source: str
    examination: Examination
    decisions: list[Decision]
    told: list[Told] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether every decision is taken again."""
        return all(decision.agrees for decision in self.decisions)

    def recordings(self) -> dict[Region, tuple[np.ndarray, float]]:
        """Region -> the recording that is handed over (m,) at the common rate, and its estimated quality; only those whose file
        is still there and can be read."""
        found = {}
        for region in self.examination.exam.regions:
            trial = self.examination.handed_over(region)
            if trial is None or trial.score is None:
                continue
            try:
                sound, rate = read_wav(trial.file)
            except CollectionError:
                continue
            found[region] = at_common_rate(sound if sound.ndim == 1 else sound[:, 0], rate), trial.score
        return found


def read_exam(path: str | os.PathLike[str]) -> ExamRecord:
    """The last exam of a bag, or the exam of a state's file.

    Raises:
        ValueError: no exam is there, or it cannot be read; the text says why.
    """
    source = Path(path)
    state = load(source) if source.suffix == ".json" else _last_state(source)
    try:
        examination = Examination.resume(state)
        history: list[Told] = []

        def watch(then: Examination, visit: Visit, trial: Trial) -> None:
            if trial.score is not None:
                history.append(told(then.exam, visit, trial.score))

        return ExamRecord(str(source), examination, replay(state, watch), history)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{source}: the exam's state is damaged ({type(error).__name__}: {error})") from None


def _last_state(source: Path) -> Mapping[str, Any]:
    """Raises BagError, which is a ValueError."""
    reader = BagReader(source)
    text = ""
    for _, message in reader.messages(TOPIC) if reader.has(TOPIC) else ():
        text = message.data
    if not text:
        raise BagError(
            f"{source} holds no exam: nothing was said on {TOPIC}; did one begin, and was it recorded with profile:=exam?"
        )
    try:
        state = json.loads(text)
    except json.JSONDecodeError as error:
        raise BagError(f"{source}: what was said on {TOPIC} is no exam ({error})") from None
    if not isinstance(state, dict):
        raise BagError(f"{source}: what was said on {TOPIC} is no exam, but a {type(state).__name__}")
    return state
