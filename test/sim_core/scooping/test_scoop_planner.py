"""Policies, the planner that observes anew, and the closed loop, with models whose answers are known in closed form."""

import json

import numpy as np
import pytest

from sim_core.planning.candidates import NoCandidate
from sim_core.planning.planner import Planner
from sim_core.scooping.bed.actions import Actions, grid, random_actions
from sim_core.scooping.bed.rendering import Camera
from sim_core.scooping.bed.reward import expectation
from sim_core.scooping.bed.suite import Recipe
from sim_core.scooping.bed.swept import swept_volume
from sim_core.scooping.bed.terrain import make_terrain
from sim_core.scooping.learning.dataset import collect
from sim_core.scooping.planning.deployment import PlanningFailed, SimulatedTray, deploy, deploy_logged
from sim_core.scooping.planning.policies import ModelBelief, Observation, SweptBelief, Trials, reach
from sim_core.scooping.planning.scoop_planner import ScoopPlanner

pytestmark = pytest.mark.pure
SMALL = grid((3, 2), (0.12, 0.1), 4, 2)


class GaussianModel:
    """A Gaussian process with a linear kernel on five numbers of an input: mean colour and height, depth, stiffness, one [cm^3]."""

    places = False

    def __init__(self, noise=1.0):
        self.noise, self.encodings = noise, 0

    def encode(self, views):
        self.encodings += 1
        return np.asarray(views)[:, [0, 3]].mean((2, 3))

    def features(self, inputs):
        views, numbers = inputs
        seen = views if views.ndim == 2 else np.asarray(views)[:, [0, 3]].mean((2, 3))
        seen = np.repeat(seen, len(numbers) // len(seen), 0)
        return np.column_stack([seen, 10.0 * numbers[:, 0], 0.1 * numbers[:, 1], np.ones(len(numbers))])

    def condition(self, inputs=None, values=()):
        model = self
        x, y = (self.features(inputs), np.asarray(values)) if inputs is not None else (np.empty((0, 5)), np.empty(0))

        class Posterior:
            def predict(self, others):
                z = model.features(others)
                covariance = 100.0 * x @ x.T + model.noise**2 * np.eye(len(x))
                cross = 100.0 * z @ x.T
                solved = (
                    np.linalg.solve(covariance, np.column_stack([y, cross.T])) if len(x) else np.zeros((0, 1 + len(z)))
                )
                variance = 100.0 * (z * z).sum(1) - (cross * solved[:, 1:].T).sum(1)
                return cross @ solved[:, 0], np.sqrt(np.maximum(variance, 0.0))

            def noise(self):
                return model.noise

        return Posterior()


def picture(number=9):
    terrain = make_terrain(Recipe(number, "Partition", ("gravel", "corn")))
    return Camera(terrain).picture(np.random.default_rng(0))


def planner(model=None, **settings):
    return ScoopPlanner(SMALL, ModelBelief(model or GaussianModel()), 16, **settings)


def test_views_are_shared_and_encoded_once():
    model = GaussianModel()
    one = planner(model)
    one.observe(picture())
    assert len(one._seen.views) == 24 and len(one.actions) == 96
    one.ask()
    one.worth()
    assert model.encodings == 1
    one.observe(picture(10))
    one.ask()
    assert model.encodings == 2


def test_it_suggests_what_a_dense_reference_suggests():
    one, model = planner(), GaussianModel()
    one.observe(picture())
    views = np.repeat(one._seen.views, 4, 0)
    numbers = SMALL.numbers
    for k, volume in ((5, 20e-6), (70, 3e-6), (33, 11e-6)):
        one.tell(k, volume)
    mean, deviation = model.condition((views[[5, 70, 33]], numbers[[5, 70, 33]]), [20.0, 3.0, 11.0]).predict(
        (views, numbers)
    )
    worth = mean + 2.0 * deviation
    worth[[5, 70, 33]] = -np.inf
    suggestion = one.ask()
    assert suggestion.index == np.argmax(worth)
    assert suggestion.worth == pytest.approx(worth.max() * 1e-6, rel=1e-5)
    assert (suggestion.mean, suggestion.deviation) == pytest.approx(
        (1e-6 * mean[suggestion.index], 1e-6 * deviation[suggestion.index]), rel=1e-5
    )


def test_what_is_seen_later_does_not_change_what_was_tried():
    """A trial keeps the view that it had; the belief about a new picture rests on it."""
    one = planner()
    one.observe(picture())
    before = np.array(one._seen.views[2])
    one.tell(9, 12e-6)
    one.observe(picture(10))
    assert (one.trials.views[0] == before).all()
    fresh = planner()
    fresh.observe(picture(10))
    fresh.trials = Trials([before], [SMALL.numbers[9]], [SMALL.place[9]], [12e-6])
    assert np.allclose(fresh.belief_of_all(), one.belief_of_all())


class Placed:
    """Remembers the places that it is told, and believes in as many cm^3 as there were trials."""

    places = True

    def __init__(self):
        self.tried, self.asked = np.empty((0, 2)), None

    def encode(self, views):
        return views

    def condition(self, inputs=None, values=()):
        self.tried = inputs[2] if inputs is not None else np.empty((0, 2))
        return self

    def predict(self, inputs):
        self.asked = inputs[2]
        return np.full(len(inputs[1]), float(len(self.tried))), np.ones(len(inputs[1]))


@pytest.mark.parametrize("adapts", [True, False])
def test_a_model_that_knows_of_places_is_told_where_scoops_were_and_where_they_may_be(adapts):
    pytest.importorskip("torch")
    from sim_core.meta.model import NonAdaptive

    wrapped = (lambda model: model) if adapts else NonAdaptive
    one = planner(wrapped(Placed()))
    one.observe(picture())
    for index in (9, 70):
        one.tell(index, 12e-6)
    resumed = ScoopPlanner.resume(json.loads(json.dumps(one.checkpoint())), SMALL, ModelBelief(wrapped(Placed())))
    resumed.observe(picture())
    for each in (one, resumed):
        believed = each.belief_of_all()[0]
        told = getattr(each.belief.model, "model", each.belief.model)
        np.testing.assert_allclose(told.asked, SMALL.place, atol=1e-7)
        if not adapts:
            assert not len(told.tried) and not believed.any()
        else:
            np.testing.assert_allclose(told.tried, SMALL.place[[9, 70]], atol=1e-7)


@pytest.mark.parametrize("rule", ["ucb", "greedy", "reach", "gain"])
def test_a_resumed_planner_goes_on_as_the_one_that_was_killed(rule):
    one = planner(rule=rule, threshold=15e-6, seed=3)
    for k in range(3):
        one.observe(picture(9 + k))
        one.tell(one.ask().index, (7 + k) * 1e-6)
    one.fail(50, "out of reach")
    resumed = ScoopPlanner.resume(json.loads(json.dumps(one.checkpoint())), SMALL, ModelBelief(GaussianModel()))
    for both in (one, resumed):
        both.observe(picture(20))
    for _ in range(3):
        first, second = one.ask(), resumed.ask()
        assert first.index == second.index and first.worth == second.worth and first.index != 50
        for both in (one, resumed):
            both.tell(first.index, 5e-6)
    assert resumed.candidates.closed == one.candidates.closed and resumed.history == one.history


def test_it_is_a_planner_and_refuses_what_makes_no_sense():
    one: Planner = planner()
    with pytest.raises(RuntimeError, match="observe"):
        one.ask()
    one.observe(picture())
    assert one.ask().index == one.ask().index
    few = np.zeros(96, bool)
    few[[3, 4]] = True
    assert one.ask(few).index in (3, 4)
    for volume in (np.nan, -1e-6):
        with pytest.raises(ValueError, match="finite and 0 or more"):
            one.tell(3, volume)
    one.fail(3, "joint limit")
    one.tell(4, 0.0)
    with pytest.raises(NoCandidate, match="1 joint limit, 1 observed"):
        one.ask(few)
    with pytest.raises(ValueError, match="no rule 'best'"):
        planner(rule="best")
    with pytest.raises(ValueError, match="needs the threshold"):
        planner(rule="reach")
    with pytest.raises(ValueError, match="lacks size"):
        ScoopPlanner.resume({"version": 1}, SMALL, ModelBelief(GaussianModel()))


def test_vol_max_takes_the_largest_sweep():
    one = ScoopPlanner(SMALL, SweptBelief(), 16, "greedy")
    seen = picture()
    one.observe(seen)
    volume = swept_volume(make_terrain(Recipe(9, "Partition", ("gravel", "corn"))).surface, SMALL)
    assert one.ask().mean == pytest.approx(volume.max(), rel=0.1)
    assert volume[one.ask().index] > 0.85 * volume.max()
    with pytest.raises(ValueError, match="picture of the tray"):
        one.see(Observation(one._seen.views, SMALL))
        one.ask()


def test_reach_is_the_share_of_draws_above():
    rng = np.random.default_rng(0)
    mean, deviation = np.array([1.0, 3.0, 5.0]), np.array([1.0, 2.0, 0.5])
    draws = mean + deviation * rng.standard_normal((40000, 3))
    assert reach(np.ones(1), mean[None], deviation[None], 4.0) == pytest.approx((draws > 4.0).mean(0), abs=0.01)


def test_reach_and_gain_count_a_scoop_s_noise():
    model, told = GaussianModel(), [20e-6, 0.0, 11e-6]
    one = ScoopPlanner(SMALL, ModelBelief(model, noisy=True), 16, "reach", threshold=14e-6)
    one.observe(picture())
    views = np.repeat(one._seen.views, 4, 0)
    for k, volume in zip((5, 70, 33), told):
        one.tell(k, volume)
    given = (views[[5, 70, 33]], SMALL.numbers[[5, 70, 33]])
    mean, deviation = model.condition(given, 1e6 * np.array(told)).predict((views, SMALL.numbers))
    expected = reach(np.ones(1), mean[None], np.hypot(deviation, 1.0)[None], 14.0)
    assert np.allclose(one.worth(), expected, rtol=1e-4, atol=1e-9) and expected.max() > 1e-3


class Oracle:
    """Believes what is expected of the terrain without luck."""

    def __init__(self, terrain):
        self.terrain = terrain

    def expects(self, seen, trials):
        volume = expectation(self.terrain, seen.actions).volume
        return volume, np.zeros_like(volume)


def test_the_loop_ends_where_it_should_and_failures_are_no_attempts():
    terrain = make_terrain(Recipe(6, "Single", ("corn",)))
    best = expectation(terrain, SMALL).volume.max()
    refused = []

    def refuses(action: Actions):
        if len(refused) < 2:
            refused.append(action)
            return "joint limit"
        return None

    one = ScoopPlanner(SMALL, Oracle(terrain), 16, "greedy")
    seen = []
    found = deploy(one, SimulatedTray(terrain, refuses=refuses), 0.5 * best, after=seen.append)
    assert found.success and found.failures == 2 and found.attempts == tuple(seen)
    assert one.candidates.closed["joint limit"] and found.attempts[-1].volume >= 0.5 * best
    before = terrain.volume
    never = deploy(ScoopPlanner(SMALL, Oracle(terrain), 16, "greedy"), SimulatedTray(terrain), np.inf, budget=4)
    assert not never.success and len(never.attempts) == 4
    assert before - terrain.volume == pytest.approx(sum(each.volume for each in never.attempts), rel=1e-6)
    none = deploy(ScoopPlanner(SMALL[:3], Oracle(terrain), 16), SimulatedTray(terrain, refuses=lambda _: "no"), 1e-6)
    assert not none.success and none.failures == 3 and none.attempts == ()
    with pytest.raises(PlanningFailed, match="no"):
        SimulatedTray(terrain, refuses=lambda _: "no").execute(SMALL[[0]])


def test_blind_choice_among_logged_scoops_takes_as_long_as_counting_says():
    """n scoops of which 5 reach the fifth largest: (n + 1) / 6 on average without replacement."""
    record = collect(Recipe(6, "Single", ("corn",)), 30, 16)
    seen = Observation(record.crops, record.actions)

    class Blind:
        def __init__(self, seed):
            self.rng = np.random.default_rng(seed)

        def expects(self, seen, trials):
            return self.rng.uniform(size=len(seen.actions)), np.zeros(len(seen.actions))

    def tries(strict):
        return [
            deploy_logged(
                ScoopPlanner(record.actions, Blind(k), 16, "greedy"), record, seen, record.threshold(), strict
            )
            for k in range(144)
        ]

    loose, strict = np.array(tries(False)), np.array(tries(True))
    assert loose.mean() == pytest.approx(31 / 6, abs=3.0 * loose.std() / 12.0)
    assert strict.mean() == pytest.approx(31 / 5, abs=3.0 * strict.std() / 12.0)

    class Knows:
        def expects(self, seen, trials):
            return record.volumes, np.zeros(30)

    assert deploy_logged(ScoopPlanner(record.actions, Knows(), 16, "greedy"), record, seen, record.threshold()) == 1
    with pytest.raises(ValueError, match="no scoop reaches"):
        deploy_logged(ScoopPlanner(record.actions, Knows(), 16, "greedy"), record, seen, 1.0)


def test_random_actions_lie_within_the_grid():
    some = random_actions(200, np.random.default_rng(0))
    assert (np.abs(some.place) <= [0.21, 0.11]).all() and set(np.round(some.yaw / (np.pi / 4)).astype(int)) == set(
        range(8)
    )
    assert some.depth.min() >= 0.03 and some.depth.max() <= 0.08 and 0.3 < some.stiff.mean() < 0.7
