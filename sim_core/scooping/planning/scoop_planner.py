"""A planner that looks at the terrain before each scoop and suggests the action that is worth most.

    planner = ScoopPlanner(grid(), ModelBelief(model), size=64, rule="ucb", beta=2.0)
    planner.observe(picture)
    suggestion = planner.ask()
    planner.tell(suggestion.index, volume)         # or planner.fail(suggestion.index, "out of reach")

It is a `planning.planner.Planner`. Actions that share place and yaw share a crop, so that the grid's 11,520 actions are seen in 1,440.
What a scoop brought is remembered with what was seen before it; the next picture may show another terrain.

Source: Zhu, PhD thesis (University of Illinois 2023), section 6.3.3.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from sim_core.planning.candidates import Candidates
from sim_core.planning.planner import OBSERVED, Suggestion
from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.rendering import Picture
from sim_core.scooping.learning.crops import crops
from sim_core.scooping.planning.policies import RULES, Belief, Observation, Trials

__all__ = ["ScoopPlanner"]

VERSION = 1
_SETTINGS = ("size", "rule", "beta", "threshold", "seed")


class ScoopPlanner:
    """See the module's docstring.

    Args:
        actions: that may be tried. belief: what volumes are expected. size: of the crops [px].
        rule: a key of `RULES`. beta: of the upper confidence bound. threshold: volume that is to be reached [m^3], for the rules
            that know it.
        seed: decides between actions of equal worth.

    Attributes:
        candidates: the actions by x, y, yaw, depth and stiffness. trials: so far. history: (candidate, volume [m^3]) of each.

    Raises:
        ValueError: an unknown rule, or one that needs a threshold without one.
    """

    def __init__(
        self,
        actions: Actions,
        belief: Belief,
        size: int = 64,
        rule: str = "ucb",
        beta: float = 2.0,
        threshold: float | None = None,
        seed: int = 0,
    ) -> None:
        if rule not in RULES:
            raise ValueError(f"there is no rule '{rule}'; there are {', '.join(RULES)}")
        if rule in ("reach", "gain") and threshold is None:
            raise ValueError(f"the rule '{rule}' needs the threshold that is to be reached [m^3]")
        self.actions, self.belief, self.size = actions, belief, size
        self.rule, self.beta, self.threshold, self.seed = rule, beta, threshold, seed
        self.candidates = Candidates(actions.table())
        self.trials = Trials()
        self.history: list[tuple[int, float]] = []
        self._seen: Observation | None = None
        self._shared = _sharing(actions)

    def observe(self, picture: Picture) -> None:
        """The tray as it is now."""
        self.see(Observation(crops(picture, self.actions[:: self._shared], self.size), self.actions, picture))

    def see(self, seen: Observation) -> None:
        """The same with views that are there already, as in logged data.

        Raises:
            ValueError: views of another count or size.
        """
        n, (b, _, *sides) = len(self.actions), seen.views.shape
        if n % b or sides != [self.size, self.size]:
            raise ValueError(f"expected views of {n} actions, {self.size} pixels wide, found {seen.views.shape}")
        self._seen = seen

    def belief_of_all(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of every action's volume, (n,) each [m^3].

        Raises:
            RuntimeError: nothing was observed yet.
        """
        if self._seen is None:
            raise RuntimeError("nothing was observed yet: give a picture of the tray to `observe` before asking")
        return self.belief.expects(self._seen, self.trials)

    def worth(self) -> np.ndarray:
        """Of every action (n,), by its rule."""
        return self._worth(*self.belief_of_all())

    def ask(self, among: np.ndarray | None = None) -> Suggestion:
        """See `Planner`. Volumes in m^3."""
        among = np.ones(len(self.candidates), bool) if among is None else among
        numbers = self.candidates.require(among)
        mean, deviation = self.belief_of_all()
        worth = self._worth(mean, deviation)[numbers]
        ties = np.flatnonzero(worth == worth.max())
        chosen = int(ties[np.random.default_rng([self.seed, len(self.history), *numbers[:1]]).integers(len(ties))])
        index = int(numbers[chosen])
        return Suggestion(
            index, self.candidates.places[index], float(worth[chosen]), float(mean[index]), float(deviation[index])
        )

    def tell(self, index: int, value: float) -> None:
        """See `Planner`: the volume that it brought [m^3], 0 where the arm was stopped.

        Raises:
            ValueError: not finite or below 0, or no such action. RuntimeError: nothing was observed before.
        """
        if not 0 <= index < len(self.candidates):
            raise ValueError(f"there are actions 0 to {len(self.candidates) - 1}; {index} was tried")
        if not (np.isfinite(value) and value >= 0.0):
            raise ValueError(f"a volume is finite and 0 or more [m^3], not {value}; say `fail` where there is none")
        if self._seen is None:
            raise RuntimeError("nothing was observed yet: give a picture of the tray to `observe` before telling")
        view = self._seen.views[index * len(self._seen.views) // len(self.actions)]
        self.trials.add(np.array(view, np.float32), self.actions[[index]], float(value))
        self.history.append((int(index), float(value)))
        self.candidates.close(index, OBSERVED)

    def fail(self, index: int, reason: str) -> None:
        """See `Planner`."""
        self.candidates.close(index, reason)

    def checkpoint(self) -> dict[str, Any]:
        """See `Planner`. What is resumed suggests the same once it has observed the same picture."""
        return {
            "version": VERSION,
            "history": [list(trial) for trial in self.history],
            "views": [base64.b64encode(view.tobytes()).decode() for view in self.trials.views],
            "closed": self.candidates.closed,
            **{name: getattr(self, name) for name in _SETTINGS},
        }

    @classmethod
    def resume(cls, checkpoint: dict[str, Any], actions: Actions, belief: Belief) -> ScoopPlanner:
        """The planner that wrote a checkpoint.

        Args:
            actions, belief: made as those of the one that wrote it.

        Raises:
            ValueError: of another version, incomplete, or of other actions.
        """
        if checkpoint.get("version") != VERSION:
            raise ValueError(f"a planner's checkpoint has version {VERSION}, this one {checkpoint.get('version')}")
        if missing := [name for name in (*_SETTINGS, "history", "views", "closed") if name not in checkpoint]:
            raise ValueError(f"the checkpoint lacks {', '.join(missing)}: it was not written by a planner, or cut")
        planner = cls(actions, belief, **{name: checkpoint[name] for name in _SETTINGS})
        for (index, value), text in zip(checkpoint["history"], checkpoint["views"], strict=True):
            if not 0 <= index < len(actions):
                raise ValueError(f"the checkpoint tried action {index} of other actions than these {len(actions)}")
            view = np.frombuffer(base64.b64decode(text), np.float32).reshape(4, planner.size, planner.size)
            planner.trials.add(view, actions[[index]], value)
            planner.history.append((index, value))
        for reason, numbers in checkpoint["closed"].items():
            planner.candidates.close(np.array(numbers, int), reason)
        return planner

    def _worth(self, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        best = max((volume for _, volume in self.history), default=0.0)
        if self.rule in ("reach", "gain"):
            assert self.threshold is not None
            best = self.threshold
        return RULES[self.rule](np.ones(1), mean[None], deviation[None], best, self.beta)


def _sharing(actions: Actions) -> int:
    """How many consecutive actions have the same place and yaw, everywhere."""
    views = actions.table()[:, :3]
    changes = np.flatnonzero((views[1:] != views[:-1]).any(1)) + 1
    share = int(changes[0]) if len(changes) else len(views)
    even = len(views) % share == 0 and (views.reshape(-1, share, 3) == views[::share, None]).all()
    return share if even else 1
