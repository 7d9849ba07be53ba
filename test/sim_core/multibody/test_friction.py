"""Friction loss as MuJoCo's constraint: against mj_forward and mj_step, closed forms, differences; and what it costs."""

import copy

import articulated_models as zoo
import casadi as ca
import mujoco
import numpy as np
import pytest
from test_gradients import assert_close, central
from test_integrators import mujoco_rollout, our_rollout

from sim_core.codegen import count_operations, emit
from sim_core.multibody import Dynamics, load_model
from sim_core.multibody.equations import dynamics, friction
from sim_core.multibody.equations.physical import Physical
from sim_core.multibody.model import build, forces
from sim_core.multibody.rollout import derivatives, linearization

INTEGRATOR = {
    "mujoco_euler": mujoco.mjtIntegrator.mjINT_EULER,
    "implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
    "rk4": mujoco.mjtIntegrator.mjINT_RK4,
}
_cache = {}


def rubbing(name):
    """A model with friction in every joint, and a vector of physical parameters with 0.1 to 0.6 N m or N of it."""
    if name not in _cache:
        _cache[name] = load_model(zoo.OWN[name], friction=True)
    model = _cache[name]
    eta = np.random.default_rng(0).uniform(0.1, 0.6, model.nv)
    return model, model.parameters.values({f"{j}.frictionloss": e for j, e in zip(model.joint_names, eta)})


def plant(model, p):
    """The model's MjModel with p's friction loss, limits off, and its solver run to the end.

    At the default tolerance of 1e-8 MuJoCo may stop in the wrong zone: 1e-5 rad after 200 steps of the cart-pole.
    """
    m = copy.copy(model.mj_model)
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    m.opt.tolerance = 0
    m.dof_frictionloss[:] = [p[model.parameters.index(f"{joint}.frictionloss")] for joint in model.joint_names]
    return m


def states(model, count, seed):
    """From creeping to fast: q, v, u, one column per sample."""
    q, v, u = zoo.random_states(model, count, seed, spread=0.5)
    speed = 10 ** np.random.default_rng(seed).uniform(-4, 0, count)
    return q, v * speed, 0.2 * u


def zones(model):
    """f(q, v, u, p) -> each joint's zone, and how far the sticking force is from its bounds, relative (nv,)."""
    q, v, u, p = (ca.SX.sym(name, n) for name, n in zip("qvup", (model.nq, model.nv, model.nu, model.np_)))
    M, h = dynamics.crba(model, q, p), model.timestep
    f = forces.joint_force(model, q, v, u, p) - dynamics.rnea(model, q, v, ca.SX.zeros(model.nv), p)
    a, zone = friction.constrained_acceleration(model, M, f, v, p, h)
    force = friction.friction_force(model, v, a, ca.SX.zeros(model.nv), p, h)
    eta = Physical(model, p).frictionloss
    return ca.Function("zones", [q, v, u, p], [zone, (ca.fabs(force) - eta) / eta])


# -- agreement with MuJoCo ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pendulum", "cartpole", "panda", "zoo", "floating"])
def test_accelerations_are_mujocos(name):
    model, p = rubbing(name)
    q, v, u = states(model, 200, seed=1)
    reference = zoo.mujoco_accelerations(plant(model, p), q, v, u)
    ours = build.accel(model)(q, v, u, p).full()
    assert (np.abs(ours - reference).max(0) / np.abs(reference).max(0)).max() < 1e-9
    zone, _ = zones(model)(q, v, u, p)
    assert set(np.unique(zone.full())) == {-1, 0, 1}, "every kind of state is among them"


