"""Free parameters: maps, bounds, reports, recovery, the published cart-pole set, identifiability."""

import casadi as ca
import numpy as np
import pytest
from articulated_models import ZOO

from sim_core.multibody import identifiability, load_model
from sim_core.multibody.equations import inertia
from sim_core.multibody.model import build
from sim_core.multibody.model.cartpole_parameters import base_parameters, cartpole_spec, point_mass_equivalent
from sim_core.multibody.model.parameter_blocks import (
    BodyDensity,
    BodyInertia,
    BodyPosition,
    Gear,
    Gravity,
    GravityTilt,
    JointArmature,
    JointDamping,
    JointFriction,
    JointStiffness,
    LinkLength,
)
from sim_core.multibody.model.parameters import FreeParameters, NamedEstimate


@pytest.fixture(scope="module")
def panda():
    return load_model("panda", friction=True, geometry=("link4", "hand"))


@pytest.fixture(scope="module")
def everything(panda):
    return FreeParameters(
        panda,
        [
            BodyInertia("hand"),
            BodyInertia("link7", kind="payload"),
            BodyInertia("link6", kind="mass_com"),
            BodyInertia("link5", kind="point_mass"),
            JointDamping("joint1"),
            JointFriction("joint2"),
            JointFriction("joint3", start=0.2),
            JointArmature("joint1"),
            BodyPosition("hand", "xy"),
            LinkLength("upper_arm", {"link4.pos.x": 1.0}),
            Gravity("xy"),
            Gear("joint3"),
        ],
    )


def inside(spec, rng, scale=0.5):
    return spec.clip(spec.prior_mean + scale * spec.prior_std * rng.normal(size=spec.n))


def test_prior_mean_is_the_model(panda):
    spec = FreeParameters(
        panda,
        [
            BodyInertia("hand"),
            BodyInertia("link6", kind="mass_com"),
            BodyInertia("link7", kind="payload"),
            JointDamping("joint1"),
            JointFriction("joint2"),
            Gravity(),
            Gear("joint1"),
            BodyPosition("hand"),
        ],
    )
    assert np.allclose(spec.to_physical(spec.prior_mean), panda.parameters.nominal, rtol=1e-12, atol=1e-15)


def test_round_trip(everything):
    rng = np.random.default_rng(0)
    payload = everything.names.index("link7.payload.mass")
    for _ in range(20):
        xi = inside(everything, rng)
        xi[payload] += 0.1  # the COM of no payload is anywhere
        assert np.allclose(everything.from_physical(everything.to_physical(xi)), xi, atol=1e-9)


def test_everything_in_the_box_is_physical(everything, panda):
    rng = np.random.default_rng(1)
    for _ in range(100):
        xi = rng.uniform(everything.lower, everything.upper)
        p = everything.to_physical(xi)
        for body in ("hand", "link7", "link6"):
            where = panda.parameters.inertia_slice(body)
            assert p[where][0] > 0 and np.linalg.eigvalsh(inertia.com_inertia(p[where])[2])[0] > 0
        for name in ("joint1.damping", "joint2.frictionloss", "joint3.frictionloss", "joint1.armature"):
            assert p[panda.parameters.index(name)] >= 0


def test_jacobian_against_central_differences(everything):
    xi = inside(everything, np.random.default_rng(2))
    J, h = everything.jacobian(xi), 1e-6
    for k in range(everything.n):
        step = np.zeros(everything.n)
        step[k] = h
        numeric = (everything.to_physical(xi + step) - everything.to_physical(xi - step)) / (2 * h)
        assert np.allclose(J[:, k], numeric, rtol=1e-6, atol=1e-8)


def test_batches(everything):
    rng = np.random.default_rng(3)
    xi = np.stack([inside(everything, rng) for _ in range(6)]).reshape(2, 3, -1)
    p = everything.to_physical(xi)
    assert p.shape == (2, 3, everything.model.np_)
    assert np.array_equal(p[1, 2], everything.to_physical(xi[1, 2]))


