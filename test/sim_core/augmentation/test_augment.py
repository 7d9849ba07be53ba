"""Attaching networks: exact zeros, modes, stars, order of evaluation, and a sentence for each mistake."""

import casadi as ca
import numpy as np
import pytest
from hybrids import DOUBLE_PENDULUM, STATE, TORQUES, blueprint

from sim_core.augmentation import (
    AugmentationError,
    Blueprint,
    Network,
    attached,
    augment,
    detach,
    tap_names,
    weight_slice,
)
from sim_core.codegen import compile_library
from sim_core.multibody import Dynamics, load_model
from sim_core.multibody.equations.taps import Taps, captured
from sim_core.multibody.model import build

INTEGRATORS = ["semi_implicit_euler", "mujoco_euler", "implicitfast", "rk4"]


def states(rng, n=16):
    return rng.uniform(-2, 2, (n, 4)), rng.uniform(-1, 1, (n, 2))


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("evaluation", ["inlined", "dense"])
def test_zero_weights_change_no_bit(pendulum, rng, integrator, evaluation):
    """x + 0 = x exactly. Where products and sums are fused the compiler pairs them otherwise: there, rounding."""
    b = blueprint(evaluation=evaluation)
    hybrid = augment(pendulum, b.with_weights(np.zeros(b.n_weights)))
    x, u = states(rng)
    steps = [(build.step(model, 0.002, integrator), model.parameters.nominal) for model in (pendulum, hybrid)]

    def evaluated(**options):
        return [compile_library("test_zero", {"step": step}, **options).call("step", x, u, p)[0] for step, p in steps]

    np.testing.assert_array_equal(*evaluated(flags=["-ffp-contract=off"]))
    np.testing.assert_allclose(*evaluated(), rtol=1e-14, atol=1e-14)


def test_a_residual_is_added_and_a_replacement_takes_the_place(pendulum, rng):
    """tau of a linear network is W x, by hand."""
    x, u = states(rng, 1)
    W = rng.normal(size=(2, 4))
    for mode in ("residual", "replacement"):
        b = Blueprint(
            "net",
            TORQUES,
            STATE,
            Network((), biases=False),
            mode,
            input_scale=[1, 2, 3, 4],
            output_scale=[1, 5],
            weights=W.ravel(),
        )
        hybrid = augment(pendulum, b)
        analytical = build.joint_force(pendulum)(x[0, :2], x[0, 2:], u[0], pendulum.parameters.nominal).full()[:, 0]
        found = build.joint_force(hybrid)(x[0, :2], x[0, 2:], u[0], hybrid.parameters.nominal).full()[:, 0]
        said = [1, 5] * (W @ (x[0] / [1, 2, 3, 4]))
        np.testing.assert_allclose(found, said + (analytical if mode == "residual" else u[0]), rtol=1e-13)
        np.testing.assert_allclose(b(x[0]), said, rtol=1e-13)


def test_damping_as_a_network_is_damping(rng):
    """-0.2 v said by a linear network is the model's own damping of 0.2, in an explicit scheme."""
    plain = load_model(DOUBLE_PENDULUM.replace('damping="0.05"', "").replace('damping="0.02"', ""))
    damped = plain.parameters.values({"joint1.damping": 0.2, "joint2.damping": 0.1})
    nets = [
        Blueprint(f"f{i}", f"joint{i}.passive_torque", f"joint{i}.velocity", Network((), biases=False), weights=[-d])
        for i, d in ((1, 0.2), (2, 0.1))
    ]
    hybrid = augment(plain, nets)
    x0, U = rng.uniform(-1, 1, 4), rng.uniform(-1, 1, (200, 2))
    for integrator in ("semi_implicit_euler", "rk4"):
        X = Dynamics(plain, integrator=integrator).rollout(x0, U, damped)
        np.testing.assert_allclose(
            Dynamics(hybrid, integrator=integrator).rollout(x0, U, hybrid.parameters.nominal), X, atol=1e-11
        )


def test_weights_are_named_parameters_and_detaching_gives_the_model_back(pendulum):
    gain = Blueprint("b", "joint1.actuator_torque", "joint1.control", Network((), biases=False))
    hybrid = augment(augment(pendulum, blueprint("a", (3,))), gain)
    layout = hybrid.parameters
    assert layout.names[: pendulum.np_] == pendulum.parameters.names
    assert layout.names[-1] == "augmentation.b.w0[0,0]"
    where = weight_slice(hybrid, "a")
    assert (
        layout.names[where.start] == "augmentation.a.w0[0,0]" and layout.index("augmentation.a.b1[1]") == where.stop - 1
    )
    np.testing.assert_array_equal(layout.nominal[where], attached(hybrid)[0].weights)
    assert hybrid.hash.startswith(pendulum.hash + "+")
    back = detach(hybrid)
    assert (back.hash, back.parameters.names) == (pendulum.hash, pendulum.parameters.names)
    assert detach(pendulum) is pendulum
    with pytest.raises(KeyError, match="It has: a, b"):
        weight_slice(hybrid, "c")