@pytest.mark.parametrize(
    "joint",
    [
        'solreffriction="0.05 0.7"',
        'solreffriction="-300 -40"',
        'solreffriction="0.001 1"',
        'solimpfriction="0.5 0.8 0.001"',
        'solimpfriction="0.5 0.8 0"',
        'solimpfriction="0 1 0.01"',
        "",
    ],
)
@pytest.mark.parametrize("flag", ["", '<option><flag refsafe="disable"/></option>'])
def test_constants_are_those_of_mujocos_compiler(joint, flag):
    text = zoo.PENDULUM.replace('axis="0 1 0" ', f'axis="0 1 0" frictionloss="0.4" {joint} ')
    model = load_model(text.replace("<worldbody>", f"{flag}<worldbody>", 1))
    q, v, u = np.linspace(-1, 1, 40)[None], np.linspace(0.05, -0.05, 40)[None], np.zeros((1, 40))
    v[0, ::2] *= 1e-3
    p = model.parameters.nominal
    reference = zoo.mujoco_accelerations(plant(model, p), q, v, u)
    assert np.abs(build.accel(model)(q, v, u, p).full() - reference).max() < 1e-9 * np.abs(reference).max()


@pytest.mark.parametrize("name", ["pendulum", "cartpole", "panda"])
@pytest.mark.parametrize("integrator", INTEGRATOR)
def test_steps_and_rollouts_are_mujocos(name, integrator):
    """200 steps that start at rest, slide to and fro, and come to rest again."""
    model, p = rubbing(name)
    m = plant(model, p)
    m.opt.integrator = INTEGRATOR[integrator]
    step = build.step(model, model.timestep, integrator)
    q, v, u = states(model, 100, seed=2)
    for k in range(100):
        (_, reference), x = mujoco_rollout(m, np.r_[q[:, k], v[:, k]], [u[:, k]]), np.r_[q[:, k], v[:, k]]
        assert np.abs(step(x, u[:, k], p).full()[:, 0] - reference).max() < 1e-12 * max(1.0, np.abs(reference).max())
    k = np.arange(200)[:, None]
    amplitude = np.where(np.isfinite(model.u_upper), 0.2 * model.u_upper, 1.0)
    U = amplitude * np.sin(2 * np.pi * k / 40) * (k > 20) * (k < 140)
    x0 = np.r_[model.q_home, np.zeros(model.nv)]
    if model.nu == model.nv:  # held against gravity and springs: else no joint would come to rest
        data = mujoco.MjData(m)
        data.qpos = model.q_home
        mujoco.mj_forward(m, data)
        U = U + (data.qfrc_bias - data.qfrc_passive) / m.actuator_gear[:, 0]
    reference = mujoco_rollout(m, x0, U)
    assert np.abs(our_rollout(model, step, x0, U, p) - reference).max() < 1e-10
    X, found = reference[:-1], zones(model)
    zone = found(X[:, : model.nq].T, X[:, model.nq :].T, U.T, p)[0].full()
    assert set(np.unique(zone)) == {-1, 0, 1}
    assert np.any(np.diff(zone, axis=1) != 0)


def test_masses_do_not_move_the_plants_regularisation():
    """D is the compiled model's: a heavier hand changes M alone, as it does in a plant whose constants are kept."""
    model, p = rubbing("panda")
    m = plant(model, p)
    index = m.body("hand").id
    m.body_mass[index] += 2.0
    heavy = p.copy()
    c = m.body_ipos[index]
    for name, value in {
        "mass": 2.0,
        "h.x": 2 * c[0],
        "h.y": 2 * c[1],
        "h.z": 2 * c[2],
        "I.xx": 2 * (c[1] ** 2 + c[2] ** 2),
        "I.yy": 2 * (c[0] ** 2 + c[2] ** 2),
        "I.zz": 2 * (c[0] ** 2 + c[1] ** 2),
        "I.xy": -2 * c[0] * c[1],
        "I.xz": -2 * c[0] * c[2],
        "I.yz": -2 * c[1] * c[2],
    }.items():
        heavy[model.parameters.index(f"hand.{name}")] += value
    q, v, u = states(model, 50, seed=3)
    reference = zoo.mujoco_accelerations(m, q, v, u)
    ours = build.accel(model)(q, v, u, heavy).full()
    assert (np.abs(ours - reference).max(0) / np.abs(reference).max(0)).max() < 1e-9


