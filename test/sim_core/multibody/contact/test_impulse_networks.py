"""Networks hear and correct the quantities of contact impulses, before and after they are solved for."""

import casadi as ca
import numpy as np
import pytest

from sim_core.augmentation import AugmentationError, Blueprint, Network, Stage, attached, augment, fit, tap_names
from sim_core.inference.data.trajectories import Trajectories
from sim_core.multibody import Dynamics, load_model
from sim_core.multibody.contact.impulse import after_impulses
from sim_core.multibody.equations.taps import Taps

G, MU = 9.81, 0.4
# A block that slides along x and is pushed; a second one beside it.
BLOCKS = f"""<mujoco><option timestep="0.002"/><worldbody><geom name="floor" type="plane" size="1 1 1" friction="{MU}"/>
  <body name="a" pos="0 0 0.05"><joint name="ax" type="slide" axis="1 0 0"/><joint name="az" type="slide" axis="0 0 1"/>
    <geom name="foot1" type="sphere" size="0.05" mass="2" friction="{MU}"/></body>
  <body name="b" pos="0 0.5 0.05"><joint name="bx" type="slide" axis="1 0 0"/><joint name="bz" type="slide" axis="0 0 1"/>
    <geom name="foot2" type="sphere" size="0.05" mass="1" friction="{MU}"/></body></worldbody>
  <actuator><motor joint="ax"/></actuator></mujoco>"""


def model(impact_time="continuous"):
    return load_model(BLOCKS, contact="impulse", contact_pairs=(("floor", "foot*"),), impact_time=impact_time)


def rollout(model, x0, steps, p=None):
    return Dynamics(model).rollout(
        np.asarray(x0, float), np.zeros((steps, 1)), model.parameters.nominal if p is None else p
    )


def linear(output, *inputs, **options):
    """A network without hidden layers: weights of the inputs, then a bias."""
    return Blueprint(
        "net",
        (f"contact.floor.*.{output}",),
        tuple(f"contact.floor.*.{name}" for name in inputs),
        Network(hidden=()),
        **options,
    )


def field(a, b):
    """mu = a + b x in place of the coefficient."""
    return linear("friction_coefficient", "point.x", mode="replacement", weights=[b, a])


# -- what is heard ------------------------------------------------------------------------------


def test_every_contact_has_its_names_and_their_order():
    names, correctable = tap_names(model())
    order = [
        f"contact.floor.{foot}.{name}"
        for names in (
            (
                "point.x",
                "point.y",
                "point.z",
                "penetration",
                "normal_velocity",
                "relative_velocity.x",
                "relative_velocity.y",
                "friction_coefficient",
                "restitution",
            ),
            ("normal_force", "tangential_force.x", "tangential_force.y"),
        )
        for foot in ("foot1", "foot2")
        for name in names
    ]
    assert [name for name in names if name.startswith("contact.")] == order
    assert set(order) - set(correctable) == {f"contact.floor.foot{k}.point.{axis}" for k in (1, 2) for axis in "xyz"}


@pytest.mark.parametrize("impact_time", ["step", "continuous"])
def test_heard_forces_are_weight_and_friction(impact_time):
    """Two blocks of different weight, one sliding, one pushed less than its friction holds."""
    m, h = model(impact_time), 0.002
    x0 = np.r_[0, -1e-9, 0, -1e-9, 1.0, 0, 0, 0]
    free = x0[4:] + h * np.r_[0, -G, 0.3 * MU * G, -G]
    p = ca.SX(m.parameters.values({"contact.floor.foot*.cfm": 1e-9}))
    taps = Taps(m, p, everything=True)
    after_impulses(m, x0[:4], ca.SX(x0[4:]), ca.SX(free), p, h, taps)
    heard = {name: float(ca.DM(ca.evalf(value))) for name, value in taps.values.items()}
    expected = {"foot1": (2 * G, -MU * 2 * G), "foot2": (G, -0.3 * MU * G)}
    for foot, (normal, tangential) in expected.items():
        name = f"contact.floor.{foot}"
        assert heard[f"{name}.normal_force"] == pytest.approx(normal, rel=1e-3)
        assert heard[f"{name}.tangential_force.x"] == pytest.approx(tangential, rel=1e-3)
        assert heard[f"{name}.tangential_force.y"] == pytest.approx(0, abs=1e-9)
        assert heard[f"{name}.friction_coefficient"] == MU and heard[f"{name}.penetration"] == pytest.approx(1e-9)
    assert heard["contact.floor.foot1.relative_velocity.x"] == pytest.approx(1.0)
    assert heard["contact.floor.foot2.normal_velocity"] == pytest.approx(-G * h)


# -- what is corrected --------------------------------------------------------------------------


def test_a_known_field_of_friction_brakes_as_it_should():
    """mu(x) = a + b x:  x'' = -g (a + b x), x = v0 / w sin(w t) + a / b (cos(w t) - 1) with w^2 = g b."""
    a, b, v0, T = 0.2, 0.5, 1.0, 0.2
    X = rollout(augment(model(), field(a, b)), [0, 0, -0.3, 0, v0, 0, v0, 0], round(T / 0.002))
    w = np.sqrt(G * b)
    for x0, at in ((0.0, 0), (-0.3, 2)):  # the second starts where mu = 0.05
        amplitude = x0 + a / b
        x = amplitude * np.cos(w * T) + v0 / w * np.sin(w * T) - a / b
        v = v0 * np.cos(w * T) - amplitude * w * np.sin(w * T)
        assert X[-1, at] == pytest.approx(x, abs=1e-3) and X[-1, at + 4] == pytest.approx(v, abs=3e-3)


