"""Reinforcement learning beside adaptive MPC: do both meet the same plant, and are its steps counted?"""

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

from experiments.ids.ids_against_rl import ALGORITHMS, _judge
from experiments.problems.ampc_study import STEPS, episode_seed, lab_of, play
from experiments.problems.ids_rivals import (
    CANDIDATES,
    CHOSEN,
    Job,
    Learnt,
    Settings,
    SwingUp,
    best_of,
    features,
    learnt,
    mean_cost,
)
from reporting import Result

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("robot", ["cartpole", "double_cartpole"])
def test_the_environment_repeats_an_episode_of_adaptive_mpc(robot):
    lab = lab_of(robot)
    episode = play(lab.fixed(), 3, [1])[0]
    env = SwingUp(lab, 3, episode=1)
    seen = env.reset()[0]
    np.testing.assert_array_equal(seen, features(episode.X_true[0]))
    for k, u in enumerate(episode.U):
        seen, reward, ended, cut, _ = env.step(u / env.limit)
        assert reward == pytest.approx(episode.rewards[k], abs=1e-9) and not ended and cut == (k == STEPS - 1)
    np.testing.assert_allclose(env.X, episode.X_true, atol=1e-7)
    assert env.score == pytest.approx(episode.score, abs=1e-9) and env.count == STEPS
    assert mean_cost(lab, env.X, env.U) == pytest.approx(mean_cost(lab, episode.X_true, episode.U), rel=1e-6)


def test_forces_are_bounded_and_episodes_follow_each_other():
    lab = lab_of("cartpole")
    env, plant = SwingUp(lab, 2), lab.plant()
    env.reset()
    env.step(np.array([7.0]))
    np.testing.assert_array_equal(env.U, [[200.0]])
    assert env.plant.t == pytest.approx(0.02)
    env.reset()
    plant.reset(seed=episode_seed(2, 1))
    np.testing.assert_array_equal(env.X[0], np.r_[plant.true_q, plant.true_v])
    assert env.count == 1
    again = SwingUp(lab, 2, episode=2, repeat=True)
    np.testing.assert_array_equal(again.reset()[0], again.reset()[0])


@pytest.mark.parametrize("rate", [1e4, 1e30])
def test_an_episode_in_which_the_simulation_fails_is_worth_nothing_from_there_on(rate):
    env = SwingUp(lab_of("double_cartpole"), 0)
    env.reset()
    before = env.step(np.zeros(1))[1]
    good = env.X[-1].copy()
    env.plant.set_state(env.plant.true_q, [0.0, rate, -rate])
    cut = False
    while not cut:
        seen, reward, ended, cut, _ = env.step(np.ones(1))
        assert np.isfinite(seen).all() and reward == 0.0 and not ended
    assert len(env.rewards) == env.count == STEPS and env.score == pytest.approx(before / STEPS)
    np.testing.assert_array_equal(env.X[-1], good)
    env.reset()
    assert env.step(np.zeros(1))[1] > 0.0 and np.isfinite(env.X[-1]).all()


def test_what_networks_see_is_the_whole_state():
    seen = features(np.array([2.0, 0.0, np.pi / 2, 5.0, 10.0, -5.0]))
    np.testing.assert_allclose(seen, [1, 1, 0, 0, 1, 1, 2, -1], atol=1e-6)


def test_a_score_is_reached_by_the_first_episode_with_or_without_noise():
    one = Learnt("cartpole", Settings("SAC"), 0, [140, 280, 420], [0.1, 0.5, 0.95], [0.2, 0.9, 0.3])
    assert one.reached(0.9) == 280 and one.reached(0.92) == 420 and one.reached(0.1) == 140
    assert one.reached(0.96) is None and one.best == 0.95


def test_the_fastest_seed_is_judged():
    result = Result("any")
    _judge(result, "cartpole", "SAC", [None, 2100], 4340, 420)
    _judge(result, "cartpole", "SAC", [None, None], 4340, 420)
    _judge(result, "double_cartpole", "SAC", [None, 2100], 16800, 420)
    _judge(result, "double_cartpole", "SAC", [None, None], 16800, 420)
    assert [check.value for check in result.checks] == [5.0, 4340 / 420, 1, 0]
    assert [check.passed for check in result.checks] == [False, True, False, True]
    assert "not reached within 4340 steps by 1 of 2 seeds" in result.checks[0].name


def test_a_search_takes_what_ends_best_of_each_algorithm():
    ends = {
        Settings("SAC"): 0.2,
        Settings("SAC", gradients=2): 0.4,
        Settings("DDPG"): 0.3,
        Settings("DDPG", width=8): 0.1,
    }
    found = [Learnt("cartpole", s, 0, [140], [0.9], [end]) for s, end in ends.items()]
    assert best_of(found) == {"SAC": Settings("SAC", gradients=2), "DDPG": Settings("DDPG")}
    assert set(CHOSEN.values()) <= set(CANDIDATES) and len(set(CANDIDATES)) == len(CANDIDATES)
    assert all(CHOSEN[name].algorithm == name for name in ALGORITHMS)


@pytest.mark.parametrize("algorithm", ["SAC", "DDPG"])
def test_a_short_run_counts_its_steps(algorithm):
    told = []
    found = learnt(Job("cartpole", Settings(algorithm, width=16, warm_up=140, reward=2.0, held=5), 0, 420), told.append)
    assert found.steps == [140, 280, 420] and sum(told) == 420
    for scores in (found.training, found.evaluated):
        assert len(scores) == 3 and np.all(np.isfinite(scores)) and 0 <= min(scores) <= max(scores) <= 1
    assert min(found.cost) > 0
