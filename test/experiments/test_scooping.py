"""What the experiments with scoops stand on: errors by shots, attempts among logged scoops, trials of a closed loop."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from experiments.problems.scoop_study import (
    ABLATIONS,
    FEW,
    METHODS,
    OWN_SETTINGS,
    PLACES,
    SIZES,
    data,
    models,
    settings,
)
from experiments.scooping.codega_prediction import SHOTS, errors
from experiments.scooping.scooping_sim import BUDGET, FIXED, OWN, SWEPT, Job, counts, least_attempts, planner_of, tried
from reporting import SilentProgress
from sim_core.meta.model import NonAdaptive
from sim_core.meta.tasks import Task
from sim_core.scooping.bed.actions import grid
from sim_core.scooping.bed.reward import REWARD, expectation
from sim_core.scooping.bed.suite import SHEET, Recipe
from sim_core.scooping.bed.terrain import make_terrain
from sim_core.scooping.planning.deployment import Deployment

pytestmark = pytest.mark.pure
COUNT = 100


class Shifts:
    """Believes depth * 1000, and adds what it was wrong by in the mean; encodes nothing."""

    places = False

    def __init__(self, shift=0.0):
        self.shift = shift

    def encode(self, views):
        return views

    def condition(self, inputs=None, values=()):
        shift = self.shift
        if inputs is not None:
            shift = float(np.mean(np.asarray(values) - 1000.0 * np.asarray(inputs[1])[:, 0]))
        return Shifts(shift)

    def predict(self, inputs):
        numbers = np.asarray(inputs[1])
        return 1000.0 * numbers[:, 0] + self.shift, np.full(len(numbers), 1.0)


def task(shift):
    numbers = np.column_stack([np.linspace(0.03, 0.08, COUNT), np.zeros(COUNT)]).astype(np.float32)
    values = 1000.0 * numbers[:, 0] + shift
    return Task(
        "60 Single sand",
        ("sand",),
        (torch.zeros(COUNT, 4, 16, 16), torch.from_numpy(numbers)),
        torch.from_numpy(values),
    )


def test_data_and_models_have_names_that_follow_from_files_that_are_there(tmp_path, monkeypatch):
    """A file that was moved must not be found missing only when an experiment begins."""
    monkeypatch.setattr("experiments.problems.scoop_study.generate", lambda recipes, part, scoops, **_: [part])
    found = data(SIZES["quick"], 0, SilentProgress(), folder=tmp_path)
    assert found.name in str(found.training[0]) and len(found.suites) == 1
    asked = []
    monkeypatch.setattr("experiments.problems.scoop_study.spread", lambda job, lacking, *_: asked.extend(lacking))
    monkeypatch.setattr("experiments.problems.scoop_study.load_model", lambda path, factory: path)
    paths = models((*METHODS, *ABLATIONS, *OWN_SETTINGS), found, SIZES["full"], 0, SilentProgress(), folder=tmp_path)
    assert set(paths.values()) == {path for *_, path in asked} and len(set(paths.values())) == len(paths)


def test_errors_are_those_of_the_queries_with_and_without_shots():
    found = errors(Shifts(), task(7.0), seed=0)
    assert found == pytest.approx(np.array([[7.0, 0.0, 0.0]] * 2), abs=1e-3)
    assert errors(NonAdaptive(Shifts()), task(7.0), 0) == pytest.approx(np.full((2, len(SHOTS)), 7.0), abs=1e-3)
    assert errors(Shifts(), task(0.0), 0) == pytest.approx(np.zeros((2, len(SHOTS))), abs=1e-3)


def test_best_are_the_queries_that_brought_most():
    """Believing nothing at all, the error of all is their mean and that of the best five the mean of the largest."""

    class Nothing(Shifts):
        def condition(self, inputs=None, values=()):
            return self

        def predict(self, inputs):
            return np.zeros(len(inputs[1])), np.ones(len(inputs[1]))

    everything, best = errors(Nothing(), task(0.0), 0)[:, 0]
    assert everything == pytest.approx(55.0, abs=2.0) and 76.0 < best < 80.0


def test_every_method_and_ablation_has_settings_of_its_own():
    told = {name: settings(name) for name in (*METHODS, *ABLATIONS, *OWN_SETTINGS)}
    assert told[PLACES].reach > 0.0 and told[FEW].reach == 0.0 and told[PLACES].kernel == told[FEW].kernel
    assert told["2 folds"].folds.count == 2 and told["8 folds"].folds.count == 8 and told["CoDeGa"].folds.count == 4
    assert told["random folds"].folds.by == "tasks" and told["shared start"].folds.start == "shared"
    assert len({str(told[name]) for name in ("CoDeGa", *ABLATIONS, *OWN_SETTINGS)}) == 1 + len(ABLATIONS) + 2
    assert SIZES["full"].seeds == 3


@pytest.mark.parametrize("method", ["CoDeGa", FIXED, SWEPT, *OWN])
def test_each_method_has_its_planner(method):
    recipe = Recipe(100, "Partition", ("sand", SHEET))
    one = planner_of(Job(method, recipe, 0, "quick", Shifts(), 5e-5), grid((2, 2), yaws=2))
    assert one.rule == {"CoDeGa": "ucb", FIXED: "greedy", SWEPT: "greedy"}.get(method) or one.rule == OWN[method][1]
    assert one.threshold == 5e-5 or one.rule in ("ucb", "greedy")


def test_a_trial_says_where_it_scooped_and_counts_failures_as_the_budget():
    recipe = Recipe(100, "Partition", ("sand", SHEET))
    never, on = tried(Job(SWEPT, recipe, 0, "quick", Shifts(), np.inf, 4))
    assert not never.success and len(on) == len(never.attempts) == 4
    assert all((attempt.volume == 0.0) for attempt, sheet in zip(never.attempts, on) if sheet)
    assert any(attempt.volume > 0.0 for attempt in never.attempts) or all(on)
    first, _ = tried(Job(SWEPT, Recipe(6, "Single", ("corn",)), 0, "quick", Shifts(), 1e-6))
    assert first.success and len(first.attempts) == 1
    failed = Deployment(first.attempts, False)
    assert counts([("a", first), ("b", failed)]).tolist() == [1, BUDGET]


def test_who_knows_the_simulator_needs_as_many_attempts_as_draws_say():
    recipe, some, threshold = Recipe(3, "Single", ("slates",)), grid((3, 3), yaws=4), 6e-6
    would = expectation(make_terrain(recipe), some)
    z = np.random.default_rng(0).standard_normal((4000, 1))
    volume = would.volume * np.exp(would.scatter * z - would.scatter**2 / 2.0)
    force = would.force * np.exp(-0.5 * would.scatter * z)
    share = ((volume >= threshold) & (force <= REWARD.limit)).mean(0).max()
    assert 0.05 < share < 0.95
    assert least_attempts(recipe, threshold, some) == pytest.approx(1.0 / share, rel=0.1)
