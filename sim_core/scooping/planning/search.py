"""The search for a sample: which scoops were made, what each was expected to bring and brought, and when it ends. Whole as JSON.

    search = Search.begin(planner, threshold=60e-6, budget=20)
    while not search.ended:
        search.observe(picture)
        suggestion = search.ask()
        search.settle(suggestion, volume)              # or search.refuse(suggestion, why), search.lose(suggestion, why)
    save(search.state(), file)

Volumes in m^3. A scoop that cannot be planned is no attempt; one that the arm stopped brought nothing, and counts; one of which nothing is
known, since equipment failed, teaches nothing, and two of them in a row end the search.

Source of the loop: Zhu, PhD thesis (University of Illinois 2023), section 6.3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sim_core.planning.candidates import NoCandidate
from sim_core.planning.planner import Suggestion
from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.rendering import Picture
from sim_core.scooping.planning.policies import Belief
from sim_core.scooping.planning.scoop_planner import ScoopPlanner

__all__ = ["LOST", "Attempt", "Search"]

VERSION = 1
#: why a scoop that would meet the tray is closed, until the next picture
NO_ROOM = "too near to the tray"
#: attempts in a row of which nothing is known, after which a search ends
LOST = 2


@dataclass(frozen=True)
class Attempt:
    """One scoop.

    Attributes:
        index: of the action. action: x, y [m] in the tray's frame, yaw [rad], depth [m], 1 for stiff.
        mean, deviation: what was expected [m^3]. volume: what it brought [m^3]; None: nothing is known of it.
        message: what went wrong; "": nothing. peak: greatest force of the ground on the scoop [N]; None: it is not known.
    """

    index: int
    action: tuple[float, ...]
    mean: float
    deviation: float
    volume: float | None
    message: str = ""
    peak: float | None = None


class Search:
    """See the module's docstring.

    Attributes:
        planner: that is asked. threshold: volume that is enough [m^3]. budget: attempts at most. attempts: so far.
        refused: scoops that could not be planned, (index, why). lost: attempts in a row of which nothing is known.
    """

    def __init__(self, planner: ScoopPlanner, threshold: float, budget: int) -> None:
        if not (threshold > 0.0 and budget > 0):
            raise ValueError(f"expected a threshold [m^3] and a budget above 0, found {threshold} and {budget}")
        self.planner, self.threshold, self.budget = planner, float(threshold), int(budget)
        self.attempts: list[Attempt] = []
        self.refused: list[tuple[int, str]] = []
        self.lost = 0
        self._nothing_left = ""

    @property
    def success(self) -> bool:
        """Whether the last scoop was enough."""
        return bool(self.attempts) and (self.attempts[-1].volume or 0.0) >= self.threshold

    @property
    def ended(self) -> str:
        """Why nothing is to be tried any more, as a sentence; "": something is."""
        if self.success:
            volume = 1e6 * (self.attempts[-1].volume or 0.0)
            return f"scoop {len(self.attempts)} holds {volume:.0f} cm3, {1e6 * self.threshold:.0f} were asked for"
        if self._nothing_left:
            return self._nothing_left
        if self.lost >= LOST:
            return f"of {LOST} scoops in a row nothing is known, the last: {self.attempts[-1].message}"
        if len(self.attempts) >= self.budget:
            best = max((attempt.volume or 0.0 for attempt in self.attempts), default=0.0)
            return f"the budget of {self.budget} scoops is used; the best brought {1e6 * best:.0f} of {1e6 * self.threshold:.0f} cm3"
        return ""

    def observe(self, picture: Picture, room: np.ndarray | None = None) -> None:
        """The tray as it is now.

        Args:
            room: which scoops would meet neither its floor nor its walls now (n,); None: it is not known.
        """
        self.planner.observe(picture)
        self.planner.candidates.reopen(NO_ROOM)
        if room is not None:
            self.planner.candidates.close(~room, NO_ROOM)

    def ask(self) -> Suggestion | None:
        """What to try next; None: no scoop is left that can be tried, and the search has ended."""
        try:
            return self.planner.ask()
        except NoCandidate as error:
            self._nothing_left = f"no scoop is left to try: {error}"
            return None

    def refuse(self, suggestion: Suggestion, why: str) -> None:
        """It cannot be planned."""
        self.planner.fail(suggestion.index, "out of reach")
        self.refused.append((suggestion.index, why))

    def settle(self, suggestion: Suggestion, volume: float, message: str = "", peak: float | None = None) -> None:
        """It brought so much [m^3]; 0 where the arm was stopped, which `message` says."""
        self.planner.tell(suggestion.index, max(volume, 0.0))
        self.attempts.append(self._attempt(suggestion, max(volume, 0.0), message, peak))
        self.lost = 0

    def lose(self, suggestion: Suggestion, why: str) -> None:
        """Nothing is known of what it brought."""
        self.attempts.append(self._attempt(suggestion, None, why))
        self.lost += 1

    def state(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {
            "version": VERSION,
            "threshold": self.threshold,
            "budget": self.budget,
            "attempts": [asdict(attempt) for attempt in self.attempts],
            "refused": [list(one) for one in self.refused],
            "planner": self.planner.checkpoint(),
        }

    @classmethod
    def resume(cls, state: Mapping[str, Any], actions: Actions, belief: Belief) -> Search:
        """The search that was in this state: it suggests the same once it has seen the same picture.

        Raises:
            ValueError: of another version, cut, or of other actions.
        """
        if state.get("version") != VERSION:
            raise ValueError(f"a search's checkpoint has version {VERSION}, this one {state.get('version')}")
        words = ("threshold", "budget", "attempts", "refused", "planner")
        if missing := [word for word in words if word not in state]:
            raise ValueError(f"the checkpoint lacks {', '.join(missing)}: it was not written by a search, or cut")
        search = cls(ScoopPlanner.resume(state["planner"], actions, belief), state["threshold"], state["budget"])
        search.attempts = [Attempt(**{**one, "action": tuple(one["action"])}) for one in state["attempts"]]
        search.refused = [(int(index), str(why)) for index, why in state["refused"]]
        # What was wrong with the equipment may have been put right since.
        search.lost = 0
        return search

    def _attempt(
        self, suggestion: Suggestion, volume: float | None, message: str, peak: float | None = None
    ) -> Attempt:
        action = tuple(float(number) for number in suggestion.place)
        return Attempt(suggestion.index, action, suggestion.mean, suggestion.deviation, volume, message, peak)
