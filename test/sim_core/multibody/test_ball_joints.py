"""Ball and free joints: quaternions in q, rates in v, by MuJoCo's conventions."""

import articulated_models as zoo
import casadi as ca
import mujoco
import numpy as np
import pinocchio
import pytest
from test_gradients import assert_close, central
from test_integrators import mujoco_rollout, our_rollout

from sim_core.control.ilqr import BoxIlqr
from sim_core.control.plan import IlqrConfig
from sim_core.control.refit import Refit
from sim_core.inference.fit.identify import dynamics_at
from sim_core.multibody import Dynamics, ModelError, load_model
from sim_core.multibody.equations import quaternion
from sim_core.multibody.equations.configuration import difference, integrate_position
from sim_core.multibody.model import build
from sim_core.multibody.rollout import derivatives, linearization

SMOOTH = dict(friction=("root", "elbow"), friction_law="smooth", friction_velocity=0.05)


def without(model_text, *parts):
    for part in parts:
        assert part in model_text
        model_text = model_text.replace(part, "")
    return model_text


# Nothing but gravity acts on the trees below.
FREE_FALL = without(
    zoo.BALLS,
    ' damping="0.05" armature="0.01" stiffness="1.5"',
    ' damping="0.1"',
    ' damping="1"',
    ' damping="0.02" armature="0.03"',
)


def test_layout_and_names(load):
    model = load("balls")
    assert (model.nq, model.nv, model.nx) == (28, 23, 51)
    assert model.nq == model.mj_model.nq and model.nv == model.mj_model.nv
    assert model.q_names[:8] == ("base.x", "base.y", "base.z", "base.qw", "base.qx", "base.qy", "base.qz", "root.qw")
    assert model.v_names[:7] == ("base.x", "base.y", "base.z", "base.wx", "base.wy", "base.wz", "root.wx")
    assert model.joint_names == ("base", "root", "mid", "elbow", "slide", "gimbal", "loose")
    assert model.v_names[model.joint_index("elbow")] == "elbow" and model.actuator_joints == ("elbow",)
    with pytest.raises(KeyError, match="several velocities: root.wx, root.wy"):
        model.joint_index("root")
    present = [n for n in model.parameters.names if n.split(".")[1] in ("damping", "armature", "stiffness")]
    assert present == [
        "root.damping",
        "root.armature",
        "root.stiffness",
        "elbow.damping",
        "elbow.armature",
        "slide.damping",
        "slide.armature",
        "loose.damping",
        "loose.armature",
    ]


@pytest.mark.parametrize("friction", [{}, {"friction": ("root", "elbow", "loose")}])
def test_acceleration_agrees_with_mujoco(friction):
    text = (
        zoo.BALLS
        if not friction
        else zoo.BALLS.replace(
            '<joint name="root" type="ball"', '<joint name="root" type="ball" frictionloss="0.2"'
        ).replace('<joint name="loose" type="free"', '<joint name="loose" type="free" frictionloss="0.4"')
    )
    model = load_model(text, **friction)
    assert (model.friction is not None) == bool(friction)
    q, v, u = zoo.random_states(model, 300, seed=1)
    ours = build.accel(model)(q, v, u, model.parameters.nominal).full()
    plant = model.mj_model if friction else zoo.without_constraints(model)
    plant.opt.tolerance = 0
    assert zoo.relative_error(ours, zoo.mujoco_accelerations(plant, q, v, u)) < 1e-9


def test_length_of_a_quaternion_means_nothing(load):
    model = load("balls")
    q, v, u = zoo.random_states(model, 5, seed=2)
    longer = q.copy()
    for link in model.links:
        if link.kind == "ball":
            longer[link.positions] *= 1.7
    p = model.parameters.nominal
    assert np.allclose(build.accel(model)(longer, v, u, p).full(), build.accel(model)(q, v, u, p).full(), rtol=1e-9)


