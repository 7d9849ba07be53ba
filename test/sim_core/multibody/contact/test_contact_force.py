"""Contact at force level: laws, Coulomb's closed forms, conservation, gradients, which pairs act."""

import casadi as ca
import mujoco
import numpy as np
import pytest

from sim_core.multibody import Dynamics, ModelError, load_model
from sim_core.multibody.contact.laws import friction_over_speed, normal_force, speed
from sim_core.multibody.contact.pairs import acting_pairs, geom_name
from sim_core.multibody.model import build

G = 9.81


def block(mu=0.5, angle=0.0, contact="force", dt=0.0005, extra=""):
    """A block of 1 kg with planar root on a floor; gravity is tilted instead of the floor, by `angle` [rad]."""
    return load_model(
        f"""<mujoco><option timestep="{dt}" gravity="{G * np.sin(angle)} 0 {-G * np.cos(angle)}"/>
      <worldbody><geom name="floor" type="plane" size="1 1 1" friction="{mu}"/>
        <body name="block" pos="0 0 0.1"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
          <joint name="z" type="slide" axis="0 0 1"/><joint name="pitch" type="hinge" axis="0 1 0"/>
          <geom name="block" type="box" size="0.2 0.2 0.1" mass="1" friction="{mu}"/></body>{extra}</worldbody></mujoco>""",
        contact=contact,
    )


def slide(model, seconds, x0=None):
    x0 = np.zeros(model.nx) if x0 is None else x0
    steps = round(seconds / model.timestep)
    return Dynamics(model).rollout(x0, np.zeros((steps, model.nu)), model.parameters.nominal)


# -- laws --------------------------------------------------------------------------------------


def test_laws_take_their_published_values():
    x, rate, k, d = (ca.SX.sym(n) for n in ("x", "rate", "k", "d"))
    f_n = ca.Function("f_n", [x, rate, k, d], [normal_force(x, rate, k, d)])
    assert float(f_n(1e-3, 0.2, 5e4, 5e4)) == pytest.approx(5e4 * 1e-3**1.5 * 1.2)
    assert float(f_n(-1e-3, 0.2, 5e4, 5e4)) == 0 and float(f_n(1e-3, -2.0, 5e4, 5e4)) == 0
    v = ca.SX.sym("v")
    mu = ca.Function("mu", [v], [v * friction_over_speed(speed(ca.vertcat(v, 0), 0.01), 0.5, 0.3, 0.01)])
    for s in (0.002, 0.01, 0.03, 1.0):  # the printed formula
        z = s / 0.01
        assert float(mu(s)) == pytest.approx(0.3 * np.tanh(4 * z) + 0.2 * z / (z**2 / 4 + 0.75) ** 2, rel=1e-6)
    assert float(mu(0)) == 0 and float(mu(-0.02)) == -float(mu(0.02))


@pytest.mark.parametrize("at", [(0.0, 0.1), (1e-3, -0.95), (1e-3, -1.05), (1e-3, -1.0)])
def test_the_normal_force_is_smooth_where_contact_begins_and_ends(at):
    """One-sided slopes agree at touch-down and at both ends of the blend where separation outruns the spring."""
    y = ca.SX.sym("y", 2)
    f = ca.Function("f", [y], [ca.gradient(normal_force(y[0], y[1], 5e4, 5e4), y)])
    e = 1e-9
    around = [f(np.array(at) + step).full().ravel() for step in ((e, 0), (-e, 0), (0, e), (0, -e))]
    # Slopes of x^1.5 differ by 1.5 k sqrt(e) = 2.4 over a nanometre.
    assert np.isfinite(around).all() and np.ptp(around, axis=0).max() < 3.0


