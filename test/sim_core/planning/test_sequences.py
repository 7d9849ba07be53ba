"""Sequence planners on models whose optimum is known."""

import numpy as np
import pytest

from sim_core.planning.sequences import TreeSettings, brute_force, random_shooting, tree_search

pytestmark = pytest.mark.pure
TARGET = np.array([0.31, -0.22])


class Walk:
    """Moves a point by one of nine vectors; the reward falls with the distance from a target. Counts what it is asked."""

    actions = 9

    def __init__(self, banned=()):
        turn = 2 * np.pi * np.arange(9) / 9
        self.moves = 0.1 * np.column_stack([np.cos(turn), np.sin(turn)]) * (1 + np.arange(9)[:, None] % 2)
        self.banned, self.asked = banned, 0

    def start(self):
        return np.zeros((1, 2))

    def extend(self, states, parents, actions):
        self.asked += len(actions)
        ends = states[parents] + self.moves[actions]
        rewards = 1.0 - np.linalg.norm(ends - TARGET, axis=1)
        return ends, np.where(np.isin(actions, self.banned), -np.inf, rewards)

    def worth(self, sequence):
        places = np.cumsum(self.moves[sequence], axis=0)
        return float(np.mean(1.0 - np.linalg.norm(places - TARGET, axis=1)))


class Trap:
    """A first action 0 is followed by ruin unless 0 goes on; the other first actions are mediocre for sure."""

    actions = 4

    def start(self):
        return np.array([[1.0, 0.0]])  # still on the narrow way, depth

    def extend(self, states, parents, actions):
        on = states[parents, 0] * (actions == 0)
        depth = states[parents, 1] + 1
        first_other = (depth == 1) & (actions != 0)
        fell = (states[parents, 0] == 1.0) & (actions != 0) & (depth > 1)
        rewards = np.where(on == 1.0, 1.0, np.where(fell, -2.0, 0.0))
        rewards = np.where(first_other, 0.4, rewards)
        return np.column_stack([on, depth]), rewards


@pytest.mark.parametrize("horizon", [1, 2, 3, 4])
def test_brute_force_finds_the_optimum_and_shares_beginnings(horizon):
    model = Walk()
    plan = brute_force(model, horizon)
    everything = np.array(list(np.ndindex(*(9,) * horizon)))
    worths = np.array([model.worth(sequence) for sequence in everything])
    assert plan.value == pytest.approx(worths.max(), abs=1e-12)
    assert plan.sequence.tolist() == everything[int(np.argmax(worths))].tolist()
    assert plan.action == plan.sequence[0] and plan.evaluations == 9**horizon
    assert plan.steps == model.asked == sum(9**k for k in range(1, horizon + 1))


def test_five_steps_take_the_published_number_of_model_steps():
    model = Walk()
    assert brute_force(model, 5).steps == model.asked == 66_429


def test_random_shooting_comes_near_and_its_value_is_that_of_its_sequence():
    model = Walk()
    best = brute_force(model, 5).value
    plan = random_shooting(model, 5, 20_000, seed=1)
    assert 0.95 * best <= plan.value <= best + 1e-12
    assert plan.value == pytest.approx(model.worth(plan.sequence), abs=1e-12)
    assert plan.evaluations == 20_000 and plan.steps < 66_429


@pytest.mark.parametrize("leaves", [1, 16])
@pytest.mark.parametrize("backup", ["mean", "max"])
def test_a_tree_comes_near_spends_exactly_its_budget_and_repeats_itself(leaves, backup):
    model, settings = Walk(), TreeSettings(budget=4_003, backup=backup, leaves=leaves)
    plan = tree_search(model, 5, settings, seed=2)
    best = brute_force(Walk(), 5).value
    assert plan.value >= 0.95 * best and plan.value == pytest.approx(model.worth(plan.sequence), abs=1e-12)
    assert plan.evaluations == 4_003 and plan.steps == model.asked
    again = tree_search(Walk(), 5, settings, seed=2)
    assert again.sequence.tolist() == plan.sequence.tolist() and again.value == plan.value


@pytest.mark.parametrize("leaves", [1, 7])
def test_a_small_tree_is_searched_to_the_end_and_each_sequence_at_its_leaf_counts_once(leaves):
    model = Walk()
    plan = tree_search(model, 2, TreeSettings(budget=10_000, rollouts=1, leaves=leaves), seed=0)
    assert plan.value == pytest.approx(brute_force(model, 2).value)
    assert plan.evaluations == 9 + 81  # one completion of each child, and each sequence itself


def test_averages_shun_a_narrow_way_and_the_best_finds_it():
    settings = TreeSettings(budget=60, rollouts=4)
    mean = tree_search(Trap(), 3, settings, seed=0)
    greatest = tree_search(Trap(), 3, TreeSettings(budget=60, rollouts=4, backup="max"), seed=0)
    assert brute_force(Trap(), 3).sequence.tolist() == [0, 0, 0]
    assert mean.action != 0 and greatest.sequence.tolist() == [0, 0, 0]


def test_what_must_not_be_taken_is_not():
    free = brute_force(Walk(), 3)
    banned = (int(free.sequence[0]),)
    best = brute_force(Walk(banned), 3)
    assert banned[0] not in best.sequence and best.value < free.value
    for plan in (random_shooting(Walk(banned), 3, 2000), tree_search(Walk(banned), 3, TreeSettings(budget=2000))):
        assert banned[0] not in plan.sequence and plan.value <= best.value + 1e-12
    with pytest.raises(ValueError, match="must not be taken"):
        brute_force(Walk(tuple(range(9))), 2)
    with pytest.raises(ValueError, match="1 or more"):
        random_shooting(Walk(), 3, 0)