def test_algorithms_agree_with_pinocchio_and_each_other(load):
    model = load("balls")
    q, v, _ = zoo.random_states(model, 300, seed=3)
    tau, p = np.random.default_rng(4).normal(size=v.shape) * 5.0, model.parameters.nominal
    ours = build.forward_dynamics(model)(q, v, tau, p).full()
    oracle = zoo.pinocchio_from_mujoco(model.mj_model)
    data, theirs = oracle.createData(), np.empty_like(v)
    for k, qk in enumerate(zoo.in_pinocchios_order(model, q).T):
        theirs[:, k] = pinocchio.aba(oracle, data, qk, v[:, k], tau[:, k])
    assert zoo.relative_error(ours, theirs) < 1e-9
    again = build.inverse_dynamics(model)(q, v, ours, p).full()
    assert zoo.relative_error(again, tau) < 1e-9
    M = build.mass_matrix(model)(q, p).full().reshape(model.nv, -1, model.nv).transpose(1, 0, 2)
    assert np.array_equal(M, M.transpose(0, 2, 1)) and np.linalg.eigvalsh(M).min() > 0
    b = build.inverse_dynamics(model)(q, v, np.zeros_like(v), p).full()
    assert zoo.relative_error(np.linalg.solve(M, (tau - b).T[:, :, None])[:, :, 0].T, ours) < 1e-9


@pytest.fixture(scope="module")
def floating_a1():
    """A published quadruped off the ground: our model, and Pinocchio's own with its free-flyer."""
    path = zoo.example_urdf("a1")
    if path is None:
        pytest.skip("example-robot-data is not installed: pip install example-robot-data")
    text = path.read_text()
    root = text.index("<link ")
    text = (
        text[:root] + '<link name="world"/><joint name="flight" type="floating"><parent link="world"/>'
        '<child link="base"/></joint>' + text[root:]
    )
    oracle = pinocchio.buildModelFromUrdf(str(path), pinocchio.JointModelFreeFlyer())
    oracle.armature = np.zeros(oracle.nv)
    return load_model(text), oracle


def test_floating_quadruped_agrees_with_pinocchios_free_flyer(floating_a1):
    """Its rates are all in body axes: with x' = R y and R' = R [w]x, x'' = R (y' + w x y)."""
    model, oracle = floating_a1
    assert (model.nq, model.nv) == (19, 18)
    q, v, _ = zoo.random_states(model, 100, seed=5)
    tau = np.random.default_rng(6).normal(size=v.shape) * 5.0
    ours = build.forward_dynamics(model)(q, v, tau, model.parameters.nominal).full()
    data, theirs = oracle.createData(), np.empty_like(v)
    joints = [oracle.joints[oracle.getJointId(name)].idx_v for name in model.joint_names[1:]]
    order = np.r_[0:6, joints]
    for k in range(q.shape[1]):
        R = np.zeros(9)
        mujoco.mju_quat2Mat(R, q[3:7, k])
        R, w = R.reshape(3, 3), v[3:6, k]
        y = R.T @ v[:3, k]
        full_q, full_v, full_tau = pinocchio.neutral(oracle), np.zeros(oracle.nv), np.zeros(oracle.nv)
        full_q[:7] = np.r_[q[:3, k], np.roll(q[3:7, k], -1)]
        for name, angle in zip(model.joint_names[1:], q[7:, k]):
            full_q[oracle.joints[oracle.getJointId(name)].idx_q] = angle
        full_v[order] = np.r_[y, v[3:, k]]
        full_tau[order] = np.r_[R.T @ tau[:3, k], tau[3:, k]]
        a = pinocchio.aba(oracle, data, full_q, full_v, full_tau)[order]
        theirs[:, k] = np.r_[R @ (a[:3] + np.cross(w, y)), a[3:]]
    assert zoo.relative_error(ours, theirs) < 1e-9


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_rollout_agrees_with_mujoco(integrator):
    text = zoo.BALLS.replace('integrator="Euler"', f'integrator="{integrator}"')
    if integrator == "implicitfast":
        # There the plant also damps the tumbling of bodies that stand alone, which is noted.
        assert "agree: joints loose." in " ".join(load_model(text).notes)
        start = text.index('<body name="loose"')
        text = text[:start] + text[text.index("</worldbody>") :]
    model = load_model(text)
    assert not any("tumbling" in note for note in load_model(zoo.BALLS).notes)
    q, v, _ = zoo.random_states(model, 1, seed=7, spread=0.5)
    U = np.random.default_rng(8).uniform(-2, 2, (100, 1))
    x0 = np.r_[q[:, 0], v[:, 0]]
    reference = mujoco_rollout(zoo.without_constraints(model), x0, U)
    ours = our_rollout(model, build.step(model, model.timestep), x0, U)
    assert np.abs(ours - reference).max() < 1e-9
    for link in model.links:
        if link.kind == "ball":
            assert np.allclose(np.linalg.norm(ours[1:, link.positions], axis=1), 1.0, atol=1e-15)


