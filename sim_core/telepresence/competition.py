"""What rehearsed tasks are worth in the competition whose tasks they are.

    score([("canisters", 1), ("drill", 2)])                 # 2: the heavy canister was found, the drill was used

The finals of the ANA Avatar XPRIZE gave a point for each of ten tasks; three that the operator and two that the recipient gave are
people's to give. Moving in, talking and travelling (1 to 3 and 5) are not rehearsed here.

Source: Zhu, PhD thesis, University of Illinois (2023), section 8.7.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["POINTS", "Rehearsed", "points", "score"]

#: rehearsed task -> for each of its steps the number of the competition's task that is done with it; 0: of none
POINTS: dict[str, tuple[int, ...]] = {
    "switch": (4,),
    "canisters": (6, 7),
    "passage": (8,),
    "drill": (0, 9),
    "rocks": (0, 10),
}


@dataclass(frozen=True)
class Rehearsed:
    """A task of a simulated world, by that world's account: the share of its steps that are done, and for how long it went on [s]."""

    task: str
    progress: float
    sentence: str
    done: bool
    elapsed: float

    @property
    def steps_done(self) -> int:
        """Of its steps."""
        return round(self.progress * len(POINTS.get(self.task, ())))


def points(task: str, steps_done: int) -> tuple[int, ...]:
    """Numbers of the competition's tasks that are done with so many steps of a rehearsed one.

    Raises:
        ValueError: there is no such task.
    """
    if task not in POINTS:
        raise ValueError(f"expected a task among {', '.join(POINTS)}, found '{task}'")
    return tuple(number for number in POINTS[task][:steps_done] if number)


def score(done: Iterable[tuple[str, int]]) -> int:
    """Points of rehearsals, as pairs of a task and the number of its steps that were done; each of the competition's tasks counts once."""
    return len({number for task, steps in done for number in points(task, steps)})
