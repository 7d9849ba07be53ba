"""Refit of the real models against the MuJoCo plant: a payload in the Panda's hand, the double cart-pole from 2."""

import mujoco
import numpy as np
import pytest

from config.robot import load_robot
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.control.robot_task import free_parameters, online_config
from sim_core.control.ampc import AdaptiveMpc
from sim_core.control.change_detection import ChangeConfig
from sim_core.control.episodes import AdaptiveRun
from sim_core.control.refit import Refit, RefitConfig
from sim_core.control.refit_online import OnlineConfig, OnlineRefit
from sim_core.control.tasks import cartpole_swing_up
from sim_core.inference.data.window import Window
from sim_core.inference.fit.least_squares import Ending
from sim_core.multibody import FreeParameters, load_model
from sim_core.multibody.model.cartpole_parameters import base_parameters, cartpole_spec
from sim_core.multibody.model.parameter_blocks import BodyInertia
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
    amplitude, omega, phase = (
        0.15 * rng.uniform(0.3, 1, 7),
        2 * np.pi * rng.uniform(0.2, 0.5, 7),
        rng.uniform(0, 6.28, 7),
    )
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
    """Mass within 5 % and inside its interval, at most 3 s after the change."""
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
        fresh = Window(
            t[k],
            q[k] + NOISE[0] * rng.standard_normal((501, 7)),
            v[k] + NOISE[1] * rng.standard_normal((501, 7)),
            u[k][1:],
        )
        result = refit.fit(fresh)
        found = spec.payload("hand", result.xi, result.covariance)
        inside.append([e.lower <= true <= e.upper for e, true in zip(found, (MASS, *COM))])
    assert (np.sum(inside, axis=0) >= 17).all(), np.sum(inside, axis=0)


POSITION_STEP, VELOCITY_STEP, CURRENT_STEP = 2 * np.pi / 4096, 0.229 * 2 * np.pi / 60, 2.69e-3 * 1.783


def servo_readings(model, seconds, friction, seed=0):
    """Samples of the Dynamixel arm as its servos tell them: in steps, velocities smoothed over 5 ms, read late one time in
    four, efforts in force 2 ms later. Its gears' friction is not the file's."""
    event = dict(time=CHANGE, action="attach", frame="hand", mass=0.2, com=[0.01, 0.015, 0.05])
    plant = MujocoPlant(
        "dxl_arm",
        scenario=[event],
        command_delay=0.002,
        parameters={f"{joint}.frictionloss": f for joint, f in zip(model.joint_names, friction)},
    )
    rng = np.random.default_rng(seed)
    amplitude, omega = (
        np.array([0.4, 0.15, 0.2, 0.3, 0.3, 0.3]),
        2 * np.pi * np.array([0.25, 0.5, 0.45, 0.3, 0.5, 0.35]),
    )
    data, smooth, due = mujoco.MjData(model.mj_model), np.zeros(6), 0.0
    while plant.t < seconds:
        q = model.q_home + amplitude * (1 - np.cos(omega * plant.t)) / 2
        v = amplitude * omega * np.sin(omega * plant.t) / 2
        data.qpos[:], data.qvel[:] = plant.q, smooth
        mujoco.mj_forward(model.mj_model, data)
        tau = data.qfrc_bias + 20 * (q - plant.q) + 1.0 * (v - smooth) + friction * np.tanh(v / 0.05)
        due += 0.004
        while plant.t < due + (0.002 if rng.random() < 0.25 else 0.0) - 1e-9:
            plant.step(tau)
            smooth = smooth + (1 - np.exp(-0.002 / 0.005)) * (plant.v - smooth)
        yield (
            plant.t,
            *(
                step * np.round(x / step)
                for x, step in ((plant.q, POSITION_STEP), (smooth, VELOCITY_STEP), (plant.u, CURRENT_STEP))
            ),
        )


def test_a_payload_is_found_through_servos_that_are_coarse_late_and_rougher_than_their_file():
    """Mass within 5 % and inside its interval, friction found. Were the steps taken for exact readings, no fit would be accepted."""
    model = load_model("dxl_arm")
    friction = np.array([0.07, 0.13, 0.12, 0.08, 0.12, 0.09])
    robot = load_robot("dxl_arm")
    spec = free_parameters(robot, model)
    online = OnlineRefit(
        model,
        spec,
        online_config(
            robot,
            RefitWorkerConfig(
                robot="dxl_arm",
                sample_period=0.004,
                window=1.5,
                max_evaluations=40,
                position_noise=4.4e-4,
                velocity_noise=7e-3,
            ),
        ),
        dt=0.004,
    )
    found = {}
    for t, q, v, u in servo_readings(model, 4.5, friction):
        online.append(t, q, v, u)
        if online.due(t) and (result := online.update()) is not None and result.accepted:
            found[t] = spec.payload("hand", result.xi, result.covariance)
    assert online.change.time == pytest.approx(CHANGE, abs=0.06)
    late = [payload for t, payload in found.items() if t > CHANGE + 1.0]
    assert len(late) > 3 and all(abs(mass.value - 0.2) < 0.05 * 0.2 for mass, *_ in late)
    mass, *com = late[-1]
    assert mass.lower < 0.2 < mass.upper
    assert np.abs([c.value - true for c, true in zip(com, (0.01, 0.015, 0.05))]).max() < 0.005
    at = [model.parameters.index(f"{joint}.frictionloss") for joint in model.joint_names]
    np.testing.assert_allclose(online.p[at], friction, atol=0.015)


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
    """Rank 8, six inert parameters, loss at least ten times lower, base parameters within 5 %."""
    model = load_model("double_cartpole")
    refit = Refit(
        model, cartpole_spec(model, 2.0), RefitConfig(segment_length=1, initial_state="measured", time_budget=np.inf)
    )
    result = refit.fit(throw(0, transitions))
    assert result.accepted and result.rank == 8 and result.loss_after < 0.1 * result.loss_before
    inert = {"cart.com.x", "cart.com.y", "cart.com.z", "pole1.com.y", "pole2.com.y", "pole2.length"}
    assert set(result.unexcited) == inert
    np.testing.assert_array_equal(
        result.xi[[n in inert for n in refit.spec.names]], refit.spec.prior_mean[[n in inert for n in refit.spec.names]]
    )
    found, truth = base_parameters(model, result.p), base_parameters(model, model.parameters.nominal)
    for name, value in truth.items():
        assert found[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name


def test_a_robot_far_heavier_than_believed_is_learnt_in_the_first_fit():
    """Cart x 2.2, poles x 3.1, all believed to be 2: cut at 20 evaluations every fit of this episode would be refused."""
    model = load_model("double_cartpole")
    task = cartpole_swing_up(model, dt=0.02)
    config = RefitConfig(segment_length=1, initial_state="measured", time_budget=np.inf, scale_floor=(1e-11, 1e-10))
    refit = Refit(model, cartpole_spec(model), config)
    plant = MujocoPlant("double_cartpole", tick=0.02, initial_q_std=[0.01, 0.01, 0.1], initial_v_std=0.01)
    plant.apply(
        [{"action": "scale", "target": f"{body}.mass", "factor": f} for body, f in (("cart", 2.2), ("pole*", 3.1))]
    )
    run = AdaptiveRun(plant, AdaptiveMpc(task, p=refit.spec.to_physical(refit.spec.prior_mean)), refit, steps=60)
    step, first = run.episode(6000).first_accepted
    assert step == 50 and first.ending is Ending.CONVERGED and first.iterations > config.max_evaluations