def test_a_star_shares_weights_and_evaluates_apart(pendulum, rng):
    """One blueprint for every joint: as two that happen to have the same weights."""
    w = rng.normal(size=Network((4,)).block(1, 1).n_weights)
    shared = augment(pendulum, Blueprint("f", "*.passive_torque", "*.velocity", Network((4,)), weights=w))
    twice = augment(
        pendulum,
        [
            Blueprint(f"f{i}", f"joint{i}.passive_torque", f"joint{i}.velocity", Network((4,)), weights=w)
            for i in (1, 2)
        ],
    )
    assert shared.np_ == pendulum.np_ + w.size
    x0, U = rng.uniform(-1, 1, 4), rng.uniform(-1, 1, (50, 2))
    X, Y = (Dynamics(m).rollout(x0, U, m.parameters.nominal) for m in (shared, twice))
    np.testing.assert_allclose(X, Y, rtol=1e-12)
    Xbar = rng.normal(size=X.shape)
    one, two = (
        Dynamics(m).rollout_vjp(x0, U, m.parameters.nominal, X, Xbar)[2][weight_slice(m)] for m in (shared, twice)
    )
    np.testing.assert_allclose(one, two[: w.size] + two[w.size :], rtol=1e-9)


def test_a_corrected_value_is_what_later_networks_hear(pendulum, rng):
    """The second network doubles the actuators' torque as the first one left it."""
    nets = [
        Blueprint("gain", "joint1.actuator_torque", "joint1.control", Network((), biases=False), weights=[3.0]),
        Blueprint(
            "echo",
            "joint1.passive_torque",
            "joint1.actuator_torque",
            Network((), biases=False),
            "replacement",
            weights=[2.0],
        ),
    ]
    hybrid = augment(pendulum, nets)
    q, v, u = np.zeros(2), np.zeros(2), np.array([0.5, 0.0])
    tau = build.joint_force(hybrid)(q, v, u, hybrid.parameters.nominal).full()[:, 0]
    np.testing.assert_allclose(tau, [3 * (0.5 + 3 * 0.5), 0.0], rtol=1e-14)


def test_names_come_in_the_order_of_the_equations(pendulum):
    names, correctable = tap_names(pendulum)
    assert set(STATE) < set(names) and not set(STATE) & set(correctable)
    assert {f"joint{i}.{k}_torque" for i in (1, 2) for k in ("actuator", "passive")} <= set(correctable) <= set(names)
    assert names.index("joint1.control") < names.index("joint1.actuator_torque") < names.index("joint1.passive_torque")


@pytest.mark.parametrize(
    "blueprints, sentence",
    [
        (
            [Blueprint("n", "joint3.passive_torque", "joint1.velocity")],
            "no output 'joint3.passive_torque'; what can be corrected: joint1.act",
        ),
        ([Blueprint("n", "joint1.velocity", "joint1.position")], "output 'joint1.velocity' is given to the equations"),
        (
            [Blueprint("n", "joint1.passive_torque", "joint9.velocity")],
            "no input 'joint9.velocity'; it has: joint1.position",
        ),
        (
            [Blueprint("n", "joint1.actuator_torque", "joint1.passive_torque")],
            "input 'joint1.passive_torque' is computed after the output",
        ),
        ([Blueprint("n", "joint1.passive_torque", "joint1.passive_torque")], "is computed after the output"),
        (
            [
                Blueprint("n", "*.passive_torque", "joint1.velocity"),
                Blueprint("m", "joint1.passive_torque", "joint1.velocity"),
            ],
            "Blueprint 'm': output 'joint1.passive_torque' belongs to blueprint 'n'",
        ),
        (
            [
                Blueprint("n", "joint1.passive_torque", "joint1.velocity"),
                Blueprint("n", "joint2.passive_torque", "joint1.velocity"),
            ],
            "another blueprint has this name",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(pendulum, blueprints, sentence):
    with pytest.raises(AugmentationError, match=sentence.replace("(", r"\(")) as caught:
        augment(pendulum, blueprints)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"name": "a b"}, "expected a name of letters"),
        ({"inputs": ()}, "at least one of inputs"),
        ({"inputs": ("x", "x")}, "each once"),
        ({"inputs": ("*.velocity",)}, r"needs them in the outputs"),
        ({"mode": "add"}, 'expected mode "residual" or "replacement"'),
        ({"input_scale": [1.0, 2.0, 3.0]}, "4 finite numbers"),
        ({"input_scale": 0.0}, "input_scale > 0"),
        ({"weights": np.zeros(3)}, "expected 37 finite weights"),
        ({"weights": np.full(37, np.nan)}, "NaN or infinity"),
    ],
)
def test_a_blueprint_checks_itself(change, sentence):
    fields = {"name": "net", "outputs": TORQUES, "inputs": STATE, "network": Network((5,)), **change}
    with pytest.raises(ValueError, match=sentence):
        Blueprint(**fields)


def test_taps_name_what_is_missing(pendulum):
    """A network attached behind the check's back."""

    class Late:
        name, outputs, inputs, replaces = "late", ("a",), ("b",), False

    model = type("Model", (), {"augmentation": (Late(),)})
    with pytest.raises(KeyError, match="input 'b' is not computed before"):
        Taps(model, ca.SX(0))("a", ca.SX(1))


def test_stars():
    assert captured("contact.*.force", "contact.box.floor.force") == "box.floor"
    assert captured("contact.*.force", "contact.force") is None
    assert captured("a", "a") == "" and captured("a", "b") is None


def test_load_model_takes_blueprints(pendulum):
    hybrid = augment(load_model(DOUBLE_PENDULUM), [blueprint()])
    assert hybrid.np_ == pendulum.np_ + blueprint().n_weights
