"""The best short sequence of discrete actions, by trying all, many at random, or a tree of averages.

A planner asks a `SequenceModel` only; sequences with a common beginning share its steps. What a sequence is worth is the mean of
the rewards of its steps.

Sources: Kocsis, Szepesvari, Bandit Based Monte-Carlo Planning (2006); Zhu, PhD thesis (University of Illinois 2023), section 7.5, for the
three planners and their budgets. Rollouts of an expansion and the constant of exploration are chosen here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

__all__ = ["Plan", "SequenceModel", "TreeSettings", "brute_force", "random_shooting", "tree_search"]


class SequenceModel(Protocol):
    """Says what steps lead to and what they are worth; equal arguments give equal answers.

    Attributes:
        actions: how many there are.
    """

    actions: int

    def start(self) -> np.ndarray:
        """The state from which is planned, a row (1, d) of numbers."""

    def extend(self, states: np.ndarray, parents: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Steps from states (m, d): for each of n, the row it starts from and its action (n,).

        Returns:
            The states after them (n, d), and the rewards (n,); -inf for a step that must not be taken.
        """


@dataclass(frozen=True, eq=False)
class Plan:
    """What a planner chose.

    Attributes:
        action: to take first. sequence: the best one that was seen to begin with it (k,). value: of that one.
        evaluations: sequences whose worth was found. steps: of the model that this took.
    """

    action: int
    sequence: np.ndarray
    value: float
    evaluations: int
    steps: int


def brute_force(model: SequenceModel, horizon: int) -> Plan:
    """The best of all sequences; the first one in order among equals.

    Raises:
        ValueError: a horizon below 1, or every sequence holds a step that must not be taken.
    """
    _require(horizon)
    n = model.actions
    states, sums, steps = model.start(), np.zeros(1), 0
    for _ in range(horizon):
        parents, actions = np.repeat(np.arange(len(sums)), n), np.tile(np.arange(n), len(sums))
        states, rewards = model.extend(states, parents, actions)
        sums, steps = sums[parents] + rewards, steps + len(rewards)
    best = int(np.argmax(sums))
    sequence = np.array(np.unravel_index(best, (n,) * horizon))
    return _plan(int(sequence[0]), sequence, float(sums[best]) / horizon, len(sums), steps)


def random_shooting(model: SequenceModel, horizon: int, budget: int = 20_000, seed: int = 0) -> Plan:
    """The best of uniformly drawn sequences.

    Raises:
        ValueError: as `brute_force`, or a budget below 1.
    """
    _require(horizon, budget)
    drawn = np.random.default_rng(seed).integers(model.actions, size=(budget, horizon))
    total, steps = _worth(model, model.start(), np.zeros(budget, int), drawn)
    best = int(np.argmax(total))
    return _plan(int(drawn[best, 0]), drawn[best], float(total[best]) / horizon, budget, steps)


@dataclass(frozen=True)
class TreeSettings:
    """How a tree is searched.

    Attributes:
        budget: sequences that are evaluated. rollouts: random completions of each new node.
        exploration: constant of UCB, for values scaled to [0, 1].
        backup: "mean" as published: a node is worth the mean of the sequences through it; "max": their best, so that a bad
            majority of continuations does not hide a good one.
        leaves: nodes that are added before their completions are evaluated together; 1 is the textbook's search.
    """

    budget: int = 20_000
    rollouts: int = 20
    exploration: float = 2.0**0.5
    backup: Literal["mean", "max"] = "mean"
    leaves: int = 1


class _Node:
    __slots__ = ("banned", "best", "children", "closed", "depth", "done", "pending", "prefix", "row", "sum")

    def __init__(self, depth: int, row: int, prefix: float) -> None:
        self.depth, self.row, self.prefix = depth, row, prefix  # prefix: sum of the rewards on the way here
        self.children: dict[int, _Node] = {}
        self.done, self.pending, self.banned, self.closed = (
            0,
            0,
            0,
            False,
        )  # completions; banned: that must not be taken
        self.sum, self.best = 0.0, -np.inf