def test_a_field_of_friction_is_learnt_from_motion():
    """Weights of the field that made the recordings, from those of a floor that is the same everywhere."""
    truth, rng = augment(model(), field(0.25, 0.4)), np.random.default_rng(0)
    x0 = np.zeros((12, 8))
    x0[:, [0, 2]], x0[:, [4, 6]] = rng.uniform(-0.2, 0.4, (12, 2)), rng.uniform(0.5, 1.5, (12, 2))
    U = np.zeros((12, 60, 1))
    recordings = Trajectories(0.002, Dynamics(truth).rollout(x0, U, truth.parameters.nominal), U)
    hybrid = augment(model(), field(MU, 0.0))
    moving = np.where(recordings.scale > 1e-6, recordings.scale, 1.0)  # heights do not
    found = fit(hybrid, recordings, stages=(Stage(10, 30, "lbfgs"), Stage(None, 30, "lbfgs")), scale=moving)
    np.testing.assert_allclose(attached(found.model)[0].weights, [0.4, 0.25], atol=1e-4)


def test_a_corrected_force_pushes_as_much_more():
    """A constant on the normal force lifts what rests; one on the tangential force drives it."""
    lifting = augment(model(), linear("normal_force", "penetration", weights=[0.0, 3.0]))
    X = rollout(lifting, np.zeros(8), 1)
    np.testing.assert_allclose(
        X[1, [5, 7]], [0.002 * 3 / 2, 0.002 * 3], rtol=3e-4
    )  # R lets a little of the weight through
    driving = augment(model(), linear("tangential_force.x", "normal_force", weights=[0.1, 0.0]))
    X = rollout(driving, np.zeros(8), 1)
    np.testing.assert_allclose(X[1, [4, 6]], 0.1 * G * 0.002, rtol=3e-4)  # of the weight, whatever it is


def test_restitution_that_falls_with_speed():
    """e = 0.9 - 0.2 |v_n|, heard as v_n < 0: what bounces back is e of what came."""
    law = linear("restitution", "normal_velocity", mode="replacement", weights=[0.2, 0.9])
    X = rollout(augment(model(), law), [0, 0.05, 0, 0.05, 0, -1.0, 0, -2.0], 60)
    for z, v in ((1, 5), (3, 7)):
        k = int(np.argmax(X[:, v] > 0))
        came = np.sqrt(X[0, v] ** 2 + 2 * G * X[0, z])
        assert X[k, v] == pytest.approx((0.9 - 0.2 * came) * came, abs=0.03)


@pytest.mark.parametrize(
    "output", ["friction_coefficient", "penetration", "normal_velocity", "tangential_force.y", "normal_force"]
)
def test_zero_weights_change_no_bit(output):
    plain = model()
    silent = augment(plain, linear(output, "point.x", weights=[0.0, 0.0]))
    x0 = [0, 0.002, 0, -1e-4, 1.0, -0.4, 0.5, 0]
    np.testing.assert_array_equal(rollout(plain, x0, 40), rollout(silent, x0, 40))


@pytest.mark.parametrize(
    "output, input",
    [
        ("contact.floor.*.friction_coefficient", "contact.floor.*.normal_force"),
        ("contact.floor.foot1.friction_coefficient", "contact.floor.foot2.tangential_force.x"),
        ("ax.passive_torque", "contact.floor.foot1.penetration"),
    ],
)
def test_what_is_solved_for_cannot_be_heard_before(output, input):
    with pytest.raises(AugmentationError, match="is computed after the output"):
        augment(model(), Blueprint("late", (output,), (input,), Network(hidden=())))


# -- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("impact_time", ["step", "continuous"])
def test_gradients_through_the_iterations(impact_time):
    """Start, controls, parameters and weights of networks before and after the impulses: a push, a slide, a landing."""
    rub = Blueprint(
        "rub",
        ("contact.floor.*.friction_coefficient",),
        ("contact.floor.*.point.x", "contact.floor.*.relative_velocity.x"),
        Network((3,), "tanh"),
        output_scale=0.1,
    ).initialised(0, 1.0)
    stick = Blueprint(
        "stick",
        ("contact.floor.*.tangential_force.x",),
        ("contact.floor.*.normal_force", "ax.velocity"),
        Network((3,), "tanh"),
        input_scale=(20.0, 1.0),
    ).initialised(1, 1.0)
    hybrid = augment(model(impact_time), [rub, stick])
    f, rng = Dynamics(hybrid), np.random.default_rng(0)
    x0, U, p = (
        np.r_[0.1, -2e-4, 0, 3.3e-3, 0.3, -0.02, -0.5, -0.2],
        rng.normal(size=(20, 1)) * 5,
        hybrid.parameters.nominal,
    )
    weights = rng.normal(size=(21, 8))
    X = f.rollout(x0, U, p)
    bars, given = f.rollout_vjp(x0, U, p, X, weights), [x0, U, p]
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
    assert np.all(np.abs(bars[2][-rub.n_weights - stick.n_weights :]) > 0)