# -- closed forms ------------------------------------------------------------------------------


BLOCK = """
<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody><body><joint name="slide" type="slide" axis="1 0 0"
frictionloss="2"/><geom type="box" size="0.1 0.1 0.1" mass="3"/></body></worldbody>
<actuator><motor joint="slide"/></actuator></mujoco>
"""


def test_a_block_creeps_below_its_friction_and_slides_beyond_it():
    """Stuck: m a = F - D (b v + a), at rest in the moving frame v = F / (D b). Sliding: m a = F - eta."""
    model = load_model(BLOCK)
    _p, m, eta = model.parameters.nominal, 3.0, 2.0
    # impedance 0.9 and time constant 0.02 s, of d_max 0.95, are MuJoCo's defaults; inverse inertia 1 / m
    D, b = 0.9 / 0.1 * m, 2 / (0.95 * 0.02)
    np.testing.assert_allclose([model.friction.D[0], model.friction.rate(0.001)[0]], [D, b], rtol=1e-12)
    step = build.step(model, 0.001)
    x = our_rollout(model, step, np.zeros(2), np.full((400, 1), 1.5))
    assert x[-1, 1] == pytest.approx(1.5 / (D * b), rel=1e-9)
    x = our_rollout(model, step, np.array([0.0, 1.0]), np.full((100, 1), 5.0))
    np.testing.assert_allclose(np.diff(x[:, 1]) / 0.001, (5.0 - eta) / m, rtol=1e-9)


def test_long_steps_shorten_no_time_constant():
    """As MuJoCo does at that time step: b h stays below 1 / d_max, or a stuck joint would swing up."""
    model = load_model(BLOCK)
    h = 0.05
    m = plant(model, model.parameters.nominal)
    m.opt.timestep = h
    U = np.full((20, 1), 1.5)
    reference = mujoco_rollout(m, np.array([0.0, 0.01]), U)
    np.testing.assert_allclose(
        our_rollout(model, build.step(model, h), np.array([0.0, 0.01]), U), reference, atol=1e-14
    )
    assert np.abs(np.diff(reference[10:, 1])).max() < 1e-6


# -- derivatives -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, integrator",
    [
        ("pendulum", "mujoco_euler"),
        ("cartpole", "rk4"),
        ("panda", "mujoco_euler"),
        ("panda", "semi_implicit_euler"),
        ("zoo", "implicitfast"),
    ],
)
def test_jacobians_against_central_differences(name, integrator):
    """State, control, every parameter; away from the ends of the zones, in states where some joints stick."""
    model, p = rubbing(name)
    h = model.timestep
    step = build.step(model, h, integrator)
    plain = derivatives.step_jacobian(step, "xup")
    short = linearization.step_jacobian(model, step, h, integrator, "xup")
    q, v, u = states(model, 300, seed=4)
    zone, margin = (z.full() for z in zones(model)(q, v, u, p))
    clear = np.flatnonzero((np.abs(margin) > 0.1).all(0))
    stuck, sliding = (zone[:, clear] == 0).any(0), (zone[:, clear] != 0).any(0)
    chosen = {*clear[stuck][:2], *clear[sliding][:2], *clear[stuck & sliding][:1]}
    assert stuck.any() and sliding.any()
    for k in chosen:
        x0, u0 = np.r_[q[:, k], v[:, k]], u[:, k]
        after, *J = (j.full() for j in plain(x0, u0, p))
        # Small steps: a creeping joint leaves its zone within 1e-4 rad/s.
        assert_close(J[0], central(lambda z: step(z, u0, p).full()[:, 0], x0, 2e-6))
        assert_close(J[1], central(lambda z: step(x0, z, p).full()[:, 0], u0, 1e-4))
        assert_close(J[2], central(lambda z: step(x0, u0, z).full()[:, 0], p, 1e-5))
        for found, want in zip(short(x0, u0, p), [after, *J]):
            np.testing.assert_allclose(found.full(), want, rtol=1e-9, atol=1e-12 * np.abs(want).max(initial=1.0))


