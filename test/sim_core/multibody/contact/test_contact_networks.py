"""Networks hear and correct what happens at a contact."""

import numpy as np
import pytest

from sim_core.augmentation import AugmentationError, Blueprint, Network, augment, tap_names
from sim_core.multibody import Dynamics, load_model

TWO_FEET = """<mujoco><option timestep="0.001"/><worldbody><geom name="floor" type="plane" size="1 1 1" friction="0.4"/>
  <body name="a" pos="0 0 0.05"><joint name="ax" type="slide" axis="1 0 0"/><joint name="az" type="slide" axis="0 0 1"/>
    <geom name="foot1" type="sphere" size="0.05" mass="1" friction="0.4"/></body>
  <body name="b" pos="0 0.5 0.05"><joint name="bx" type="slide" axis="1 0 0"/><joint name="bz" type="slide" axis="0 0 1"/>
    <geom name="foot2" type="sphere" size="0.05" mass="1" friction="0.4"/></body></worldbody></mujoco>"""


def model():
    return load_model(TWO_FEET, contact="force", contact_pairs=(("floor", "foot*"),))


def test_every_contact_has_its_names():
    names, correctable = tap_names(model())
    for foot in ("foot1", "foot2"):
        for quantity in (
            "point.x",
            "penetration",
            "relative_velocity.y",
            "direction.x",
            "normal_force",
            "tangential_force.y",
        ):
            assert f"contact.floor.{foot}.{quantity}" in names
    assert "contact.floor.foot1.tangential_force.x" in correctable and "contact.floor.foot1.point.x" not in correctable


def test_one_network_doubles_the_friction_of_every_foot():
    """A linear network -mu f_n n of direction and force cannot be; of the direction alone, at the known weight, it can."""
    plain = model()
    weight = 0.4 * 9.81
    doubling = Blueprint(
        "rub",
        ("contact.floor.*.tangential_force.x",),
        ("contact.floor.*.direction.x",),
        Network(hidden=(), biases=False),
        weights=[-weight],
    )
    hybrid = augment(plain, doubling)
    depth = (9.81 / 5e4) ** (2 / 3)
    x0 = np.r_[0, -depth, 0, -depth, 1.0, 0, 0.5, 0]
    v = [Dynamics(m).rollout(x0, np.zeros((40, 0)), m.parameters.nominal)[-1, [4, 6]] for m in (plain, hybrid)]
    np.testing.assert_allclose(v[0], [1 - weight * 0.04, 0.5 - weight * 0.04], rtol=2e-3)
    np.testing.assert_allclose(v[1], [1 - 2 * weight * 0.04, 0.5 - 2 * weight * 0.04], rtol=3e-3)
    silent = augment(plain, doubling.with_weights([0.0]))
    X = [Dynamics(m).rollout(x0, np.zeros((40, 0)), m.parameters.nominal) for m in (plain, silent)]
    np.testing.assert_array_equal(*X)


def test_a_force_cannot_be_heard_before_it_is_there():
    late = Blueprint("late", ("contact.floor.*.penetration",), ("contact.floor.*.normal_force",), Network(hidden=()))
    with pytest.raises(AugmentationError, match="is computed after the output"):
        augment(model(), late)


def test_gradients_of_twenty_steps_with_contact_and_network():
    """Weights, controls, parameters and start of a pushed foot against central differences."""
    text = TWO_FEET.replace("</worldbody>", '</worldbody><actuator><motor joint="ax"/></actuator>')
    rub = Blueprint(
        "rub",
        ("contact.floor.*.tangential_force.x",),
        tuple(f"contact.floor.*.{name}" for name in ("point.x", "direction.x", "normal_force")),
        Network(hidden=(4,), activation="tanh"),
    ).initialised(3, output_gain=1.0)
    model = augment(load_model(text, contact="force", contact_pairs=(("floor", "foot*"),)), rub)
    f, rng = Dynamics(model), np.random.default_rng(0)
    x0, U, p = np.r_[0, -3e-3, 0, -2e-3, 0.3, 0, -0.02, 0.1], rng.normal(size=(20, 1)) * 5, model.parameters.nominal
    weights = rng.normal(size=(21, model.nx))
    bars = f.rollout_vjp(x0, U, p, f.rollout(x0, U, p), weights)
    given = [x0, U, p]
    for i, bar in enumerate(bars):
        for k in range(given[i].size):
            step = np.zeros(given[i].size)
            step[k] = e = 1e-6 * max(abs(given[i].flat[k]), 1e-2)
            up, down = (
                f.rollout(*(a + side * step.reshape(a.shape) if j == i else a for j, a in enumerate(given)))
                for side in (1, -1)
            )
            difference = ((up - down) * weights).sum() / (2 * e)
            assert difference == pytest.approx(bar.flat[k], rel=1e-4, abs=1e-6 * np.abs(bar).max()), (i, k)
    assert np.all(np.abs(bars[2][-rub.n_weights :]) > 0)