def tree_search(model: SequenceModel, horizon: int, settings: TreeSettings = TreeSettings(), seed: int = 0) -> Plan:
    """UCB over a tree of actions whose new nodes are completed at random; plays the root's child of the highest value.

    The budget is spent exactly: the last expansion has fewer completions if need be, and a sequence that is complete already
    counts once. Only a tree that is known altogether ends before.

    Raises:
        ValueError: as `brute_force`, or settings that are not positive.
    """
    _require(horizon, settings.budget, settings.rollouts, settings.leaves)
    search = _Search(model, horizon, settings, np.random.default_rng(seed))
    while search.evaluations < settings.budget and not search.root.closed:
        search.expand()
    value: Callable[[int], float] = lambda action: search.value(search.root.children[action])
    action = max(search.root.children, key=value)
    worth, sequence = search.found[action]
    return _plan(action, sequence, worth / horizon, search.evaluations, search.steps)


class _Search:
    def __init__(self, model: SequenceModel, horizon: int, settings: TreeSettings, rng: np.random.Generator) -> None:
        self.model, self.horizon, self.settings, self.rng = model, horizon, settings, rng
        first = model.start()
        self.states = np.empty((1024, first.shape[1]), first.dtype)
        self.states[0], self.rows = first[0], 1
        self.root = _Node(0, 0, 0.0)
        self.evaluations, self.steps = 0, 0
        self.low, self.high = np.inf, -np.inf
        self.found: dict[int, tuple[float, np.ndarray]] = {}  # root action -> its best sequence

    def value(self, node: _Node) -> float:
        """What must not be done counts as the worst that was seen: a mean with -inf in it would say nothing of the rest."""
        if not np.isfinite(node.best):
            return -np.inf
        if self.settings.backup == "max":
            return node.best
        return (node.sum + node.banned * self.low) / node.done

    def expand(self) -> None:
        """Some new nodes, their completions, and what those say to all nodes above."""
        added: list[tuple[list[_Node], list[int], _Node, int]] = []
        left = self.settings.budget - self.evaluations
        while len(added) < self.settings.leaves and left > 0 and not self.root.closed:
            way, actions = self._select()
            count = 1 if len(actions) == self.horizon else min(self.settings.rollouts, left)
            left -= count
            for node in way:
                node.pending += count
            leaf = _Node(len(actions), -1, 0.0)
            way[-1].children[actions[-1]] = leaf
            leaf.pending = count
            if leaf.depth == self.horizon:
                leaf.closed = True
                for node in reversed(way):
                    node.closed = len(node.children) == self.model.actions and all(
                        child.closed for child in node.children.values()
                    )
            added.append((way, actions, leaf, count))
        self._place(added)
        ends = [
            (way, actions, leaf, self.rng.integers(self.model.actions, size=(count, self.horizon - leaf.depth)))
            for way, actions, leaf, count in added
        ]
        totals = self._complete([(leaf, tails) for _, _, leaf, tails in ends])
        for (way, actions, leaf, tails), total in zip(ends, totals):
            self._back_up([*way, leaf], actions, tails, total)

    def _select(self) -> tuple[list[_Node], list[int]]:
        """The nodes from the root to the one that gets a child, and the actions to that child."""
        way, node = [self.root], self.root
        actions: list[int] = []
        while True:
            for action in range(self.model.actions):
                if action not in node.children:
                    return way, [*actions, action]
            open_ones = [(action, child) for action, child in node.children.items() if not child.closed]
            log = np.log(node.done + node.pending)
            action, node = max(open_ones, key=lambda one: self._bound(one[1], float(log)))
            actions.append(action)
            way.append(node)

    def _bound(self, node: _Node, log: float) -> float:
        spread = self.high - self.low
        scaled = (self.value(node) - self.low) / spread if node.done and np.isfinite(spread) and spread > 0.0 else 0.5
        return max(scaled, 0.0) + self.settings.exploration * float(np.sqrt(log / (node.done + node.pending)))

    def _place(self, added: list[tuple[list[_Node], list[int], _Node, int]]) -> None:
        """States and sums of new nodes, by depth: a node of a batch may have its parent in the same batch."""
        for depth in sorted({leaf.depth for _, _, leaf, _ in added}):
            new = [(way[-1], actions[-1], leaf) for way, actions, leaf, _ in added if leaf.depth == depth]
            parents, slots = np.unique([parent.row for parent, _, _ in new], return_inverse=True)
            actions = np.array([action for _, action, _ in new])
            states, rewards = self.model.extend(self.states[parents], slots, actions)
            self.steps += len(new)
            while self.rows + len(new) > len(self.states):
                self.states = np.concatenate([self.states, np.empty_like(self.states)])
            self.states[self.rows : self.rows + len(new)] = states
            for k, (parent, _, leaf) in enumerate(new):
                leaf.row, leaf.prefix = self.rows + k, parent.prefix + float(rewards[k])
            self.rows += len(new)

    def _complete(self, leaves: list[tuple[_Node, np.ndarray]]) -> list[np.ndarray]:
        """Sums of the rewards of whole sequences, for each leaf and each of its completions."""
        totals = [np.full(len(tails), leaf.prefix) for leaf, tails in leaves]
        for length in sorted({tails.shape[1] for _, tails in leaves} - {0}):
            group = [k for k, (_, tails) in enumerate(leaves) if tails.shape[1] == length]
            states = self.states[[leaves[k][0].row for k in group]]
            rows = np.repeat(np.arange(len(group)), [len(leaves[k][1]) for k in group])
            worth, steps = _worth(self.model, states, rows, np.concatenate([leaves[k][1] for k in group]))
            self.steps += steps
            for slot, k in enumerate(group):
                totals[k] = totals[k] + worth[rows == slot]
        return totals

    def _back_up(self, way: list[_Node], actions: list[int], tails: np.ndarray, total: np.ndarray) -> None:
        allowed = total[np.isfinite(total)]
        if len(allowed):
            self.low, self.high = min(self.low, float(allowed.min())), max(self.high, float(allowed.max()))
        best = int(np.argmax(total))
        for node in way:
            node.pending -= len(total)
            node.done += len(total)
            node.sum += float(allowed.sum())
            node.banned += len(total) - len(allowed)
            node.best = max(node.best, float(total[best]))
        self.evaluations += len(total)
        first = actions[0]
        if first not in self.found or total[best] > self.found[first][0]:
            self.found[first] = float(total[best]), np.r_[actions, tails[best]].astype(int)


def _worth(model: SequenceModel, states: np.ndarray, rows: np.ndarray, sequences: np.ndarray) -> tuple[np.ndarray, int]:
    """Sums of rewards (n,) of sequences (n, k) that begin at states[rows]; equal beginnings are computed once."""
    group, sums, steps = rows, np.zeros(len(states)), 0
    for actions in sequences.T:
        distinct, member = np.unique(group * model.actions + actions, return_inverse=True)
        parents = distinct // model.actions
        states, rewards = model.extend(states, parents, distinct % model.actions)
        sums, group, steps = sums[parents] + rewards, member, steps + len(distinct)
    return sums[group], steps


def _require(*counts: int) -> None:
    if min(counts) < 1:
        raise ValueError(f"expected a horizon, a budget, rollouts and leaves of 1 or more, found {min(counts)}")


def _plan(action: int, sequence: np.ndarray, value: float, evaluations: int, steps: int) -> Plan:
    if not np.isfinite(value):
        raise ValueError("every sequence holds a step that must not be taken: widen the workspace or end the trial")
    return Plan(action, sequence, value, evaluations, steps)