def momenta(model, X):
    """Linear momentum (T, 3) and angular momentum about the world's origin (T, 3) from the bodies one by one."""
    q, v, p = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv), model.parameters.nominal
    linear, angular = ca.SX.zeros(3), ca.SX.zeros(3)
    for body in model.bodies:
        pi = p[model.parameters.inertia_slice(body.name)]
        m, c = pi[0], pi[1:4] / pi[0]
        I = np.array([[pi[4], pi[7], pi[8]], [pi[7], pi[5], pi[9]], [pi[8], pi[9], pi[6]]])
        I_com = I - m * (c @ c * np.eye(3) - np.outer(c, c))
        r, R = build.frame_pose(model, body.name)(q, p)
        w, lin = build.frame_velocity(model, body.name)(q, v, p)
        momentum = m * (lin + ca.cross(w, R @ c))
        linear += momentum
        angular += R @ I_com @ R.T @ w + ca.cross(r + R @ c, momentum)
    f = ca.Function("momenta", [q, v], [linear, angular])
    return [out.full().T for out in f(X[:, : model.nq].T, X[:, model.nq :].T)]


def test_free_fall_conserves_energy_and_momentum():
    """A tumbling trunk with ball-jointed tail, without gravity: nothing outside acts, nothing inside dissipates."""
    text = without(FREE_FALL, ' gravity="0.3 -0.5 -9.7"').replace("<option ", '<option gravity="0 0 0" ')
    a, b = text.index('<body name="post"'), text.index("</worldbody>")
    model = load_model(text[:a] + text[b:])
    q, v, _ = zoo.random_states(model, 1, seed=9, spread=0.6)
    X = our_rollout(model, build.step(model, 1e-3, "rk4"), np.r_[q[:, 0], v[:, 0]], np.zeros((1000, 1)))
    kinetic, _ = build.energy(model)(X[:, : model.nq].T, X[:, model.nq :].T, model.parameters.nominal)
    kinetic = kinetic.full()[0]
    assert np.ptp(kinetic) < 1e-9 * kinetic[0]
    linear, angular = momenta(model, X[::50])
    assert np.ptp(linear, axis=0).max() < 1e-8 * np.abs(linear[0]).max()
    assert np.ptp(angular, axis=0).max() < 1e-8 * np.abs(angular[0]).max()
    assert np.ptp(X[:, model.nq :], axis=0).min() > 0.1, "every rate must change for this to mean anything"


def test_spinning_top_conserves_what_euler_says():
    """Torque-free Euler equations: I w' = (I w) x w, the angular momentum's length and the energy stay, the axis nods."""
    model = load_model(
        '<mujoco><option gravity="0 0 0"/><worldbody><body><freejoint/><inertial pos="0 0 0" mass="1" '
        'diaginertia="0.01 0.02 0.025"/></body></worldbody></mujoco>'
    )
    I, w = np.array([0.01, 0.02, 0.025]), np.array([0.1, 5.0, 0.2])
    a = build.accel(model)(np.r_[0, 0, 0, 1, 0, 0, 0], np.r_[0, 0, 0, w], np.zeros(0), model.parameters.nominal).full()[
        :, 0
    ]
    assert np.allclose(a, np.r_[0, 0, 0, np.cross(I * w, w) / I], rtol=1e-12)
    x0 = np.r_[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, w]
    X = our_rollout(model, build.step(model, 2e-3, "rk4"), x0, np.zeros((3000, 0)))
    assert X[:, 11].min() < -4.0, "rotation about the middle axis is unstable: it must have turned over"
    assert np.ptp(((I * X[:, 10:]) ** 2).sum(1)) < 1e-9 and np.ptp((I * X[:, 10:] ** 2).sum(1)) < 1e-7


def test_energy_agrees_with_mujoco_and_springs_are_its_gradient():
    model = load_model(zoo.BALLS)
    mj_model = zoo.without_constraints(model)
    mj_model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    data, energy, differences = mujoco.MjData(mj_model), build.energy(model), []
    for q, v in zip(*(a.T for a in zoo.random_states(model, 20, seed=10)[:2])):
        data.qpos, data.qvel = q, v
        mujoco.mj_forward(mj_model, data)
        kinetic, potential = (float(e) for e in energy(q, v, model.parameters.nominal))
        assert np.isclose(kinetic, data.energy[1], rtol=1e-10)
        differences.append(potential - data.energy[0])
    assert np.ptp(differences) < 1e-9


