"""Changes of a robot within a recording: found to the sample, not seen where there are none."""

import numpy as np
import pytest
from linear import TRUTH as LINEAR_TRUTH
from linear import LinearDynamics, LinearParameters
from scipy.stats import chi2
from toy import NAMES, TRUTH, ToyDynamics, ToyParameters

from sim_core.inference.data.window import Window
from sim_core.inference.fit.change_point import ChangeConfig, _Search, _Switching, find_changes, held_out_costs
from sim_core.inference.fit.least_squares import minimise
from sim_core.inference.shooting.shooting import ShootingProblem

DT, NOISE = 0.01, np.array([5e-4, 5e-4, 5e-3, 5e-3])


@pytest.fixture(scope="module")
def dynamics():
    return ToyDynamics(DT)


def drive(dynamics, seconds, truths, seed=0, drag=0.0):
    """A cart-pole whose parameters become truths[i][1] at truths[i][0] [s]; `drag` [N] is Coulomb friction of the cart that
    no model knows."""
    rng = np.random.default_rng(seed)
    t = DT * np.arange(round(seconds / DT) + 1)
    u = sum(rng.normal(0, 4.0) * np.sin(2 * np.pi * f * t[:-1] + rng.uniform(0, 6.28)) for f in (0.4, 0.9, 1.7, 2.6))
    X = np.zeros((len(t), 4))
    X[0, 1] = np.pi + 0.5
    for k in range(len(u)):
        p = [p for begin, p in truths if begin <= t[k] + 1e-9][-1]
        force = np.array([[u[k] - drag * np.tanh(X[k, 2] / 0.02) - 3.0 * X[k, 0]]])
        X[k + 1] = dynamics.rollout(X[k : k + 1], force[None], p)[0, 1]
    u = u - 3.0 * X[:-1, 0]
    Y = X + NOISE * rng.standard_normal(X.shape)
    return [Window(t, Y[:, :2], Y[:, 2:], u[:, None])]


def search(dynamics, windows, **config):
    problem = ShootingProblem(dynamics, ToyParameters(), windows, 10)
    return find_changes(problem, windows, ChangeConfig(max_evaluations=40, **config))


def heavier(mass):
    return np.where(np.array(NAMES) == "pole.mass", mass, TRUTH)


def test_a_change_is_found_to_some_milliseconds(dynamics):
    changes = search(dynamics, drive(dynamics, 6.0, [(0.0, TRUTH), (2.43, heavier(0.8))]))
    assert len(changes) == 1
    assert changes[0].time == pytest.approx(2.43, abs=0.02)
    assert changes[0].lower <= 2.43 <= changes[0].upper and changes[0].upper - changes[0].lower < 0.06
    assert changes[0].errors > 5.0


def test_a_payload_that_comes_and_goes_gives_two_changes(dynamics):
    changes = search(dynamics, drive(dynamics, 8.0, [(0.0, TRUTH), (2.5, heavier(0.9)), (5.62, TRUTH)], seed=1))
    assert [c.time for c in changes] == pytest.approx([2.5, 5.62], abs=0.03)


def test_a_short_excursion_that_no_single_cut_gains_from_is_found(dynamics):
    windows = drive(dynamics, 8.0, [(0.0, TRUTH), (3.5, heavier(0.9)), (4.3, TRUTH)], seed=1)
    search_for = _Search(ShootingProblem(dynamics, ToyParameters(), windows, 10), ChangeConfig())
    assert search_for.best_cut(0, len(search_for.problem.times)) is None
    assert [c.time for c in search(dynamics, windows)] == pytest.approx([3.5, 4.3], abs=0.03)


def test_a_change_close_to_the_end_is_found(dynamics):
    changes = search(dynamics, drive(dynamics, 6.0, [(0.0, TRUTH), (5.3, heavier(1.5))], seed=2))
    assert [c.time for c in changes] == pytest.approx([5.3], abs=0.03)