def test_without_friction_loss_every_joint_slides():
    """The derivative by a friction loss of 0 is what fits start from; nothing may stick, not even at rest."""
    model = load_model(BLOCK)
    p = model.parameters.values({"slide.frictionloss": 0.0})
    A, B, C = (j.full() for j in derivatives.step_jacobian(build.step(model, 0.001), "xup")(np.zeros(2), 0.0, p)[1:])
    assert B[1, 0] == pytest.approx(0.001 / 3) and A[1, 1] == 1.0
    A, B, C = (j.full() for j in derivatives.step_jacobian(build.step(model, 0.001), "xup")([0, 0.1], 0.0, p)[1:])
    assert C[1, model.parameters.index("slide.frictionloss")] == pytest.approx(-0.001 / 3)


# -- compiled kernels --------------------------------------------------------------------------


def test_kernels_of_a_batch():
    """Compiled roll-outs equal MuJoCo's; reverse sweep and sensitivities agree; float32 has seven digits."""
    model, p = rubbing("panda")
    rng = np.random.default_rng(5)
    x0 = np.c_[model.q_home + 0.3 * rng.normal(size=(9, 7)), np.zeros((9, 7))]
    U = np.clip(np.cumsum(rng.normal(size=(9, 50, 7)), 1), model.u_lower, model.u_upper)
    kernels = Dynamics(model)
    X = kernels.rollout(x0, U, p)
    m = plant(model, p)
    for k in range(9):
        assert np.abs(X[k] - mujoco_rollout(m, x0[k], U[k])).max() < 1e-11
    names = [f"joint{i}.{field}" for i in (1, 6) for field in ("frictionloss", "damping")] + ["hand.mass"]
    D = np.zeros((model.np_, len(names)))
    D[[model.parameters.index(n) for n in names], range(len(names))] = 1.0
    Xs, S = kernels.rollout_sensitivity(x0, U, p, D)
    np.testing.assert_allclose(Xs, X, atol=1e-12)
    Xbar = rng.normal(size=X.shape)
    x0bar, _, pbar = kernels.rollout_vjp(x0, U, p, X, Xbar)
    forward = np.einsum("bki,bkij->bj", Xbar, S)
    np.testing.assert_allclose(np.c_[x0bar, pbar @ D], forward, rtol=1e-8, atol=1e-9 * np.abs(forward).max())
    single = Dynamics(model, dtype="float32").rollout(*(a.astype("float32") for a in (x0, U, p)))
    assert np.abs(single - X).max() < 1e-4


def test_robots_without_friction_pay_nothing():
    """Whatever the law, the same text; and with friction at most 2.3 times the smooth law's operations."""

    def text(**options):
        model = load_model("panda", **options)
        step = build.step(model, model.timestep)
        return emit("step", step) + emit("vjp", derivatives.step_vjp(step)), count_operations(step)

    assert load_model("panda").friction is None
    assert text() == text(friction_law="smooth")
    assert text(friction=True)[1] < 2.3 * text(friction=True, friction_law="smooth")[1]
    one = load_model("panda", friction=("joint2",))
    assert np.flatnonzero(one.friction.D).tolist() == [1]
    assert count_operations(build.step(one, 0.002)) < text(friction=True)[1]


@pytest.mark.parametrize("name, allowed", [("cartpole", 0.0), ("panda", 0.0), ("zoo", 0.0), ("floating", 1e-3)])
def test_a_few_linear_systems_find_every_zone(name, allowed, monkeypatch):
    """Twelve iterations change no zone that the built-in number found."""
    model, p = rubbing(name)
    q, v, u = states(model, 2000, seed=6)
    few = zones(model)(q, v, u, p)[0].full()
    monkeypatch.setattr(friction, "ITERATIONS", 12)
    many = zones(model)(q, v, u, p)[0].full()
    assert np.mean((few != many).any(0)) <= allowed