def test_report_by_the_delta_method(panda):
    """Against a Monte-Carlo sample through the map."""
    spec = FreeParameters(panda, [BodyInertia("hand"), JointDamping("joint1")])
    cov = np.diag((0.02 * spec.prior_std) ** 2)
    rows = {e.name: e for e in spec.report(spec.prior_mean, cov)}
    assert rows["hand.mass"].unit == "kg" and np.isclose(rows["hand.mass"].value, 0.76)
    xi = np.random.default_rng(4).multivariate_normal(spec.prior_mean, cov, size=4000)
    p = spec.to_physical(xi)
    where = panda.parameters.inertia_slice("hand")
    samples = {
        "hand.mass": p[:, where][:, 0],
        "hand.com.x": p[:, where][:, 1] / p[:, where][:, 0],
        "hand.I_com.zz": [inertia.com_inertia(pi)[2][2, 2] for pi in p[:, where]],
        "joint1.damping": p[:, panda.parameters.index("joint1.damping")],
    }
    for name, sample in samples.items():
        assert np.isclose(rows[name].std, np.std(sample), rtol=0.05)
        assert np.isclose(rows[name].upper - rows[name].value, 1.96 * rows[name].std, rtol=1e-4)


@pytest.mark.parametrize("kind", ["log_cholesky", "mass_com", "payload"])
def test_payload_is_estimate_minus_model(panda, kind):
    spec = FreeParameters(panda, [BodyInertia("hand", kind=kind)])
    where, m, c = panda.parameters.inertia_slice("hand"), 2.0, np.array([0.03, -0.02, 0.12])
    p = panda.parameters.nominal.copy()
    p[where] += inertia.from_com(m, c, 1e-3 * np.eye(3))
    xi = spec.from_physical(p)
    rows = spec.payload("hand", xi, 1e-6 * np.eye(spec.n))
    assert np.allclose([row.value for row in rows], np.r_[m, c], rtol=1e-9)
    assert all(row.lower < row.value < row.upper for row in rows)


def test_freeze_holds_coordinates(panda):
    spec = FreeParameters(panda, [BodyInertia("hand", kind="mass_com"), JointDamping("joint1")])
    part = spec.freeze(["hand.com.y", "joint1.damping"])
    assert part.names == ("hand.mass", "hand.com.x", "hand.com.z")
    xi = np.array([0.1, 0.02, 0.05])
    full = np.r_[xi[:2], spec.prior_mean[2], xi[2], spec.prior_mean[4]]
    assert np.allclose(part.to_physical(xi), spec.to_physical(full))
    assert np.allclose(part.from_physical(part.to_physical(xi)), xi)
    with pytest.raises(KeyError, match="Not free: hand.nose"):
        spec.freeze(["hand.nose"])


def test_what_is_not_free_comes_from_the_base(panda):
    spec = FreeParameters(panda, [BodyInertia("hand", kind="mass_com")])
    p = panda.parameters.values({"joint2.damping": 3.5, "hand.mass": 1.2})
    based = spec.with_base(p)
    xi = spec.prior_mean + 0.1
    where, found = panda.parameters.inertia_slice("hand"), based.to_physical(xi)
    assert found[panda.parameters.index("joint2.damping")] == 3.5
    assert np.array_equal(found[where], spec.to_physical(xi)[where])
    assert np.array_equal(based.prior_mean, spec.prior_mean)
    assert (
        found[panda.parameters.index("joint2.damping")]
        == based.freeze(["hand.com.y"]).to_physical(xi[[0, 1, 3]])[panda.parameters.index("joint2.damping")]
    )
    with pytest.raises(ValueError, match="finite physical vector"):
        spec.with_base(p[:-1])


