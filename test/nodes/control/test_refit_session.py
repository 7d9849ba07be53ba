"""A bag is enough to repeat every refit: also with readings off the grid, pauses, and a recorder that was there first."""

from dataclasses import replace

import numpy as np
import pytest

from nodes.control.refit_session import RefitSession, Round, replay
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.framework.joint_state_gate import JointSample
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant
from sim_core.plant.robot_changes import scenario_of, truth_after

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


def readings(seconds, rng, scenario=()):
    """Joint states of the arm under gravity compensation and a sway, late one time in three, with a pause early on."""
    plant = MujocoPlant("dxl_arm", position_noise=4e-4, velocity_noise=7e-3, scenario=list(scenario))
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


def test_an_arm_whose_joints_are_damped_anew_frees_what_it_holds_and_replays_the_same():
    model = load_model("dxl_arm")
    changes = [{"time": 0.0, **event} for event in scenario_of(["damping:*=x4"], model, "hand")]
    samples = list(readings(1.3, np.random.default_rng(0), changes))
    config = replace(CONFIG, estimate_held=True)
    session, published, freed = RefitSession(model, config), [], []
    session.warm_up()
    for sample in samples:
        session.see(sample)
        if session.due:
            done = session.round()
            published.append(Published(done, model.hash))
            if session.online.free and done.accepted:
                freed.append(done)
    assert session.online.free and "is now estimated too, above all" in freed[-1].reason
    assert "above all damping of joints" in freed[-1].reason
    damping = next(e for e in freed[-1].result.estimates if e.name == "elbow.damping")
    assert damping.lower <= truth_after(changes, model)["elbow.damping"] <= damping.upper
    for message, done in replay(model, config, samples, published):
        np.testing.assert_array_equal(done.p, message.vector)
        assert done.accepted == message.accepted
    held = RefitSession(model, replace(CONFIG, estimate_held=False))
    for sample in samples:
        held.see(sample)
        if held.due:
            assert held.round().result.spec is held.online.spec
    assert not held.online.free


def test_what_a_person_sets_is_held_where_the_set_has_it():
    model = load_model("dxl_arm")
    session = RefitSession(model, CONFIG)
    p = model.parameters.values({"elbow.damping": 0.123, "hand.mass": 0.4})
    session.set_parameters(p)
    assert session.p[model.parameters.index("elbow.damping")] == 0.123
    assert session.p[model.parameters.index("hand.mass")] == pytest.approx(0.4)


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
