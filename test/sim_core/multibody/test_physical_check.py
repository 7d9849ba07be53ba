"""Sets of parameters that no robot has are refused with a sentence that names what is wrong; those of robots are not."""

import numpy as np
import pytest

from config.robot import robot_names
from sim_core.multibody import FreeParameters, PhysicalCheck, build, load_model
from sim_core.multibody.model.cartpole_parameters import cartpole_spec
from sim_core.multibody.model.parameter_blocks import BodyInertia, JointFriction
from sim_core.multibody.model.parameter_file import ParameterFile, ParameterFileError, ParameterValue


@pytest.fixture(scope="module")
def model():
    return load_model("panda")


@pytest.fixture(scope="module")
def check(model):
    return PhysicalCheck(model)


@pytest.mark.parametrize("robot", robot_names())
def test_every_robot_as_it_is_makes_sense(robot):
    model = load_model(robot)
    assert PhysicalCheck(model).objection(model.parameters.nominal) == ""


@pytest.mark.parametrize("robot", robot_names())
def test_configurations_lie_within_the_limits_and_fill_them(robot):
    model = load_model(robot)
    Q = PhysicalCheck(model, samples=64).configurations
    assert Q.shape == (model.nq, 65) and np.isfinite(Q).all()
    np.testing.assert_array_equal(Q[:, 0], model.q_home)
    assert (Q >= model.q_lower[:, None] - 1e-12).all() and (Q <= model.q_upper[:, None] + 1e-12).all()
    for link in model.links:
        row = Q[link.q_index]
        if link.kind == "ball":
            np.testing.assert_allclose(np.linalg.norm(Q[link.q_index : link.q_index + 4], axis=0), 1.0, atol=1e-9)
        elif np.isfinite(model.q_lower[link.q_index]):
            low, high = model.q_lower[link.q_index], model.q_upper[link.q_index]
            # Of 64 points spread evenly no fifth of the range stays empty.
            assert np.histogram(row, 5, (low, high))[0].min() > 0


def test_whatever_a_refit_can_propose_makes_sense(model, check):
    """Its coordinates reach physical bodies only: nothing that it may find is refused here."""
    rng = np.random.default_rng(0)
    friction = load_model("panda", friction=True)
    robots = [
        (check, FreeParameters(model, [BodyInertia("hand")])),
        (PhysicalCheck(friction), FreeParameters(friction, [BodyInertia("hand"), JointFriction("joint1")])),
    ]
    for name in ("cartpole", "double_cartpole"):
        cart = load_model(name)
        robots += [(PhysicalCheck(cart), cartpole_spec(cart, 2.0, scale)) for scale in ("log", "raw")]
    for judge, spec in robots:
        for width in (0.1, 1.0):
            for _ in range(20):
                xi = spec.clip(spec.prior_mean + width * spec.prior_std * rng.standard_normal(spec.n))
                assert judge.objection(spec.to_physical(xi)) == ""


def changed(model, **values):
    return model.parameters.values({name.replace("__", "."): value for name, value in values.items()})


@pytest.mark.parametrize(
    "values, sentence",
    [
        ({"hand__mass": -0.1}, "hand.mass is -0.1 kg, expected 0 to 100000 kg"),
        ({"hand__mass": 1e300}, r"hand.mass is 1e\+300 kg, expected 0 to 100000 kg"),
        ({"joint3__damping": -1e-3}, "joint3.damping is -0.001 N m s/rad, expected 0 to"),
        ({"link2__I__xx": -1.0}, r"link2.I.xx is -1 kg m\^2, expected 0 to"),
        ({"gravity__z": -9810.0}, r"gravity.z is -9810 m/s\^2, expected -1000 to 1000"),
        ({"joint4__armature": np.inf}, "1 of 104 numbers are not finite, the first is joint4.armature"),
        ({"hand__mass": np.nan, "link1__mass": np.nan}, "2 of 104 numbers are not finite, the first is link1.mass"),
    ],
)
def test_a_number_out_of_its_range_is_named(model, check, values, sentence):
    with pytest.raises(AssertionError, match=sentence):
        raise AssertionError(check.objection(changed(model, **values)))


def test_104_numbers_of_1e300_are_refused(model, check):
    assert "link1.mass is 1e+300 kg, expected 0 to 100000 kg" in check.objection(np.full(model.np_, 1e300))


def test_another_number_of_numbers_is_refused(check):
    assert check.objection(np.ones(3)) == "expected 104 parameters of panda, found shape (3,)"


def test_an_inertia_that_no_body_has_is_found_in_some_configuration(model, check):
    """h is too long for the mass and I (the triangle inequality is broken): M is indefinite, though every number is in range."""
    p = changed(model, hand__h__x=8.0)
    said = check.objection(p)
    assert said.startswith("the mass matrix is not positive definite at joint1 = ")
    assert "its smallest eigenvalue is -" in said and "expected more than 0" in said
    M = np.asarray(build.mass_matrix(model)(check.configurations[:, 1], model.parameters.nominal))
    assert np.linalg.eigvalsh(M)[0] > 0.0


def test_home_alone_would_not_tell_and_where_the_robot_is_counts(model):
    home, elsewhere = PhysicalCheck(model, samples=0), PhysicalCheck(model, samples=64)
    for reach in np.linspace(0.1, 3.0, 60):
        p = changed(model, hand__h__x=reach)
        if not home.objection(p) and elsewhere.objection(p):
            break
    where = elsewhere.configurations[:, [bool(home.objection(p, q)) for q in elsewhere.configurations.T].index(True)]
    assert f"joint1 = {where[0]:.3g}" in home.objection(p, where)


def test_a_parameter_file_is_held_to_the_same(model, tmp_path):
    file = ParameterFile(model.name, model.hash, {"gravity.z": ParameterValue(-1e300, 0.0, "m/s^2")}, path="found.yaml")
    with pytest.raises(ParameterFileError, match=r"found.yaml: gravity.z is -1e\+300 m/s\^2, expected"):
        file.vector(model)