def test_hidden_payload_is_recovered(panda):
    """Simulate with an unknown payload, start at the model, recover it by Gauss-Newton on one-step predictions."""
    spec = FreeParameters(panda, [BodyInertia("hand"), JointDamping("joint3")])
    truth = panda.parameters.nominal.copy()
    truth[panda.parameters.inertia_slice("hand")] += inertia.from_com(
        1.5, np.array([0.04, 0.02, 0.1]), 4e-3 * np.eye(3)
    )
    truth[panda.parameters.index("joint3.damping")] = 1.7
    rng = np.random.default_rng(5)
    x = np.vstack([panda.q_home[:, None] + rng.normal(size=(7, 80)) * 0.5, rng.normal(size=(7, 80)) * 2])
    u = rng.uniform(-10, 10, (7, 80))
    step = build.step(panda, 0.01)
    target = step(x, u, truth).full()
    xs, us, ps = ca.SX.sym("x", 14), ca.SX.sym("u", 7), ca.SX.sym("p", panda.np_)
    sensitivity = ca.Function("C", [xs, us, ps], [ca.densify(ca.jacobian(step(xs, us, ps), ps))])
    xi = spec.prior_mean
    for _ in range(12):
        p = spec.to_physical(xi)
        C = sensitivity(x, u, p).full().reshape(14, 80, panda.np_).reshape(-1, panda.np_)
        residual = (target - step(x, u, p).full()).reshape(-1)
        J = C @ spec.jacobian(xi)
        xi = xi + np.clip(np.linalg.lstsq(J, residual, rcond=None)[0], -1, 1)
    assert np.allclose(spec.to_physical(xi), truth, atol=1e-8)


def test_mistakes_are_named(panda):
    plain = load_model("panda")
    with pytest.raises(KeyError, match="friction=True"):
        FreeParameters(plain, [JointFriction("joint1")])
    with pytest.raises(KeyError, match="geometry=True"):
        FreeParameters(plain, [BodyPosition("link3")])
    with pytest.raises(KeyError, match="gripper"):
        FreeParameters(plain, [BodyInertia("gripper")])
    with pytest.raises(ValueError, match="two blocks"):
        FreeParameters(plain, [BodyInertia("hand"), BodyInertia("hand", kind="mass_com")])
    with pytest.raises(ValueError, match="unknown kind"):
        BodyInertia("hand", kind="full")
    with pytest.raises(ValueError, match="prior_std names"):
        FreeParameters(plain, [BodyInertia("hand", prior_std={"inertia": 1.0})])
    with pytest.raises(ValueError, match="no logarithm"):
        FreeParameters(panda, [JointFriction("joint1", scale="log")])
    spec = FreeParameters(plain, [Gear("joint1")])
    with pytest.raises(ValueError, match=r"shape \(..., 1\)"):
        spec.to_physical(np.zeros(3))
    with pytest.raises(ValueError, match="covariance"):
        spec.report(np.zeros(1), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="not free"):
        spec.payload("hand", np.zeros(1), np.eye(1))


def test_spring_stiffness():
    model = load_model(ZOO)
    spec = FreeParameters(model, [JointStiffness("tilt")])
    assert np.isclose(spec.to_physical(np.log([9.0]))[model.parameters.index("tilt.stiffness")], 9.0)


# ---- published cart-pole set ------------------------------------------------------------------------------------


def test_published_vectors_start_at_two():
    for name, n in (("cartpole", 9), ("double_cartpole", 14)):
        model = load_model(name)
        for scale in ("log", "raw"):
            spec = cartpole_spec(model, scale=scale)
            assert spec.n == n
            rows = spec.report(spec.prior_mean, np.eye(n))
            assert [row.name for row in rows] == list(spec.names) and np.allclose([row.value for row in rows], 2.0)
            assert np.allclose(spec.from_physical(spec.to_physical(spec.prior_mean)), spec.prior_mean)


def test_point_mass_equivalents():
    """The published-by-check numbers: capsule poles and point masses that move the same."""
    double = load_model("double_cartpole")
    p = point_mass_equivalent(double, double.parameters.nominal)
    values = {
        row.name: row.value for row in cartpole_spec(double).report(cartpole_spec(double).from_physical(p), np.eye(14))
    }
    expected = {
        "cart.mass": 1.0305,
        "pole1.mass": 0.0969,
        "pole1.com.z": 0.7987,
        "pole1.length": 1.0,
        "pole2.mass": 0.0726,
        "pole2.com.z": 0.6885,
        "pole1.com.x": 0.0,
        "pole2.com.x": 0.0,
    }
    for name, value in expected.items():
        assert np.isclose(values[name], value, atol=6e-5), name
    single = load_model("cartpole")
    p = point_mass_equivalent(single, single.parameters.nominal)
    layout = single.parameters
    assert np.isclose(p[layout.index("cart.mass")], 1.0274, atol=6e-5)
    assert np.isclose(p[layout.index("pole.mass")], 0.0726, atol=6e-5)
    assert np.isclose(p[layout.index("pole.h.z")] / p[layout.index("pole.mass")], 0.6885, atol=6e-5)


