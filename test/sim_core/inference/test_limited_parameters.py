import numpy as np
import pytest
from pendulum import dynamics, lengths

from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import load_model
from sim_core.multibody.equations import inertia


@pytest.fixture(scope="module")
def panda():
    model = load_model("panda", friction=True, geometry=("hand",))
    return model, LimitedParameters(
        model,
        {
            "hand.mass": (0.3, 3.0),
            "hand.com.x": (-0.05, 0.05),
            "hand.com.z": (0.0, 0.15),
            "hand.I_com.xy": (-0.01, 0.01),
            "link5.I_com.yy": (0.01, 0.1),
            "joint4.damping": (0.0, 2.0),
            "joint2.friction": (0.0, 1.0),
            "hand.pos.z": (0.0, 0.3),
        },
    )


def test_quantities_are_what_their_names_say(panda):
    model, parameters = panda
    theta = np.array([1.2, 0.01, 0.07, 2e-3, 0.05, 0.3, 0.4, 0.12])
    p = parameters.to_physical(theta)
    layout = model.parameters
    m, c, I_c = inertia.com_inertia(p[layout.inertia_slice("hand")])
    m0, c0, I0 = inertia.com_inertia(layout.nominal[layout.inertia_slice("hand")])
    assert (m, c[0], c[2], I_c[0, 1]) == pytest.approx((1.2, 0.01, 0.07, 2e-3))
    # What is not free stays the model's, the inertia about the COM too.
    assert c[1] == pytest.approx(c0[1]) and np.allclose(np.diag(I_c), np.diag(I0))
    assert p[layout.index("joint2.frictionloss")] == 0.4 and p[layout.index("hand.pos.z")] == 0.12
    untouched = [i for i, n in enumerate(layout.names) if n.startswith(("link1.", "joint1.", "gravity"))]
    assert np.array_equal(p[untouched], layout.nominal[untouched])
    assert np.allclose(parameters.from_physical(p), theta)
    assert parameters.units == (
        "kg",
        "m",
        "m",
        "kg m^2",
        "kg m^2",
        *(layout.units[layout.index(n)] for n in ("joint4.damping", "joint2.frictionloss", "hand.pos.z")),
    )


def test_pullback_is_the_transposed_jacobian(panda):
    model, parameters = panda
    rng = np.random.default_rng(0)
    theta = parameters.theta(rng.uniform(0.2, 0.8, (4, parameters.n)))
    bar = rng.standard_normal((4, model.np_))
    numeric = np.stack(
        [
            ((parameters.to_physical(theta + e) - parameters.to_physical(theta - e)) * bar).sum(1) / 2e-6
            for e in 1e-6 * np.eye(parameters.n)
        ],
        axis=1,
    )
    assert np.allclose(parameters.pullback(theta, bar), numeric, rtol=1e-6, atol=1e-8)


def test_a_length_moves_mass_and_hinge():
    model = dynamics().model
    parameters = lengths(model)
    p = parameters.to_physical([1.1, 2.2])
    value = lambda name: p[model.parameters.index(name)]
    assert (
        value("link2.pos.z") == -1.1
        and value("link1.h.z") == pytest.approx(-1.1)
        and value("link2.h.z") == pytest.approx(-2.2)
    )
    assert value("link2.I.yy") == pytest.approx(4e-5 + 2.2**2)
    assert np.allclose(parameters.from_physical(p), [1.1, 2.2])


def test_z_is_a_share_of_the_limits(panda):
    _, parameters = panda
    z = np.random.default_rng(1).random((3, parameters.n))
    assert np.allclose(parameters.z(parameters.theta(z)), z)
    assert np.array_equal(parameters.theta(np.ones(parameters.n)), parameters.upper)


def test_what_does_not_fit_is_said(panda):
    model, _ = panda
    with pytest.raises(KeyError, match="No physical parameter 'elbow.mass'"):
        LimitedParameters(model, {"elbow.mass": (0, 1)})
    with pytest.raises(ValueError, match="limits of hand.mass: expected finite lower < upper, found 2 and 1"):
        LimitedParameters(model, {"hand.mass": (2, 1)})
    with pytest.raises(ValueError, match="moved by both"):
        LimitedParameters(model, {"hand.mass": (0, 1), "a": (0, 1)}, ties={"a": {"hand.mass": 2.0}})
    with pytest.raises(KeyError, match="no limits"):
        LimitedParameters(model, {"hand.mass": (0, 1)}, ties={"b": {"link5.mass": 1.0}})
    with pytest.raises(ValueError, match="no free parameters"):
        LimitedParameters(model, {})
