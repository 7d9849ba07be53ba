"""Equations of motion against MuJoCo, Pinocchio, a closed form and each other."""

import articulated_models as zoo
import casadi as ca
import numpy as np
import pinocchio
import pytest

from sim_core.multibody import load_model
from sim_core.multibody.model import build

MODELS = (*zoo.OWN, *zoo.URDF)
SAMPLES = 1000


@pytest.mark.parametrize("name", MODELS)
def test_acceleration_agrees_with_mujoco(load, name):
    model = load(name)
    q, v, u = zoo.random_states(model, SAMPLES, seed=1)
    p = model.parameters.values({n: 0.0 for n in model.parameters.names if n.endswith(".frictionloss")})
    ours = build.accel(model)(q, v, u, p).full()
    reference = zoo.mujoco_accelerations(zoo.without_constraints(model), q, v, u)
    assert zoo.relative_error(ours, reference) < 1e-9


@pytest.mark.parametrize("name", MODELS)
def test_forward_dynamics_agrees_with_pinocchio(load, name):
    model = load(name)
    q, v, _ = zoo.random_states(model, SAMPLES, seed=2)
    tau = np.random.default_rng(3).normal(size=v.shape) * 5.0
    ours = build.forward_dynamics(model)(q, v, tau, model.parameters.nominal).full()
    oracle = zoo.pinocchio_from_mujoco(model.mj_model)
    reference = model.mj_model.qpos0[:, None]
    theirs = zoo.pinocchio_accelerations(oracle, list(oracle.names)[1:], q - reference, v, tau)
    assert zoo.relative_error(ours, theirs) < 1e-9


@pytest.mark.parametrize("name", zoo.URDF)
def test_urdf_agrees_with_pinocchios_own_parser(load, name):
    """Two parsers, two algorithms: catches an inertia or a joint lost in import."""
    model = load(name)
    oracle = pinocchio.buildModelFromUrdf(str(zoo.example_urdf(name)))
    oracle.armature = np.zeros(oracle.nv)
    q, v, _ = zoo.random_states(model, 100, seed=4)
    tau = np.random.default_rng(5).normal(size=v.shape) * 5.0
    ours = build.forward_dynamics(model)(q, v, tau, model.parameters.nominal).full()
    theirs = zoo.pinocchio_accelerations(oracle, model.joint_names, q, v, tau)
    # MuJoCo stores principal axes as quaternions; a URDF's rounded rpy angles survive both parsers to about 1e-12.
    assert zoo.relative_error(ours, theirs) < 1e-9


