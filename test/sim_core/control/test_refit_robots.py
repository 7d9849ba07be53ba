"""Refit of the real models against the MuJoCo plant: a payload in the Panda's hand, the double cart-pole from 2."""

import mujoco
import numpy as np
import pytest

from sim_core.articulated import FreeParameters, load_model
from sim_core.articulated.cartpole_parameters import base_parameters, cartpole_spec
from sim_core.articulated.parameters import BodyInertia
from sim_core.control.change_detection import ChangeConfig
from sim_core.control.refit import Refit, RefitConfig
from sim_core.control.refit_online import OnlineConfig, OnlineRefit
from sim_core.inference.window import Window
from sim_core.plant import MujocoPlant

NOISE = (1e-5, 1e-3)
MASS, COM, CHANGE = 2.0, (0.03, 0.02, 0.08), 1.5


@pytest.fixture(scope="module")
def panda():
    return load_model("panda")


def swing(model, seconds, seed=0):
    """Samples of a Panda under PD torque control whose hand gets a payload at CHANGE."""
    event = dict(time=CHANGE, action="attach", frame="hand", mass=MASS, com=list(COM))
    plant = MujocoPlant("panda", seed=seed, scenario=[event], position_noise=NOISE[0], velocity_noise=NOISE[1])
    rng = np.random.default_rng(seed)
    amplitude, omega, phase = 0.15 * rng.uniform(0.3, 1, 7), 2 * np.pi * rng.uniform(0.2, 0.5, 7), rng.uniform(0, 6.28, 7)
    gain = np.array([1200, 1200, 800, 800, 200, 200, 100.0])
    data = mujoco.MjData(model.mj_model)
    while plant.t < seconds:
        ramp = min(plant.t, 1.0)
        q = model.q_home + ramp * amplitude * (np.sin(omega * plant.t + phase) - np.sin(phase))
        v = ramp * amplitude * omega * np.cos(omega * plant.t + phase)
        data.qpos[:], data.qvel[:] = plant.q, plant.v
        mujoco.mj_forward(model.mj_model, data)
        plant.step(data.qfrc_bias + gain * (q - plant.q) + 2 * np.sqrt(gain) * (v - plant.v))
        yield plant.t, plant.q, plant.v, plant.u


def test_a_payload_that_appears_in_the_hand_is_relearnt(panda):
    """Issue 2: mass within 5 % and inside its interval, at most 3 s after the change."""
    spec = FreeParameters(panda, [BodyInertia("hand")])
    config = OnlineConfig(change=ChangeConfig(noise=NOISE), refit=RefitConfig(time_budget=np.inf))
    online = OnlineRefit(panda, spec, config)
    payload = {}
    for t, q, v, u in swing(panda, 3.0):
        online.append(t, q, v, u)
        if online.due(t):
            result = online.update()
            if result is not None and result.accepted:
                payload[t] = spec.payload("hand", result.xi, result.covariance)
    before = [p for t, p in payload.items() if t < CHANGE]
    assert all(abs(p[0].value) < 0.05 for p in before)
    assert online.change.time == pytest.approx(CHANGE, abs=0.05)
    after = [p for t, p in payload.items() if t > CHANGE]
    assert min(t for t, p in payload.items() if abs(p[0].value - MASS) < 0.05 * MASS) < CHANGE + 1.0
    mass, *com = after[-1]
    assert mass.value == pytest.approx(MASS, rel=0.05)
    assert mass.value - 2.6 * mass.std < MASS < mass.value + 2.6 * mass.std
    assert np.abs([c.value - true for c, true in zip(com, COM)]).max() < 0.005


def test_intervals_of_a_window_cover_the_payload(panda):
    """Twenty windows of one second: at least 17 of 20 masses and COMs inside (binomial 2.5 sigma below 95 %)."""
    spec = FreeParameters(panda, [BodyInertia("hand")])
    t, q, v, u = (np.array(column) for column in zip(*swing(panda, 4.0)))
    refit = Refit(panda, spec, RefitConfig(time_budget=np.inf))
    rng, inside = np.random.default_rng(0), []
    for start in rng.integers(800, 1499, 20):
        k = slice(start, start + 501)
        fresh = Window(t[k], q[k] + NOISE[0] * rng.standard_normal((501, 7)),
                       v[k] + NOISE[1] * rng.standard_normal((501, 7)), u[k][1:])
        result = refit.fit(fresh)
        found = spec.payload("hand", result.xi, result.covariance)
        inside.append([e.lower <= true <= e.upper for e, true in zip(found, (MASS, *COM))])
    assert (np.sum(inside, axis=0) >= 17).all(), np.sum(inside, axis=0)


def throw(seed, transitions):
    plant = MujocoPlant("double_cartpole", seed=seed, tick=0.02, initial_q=[0.0, np.pi, 0.0], initial_q_std=0.1)
    rng, u, rows, controls = np.random.default_rng(seed), 0.0, [], []
    rows.append((plant.t, plant.q, plant.v))
    for _ in range(transitions):
        u = np.clip(0.8 * u + 36.0 * rng.standard_normal(), -200, 200)
        plant.step([u])
        controls.append(plant.u.copy())
        rows.append((plant.t, plant.q, plant.v))
    t, q, v = (np.array(column) for column in zip(*rows))
    return Window(t, q, v, np.array(controls))


@pytest.mark.parametrize("transitions", [50, 140])
def test_double_cartpole_from_two(transitions):
    """Spec 03, items 9, 10 and 13: rank 8, six inert parameters, loss at least ten times lower, base parameters within 5 %."""
    model = load_model("double_cartpole")
    refit = Refit(model, cartpole_spec(model, 2.0), RefitConfig(segment_length=1, initial_state="measured", time_budget=np.inf))
    result = refit.fit(throw(0, transitions))
    assert result.accepted and result.rank == 8 and result.loss_after < 0.1 * result.loss_before
    inert = {"cart.com.x", "cart.com.y", "cart.com.z", "pole1.com.y", "pole2.com.y", "pole2.length"}
    assert set(result.unexcited) == inert
    np.testing.assert_array_equal(result.xi[[n in inert for n in refit.spec.names]],
                                  refit.spec.prior_mean[[n in inert for n in refit.spec.names]])
    found, truth = base_parameters(model, result.p), base_parameters(model, model.parameters.nominal)
    for name, value in truth.items():
        assert found[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name
