"""Steps against mj_step, measured orders, conserved quantities, growth of the graph."""

import articulated_models as zoo
import casadi as ca
import mujoco
import numpy as np
import pytest

from sim_core.multibody import load_model
from sim_core.multibody.model import build


def mujoco_rollout(mj_model, x0, U):
    data, nq = mujoco.MjData(mj_model), mj_model.nq
    data.qpos, data.qvel = x0[:nq], x0[nq:]
    X = [x0]
    for u in U:
        if mj_model.nu:
            data.ctrl = u
        mujoco.mj_step(mj_model, data)
        X.append(np.r_[data.qpos, data.qvel])
    return np.array(X)


def our_rollout(model, step, x0, U, p=None):
    p = model.parameters.nominal if p is None else p
    F = step.mapaccum("rollout", len(U))
    return np.vstack([x0, F(x0, U.T, np.tile(p[:, None], len(U))).full().T])


def start(model, seed, scale):
    rng = np.random.default_rng(seed)
    x0 = np.r_[model.q_home + scale * rng.normal(size=model.nq), scale * rng.normal(size=model.nv)]
    bound = np.where(np.isfinite(model.u_upper), model.u_upper, 5.0)
    return x0, rng.uniform(-0.3, 0.3, (200, model.nu)) * bound


@pytest.mark.parametrize(
    "name, integrator",
    [
        ("panda", "mujoco_euler"),
        ("pendulum", "mujoco_euler"),
        ("zoo", "implicitfast"),
        ("double_cartpole", "rk4"),
        ("cartpole", "rk4"),
        ("floating", "rk4"),
    ],
)
def test_rollout_agrees_with_mujoco(load, name, integrator):
    """integrator=None matches the plant's own step: the joint limits of the plant are off."""
    model = load(name)
    assert model.integrator == integrator
    x0, U = start(model, 1, 0.3)
    # A driven double cart-pole is chaotic: errors grow by e in about 0.15 s, so 1e-15 reaches 1e-9 after 2 s.
    U = U[:100]
    reference = mujoco_rollout(zoo.without_constraints(model), x0, U)
    ours = our_rollout(model, build.step(model, model.timestep), x0, U)
    assert np.abs(ours - reference).max() < 1e-9 * max(1.0, np.abs(reference).max())


def test_euler_without_implicit_damping(load):
    text = zoo.PENDULUM.replace("<worldbody>", '<option><flag eulerdamp="disable"/></option><worldbody>', 1)
    model = load_model(text)
    assert model.integrator == "semi_implicit_euler"
    x0, U = start(model, 2, 0.5)
    reference = mujoco_rollout(zoo.without_constraints(model), x0, U)
    assert np.abs(our_rollout(model, build.step(model, model.timestep), x0, U) - reference).max() < 1e-11


def test_implicit_damping_is_euler_with_more_armature(load):
    """(M + h D) a = tau - b: the same recursion with armature + h d, spelled out with the mass matrix."""
    model = load("panda")
    p, h = model.parameters.nominal, 0.01
    q, v, u = (a[:, 0] for a in zoo.random_states(model, 1, seed=3))
    M = build.mass_matrix(model)(q, p).full()
    D = np.diag([p[model.parameters.index(f"{j}.damping")] for j in model.joint_names])
    b = build.inverse_dynamics(model)(q, v, 0 * v, p).full()[:, 0]
    v_next = v + h * np.linalg.solve(M + h * D, u - D @ v - b)
    x_next = build.step(model, h)(np.r_[q, v], u, p).full()[:, 0]
    assert np.allclose(x_next, np.r_[q + h * v_next, v_next], rtol=1e-12)


def test_substeps_compose(load):
    model = load("double_cartpole")
    x, u, p = np.r_[0, 2.0, 0.4, 0.1, 1.0, -2.0], 30.0, model.parameters.nominal
    once = build.step(model, 0.01)
    assert np.allclose(
        build.step(model, 0.02, substeps=2)(x, u, p).full(), once(once(x, u, p), u, p).full(), rtol=1e-13
    )


@pytest.mark.parametrize(
    "integrator, order",
    [("semi_implicit_euler", 1), ("mujoco_euler", 1), ("implicitfast", 1), ("heun", 2), ("midpoint", 2), ("rk4", 4)],
)
def test_order_of_convergence(load, integrator, order):
    """Error ~ h^order over a fixed time: the slope between step sizes h and h / 2."""
    model = load("zoo")
    x0, U = start(model, 4, 0.2)
    u, p, T = U[:1], model.parameters.nominal, 0.2

    def final(scheme, n):
        return our_rollout(model, build.step(model, T / n, scheme), x0, np.repeat(u, n, axis=0), p)[-1]

    exact = final("rk4", 3200)
    errors = [np.linalg.norm(final(integrator, n) - exact) for n in (80, 160, 320)]
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.allclose(slopes, order, atol=0.15)


def pendulum_energy(model, integrator, dt, seconds, q0):
    """Energy above the hanging rest along a free swing, and its kinetic part."""
    n, p = round(seconds / dt), model.parameters.nominal
    x0 = np.r_[q0, np.zeros(model.nv)]
    X = our_rollout(model, build.step(model, dt, integrator), x0, np.zeros((n, model.nu)))
    kinetic, potential = (e.full()[0] for e in build.energy(model)(X[:, : model.nq].T, X[:, model.nq :].T, p))
    hanging = float(build.energy(model)(np.zeros(model.nq), np.zeros(model.nv), p)[1])
    return kinetic + potential - hanging, kinetic