def test_a_change_while_nothing_was_recorded_lies_in_the_gap(dynamics):
    (window,) = drive(dynamics, 6.0, [(0.0, TRUTH), (3.0, heavier(0.9))])
    first, second = window.slice(0, 290), window.slice(310, 600)
    (change,) = search(dynamics, [first, second])
    assert (change.lower, change.upper) == (first.t[-1], second.t[0]) and change.lower < change.time < change.upper


@pytest.mark.parametrize("seed", range(2))
def test_no_change_is_not_cut(dynamics, seed):
    assert search(dynamics, drive(dynamics, 6.0, [(0.0, TRUTH)], seed)) == []


@pytest.mark.parametrize("seed", range(2))
def test_unmodelled_friction_is_no_change_though_a_likelihood_ratio_says_so(dynamics, seed):
    windows = drive(dynamics, 6.0, [(0.0, TRUTH)], seed, drag=0.6)
    problem = ShootingProblem(dynamics, ToyParameters(), windows, 10)
    one = minimise(problem, problem.prior_mean, max_evaluations=40)
    half = len(problem.times) // 2
    sides = [
        minimise(problem.subset(part), one.theta, max_evaluations=40, scale=one.scale)
        for part in (slice(0, half), slice(half, None))
    ]
    ratio = 2.0 * (one.costs[-1] - sum(side.costs[-1] for side in sides))
    assert chi2.sf(ratio, problem.n) < 1e-4
    assert search(dynamics, windows) == []


def test_too_short_a_recording_has_no_change(dynamics):
    windows = drive(dynamics, 0.9, [(0.0, TRUTH), (0.5, heavier(2.0))])
    assert search(dynamics, windows) == []


def test_held_out_costs_are_those_of_refits_where_everything_is_linear():
    rng, dynamics = np.random.default_rng(3), LinearDynamics()
    u = rng.normal(size=(60, 1))
    X = dynamics.rollout(np.zeros((1, 2)), u[None], LINEAR_TRUTH)[0] + 0.05 * rng.standard_normal((61, 2))
    window = Window(0.1 * np.arange(61), X[:, :1], X[:, 1:], u)
    problem = ShootingProblem(dynamics, LinearParameters(), [window], 5, loss="gaussian")
    scale = np.full(2, 0.05)
    fit = minimise(problem, problem.prior_mean, scale=scale)
    blocks = np.array_split(np.arange(2, 9), 3)
    costs = held_out_costs(problem, fit, [block - 2 for block in blocks], slice(2, 9))
    for block, cost in zip(blocks, costs):
        rest = minimise(problem.subset(np.setdiff1d(np.arange(2, 9), block)), problem.prior_mean, scale=scale)
        left_out = problem.subset(block)
        residual = left_out.settle_starts(rest.theta, scale).residual
        assert cost == pytest.approx(left_out.loss.rho(residual / scale).sum(), rel=1e-6)


def test_a_switching_roll_out_is_one_roll_out_after_the_other(dynamics):
    rng = np.random.default_rng(4)
    switches, after = np.array([0, 3, 7, 12]), heavier(0.9)
    starts, controls = rng.normal(size=(4, 4)), rng.normal(size=(4, 12, 1))
    switching = _Switching(dynamics, TRUTH, switches)
    X, S = switching.rollout_sensitivity(starts, controls, after, np.zeros((len(TRUTH), 0)))
    for s, j in enumerate(switches):
        x = starts[s : s + 1]
        for k in range(12):
            np.testing.assert_allclose(X[s, k], x[0], atol=1e-12)
            x = dynamics.rollout(x, controls[s : s + 1, k : k + 1], TRUTH if k < j else after)[:, 1]
        np.testing.assert_allclose(X[s, 12], x[0], atol=1e-12)
    h = 1e-6
    for i in range(4):
        plus, minus = (
            switching.rollout_sensitivity(starts + sign * h * np.eye(4)[i], controls, after, np.zeros((6, 0)))[0]
            for sign in (1, -1)
        )
        np.testing.assert_allclose(S[..., i], (plus - minus) / (2 * h), rtol=1e-6, atol=1e-7)
