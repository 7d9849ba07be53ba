"""A bag is enough to repeat every refit: also with readings off the grid, pauses, and a recorder that was there first."""

import numpy as np
import pytest

from nodes.control.refit_session import RefitSession, Round, replay
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.framework.joint_state_gate import JointSample
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant

CONFIG = RefitWorkerConfig(robot="dxl_arm", sample_period=0.004, window=0.8, max_evaluations=6)


class Published:
    """What a replay reads of a published parameter set."""

    def __init__(self, done, model_hash):
        self.window_start, self.window_end, self.accepted, self.vector = (
            done.window_start,
            done.window_end,
            done.accepted,
            done.p,
        )
        self.model_hash = model_hash


def readings(seconds, rng):
    """Joint states of the arm under gravity compensation and a sway, late one time in three, with a pause early on."""
    plant = MujocoPlant("dxl_arm", position_noise=4e-4, velocity_noise=7e-3)
    hold, due = np.array([0.0, -0.73, -0.69, 0.0, -0.21, 0.0]), 0.0
    while plant.t < seconds:
        due += 0.004 if abs(plant.t - 0.03) > 0.006 else 0.024
        while plant.t < due + 0.002 * (rng.random() < 0.3) - 1e-9:
            plant.step(hold + 0.3 * np.sin(4.0 * plant.t + np.arange(6)))
        yield JointSample(plant.t, plant.q, plant.v, plant.effort)


@pytest.mark.parametrize("missed", [0, 3], ids=["together", "recorder first"])
def test_recorded_readings_off_the_grid_give_the_same_rounds(missed):
    model = load_model("dxl_arm")
    samples = list(readings(1.6, np.random.default_rng(0)))
    assert len(set(np.round(np.diff([s.stamp for s in samples]), 6))) > 2
    session, published = RefitSession(model, CONFIG), []
    session.warm_up()
    for sample in samples[missed:]:
        session.see(sample)
        if session.due:
            published.append(Published(session.round(), model.hash))
    assert len(published) > 4 and published[0].window_start < published[0].window_end
    repeated = list(replay(model, CONFIG, samples, published))
    assert len(repeated) == len(published)
    for message, done in repeated:
        np.testing.assert_array_equal(done.p, message.vector)
        assert done.accepted == message.accepted


def test_rounds_over_samples_from_before_the_recording_are_left_out():
    model, rng = load_model("dxl_arm"), np.random.default_rng(0)
    samples = list(readings(1.6, rng))
    session, published = RefitSession(model, CONFIG), []
    session.warm_up()
    for sample in samples:
        session.see(sample)
        if session.due:
            published.append(Published(session.round(), model.hash))
    missed = sum(message.window_start == samples[0].stamp for message in published)
    assert 1 <= missed < len(published) and published[missed - 1].accepted  # the next round starts from its parameters
    repeated = list(replay(model, CONFIG, samples[1:], published))
    assert [message for message, _ in repeated] == published[missed:]
    for message, done in repeated:  # an accepted set tells where the next round began, to rounding
        np.testing.assert_allclose(done.p, message.vector, rtol=1e-9, atol=1e-12)
    assert list(replay(model, CONFIG, [], published)) == []


def test_a_replay_ends_where_the_worker_took_networks_that_the_bag_does_not_hold():
    model = load_model("cartpole")
    config = RefitWorkerConfig(robot="cartpole", sample_period=model.timestep, schedule="episodic")
    stamps = np.arange(3)
    published = [
        Published(Round(None, False, "", model.parameters.nominal, 0, 0.0, 1.0 + t), f"{model.hash}{networks}")
        for t, networks in zip(stamps, ("", "", "+0123456789abcdef"))
    ]
    samples = [JointSample(float(t), np.zeros(2), np.zeros(2), np.zeros(2)) for t in (0.0, *(1.0 + stamps))]
    assert [message for message, _ in replay(model, config, samples, published)] == published[:2]
