"""A simulated cart-pole that changes while it is recorded: each stretch identified by itself, truth inside on both sides."""

import numpy as np
import pytest

from sim_core.inference.data.window import Window
from sim_core.inference.fit.change_point import Change
from sim_core.inference.fit.free_names import free_parameters
from sim_core.inference.fit.identify import IdentificationError, IdentifyConfig
from sim_core.inference.fit.stretches import cut_at, identify_stretches
from sim_core.inference.shooting.shooting import DelayPrior
from sim_core.plant import MujocoPlant

DELAY, CHANGE = 0.004, 3.21
CONFIG = IdentifyConfig(starts=2, delay=DelayPrior(0.005, 0.005, 0.0, 0.02))


def record(seconds, scenario):
    plant = MujocoPlant(
        "cartpole", seed=1, position_noise=2e-4, velocity_noise=2e-3, sensor_delay=DELAY, scenario=scenario
    )
    rng = np.random.default_rng(2)
    phase, rows, controls = rng.uniform(0, 6.28, 5), [(plant.t, plant.q, plant.v)], []
    while plant.t < seconds:
        plant.step(
            [4.0 * np.sum(np.sin(2 * np.pi * np.array([0.5, 0.9, 1.3, 1.9, 2.7]) * plant.t + phase)) - 3.0 * plant.q[0]]
        )
        controls.append(plant.u.copy())
        rows.append((plant.t, plant.q, plant.v))
    t, q, v = (np.array(column) for column in zip(*rows))
    return Window(t, q, v, np.array(controls))


@pytest.fixture(scope="module")
def setup():
    return free_parameters("cartpole", ["*.damping"])[:2]


def test_truth_is_inside_the_intervals_before_and_after_a_change(setup):
    model, spec = setup
    window = record(7.0, [{"time": CHANGE, "action": "set", "target": "slider.damping", "value": 0.3}])
    history = identify_stretches(model, spec, [window], CONFIG)
    (change,), (before, after) = history.changes, history.stretches
    assert change.lower - 0.005 <= CHANGE <= change.upper + 0.005 and change.time == pytest.approx(CHANGE, abs=0.03)
    assert history.changed(0) == ["slider.damping"]
    nominal = dict(zip(model.parameters.names, model.parameters.nominal))
    for stretch, slider in ((before, nominal["slider.damping"]), (after, 0.3)):
        estimates = {e.name: e for e in stretch.found.after}
        for name, truth in (
            ("slider.damping", slider),
            ("hinge.damping", nominal["hinge.damping"]),
            ("sensor.delay", DELAY),
        ):
            assert estimates[name].lower <= truth <= estimates[name].upper, (stretch.begin, estimates[name])
    # Nothing from within the change's interval or its margin is used.
    assert before.end <= change.lower - 0.09 and after.begin >= change.upper + 0.09
    assert history.found is after.found and history.found.problem.times.min() >= after.begin
    # Each set explains its own side and not the other.
    early = history.times < before.end - 0.2
    late = history.times > after.begin
    assert np.median(history.costs[0][early]) < 1.5 and np.median(history.costs[1][late]) < 1.5
    assert history.costs[1][early].mean() > 3 * history.costs[0][early].mean()


def test_without_detection_there_is_one_stretch(setup):
    model, spec = setup
    window = record(3.0, [{"time": 1.5, "action": "set", "target": "slider.damping", "value": 0.3}])
    history = identify_stretches(model, spec, [window], CONFIG, detect=None)
    assert len(history.stretches) == 1 and history.changes == [] and history.stretches[0].end == window.t[-1]


def test_a_last_stretch_too_short_to_identify_is_said():
    model, spec = free_parameters("cartpole", ["pole.point_mass"])[:2]
    window = record(4.0, [{"time": 3.3, "action": "scale", "target": "pole.mass", "factor": 5.0}])
    with pytest.raises(
        IdentificationError, match=r"changed at 3\.\d+ s .* 1 s are needed; record longer, or .* --to 3\.[12]"
    ):
        identify_stretches(model, spec, [window], CONFIG)


def test_stretches_keep_their_distance_and_gaps():
    def window(a, b):
        t = 0.01 * np.arange(a, b + 1)
        return Window(t, *np.zeros((2, len(t), 1)), np.zeros((len(t) - 1, 1)))

    change = Change(1.5, 1.49, 1.52, 2.0, 9.0)
    before, after = cut_at([window(0, 100), window(120, 300)], [change], 0.1)
    assert [(w.t[0], w.t[-1]) for w in before] == [pytest.approx((0.0, 1.0)), pytest.approx((1.2, 1.39))]
    assert [(w.t[0], w.t[-1]) for w in after] == [pytest.approx((1.62, 3.0))]
    (alone,) = cut_at([window(0, 100)], [], 0.1)
    assert alone[0].transitions == 100