@pytest.mark.parametrize("name", ["cartpole", "double_cartpole"])
def test_base_parameters_decide_the_motion(name):
    """Same base parameters, same accelerations; another base parameter, other accelerations."""
    model = load_model(name)
    rng = np.random.default_rng(6)
    spec = cartpole_spec(model)
    p = spec.to_physical(spec.prior_mean + 0.3 * rng.normal(size=spec.n))
    # Real bodies with the same base parameters: move mass and inertia around without changing the combinations.
    twin = point_mass_equivalent(model, p)
    for a, b in zip(base_parameters(model, p).values(), base_parameters(model, twin).values()):
        assert np.isclose(a, b)
    accel = build.accel(model)
    q, v, u = rng.normal(size=(model.nq, 50)), rng.normal(size=(model.nv, 50)) * 3, rng.normal(size=(1, 50)) * 50
    a = accel(q, v, u, p).full()
    assert np.allclose(accel(q, v, u, twin).full(), a, rtol=1e-9, atol=1e-9)
    twin[model.parameters.index("cart.mass")] += 0.01
    assert not np.allclose(accel(q, v, u, twin).full(), a, rtol=1e-4)


def cartpole_data(model, rng, count=60):
    x = rng.normal(size=(count, model.nx)) * np.r_[np.ones(model.nq), 3 * np.ones(model.nv)]
    return x, rng.uniform(-200, 200, (count, 1))


@pytest.mark.parametrize("scale", ["log", "raw"])
def test_rank_eight_of_fourteen(scale):
    model = load_model("double_cartpole")
    spec = cartpole_spec(model, scale=scale)
    result = identifiability(model, spec, *cartpole_data(model, np.random.default_rng(7)), dt=0.02, substeps=2)
    assert result.rank == 8
    assert set(result.inert) == {"cart.com.x", "cart.com.y", "cart.com.z", "pole1.com.y", "pole2.com.y", "pole2.length"}
    assert len(result.base) == 8 and result.null_space.shape == (14, 6)
    assert result.singular_values[8] < 1e-10 * result.singular_values[7]
    assert "rank 8 of 14" in str(result)


def test_rank_of_the_single_cartpole():
    """Nine parameters, five inert (cart COM, pole COM y, length): cart mass, pole mass, COM x and z remain."""
    model = load_model("cartpole")
    result = identifiability(model, cartpole_spec(model), *cartpole_data(model, np.random.default_rng(8)))
    assert result.rank == 4 and len(result.inert) == 5


def test_combinations_are_found():
    """With full inertias free, cart mass and pole mass show only in their sum, first moment and inertia."""
    model = load_model("cartpole")
    spec = FreeParameters(model, [BodyInertia("cart"), BodyInertia("pole")])
    data = cartpole_data(model, np.random.default_rng(9))
    result = identifiability(model, spec, *data)
    # M_t, h.x, h.z, J: four combinations of twenty coordinates.
    assert result.rank == 4
    # Moving along the null space leaves predictions alone: the claim itself.
    xi, step = spec.prior_mean, build.step(model, model.timestep)
    before = step(data[0].T, data[1].T, spec.to_physical(xi)).full()
    direction = result.null_space @ np.ones(result.null_space.shape[1]) * spec.prior_std
    direction /= np.abs(direction).max()
    after = step(data[0].T, data[1].T, spec.to_physical(xi + 1e-6 * direction)).full()
    assert np.abs(after - before).max() < 1e-9
    # And each named combination is what moves together: its coefficients are the local trade-off.
    assert "cart.alpha" in result.unidentifiable or "pole.alpha" in result.unidentifiable


def test_poor_data_lowers_the_rank():
    """Hanging still says nothing about most parameters."""
    model = load_model("double_cartpole")
    X = np.tile(np.r_[0, np.pi, 0, 0, 0, 0], (20, 1))
    result = identifiability(model, cartpole_spec(model), X, np.zeros((20, 1)))
    assert result.rank < 4
    with pytest.raises(ValueError, match="Expected X"):
        identifiability(model, cartpole_spec(model), X[:, :3], np.zeros((20, 1)))
    with pytest.raises(ValueError, match="at least 3 samples"):
        identifiability(model, cartpole_spec(model), X[:1], np.zeros((1, 1)))


