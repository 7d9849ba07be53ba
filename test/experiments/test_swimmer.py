"""The swimmer's networks and its rival, before anything is trained."""

import numpy as np
import pytest

from experiments.problems.lstm import Schedule, train
from experiments.problems.swimmer import MEDIA, VARIANTS, in_vacuum, recorded
from sim_core.augmentation import augment
from sim_core.multibody import Dynamics

WATER = "water at 25 °C"


def test_sizes_are_those_published():
    assert {name: blueprint().n_weights for name, blueprint in VARIANTS.items()} == {
        "on each body": 387,
        "in the head's axes": 1477,
        "on the joints": 1573,
    }
    model, _ = train(recorded(WATER, 2, 5, seed=0), Schedule(taught=1, alone=()))
    assert model.n_parameters == 1900


def test_more_swims_begin_with_the_same():
    few, many = recorded(WATER, 2, 20, seed=3), recorded(WATER, 4, 30, seed=3)
    np.testing.assert_array_equal(few.x, many.x[:2, :21])
    np.testing.assert_array_equal(few.u, many.u[:2, :20])
    assert np.abs(recorded(WATER, 1, 20, seed=4).x - few.x[:1]).max() > 0.01


@pytest.mark.parametrize(
    "name, invariant", [("on each body", True), ("in the head's axes", True), ("on the joints", False)]
)
def test_where_the_swimmer_is_and_heads_for_does_not_matter(name, invariant):
    """Turned and moved, it swims the same way turned and moved: with large random weights, as untrained networks hide it."""
    model = augment(in_vacuum(), VARIANTS[name]().initialised(1, output_gain=1.0))
    dynamics = Dynamics(model)
    swim = recorded(WATER, 1, 50, seed=5)
    turn, shift = 1.1, np.array([0.3, -0.2])
    R = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])

    def moved(x):
        x = x.copy()
        x[..., :2], x[..., 5:7] = x[..., :2] @ R.T + shift, x[..., 5:7] @ R.T
        x[..., 2] += turn
        return x

    x0 = swim.x[0, 10]
    X = dynamics.rollout(x0, swim.u[0], model.parameters.nominal)
    turned = dynamics.rollout(moved(x0), swim.u[0], model.parameters.nominal)
    assert (np.abs(turned - moved(X)).max() < 1e-9) == invariant
    plain = Dynamics(in_vacuum()).rollout(x0, swim.u[0], in_vacuum().parameters.nominal)
    assert np.abs(X - plain).max() > 1e-3, "the network must act for this to mean anything"


def test_what_the_lstm_was_shown_it_repeats_and_then_goes_on_alone():
    swims = recorded("air at 25 °C", 2, 30, seed=6)
    model, history = train(swims, Schedule(taught=30, alone=((5, 5),)))
    assert [row["stage"] for row in (history[0], history[-1])] == ["taught", "alone over 5 steps"]
    assert history[29]["loss"] < history[0]["loss"]
    shown, alone = model.predict(swims.x, swims.u, 10), model.predict(swims.x, swims.u)
    assert shown.shape == alone.shape == swims.x.shape and set(MEDIA) > {"air at 25 °C"}
    np.testing.assert_array_equal(shown[:, :11], swims.x[:, :11])
    np.testing.assert_array_equal(alone[:, 0], swims.x[:, 0])
    assert np.abs(shown[:, 11:] - swims.x[:, 11:]).max() > 0 and np.isfinite(alone).all()