def test_jacobians_of_a_step_against_central_differences():
    """In the coordinates of x: four for a quaternion, whose length the step ignores and sets to one."""
    model = load_model(zoo.BALLS, geometry=("tail1", "tip"), **SMOOTH)
    step = build.step(model, 0.01)
    f = linearization.step_jacobian(model, step, 0.01, None, "xup")
    g = derivatives.step_jacobian(step, "xup")
    p = model.parameters.values({n: 0.2 for n in model.parameters.names if n.endswith(".frictionloss")})
    for q, v, u in zip(*(a.T for a in zoo.random_states(model, 1, seed=11, spread=0.5))):
        x = np.r_[q, v]
        x_next, A, B, C = (out.full() for out in f(x, u, p))
        assert_close(A, central(lambda z: step(z, u, p).full()[:, 0], x, 3e-5))
        assert_close(B, central(lambda z: step(x, z, p).full()[:, 0], u, 1e-3))
        # Small bodies: steps relative to each entry, lest an inertia turn negative.
        size = np.maximum(np.abs(p), 1e-3)
        assert_close(C * size, central(lambda z: step(x, u, p + size * z).full()[:, 0], 0 * p, 1e-4))
        for ours, plain in zip((x_next, A, B, C), g(x, u, p)):
            np.testing.assert_allclose(ours, plain.full(), rtol=1e-9, atol=1e-11 * max(1.0, np.abs(ours).max()))
        link = model.links[3]
        assert np.allclose(A[:, link.positions] @ q[link.positions], 0, atol=1e-10)


def test_gradients_at_rest_are_finite_and_right():
    """Zero rate and zero deflection are the singular points of exponential and logarithm."""
    model = load_model(zoo.BALLS)
    x, u, p = np.r_[model.q_home, np.zeros(model.nv)], np.zeros(1), model.parameters.nominal
    step = build.step(model, 0.01)
    A = linearization.step_jacobian(model, step, 0.01, None, "x")(x, u, p)[1].full()
    assert_close(A, central(lambda z: step(z, u, p).full()[:, 0], x, 3e-5))
    resting = load_model(
        '<mujoco><option gravity="0 0 0"/><worldbody><body><joint type="ball" stiffness="2"/>'
        '<geom size="0.1"/></body></worldbody></mujoco>'
    )
    step = build.step(resting, 0.01)
    A = derivatives.step_jacobian(step, "x")(np.r_[1, 0, 0, 0, 0, 0, 0], [], resting.parameters.nominal)[1].full()
    assert_close(
        A, central(lambda z: step(z, [], resting.parameters.nominal).full()[:, 0], np.r_[1.0, 0, 0, 0, 0, 0, 0], 1e-4)
    )


def test_rotations_by_series_and_by_sines_meet():
    """exponential and its inverse across the switch, against mju_axisAngle2Quat, and the long way round."""
    phi, q = ca.SX.sym("phi", 3), ca.SX.sym("q", 4)
    exponential = ca.Function(
        "exp", [phi], [quaternion.exponential(phi), ca.jacobian(quaternion.exponential(phi), phi)]
    )
    logarithm = ca.Function("log", [q], [quaternion.rotation_vector(q)])
    axis = np.array([0.36, -0.48, 0.8])
    for angle in (0.0, 1e-12, 1e-5, 1.9999e-3, 2.0001e-3, 0.1, 3.0):
        want = np.zeros(4)
        mujoco.mju_axisAngle2Quat(want, axis, angle)
        found, J = (out.full() for out in exponential(angle * axis))
        assert np.allclose(found[:, 0], want, rtol=1e-14, atol=1e-16)
        assert_close(J, central(lambda z: exponential(z)[0].full()[:, 0], angle * axis, 1e-4))
        for length in (1.0, 2.5):
            back = logarithm(-length * found).full()[:, 0]
            assert np.allclose(back, angle * axis, rtol=1e-12, atol=1e-18)
    turned = exponential(4.0 * axis)[0]
    assert np.allclose(logarithm(turned).full()[:, 0], (4.0 - 2 * np.pi) * axis, rtol=1e-12)


