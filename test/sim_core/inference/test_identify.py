"""Offline identification of a simulated cart-pole: recovery, starts, forecasts, too little data."""

import numpy as np
import pytest

from sim_core.inference.data.window import Window
from sim_core.inference.fit.free_names import free_parameters
from sim_core.inference.fit.identify import IdentificationError, IdentifyConfig, identify, split_in_time
from sim_core.inference.shooting.shooting import DelayPrior
from sim_core.plant import MujocoPlant

FREE = ["cart.mass_com", "pole.mass_com", "*.damping"]
DELAY = 0.013


@pytest.fixture(scope="module")
def setup():
    return free_parameters("cartpole", FREE)[:2]


def record(model, hidden, seconds=8.0, delay=DELAY):
    plant = MujocoPlant(
        "cartpole", seed=1, parameters=hidden, position_noise=5e-4, velocity_noise=5e-3, sensor_delay=delay
    )
    rng = np.random.default_rng(2)
    phase, rows = rng.uniform(0, 6.28, 5), [(plant.t, plant.q, plant.v)]
    controls = []
    while plant.t < seconds:
        u = 4.0 * np.sum(np.sin(2 * np.pi * np.array([0.5, 0.9, 1.3, 1.9, 2.7]) * plant.t + phase)) - 3.0 * plant.q[0]
        plant.step([u])
        controls.append(plant.u.copy())
        rows.append((plant.t, plant.q, plant.v))
    t, q, v = (np.array(column) for column in zip(*rows))
    return Window(t, q, v, np.array(controls))


def test_hidden_mass_damping_and_delay_are_recovered(setup):
    model, spec = setup
    nominal = model.parameters
    hidden = {"slider.damping": 0.3}
    for name, value in zip(
        nominal.names[nominal.inertia_slice("pole")], 2.0 * nominal.nominal[nominal.inertia_slice("pole")]
    ):
        hidden[name] = float(value)
    window = record(model, hidden)
    found = identify(model, spec, [window], IdentifyConfig(starts=3, delay=DelayPrior(0.005, 0.01, 0.0, 0.03)))
    estimates = {e.name: e for e in found.after}
    for name, truth in (("sensor.delay", DELAY), ("slider.damping", 0.3)):
        assert estimates[name].lower <= truth <= estimates[name].upper, estimates[name]
    # Masses and COM of point-like bodies trade off; what the motion determines is the first moment.
    m, hx, hz = (found.p[nominal.index(f"pole.{f}")] for f in ("mass", "h.x", "h.z"))
    assert hz == pytest.approx(hidden["pole.h.z"], rel=0.02) and abs(hx) < 0.02
    assert found.error_ratio < 0.3 and found.agreeing >= 2 / 3
    assert {"cart.com.x", "cart.com.y", "cart.com.z", "pole.com.y"} <= set(found.unexcited)
    assert found.posterior.rank < len(found.theta)
    assert np.all(np.diag(found.physical_covariance) >= 0)
    # Forecasts start after the training part and leave out their lead.
    assert found.forecast_after.t.min() > 0.8 * 8.0 - 0.02
    np.testing.assert_array_equal(found.forecast_after.t, found.forecast_before.t)


def test_no_delay_is_an_answer_and_one_beyond_the_bound_is_not():
    model, spec = free_parameters("cartpole", ["slider.damping"])[:2]
    prompt = identify(
        model, spec, [record(model, {}, 3.0, 0.0)], IdentifyConfig(starts=2, delay=DelayPrior(0.0, 0.01, 0.0, 0.03))
    )
    (delay,) = (each for each in prompt.after if each.name == "sensor.delay")
    assert delay.value < 1e-3 and delay.lower == 0.0 <= delay.upper and "sensor.delay" not in prompt.at_bound
    late = identify(
        model, spec, [record(model, {}, 3.0, 0.02)], IdentifyConfig(starts=2, delay=DelayPrior(0.0, 0.01, 0.0, 0.01))
    )
    assert "sensor.delay" in late.at_bound


def test_data_are_split_in_time():
    t = 0.01 * np.arange(101)
    a = Window(t, *np.zeros((2, 101, 1)), np.zeros((100, 1)))
    b = Window(2 + t, *np.zeros((2, 101, 1)), np.zeros((100, 1)))
    train, held = split_in_time([a, b], 0.25)
    assert [w.transitions for w in train] == [100, 50] and [w.transitions for w in held] == [50]
    assert held[0].t[0] == train[1].t[-1]


def test_too_little_data_is_said(setup):
    model, spec = setup
    short = record(model, {}, seconds=0.3).slice(0, 2)
    with pytest.raises(IdentificationError, match="record longer"):
        identify(model, spec, [short])


def test_configuration_is_checked():
    with pytest.raises(ValueError, match="starts"):
        IdentifyConfig(starts=0)
    with pytest.raises(ValueError, match="held_out"):
        IdentifyConfig(held_out=0.9)
