"""The sliding window: change found and cut, re-learnt, bad samples survived, replay exact."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "inference"))
from toy import TRUTH, ToyDynamics, ToyParameters, excite, mass_matrix

from sim_core.control.change_detection import ChangeConfig, detect_change
from sim_core.control.refit import RefitConfig
from sim_core.control.refit_online import OnlineConfig, OnlineRefit
from sim_core.inference.data.window import Window

NOISE = (5e-4, 5e-3)
HEAVY = TRUTH * [1, 4, 1, 1, 1, 1]
CHANGE_AT = 400
CONFIG = OnlineConfig(
    window=2.0,
    min_window=0.5,
    period=0.2,
    change=ChangeConfig(horizon=5, noise=NOISE),
    refit=RefitConfig(time_budget=30.0, segment_length=20),
)


@pytest.fixture(scope="module")
def dynamics():
    return ToyDynamics(0.01)


@pytest.fixture(scope="module")
def samples(dynamics):
    """8 s of swinging; after 4 s the pole's mass is four times what it was."""
    X, _, u = excite(dynamics, CHANGE_AT, 2)
    later = excite(dynamics, CHANGE_AT, 3)[2]
    Z = dynamics.rollout(X[-1:], later[None], HEAVY)[0]
    states = np.concatenate([X, Z[1:]])
    noise = np.random.default_rng(0).standard_normal(states.shape) * np.repeat(NOISE, 2)
    return 0.01 * np.arange(len(states)), states + noise, np.concatenate([u[:1], u, later])


def make(dynamics):
    return OnlineRefit(None, ToyParameters(), CONFIG, dt=0.01, dynamics=dynamics, mass_matrix=mass_matrix)


def run(online, samples, spoil=None):
    log = []
    for k, (t, x, u) in enumerate(zip(*samples)):
        x = spoil(k, x) if spoil else x
        online.append(t, x[:2], x[2:], u)
        if online.due(t):
            result = online.update()
            if result is not None:
                log.append((t, online.revision, online.p.copy(), result.accepted))
    return log


def test_a_hidden_change_is_found_and_relearnt_within_three_seconds(dynamics, samples):
    online = make(dynamics)
    log = run(online, samples)
    before = [p for t, _, p, _ in log if t < 4.0][-1]
    assert before[1] == pytest.approx(TRUTH[1], rel=0.05)
    assert online.change is not None and 3.95 <= online.change.time <= 4.3
    assert [p for t, _, p, _ in log if t < 7.0][-1][1] == pytest.approx(HEAVY[1], rel=0.05)
    assert [p for t, _, p, _ in log if t < 7.0][-1][0] == pytest.approx(TRUTH[0], rel=0.05)


def test_replay_gives_the_same_parameters_bit_for_bit(dynamics, samples):
    short = tuple(a[:200] for a in samples)
    a, b = run(make(dynamics), short), run(make(dynamics), short)
    assert len(a) > 3 and all((x[2] == y[2]).all() for x, y in zip(a, b))


def test_no_change_is_seen_where_there_is_none(dynamics, samples):
    t, x, u = (a[:CHANGE_AT] for a in samples)
    window = Window(t, x[:, :2], x[:, 2:], u[1:])
    assert detect_change(dynamics, window, TRUTH, CONFIG.change) is None
    # A wrong model from the start is no change either.
    assert detect_change(dynamics, window, HEAVY, CONFIG.change) is None


def test_nan_samples_are_dropped_and_the_fit_goes_on(dynamics, samples):
    online = make(dynamics)

    def spoil(k, x):
        return np.full(4, np.nan) if 100 <= k < 110 else x

    log = run(online, tuple(a[:300] for a in samples), spoil)
    assert online.dropped == 10
    assert all(np.isfinite(p).all() for _, _, p, _ in log)
    assert log[-1][2][1] == pytest.approx(TRUTH[1], rel=0.1)


def test_time_jumping_back_forgets_samples_but_not_parameters(dynamics, samples):
    online = make(dynamics)
    run(online, tuple(a[:200] for a in samples))
    learnt, revision = online.p.copy(), online.revision
    online.append(0.0, *np.zeros((2, 2)), np.zeros(1))
    assert online.span() == 0.0 and online.revision == revision
    np.testing.assert_array_equal(online.p, learnt)
    online.reset()
    assert online.revision == 0
    np.testing.assert_array_equal(online.xi, ToyParameters().prior_mean)


def test_the_buffer_does_not_grow(dynamics):
    online = make(dynamics)
    for k in range(3000):
        online.append(0.01 * k, np.zeros(2), np.zeros(2), np.zeros(1))
    assert len(online._t) <= 2 * 201 and online.windows()[0].transitions == 200


def test_configuration_is_checked():
    with pytest.raises(ValueError, match="min_window"):
        OnlineConfig(window=0.1, min_window=0.5)