@pytest.mark.parametrize("name", MODELS)
def test_three_algorithms_agree(load, name):
    """ABA inverts M a + b = tau with M from composite bodies and b from Newton-Euler; M is symmetric and positive."""
    model = load(name)
    q, v, _ = zoo.random_states(model, SAMPLES, seed=6)
    tau = np.random.default_rng(7).normal(size=v.shape) * 5.0
    p = model.parameters.nominal
    a = build.forward_dynamics(model)(q, v, tau, p).full()
    inverse = build.inverse_dynamics(model)
    b = inverse(q, v, np.zeros_like(v), p).full()
    M = build.mass_matrix(model)(q, p).full().reshape(model.nv, SAMPLES, model.nv).transpose(1, 0, 2)
    assert np.array_equal(M, M.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(M).min() > 0
    solved = np.linalg.solve(M, (tau - b).T[:, :, None])[:, :, 0].T
    # Backward error: residual force relative to the forces that cancel in it; independent of M's conditioning.
    scale = (np.abs(M) @ np.abs(a.T)[:, :, None])[:, :, 0].T.max(axis=0) + np.abs(b).max(axis=0)
    residual = np.abs(inverse(q, v, a, p).full() - tau).max(axis=0)
    assert (residual / scale).max() < 1e-12
    assert zoo.relative_error(a, solved) < 1e-10


def test_double_cartpole_closed_form(load):
    """The planar equations written out by hand, in absolute angles, with off-axis COMs."""
    model = load("double_cartpole")
    rng = np.random.default_rng(8)
    p = model.parameters.nominal.copy()
    M, (m1, m2), l1, (I1, I2) = 1.3, (0.4, 0.2), 0.8, (0.03, 0.01)
    c1, c2 = np.array([0.05, 0.5]), np.array([-0.04, 0.35])
    layout = model.parameters
    for body, m, c, I in (("pole1", m1, c1, I1), ("pole2", m2, c2, I2)):
        where = layout.inertia_slice(body)
        p[where] = [m, m * c[0], 0, m * c[1], 1, I + m * (c @ c), 1, 0, 0, 0]
    p[layout.index("cart.mass")] = M
    p[layout.index("pole2.pos.z")] = l1
    for joint in model.joint_names:
        p[layout.index(f"{joint}.damping")] = 0.0
    g = 9.81
    accel = build.accel(model)
    for _ in range(50):
        q, v, u = rng.uniform(-3, 3, 3), rng.normal(size=3) * 4, rng.uniform(-50, 50)
        phi, w = (q[1], q[1] + q[2]), (v[1], v[1] + v[2])
        e = [np.array([np.sin(f), np.cos(f)]) for f in phi]
        ep = [np.array([np.cos(f), -np.sin(f)]) for f in phi]
        rho = [c[0] * d + c[1] * k for c, d, k in zip((c1, c2), ep, e)]
        a = [-c[0] * k + c[1] * d for c, d, k in zip((c1, c2), ep, e)]
        H = np.array(
            [
                [M + m1 + m2, m1 * a[0][0] + m2 * l1 * ep[0][0], m2 * a[1][0]],
                [0, m1 * c1 @ c1 + I1 + m2 * l1**2, m2 * l1 * ep[0] @ a[1]],
                [0, 0, m2 * c2 @ c2 + I2],
            ]
        )
        H = np.triu(H) + np.triu(H, 1).T
        right = np.array(
            [
                u + (m1 * rho[0][0] + m2 * l1 * e[0][0]) * w[0] ** 2 + m2 * rho[1][0] * w[1] ** 2,
                m2 * l1 * (ep[0] @ rho[1]) * w[1] ** 2 + g * (m1 * -a[0][1] - m2 * l1 * ep[0][1]),
                m2 * l1 * (e[0] @ a[1]) * w[0] ** 2 - g * m2 * a[1][1],
            ]
        )
        acc = np.linalg.solve(H, right)
        expected = np.array([acc[0], acc[1], acc[2] - acc[1]])
        ours = accel(q, v, u, p).full()[:, 0]
        assert np.allclose(ours, expected, rtol=1e-10, atol=1e-10)


def chain(links):
    """URDF of a pendulum of unequal rods, hinged about turned axes."""
    text = '<robot name="chain"><link name="base"/>'
    for k in range(links):
        m, l = 1.0 - 0.1 * k, 0.5 + 0.1 * k
        parent, at = ("base", 0.0) if k == 0 else (f"rod{k - 1}", -(0.4 + 0.1 * k))
        text += f"""
        <joint name="hinge{k}" type="continuous"><origin xyz="0 0 {at}" rpy="0 0 {0.2 * k}"/><axis xyz="0 1 0"/>
          <parent link="{parent}"/><child link="rod{k}"/></joint>
        <link name="rod{k}"><inertial><origin xyz="0.01 0 {-l / 2}"/><mass value="{m}"/>
          <inertia ixx="{m * l * l / 12}" iyy="{m * l * l / 12 + 1e-3}" izz="0.002" ixy="0" ixz="0.0005" iyz="0"/></inertial></link>"""
    return text + "</robot>"


@pytest.mark.parametrize(
    "source", [chain(2), chain(5), "swimmer5"], ids=["double pendulum", "five rods", "swimmer in water"]
)
def test_three_mechanisms_agree_with_mujoco_and_pinocchio(source):
    """Two pendulums against both; the swimmer in water, so with the medium's drag, against MuJoCo."""
    if source == "swimmer5":
        source = load_model(source).xml.replace("<option ", '<option density="998" viscosity="0.0009" ', 1)
    model = load_model(source)
    q, v, u = zoo.random_states(model, 300, seed=9)
    p = model.parameters.nominal
    ours = build.accel(model)(q, v, u, p).full()
    assert zoo.relative_error(ours, zoo.mujoco_accelerations(model.mj_model, q, v, u)) < 1e-9
    if model.name == "chain":
        oracle = pinocchio.buildModelFromXML(source)
        oracle.armature = np.zeros(oracle.nv)
        assert zoo.relative_error(ours, zoo.pinocchio_accelerations(oracle, model.joint_names, q, v, u)) < 1e-9


def test_instruction_counts_stay_small():
    """The compiled kernels' speed: a forward step of the Panda with every inertial parameter symbolic."""
    counts = {name: build.accel(load_model(name)).n_instructions() for name in ("cartpole", "double_cartpole", "panda")}
    assert counts["cartpole"] < 150 and counts["double_cartpole"] < 350 and counts["panda"] < 2400


def test_outputs_are_dense(load):
    model = load("double_cartpole")
    for f in (build.accel(model), build.mass_matrix(model), build.step(model, 0.01), build.frame_pose(model, "cart")):
        for k in range(f.n_out()):
            assert f.sparsity_out(k) == ca.Sparsity.dense(*f.size_out(k))