def test_energy_of_the_double_pendulum_is_conserved(load):
    energy, kinetic = pendulum_energy(load("double_pendulum"), "rk4", 1e-3, 10.0, [2.0, 0.5])
    assert kinetic.max() > 0.5 * energy[0], "the pendulum must swing for this to mean anything"
    assert np.abs(energy / energy[0] - 1).max() < 1e-5


def test_energy_of_semi_implicit_euler_is_bounded():
    """One pendulum: M is constant, the scheme symplectic, so the error oscillates with O(h) and never drifts."""
    text = zoo.PENDULUM.replace('damping="0.2"', "").replace('stiffness="3" springref="20"', "")
    energy, _ = pendulum_energy(load_model(text), "semi_implicit_euler", 2e-3, 40.0, [2.0])
    deviation = np.abs(energy / energy[0] - 1)
    assert deviation.max() < 0.02
    assert deviation[-5000:].max() < 1.05 * deviation[:5000].max()


def test_energy_of_semi_implicit_euler_for_the_double_pendulum(load):
    """M depends on q, so stepping v is not symplectic: the error is of first order in h, but stays small."""
    model = load("double_pendulum")
    worst = {}
    for dt in (1e-3, 5e-4):
        energy, _ = pendulum_energy(model, "semi_implicit_euler", dt, 4.0, [2.0, 0.5])
        worst[dt] = np.abs(energy / energy[0] - 1).max()
    assert worst[1e-3] < 0.02 and np.isclose(worst[1e-3] / worst[5e-4], 2, atol=0.2)


def test_energy_agrees_with_mujoco(load):
    for name in ("zoo", "panda", "floating"):
        model = load(name)
        mj_model = zoo.without_constraints(model)
        mj_model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
        data, energy = mujoco.MjData(mj_model), build.energy(model)
        differences = []
        for q, v in zip(*(a.T for a in zoo.random_states(model, 10, seed=5)[:2])):
            data.qpos, data.qvel = q, v
            mujoco.mj_forward(mj_model, data)
            ours = [float(e) for e in energy(q, v, model.parameters.nominal)]
            assert np.isclose(ours[0], data.energy[1], rtol=1e-10)  # MuJoCo's order is potential, kinetic
            differences.append(ours[1] - data.energy[0])
        # MuJoCo counts static bodies in the potential: a constant.
        assert np.ptp(differences) < 1e-9 * max(1.0, np.abs(differences).max())


def test_horizontal_momentum_of_a_free_cartpole_is_conserved(load):
    """No force on the cart, no damping: the total momentum along the rail stays."""
    model = load("double_cartpole")
    p = model.parameters.values({f"{j}.damping": 0.0 for j in model.joint_names})
    x0 = np.array([0.0, 2.5, -0.7, 0.4, 3.0, -2.0])
    X = our_rollout(model, build.step(model, 1e-3, "rk4"), x0, np.zeros((2000, 1)), p)
    M = build.mass_matrix(model)
    momentum = [float(M(x[:3], p)[0, :] @ x[3:]) for x in X[::50]]
    assert np.ptp(momentum) < 1e-9
    assert np.ptp(X[:, 3]) > 0.1, "the cart must move for this to mean anything"


def test_power_balance_of_damping(load):
    """dE/dt = tau . v: what actuators and dampers put in is what the energy changes by."""
    model = load("zoo")
    q, v, u = (a[:, 0] for a in zoo.random_states(model, 1, seed=6))
    p = model.parameters.nominal
    sq, sv = ca.SX.sym("q", model.nq), ca.SX.sym("v", model.nv)
    kinetic, potential = build.energy(model)(sq, sv, p)
    gradient = ca.Function("dE", [sq, sv], [ca.gradient(kinetic + potential, ca.vertcat(sq, sv))])
    a = build.accel(model)(q, v, u, p).full()[:, 0]
    power = gradient(q, v).full()[:, 0] @ np.r_[v, a]
    springs = np.array(
        [
            p[model.parameters.index(f"{j}.stiffness")] if f"{j}.stiffness" in model.parameters else 0.0
            for j in model.joint_names
        ]
    )
    conservative = -springs * (q - model.spring_reference)
    tau = build.joint_force(model)(q, v, u, p).full()[:, 0] - conservative
    assert np.isclose(power, tau @ v, rtol=1e-9)


def test_graph_grows_linearly_and_by_order(load):
    """Nodes of an unrolled graph: linear in steps; Euler < Heun = midpoint (nearly) < RK4."""
    model = load("double_cartpole")

    def nodes(integrator, steps):
        x, u, p = ca.SX.sym("x", model.nx), ca.SX.sym("u", 1), ca.SX.sym("p", model.np_)
        step = build.step(model, 0.01, integrator)
        y = x
        for _ in range(steps):
            y = step(y, u, p)
        return ca.n_nodes(y)

    for integrator in ("semi_implicit_euler", "rk4"):
        n = [nodes(integrator, k) for k in (5, 10, 20)]
        assert abs((n[2] - n[1]) / (n[1] - n[0]) - 2) < 0.01
    counts = {i: nodes(i, 5) for i in ("semi_implicit_euler", "heun", "midpoint", "rk4")}
    ratios = {i: c / counts["semi_implicit_euler"] for i, c in counts.items()}
    assert 1.5 < ratios["heun"] < 2.2 and abs(ratios["heun"] - ratios["midpoint"]) < 0.1 and 3.0 < ratios["rk4"] < 4.2


def test_bad_arguments_say_what_to_do(load):
    model = load("cartpole")
    with pytest.raises(ValueError, match="Known: semi_implicit_euler"):
        build.step(model, 0.01, "euler")
    with pytest.raises(ValueError, match="substeps=0"):
        build.step(model, 0.01, substeps=0)
    with pytest.raises(ValueError, match="dt=-0.01"):
        build.step(model, -0.01)
