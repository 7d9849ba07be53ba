"""Chooses each primitive as the first one of the sequence that a learnt model says is best.

    policy = Mpc(Predictor(weights), path, lambda model, seed: brute_force(model, 5))
    trial = run_trial(pile, policy, path, seed=3)

Source: Zhu, PhD thesis (University of Illinois 2023), section 7.5.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import numpy as np

from sim_core.excavation.costs import CostSettings, tracking_distance
from sim_core.excavation.policies import State
from sim_core.excavation.predictor import PlanningModel, Predictor
from sim_core.excavation.primitives import NULL, PrimitiveSettings, displacements
from sim_core.excavation.reference_path import ReferencePath
from sim_core.planning.sequences import Plan, TreeSettings, brute_force, random_shooting, tree_search

__all__ = ["PLANNERS", "Mpc", "Planner"]

Planner = Callable[[PlanningModel, int], Plan]
#: by name, as published: horizon behind the name, 20,000 sequences. Of a tree, 50 nodes are evaluated together.
PLANNERS: dict[str, Planner] = {
    "BF 3": lambda model, seed: brute_force(model, 3),
    "BF 5": lambda model, seed: brute_force(model, 5),
    "RS 5": lambda model, seed: random_shooting(model, 5, seed=seed),
    "RS 7": lambda model, seed: random_shooting(model, 7, seed=seed),
    "MCTS 5": lambda model, seed: tree_search(model, 5, TreeSettings(leaves=50), seed),
    "MCTS 7": lambda model, seed: tree_search(model, 7, TreeSettings(leaves=50), seed),
}


class Mpc:
    """See the module's docstring; a `Policy` for one trial.

    Args:
        planner: what is asked, with a seed that differs from step to step. allowed: primitives that may be planned; None: all.
        peaks: whether forces inside of primitives are paid for, see `PlanningModel`.
        seed: equal seeds, models and states give equal actions.

    Attributes:
        plans: of each step, None where no sequence stays in the workspace: then it heads for the path. times: they took [s].
    """

    def __init__(
        self,
        predictor: Predictor,
        path: ReferencePath,
        planner: Planner,
        costs: CostSettings = CostSettings(),
        allowed: tuple[int, ...] | None = None,
        primitives: PrimitiveSettings = PrimitiveSettings(),
        seed: int = 0,
        peaks: bool = False,
    ) -> None:
        predictor.forget()
        self.model, self.planner, self.seed = PlanningModel(predictor, path, costs, allowed, peaks), planner, seed
        self.allowed = tuple(int(one) for one in self.model.allowed)
        self.moves, self.action = displacements(primitives), NULL
        self.plans: list[Plan | None] = []
        self.times: list[float] = []

    def choose(self, state: State) -> int:
        """See `Policy`."""
        self._come(state)
        self.plans.append(None)
        self.times.append(0.0)
        return self._decide(self.allowed)

    def instead(self, refused: Collection[int]) -> int | None:
        """Another choice at the state of the last one, without motions that the arm cannot make there; None: none is left."""
        left = tuple(one for one in self.allowed if one not in refused)
        return self._decide(left) if left else None

    def _decide(self, allowed: Sequence[int]) -> int:
        began, model = time.perf_counter(), self.model
        model.allow(allowed)
        try:
            plan = self.planner(model, (1_000_003 * self.seed + len(self.plans) - 1) % 2**31)
            self.plans[-1], self.action = plan, int(model.allowed[plan.action])
        except ValueError:
            self.plans[-1] = None
            ends = self.pose + self.moves[model.allowed]
            self.action = int(model.allowed[np.argmin(tracking_distance(ends, model.path.poses[model.last]))])
        self.times[-1] += time.perf_counter() - began
        return self.action

    def recall(self, states: Sequence[State], actions: Sequence[int]) -> None:
        """Be where it was when it had chosen `actions` at as many states, without planning them again."""
        # What the predictor would have forgotten when the next state comes is not told: its pictures may be gone.
        forgotten = len(states) + 1 - self.model.predictor.settings.history
        for k, (state, action) in enumerate(zip(states, actions)):
            self._come(state, tell=k >= forgotten)
            self.action = action
            self.plans.append(None)
            self.times.append(0.0)

    def _come(self, state: State, tell: bool = True) -> None:
        self.pose = state.pose
        if tell:
            self.model.predictor.tell(state, self.action)
        self.model.last = int(self.model.path.closest(state.pose, self.model.last).index)
