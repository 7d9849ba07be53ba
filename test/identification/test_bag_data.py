"""What a recording must hold: windows out of sound samples, one sentence for each defect."""

import dataclasses

import numpy as np
import pytest

from identification.bag_data import controls_from_effort, read_description, read_windows
from identification.errors import UnusableInput
from recording import JointSeries
from sim_core.inference.fit.free_names import FreeNameError, free_parameters
from sim_core.multibody import load_model


@pytest.fixture(scope="module")
def model():
    return load_model("double_cartpole")


class FakeBag:
    """The three methods of a bag reader over arrays."""

    def __init__(self, model, samples=301):
        rng = np.random.default_rng(0)
        t = 12.0 + model.timestep * np.arange(samples)
        q, v = rng.standard_normal((2, samples, model.nv))
        effort = np.zeros((samples, model.nv))
        effort[:, 0] = np.arange(samples)
        self.series = JointSeries(t, t.copy(), model.joint_names, q, v, effort)
        self.info = {"robot": model.name, "model_hash": model.hash}
        self.text = model.xml

    def change(self, **arrays):
        self.series = dataclasses.replace(self.series, **arrays)

    def joint_states(self, topic="joint_states", joints=None):
        return self.series

    def run_info(self):
        return self.info

    def robot_description(self):
        return self.text


def test_effort_at_a_stamp_drove_the_tick_before_it(model):
    data = read_windows(FakeBag(model), model)
    (window,) = data.windows
    gear = model.parameters.nominal[model.parameters.index(f"{model.actuator_names[0]}.gear")]
    np.testing.assert_allclose(window.u[:, 0] * gear * model.actuators[0].gain[0], np.arange(1, 301))
    assert window.t[0] == 0.0 and data.dt == model.timestep and data.notes == []


def test_gaps_and_repetitions_are_survived_and_said(model):
    bag = FakeBag(model)
    t = bag.series.t.copy()
    t[150:] += 0.5
    t[40] = t[39]
    bag.change(t=t)
    data = read_windows(bag, model)
    assert len(data.windows) == 3 and "1 repeated" in data.notes[0] and "3 stretches" in data.notes[1]


def test_a_stretch_can_be_chosen(model):
    (window,) = read_windows(FakeBag(model), model, begin=1.0, end=2.0).windows
    assert window.t[0] == pytest.approx(1.0) and window.t[-1] == pytest.approx(2.0)


def jump(bag):
    t = bag.series.t.copy()
    t[200:] -= 1.0
    bag.change(t=t)


def spoil(bag, field):
    values = getattr(bag.series, field).copy()
    values[70, 1] = np.nan
    bag.change(**{field: values})


@pytest.mark.parametrize(
    "damage, message",
    [
        (jump, "time jumps back at sample 200: from 1.990 s to 1.000 s"),
        (lambda b: spoil(b, "q"), "position of .* is not finite at 0.700 s \\(1 of 301"),
        (lambda b: spoil(b, "v"), "velocity of .* is not finite"),
        (lambda b: spoil(b, "effort"), "effort of .* is not finite"),
        (lambda b: b.change(t=12.0 + 0.0137 * np.arange(301)), "every 13.700 ms, which is no multiple"),
        (
            lambda b: b.change(t=12.0 + 0.01 * np.cumsum(1 + (np.arange(301) % 7 == 0))),
            "only .* % of the samples lie in even",
        ),
    ],
    ids=["jump", "q", "v", "effort", "period", "uneven"],
)
def test_each_defect_has_one_sentence(model, damage, message):
    bag = FakeBag(model)
    damage(bag)
    with pytest.raises(UnusableInput, match=message) as error:
        read_windows(bag, model)
    assert "\n" not in str(error.value)


def test_the_part_before_a_jump_can_be_used(model):
    bag = FakeBag(model)
    jump(bag)
    assert read_windows(bag, model, end=1.99).windows[0].transitions == 199


def test_description_must_belong_to_the_run(model):
    bag = FakeBag(model)
    loaded, _ = read_description(bag, "double_cartpole")
    assert loaded.hash == model.hash
    with pytest.raises(UnusableInput, match="recorded with robot 'double_cartpole', expected 'panda'"):
        read_description(bag, "panda")
    bag.text = load_model("cartpole").xml
    with pytest.raises(UnusableInput, match="two robots or two versions"):
        read_description(bag)
    bag.text = "<mujoco"
    with pytest.raises(UnusableInput, match="no usable model"):
        read_description(bag)


def test_controls_follow_from_effort_through_the_gear():
    model = load_model("panda")
    effort = np.arange(14.0).reshape(2, 7)
    np.testing.assert_array_equal(controls_from_effort(model, effort), effort)


def test_names_of_free_parameters():
    model, spec, delay = free_parameters(
        "panda", ["hand.inertia", "joint[12].damping", "joint3.friction", "sensor.delay"]
    )
    assert delay and spec.n == 13 and "joint3.frictionloss" in model.parameters
    assert free_parameters("double_cartpole", ["pole?.mass_com", "gravity.z"])[1].n == 9
    for names, message in (
        (["hand.inertias"], "did you mean 'hand.inertia'"),
        (["hnad.inertia"], "no body with mass matches 'hnad'; there are link1"),
        (["sensor.delay"], "nothing is free"),
    ):
        with pytest.raises(FreeNameError, match=message):
            free_parameters("panda", names)