# -- Coulomb -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.3, 0.7])
def test_a_block_sticks_below_and_slides_above_its_friction_angle(mu):
    """Sticks for tan a < 0.9 mu, slides above 1.1 mu, within 5 % of Coulomb's acceleration."""
    X = slide(block(mu, np.arctan(0.88 * mu)), 1.0)
    # It was dropped from no depth at all, so it slips until it rests; then the law creeps with v_t atanh(tan a / mu) / 4.
    creep = 0.01 * np.arctanh(0.88) / 4
    assert X[-1, 4] < 1.05 * creep and X[-1, 0] - X[len(X) // 2, 0] < 0.5 * 1.05 * creep
    angle = np.arctan(1.2 * mu)
    model = block(mu, angle)
    X = slide(model, 1.0)
    coulomb = G * (np.sin(angle) - mu * np.cos(angle))
    late = X[len(X) // 2 :]
    measured = (late[-1, 4] - late[0, 4]) / ((len(late) - 1) * model.timestep)
    assert measured == pytest.approx(coulomb, rel=0.05)
    assert X[-1, 4] > 0.3


def test_a_resting_block_keeps_its_depth():
    """Depth (m g / 4 k)^(2/3) at four corners, and no motion after two seconds."""
    X = slide(block(0.5), 2.0)
    depth = (G / 4 / 5e4) ** (2 / 3)
    assert X[-1, 2] == pytest.approx(-depth, rel=1e-3)
    assert (
        np.ptp(X[-200:, 2]) < 1e-3 * depth and np.abs(X[-1, 4:]).max() < 1e-5 and np.abs(X[-1, [0, 1, 3]]).max() < 1e-7
    )


def test_a_block_thrown_along_the_floor_stops_where_coulomb_says():
    """v^2 / (2 mu g), less what the creep below v_t adds; MuJoCo's pyramids agree to its own softness."""
    model = block(0.4, dt=0.0005)
    x0 = np.r_[0, 0, -((G / 4 / 5e4) ** (2 / 3)), 0, 1.2, 0.9, 0, 0]
    X = slide(model, 0.8, x0)
    path = 1.5**2 / (2 * 0.4 * G)
    assert np.hypot(*X[-1, :2]) == pytest.approx(path, rel=0.02)
    assert X[-1, 1] / X[-1, 0] == pytest.approx(0.75, rel=1e-2)  # along the throw
    m = model.mj_model
    m.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    d = mujoco.MjData(m)
    d.qvel[:] = x0[4:]
    for _ in range(len(X) - 1):
        mujoco.mj_step(m, d)
    assert np.hypot(*d.qpos[:2]) == pytest.approx(np.hypot(*X[-1, :2]), rel=0.05)


# -- conservation ------------------------------------------------------------------------------

TWO_BALLS = """<mujoco><option timestep="0.0001" gravity="0 0 0"/><worldbody>
  <body name="a"><joint name="ax" type="slide" axis="1 0 0"/><joint name="ay" type="slide" axis="0 1 0"/>
    <joint name="as" type="hinge" axis="0 0 1"/><geom name="a" type="sphere" size="0.1" mass="1"/></body>
  <body name="b" pos="0.25 0.05 0"><joint name="bx" type="slide" axis="1 0 0"/><joint name="by" type="slide" axis="0 1 0"/>
    <joint name="bs" type="hinge" axis="0 0 1"/><geom name="b" type="{kind}" size="0.1 0.05" mass="0.4"/></body>
  </worldbody></mujoco>"""


@pytest.mark.parametrize("kind", ["sphere", "capsule"])
def test_two_bodies_keep_their_momentum(kind):
    """Linear and angular momentum to rounding, energy lost but never won, and a bounce that was felt."""
    model = load_model(TWO_BALLS.format(kind=kind), contact="force")
    p = model.parameters.values({"contact.a.b.dissipation": 2e4})
    x0 = np.r_[np.zeros(6), 1.5, 0, 3.0, -0.2, 0.1, 0]
    X = Dynamics(model).rollout(x0, np.zeros((1500, 0)), p)
    q, v = X[:, :6], X[:, 6:]
    masses, spin = (
        np.array([1.0, 0.4]),
        np.array([model.parameters.nominal[model.parameters.index(f"{b}.I.zz")] for b in "ab"]),
    )
    positions = q.reshape(-1, 2, 3)[..., :2] + [[0, 0], [0.25, 0.05]]
    velocities = v.reshape(-1, 2, 3)
    linear = np.einsum("b,kbi->ki", masses, velocities[..., :2])
    moment = positions[..., 0] * velocities[..., 1] - positions[..., 1] * velocities[..., 0]
    angular = moment @ masses + velocities[..., 2] @ spin
    assert np.abs(linear - linear[0]).max() < 1e-12
    assert np.abs(angular - angular[0]).max() < 1e-4  # semi-implicit Euler: r x v h at every step of the collision
    kinetic = build.energy(model)
    energy = np.array([float(kinetic(qk, vk, p)[0]) for qk, vk in zip(q[::50], v[::50])])
    assert energy[-1] < 0.95 * energy[0] and energy[-1] > 0.3 * energy[0]


def test_a_ball_never_bounces_higher():
    """Total energy, the spring's k x^2.5 / 2.5 included, does not grow but by the integrator's error."""
    model = load_model(
        """<mujoco><option timestep="0.0001" gravity="0 0 -9.81"/><worldbody><geom name="floor" type="plane" size="1 1 1"/>
      <body name="ball" pos="0 0 0.1"><joint name="z" type="slide" axis="0 0 1"/><geom name="ball" type="sphere" size="0.1" mass="1"/></body>
      </worldbody></mujoco>""",
        contact="force",
    )
    X = slide(model, 1.5, np.r_[0.2, 0.0])
    height, v = X.T
    energy = v**2 / 2 + G * height + 5e4 * np.maximum(-height, 0) ** 2.5 / 2.5
    assert np.diff(energy).max() < 2e-3 * energy[0]
    tops = [height[k] for k in range(1, len(height) - 1) if height[k - 1] < height[k] >= height[k + 1]]
    assert len(tops) >= 2 and all(later < 0.999 * top for top, later in zip([0.2, *tops], tops))


# -- gradients ---------------------------------------------------------------------------------


def test_gradients_of_twenty_steps_with_contact():
    """Reverse sweep of a sliding, tilting block against central differences, relative 1e-4."""
    model = block(0.5, 0.3, dt=0.001)
    f = Dynamics(model)
    rng = np.random.default_rng(0)
    x0 = np.r_[0, 0, -4e-4, 1e-3, 0.2, -0.1, -0.02, 0.05]
    p = model.parameters.values({"contact.floor.block.mu_d": 0.4})
    U, weights = np.zeros((20, 0)), rng.normal(size=(21, model.nx))
    loss = lambda x0, p: float((f.rollout(x0, U, p) * weights).sum())
    X = f.rollout(x0, U, p)
    x0bar, _, pbar = f.rollout_vjp(x0, U, p, X, weights)
    # steps below the depth of contact, above rounding
    for k in range(model.nx):
        e = 1e-7 * np.eye(model.nx)[k]
        assert (loss(x0 + e, p) - loss(x0 - e, p)) / 2e-7 == pytest.approx(
            x0bar[k], rel=1e-4, abs=1e-4 * np.abs(x0bar).max()
        )
    for k, name in enumerate(model.parameters.names):
        e = 1e-6 * max(abs(p[k]), 1e-3) * np.eye(model.np_)[k]
        difference = (loss(x0, p + e) - loss(x0, p - e)) / (2 * e[k])
        assert difference == pytest.approx(pbar[k], rel=1e-4, abs=1e-6 * abs(pbar).max()), name
    assert all(
        abs(pbar[model.parameters.index(f"contact.floor.block.{name}")]) > 0
        for name in ("stiffness", "dissipation", "mu_s", "mu_d", "v_t")
    )
    # Jacobian pairs by way of inverse dynamics tell the same
    A, _, C = f.sensitivity(x0, np.zeros(0), p)
    S = f.rollout_vjp(x0, U[:1], p, X[:2], np.r_[np.zeros((1, 8)), np.ones((1, 8))])
    np.testing.assert_allclose(A.sum(0), S[0], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(C.sum(0), S[2], rtol=1e-8, atol=1e-9)


def test_batches_are_single_robots():
    model = block(0.5, 0.3, dt=0.001)
    f, rng = Dynamics(model), np.random.default_rng(1)
    x0 = rng.normal(size=(5, model.nx)) * 1e-3
    p = model.parameters.nominal * rng.uniform(0.9, 1.1, (5, model.np_))
    together = f.rollout(x0, np.zeros((50, 0)), p)
    alone = np.stack([f.rollout(a, np.zeros((50, 0)), b) for a, b in zip(x0, p)])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-8)  # lanes round differently, corners come and go


# -- which pairs act ---------------------------------------------------------------------------

CROWD = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/><geom name="wall" type="box" size="1 1 1" pos="3 0 0"/>
  <body name="a" pos="0 0 1"><joint name="a" type="hinge"/><geom name="a" type="sphere" size=".1"/>
    <body name="b" pos="0 0 .3"><joint name="b" type="hinge"/><geom name="b" type="capsule" size=".1 .1"/>
      <body name="fixed" pos="0 0 .1"><geom name="fixed" type="sphere" size=".1"/></body>
      <body name="c" pos="0 0 .3"><joint name="c" type="hinge"/><geom name="c" type="sphere" size=".1" contype="2" conaffinity="1"/>
        <geom name="ghost" type="sphere" size=".1" contype="0" conaffinity="0"/></body></body></body>
  </worldbody><contact><exclude body1="a" body2="world"/><pair geom1="ghost" geom2="floor" friction="0.7 0.7 0 0 0"/></contact></mujoco>"""


def test_pairs_are_those_that_mujoco_tests():
    """MuJoCo reports contacts only; with huge margins every pair it tests is one."""
    m = mujoco.MjModel.from_xml_string(CROWD)
    wide = mujoco.MjSpec.from_string(CROWD)
    for element in (*wide.geoms, *wide.pairs):
        element.margin = 50.0
    ours = {frozenset((geom_name(m, i), geom_name(m, j))) for i, j in acting_pairs(m)}
    wide = wide.compile()
    d = mujoco.MjData(wide)
    mujoco.mj_forward(wide, d)
    theirs = {frozenset((geom_name(m, int(c.geom1)), geom_name(m, int(c.geom2)))) for c in d.contact}
    assert ours == theirs and len(ours) >= 6


def test_groups_share_parameters_and_the_rest_stays_out():
    model = load_model(CROWD, contact="force", contact_pairs=(("floor", "[bc]"), ("floor", "ghost")))
    names = [n for n in model.parameters.names if n.startswith("contact.")]
    assert [n for n in names if n.endswith("mu_s")] == ["contact.floor.[bc].mu_s", "contact.floor.ghost.mu_s"]
    assert model.parameters.nominal[model.parameters.index("contact.floor.ghost.mu_s")] == 0.7
    assert len(model.contacts) == 3
    assert any("in the plant only" in note and "a, b" in note for note in model.notes)
    assert any("springs and dampers" in note for note in model.notes)
    plain = load_model(CROWD)
    assert plain.contacts == () and not any(n.startswith("contact.") for n in plain.parameters.names)
    assert plain.hash != model.hash


@pytest.mark.parametrize(
    "options, message",
    [
        ({"contact": "springs"}, 'contact must be "none", "force" or "impulse"'),
        ({"contact": "force", "contact_pairs": (("floor", "feet*"),)}, "matches no pair"),
        ({"contact": "force", "contact_pairs": "floor"}, "pairs of geom name patterns"),
        ({"contact": "force"}, "capsule 'b' with box 'wall'|Leave it out"),
        ({"contact": "force", "contact_pairs": (("floor", "*"),)}, "differ in friction"),
    ],
)
def test_what_does_not_work_is_said(options, message):
    with pytest.raises((ModelError, ValueError), match=message):
        load_model(CROWD, **options)


def test_a_free_box_comes_to_rest_on_its_face():
    """Free joint: dropped askew from its edge it lands flat, at the depth of four corners, its quaternion of length one."""
    model = load_model(
        """<mujoco><option timestep="0.0002"/><worldbody><geom name="floor" type="plane" size="1 1 1" friction="0.5"/>
      <body name="box"><freejoint name="root"/><geom name="box" type="box" size="0.1 0.15 0.05" mass="1" friction="0.5"/></body>
      </worldbody></mujoco>""",
        contact="force",
    )
    q = np.r_[0, 0, 0.09, np.cos(0.15), 0.8 * np.sin(0.15), 0.6 * np.sin(0.15), 0]
    X = slide(model, 1.5, np.r_[q, np.zeros(6)])
    assert X[-1, 2] == pytest.approx(0.05 - (G / 4 / 5e4) ** (2 / 3), abs=2e-5)
    assert np.linalg.norm(X[-1, 3:7]) == pytest.approx(1) and np.abs(X[-1, 4:6]).max() < 1e-4
    assert np.abs(X[-1, 7:]).max() < 1e-3
