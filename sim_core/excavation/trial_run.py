"""A trial as it goes on: it is told of states, asks a policy for motions, and knows when it has ended.

    run = TrialRun(policy, path)
    run.begin(state)
    while (motion := run.ask()) is not None:
        run.settle(somebody_moves_the_bucket(motion))
    run.ended, run.state()                       # why, and all of it as JSON

Who moves the bucket does not matter here: a simulated pile, or an arm.

Source: Zhu, PhD thesis (University of Illinois 2023), section 7.6.3.
"""

from __future__ import annotations

import base64
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from sim_core.excavation.mpc import Mpc
from sim_core.excavation.pile import Outcome
from sim_core.excavation.policies import Policy, State
from sim_core.excavation.reference_path import PathSettings, ReferencePath, make_reference_path

__all__ = ["TrialRun", "path_of"]

VERSION = 1
#: pictures of so many last states are kept in JSON: no network looks farther back
PICTURES = 7


class TrialRun:
    """See the module's docstring.

    Args:
        policy: that has chosen nothing yet. longest: motions after which it ends wherever the bucket is.
        follow_end: whether the path's end ends it; random motions have no path.

    Attributes:
        states: T + 1 of them. actions: (T,). peaks, held: of each motion [N], see `pile.Outcome`. closest: index on the path
            of each state. bound: how often a point outside of the search window was nearer.
        jammed: the last motion was stopped by the pile. finished: the path's end was reached.
        stopped: why it ends here although the policy would go on, in words; "": it does not.
    """

    def __init__(self, policy: Policy, path: ReferencePath, longest: int = 100, follow_end: bool = True) -> None:
        self.policy, self.path, self.longest, self.follow_end = policy, path, longest, follow_end
        self.states: list[State] = []
        self.actions: list[int] = []
        self.peaks: list[float] = []
        self.held: list[float] = []
        self.closest: list[int] = []
        self.bound = 0
        self.jammed = self.finished = self._silent = False
        self.stopped = ""
        self._refused: list[int] = []
        self._why = ""
        self._asked: int | None = None

    @property
    def ended(self) -> str:
        """Why it is over, in one sentence; "": it goes on."""
        if self.jammed:
            return f"the bucket jammed in motion {len(self.actions)}"
        if self.finished:
            return f"the path's end was reached after {len(self.actions)} motions"
        if self.stopped:
            return f"after {len(self.actions)} motions it was over: {self.stopped}"
        if self._silent:
            return f"the policy had no more to say after {len(self.actions)} motions"
        if len(self.actions) >= self.longest:
            return f"the path's end was not reached within {self.longest} motions"
        return ""

    @property
    def progress(self) -> float:
        """Share of the path's length that lies behind the bucket."""
        return float(self.path.progress(self.closest[-1])) if self.closest else 0.0

    def begin(self, state: State) -> None:
        """The bucket is where the path starts."""
        self.states, self.closest = [state], [0]

    def ask(self) -> int | None:
        """The motion to make now, the same one until it is settled; None: it is over.

        Raises:
            RuntimeError: it was not begun. ValueError: the policy needs a picture, and the state has none.
        """
        if not self.states:
            raise RuntimeError("expected a state to choose a motion at, found none: call begin first")
        if self.ended:
            return None
        if self._refused and self._asked is None:
            self._asked = self.policy.instead(self._refused) if isinstance(self.policy, Mpc) else None
            self.stopped = self._why if self._asked is None else ""
        elif self._asked is None:
            self._asked = self.policy.choose(self.states[-1])
            self._silent = self._asked is None
        return self._asked

    def refuse(self, why: str) -> None:
        """The arm cannot make the motion that was asked for, for this reason: a planner is asked for another one, anybody else stops.

        Raises:
            RuntimeError: none was asked for.
        """
        if self._asked is None:
            raise RuntimeError("expected a motion that was asked for, found none: call ask first")
        self._refused.append(self._asked)
        self._asked, self._why = None, why

    def settle(self, outcome: Outcome) -> None:
        """What the motion that was asked for led to.

        Raises:
            RuntimeError: none was asked for.
        """
        if self._asked is None:
            raise RuntimeError("expected a motion that was asked for, found none: call ask first")
        found = self.path.closest(outcome.state.pose, self.closest[-1])
        self.bound += int(np.any(found.bound))
        self.actions.append(self._asked)
        self.peaks.append(outcome.peak)
        self.held.append(outcome.held)
        self.states.append(outcome.state)
        self.closest.append(int(found.index))
        self.jammed, self._asked, self._refused = outcome.jammed, None, []
        self.finished = self.follow_end and not self.jammed and self.path.finished(outcome.state.pose, self.closest[-1])

    def errors(self) -> tuple[float, float]:
        """Mean distances from the path in position [m] and in angle [rad]; NaN before it was begun."""
        if not self.states:
            return math.nan, math.nan
        place, angle = self.path.errors(np.array([one.pose for one in self.states]), np.array(self.closest))
        return float(place.mean()), float(angle.mean())

    def state(self) -> dict[str, Any]:
        """All that `resume` needs, as JSON has it; of the pictures those of the last states."""
        first = max(0, len(self.states) - PICTURES)
        return {
            "version": VERSION,
            "path": asdict(self.path.settings),
            "longest": self.longest,
            "follow_end": self.follow_end,
            "poses": [one.pose.tolist() for one in self.states],
            "forces": [one.force.tolist() for one in self.states],
            "pictures": [_packed(one.image) for one in self.states[first:]],
            "actions": list(self.actions),
            "peaks": list(self.peaks),
            "held": list(self.held),
            "jammed": self.jammed,
            "silent": self._silent,
            "stopped": self.stopped,
        }

    @classmethod
    def resume(cls, found: dict[str, Any], policy: Policy) -> TrialRun:
        """The trial of a state, with a new policy of the same kind, settings and seed: it asks for the same motion next.

        Raises:
            ValueError: this is no state of a trial, or the policy is another one.
        """
        try:
            if found["version"] != VERSION:
                raise ValueError(f"expected a trial of version {VERSION}, found {found['version']}: begin a new one")
            run = cls(policy, path_of(found), int(found["longest"]), bool(found["follow_end"]))
            pictures = [_unpacked(one) for one in found["pictures"]]
            poses, forces = np.array(found["poses"], float), np.array(found["forces"], float)
            actions = [int(action) for action in found["actions"]]
            T = len(actions)
            if T or len(poses):
                if poses.shape != (T + 1, 4) or forces.shape != (T + 1, 3) or len(pictures) > T + 1:
                    raise ValueError(f"expected {T + 1} states for {T} motions, found {len(poses)} and {len(forces)}")
                images = [None] * (T + 1 - len(pictures)) + pictures
                states = [State(*one) for one in zip(poses, forces, images)]
                _recall(policy, states, actions)
                run.begin(states[0])
                for k, action in enumerate(actions):
                    run._asked = action
                    jammed = k == T - 1 and bool(found["jammed"])
                    peak, held = float(found["peaks"][k]), float(found["held"][k])
                    run.settle(Outcome(states[k + 1], jammed, peak, held, np.abs(poses[k + 1] - poses[k])))
            run._silent, run.stopped = bool(found["silent"]), str(found["stopped"])
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(
                f"expected the state of a trial, found none ({error!r}): was the file written by one?"
            ) from None
        return run


def path_of(found: dict[str, Any]) -> ReferencePath:
    """The path of a trial's state.

    Raises:
        ValueError: it has none.
    """
    try:
        return make_reference_path(PathSettings(**found["path"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"expected the state of a trial, found no path in it ({error!r})") from None


def _recall(policy: Policy, states: list[State], actions: list[int]) -> None:
    """Lead a new policy to where it was when it had chosen these actions."""
    if isinstance(policy, Mpc):
        policy.recall(states[:-1], actions)
        return
    for k, (state, action) in enumerate(zip(states, actions)):
        if (chosen := policy.choose(state)) != action:
            raise ValueError(
                f"the policy chooses motion {chosen} where the trial had {action} (step {k}): resume it with the policy it had"
            )


def _packed(image: np.ndarray | None) -> dict[str, Any] | None:
    if image is None:
        return None
    return {"shape": list(image.shape), "bytes": base64.b64encode(image.astype(np.uint8).tobytes()).decode("ascii")}


def _unpacked(found: dict[str, Any] | None) -> np.ndarray | None:
    if found is None:
        return None
    return np.frombuffer(base64.b64decode(found["bytes"]), np.uint8).reshape(found["shape"])