def test_order_of_convergence():
    """Balls keep the schemes' orders: rates in different body axes do not add up, which costs plain RK4 two of them."""
    model = load_model(zoo.BALLS)
    q, v, _ = zoo.random_states(model, 1, seed=16, spread=0.4)
    x0, T = np.r_[q[:, 0], v[:, 0]], 0.1

    def final(scheme, n):
        return our_rollout(model, build.step(model, T / n, scheme), x0, np.zeros((n, 1)))[-1]

    exact = final("rk4", 100)
    for scheme, order, n in (("semi_implicit_euler", 1, 50), ("heun", 2, 20), ("midpoint", 2, 20), ("rk4", 4, 10)):
        errors = [np.linalg.norm(final(scheme, k) - exact) for k in (n, 2 * n)]
        assert np.isclose(np.log2(errors[0] / errors[1]), order, atol=0.2), scheme


def test_difference_undoes_integration(load):
    model = load("balls")
    q, v, _ = zoo.random_states(model, 1, seed=12)
    sq, sv = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    f = ca.Function("f", [sq, sv], [difference(model, integrate_position(model, sq, sv, 0.1), sq)])
    assert np.allclose(f(q, v).full(), 0.1 * v, rtol=1e-10)


def test_batch_equals_single_and_reverse_sweep_equals_differences():
    a, b = zoo.BALLS.index('<body name="tail2"'), zoo.BALLS.index('<body name="arm"')
    c, d = zoo.BALLS.index('<body name="post"'), zoo.BALLS.index("</worldbody>")
    # Trunk, first link of the tail, arm: kernels of the whole zoo take half a minute to compile.
    model = load_model(zoo.BALLS[:a] + "</body>" + zoo.BALLS[b:c] + zoo.BALLS[d:])
    dynamics = Dynamics(model, dt=0.01)
    q, v, _ = zoo.random_states(model, 5, seed=13, spread=0.5)
    x0, p = np.concatenate([q, v]).T.copy(), model.parameters.nominal
    U = np.random.default_rng(14).uniform(-1, 1, (5, 20, 1))
    X = dynamics.rollout(x0, U, p)
    for k in range(5):
        np.testing.assert_allclose(X[k], dynamics.rollout(x0[k], U[k], p), rtol=1e-10, atol=1e-11)
    F = build.step(model, 0.01).mapaccum("rollout", 20)
    np.testing.assert_allclose(X[0, 1:].T, F(x0[0], U[0].T, np.tile(p[:, None], 20)).full(), rtol=1e-9, atol=1e-10)
    weight = np.random.default_rng(15).normal(size=X.shape)
    x0bar, Ubar, pbar = dynamics.rollout_vjp(x0, U, p, X, weight)

    def loss(x0, p):
        return float((dynamics.rollout(x0, U[0], p) * weight[0]).sum())

    numeric = central(lambda z: np.array([loss(z, p)]), x0[0], 1e-4)[0]
    np.testing.assert_allclose(x0bar[0], numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())
    some = np.r_[0:14, model.parameters.index("root.stiffness"), model.parameters.index("root.damping")]
    numeric = central(lambda z: np.array([loss(x0[0], _with(p, some, z))]), p[some], 1e-5)[0]
    np.testing.assert_allclose(pbar[0][some], numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


def _with(p, where, values):
    p = p.copy()
    p[where] = values
    return p


BALL = '<mujoco><worldbody><body><joint name="socket" type="ball" {joint}/><geom size="0.1"/></body></worldbody>{bottom}</mujoco>'


def test_what_is_not_supported_is_named():
    drive = '<actuator><motor name="servo" joint="socket" gear="1 0 0"/></actuator>'
    with pytest.raises(ModelError, match="actuator 'servo' on 'socket', a free or ball joint. Drive hinges"):
        load_model(BALL.format(joint="", bottom=drive))
    limited = BALL.format(joint='range="0 60"', bottom="")
    assert "socket" in " ".join(load_model(limited).notes)
    with pytest.raises(ModelError, match="angle limit of ball joint 'socket' with joint_limits=True.*three hinges"):
        load_model(limited, joint_limits=True)
    with pytest.raises(ModelError, match="geometry names .*trunk.*free joint"):
        load_model(zoo.BALLS, geometry=("trunk",))
    assert "tail1.pos.x" in load_model(zoo.BALLS, geometry=True).parameters
    assert "trunk.pos.x" not in load_model(zoo.BALLS, geometry=True).parameters


def test_who_pairs_positions_with_velocities_refuses_balls(load):
    model = load("balls")
    for use in (
        lambda: BoxIlqr(model, None, IlqrConfig(5, 0.01)),
        lambda: Refit(model, None),
        lambda: dynamics_at(model, 0.01),
    ):
        with pytest.raises(
            ModelError, match="needs hinge and slide joints alone, found 'base' of model 'balls'.*28 positions"
        ):
            use()