@pytest.mark.parametrize("block", [BodyDensity("link4"), GravityTilt()], ids=["density", "tilt"])
def test_gradients_of_whole_links_and_of_a_tilt_are_exact(panda, block):
    """dp/dxi and the reported gradients against central differences, off the prior mean; the inverse is one."""
    spec = FreeParameters(panda, [block])
    xi = spec.prior_mean + 0.3 * np.arange(1, spec.n + 1)
    steps = 1e-6 * np.eye(spec.n)
    central = np.array([(spec.to_physical(xi + h) - spec.to_physical(xi - h)) / 2e-6 for h in steps]).T
    np.testing.assert_allclose(spec.jacobian(xi), central, atol=1e-8)
    np.testing.assert_allclose(spec.from_physical(spec.to_physical(xi)), xi, atol=1e-12)
    none, eye = np.zeros((spec.n, spec.n)), np.eye(spec.n)
    for k, estimate in enumerate(spec.report(xi, eye)):
        slopes = [(spec.report(xi + h, none)[k].value - spec.report(xi - h, none)[k].value) / 2e-6 for h in steps]
        assert estimate.std == pytest.approx(np.linalg.norm(slopes), rel=1e-6)


def test_a_denser_body_keeps_its_shape(panda):
    where = panda.parameters.inertia_slice("link4")
    spec = FreeParameters(panda, [BodyDensity("link4")])
    p, nominal = spec.to_physical(spec.prior_mean + np.log(1.3)), panda.parameters.nominal
    np.testing.assert_allclose(p[where], 1.3 * nominal[where], rtol=1e-12)
    np.testing.assert_array_equal(np.delete(p, np.r_[where]), np.delete(nominal, np.r_[where]))


def test_a_tilt_leaves_gravity_its_strength_and_says_what_it_needs(panda):
    spec = FreeParameters(panda, [GravityTilt()])
    at = [panda.parameters.index(f"gravity.{axis}") for axis in "xyz"]
    g = spec.to_physical(np.array([0.2, -0.3]))[at]
    assert np.linalg.norm(g) == pytest.approx(9.81)

    def turn(axis, a):
        c, s = np.cos(a), np.sin(a)
        return np.array([[1, 0, 0], [0, c, -s], [0, s, c]] if axis == "x" else [[c, 0, s], [0, 1, 0], [-s, 0, c]])

    # The base is turned about its x axis, then about the world's y axis.
    np.testing.assert_allclose(g, (turn("y", -0.3) @ turn("x", 0.2)).T @ [0, 0, -9.81], atol=1e-12)
    floating = load_model(
        """<mujoco model="floating"><option gravity="0 0 0"/><worldbody><body name="arm"><joint name="hinge"/>
        <geom size="0.1" mass="1"/></body></worldbody><actuator><motor joint="hinge"/></actuator></mujoco>"""
    )
    with pytest.raises(ValueError, match="points down its z axis"):
        FreeParameters(floating, [GravityTilt()])


@pytest.mark.parametrize(
    ("name", "value", "lower"),
    [
        ("hand.mass", 0.1, 0.0),
        ("hand.I_com.xx", 0.1, 0.0),
        ("joint1.frictionloss", 0.1, 0.0),
        ("sensor.delay", 0.0, 0.0),
        ("hand.mass", 3.0, 3.0 - 1.96),
        ("hand.com.x", 0.1, 0.1 - 1.96),
        ("hand.I_com.xy", 0.1, 0.1 - 1.96),
        ("hand.payload.mass", 0.1, 0.1 - 1.96),  # of what was added to a model that may be too heavy
        ("motor.gear", -0.1, -0.1 - 1.96),  # mounted the other way round
    ],
)
def test_intervals_claim_nothing_that_no_robot_has(name, value, lower):
    found = NamedEstimate.of(name, "", value, 1.0)
    assert found.value == value and found.std == 1.0 and found.upper == pytest.approx(value + 1.96, abs=1e-4)
    assert found.lower == pytest.approx(lower, abs=1e-4)
