"""Contact by impulses: the complementarity problem itself, closed forms, conservation, gradients."""

import numpy as np
import pytest

from sim_core.codegen.cone import ConeBlock
from sim_core.multibody import Dynamics, load_model
from sim_core.multibody.model import build

G = 9.81


def impulses(A, b, mu, touching, iterations=50):
    """With A = J J'."""
    J = np.linalg.cholesky(A)
    return ConeBlock(len(mu), len(b), iterations).function(J.T, J.T, b, np.zeros(len(mu)), mu, touching).full().ravel()


def bodies(text, options="", dt=0.001, angle=0.0, **choices):
    return load_model(
        f"""<mujoco><option timestep="{dt}" gravity="{G * np.sin(angle)} 0 {-G * np.cos(angle)}" {options}/>
      <worldbody>{text}</worldbody></mujoco>""",
        contact="impulse",
        **choices,
    )


def rollout(model, x0, seconds, p=None):
    U = np.zeros((round(seconds / model.timestep), model.nu))
    return Dynamics(model).rollout(np.asarray(x0, float), U, model.parameters.nominal if p is None else p)


FLOOR = '<geom name="floor" type="plane" size="1 1 1" friction="{mu}"/>'
BALL = """<body name="ball" pos="0 0 0.1"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
  <joint name="roll" type="hinge" axis="0 1 0"/><geom name="ball" type="sphere" size="0.1" mass="1" friction="{mu}"/></body>"""
# Four feet instead of a box's eight corners: half as many points, the same closed forms.
TABLE = (
    '<body name="table" pos="0 0 0.1"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>'
    '<joint name="z" type="slide" axis="0 0 1"/><joint name="pitch" type="hinge" axis="0 1 0"/>'
    + "".join(
        f'<geom type="sphere" size="0.02" pos="{x} {y} -0.08" mass="0.25" friction="{{mu}}"/>'
        for x in (-0.2, 0.2)
        for y in (-0.2, 0.2)
    )
    + "</body>"
)


both = pytest.mark.parametrize("impact_time", ["step", "continuous"])


# -- the complementarity problem ---------------------------------------------------------------


def test_impulses_solve_the_cone_complementarity_problem():
    """Random problems of three points: non-negative, inside the cone, and each point either apart, stuck or sliding."""
    rng = np.random.default_rng(0)
    kinds = set()
    for _ in range(20):
        J = rng.normal(size=(9, 9))
        A = J @ J.T / 9 + np.diag(np.full(9, 0.3))
        b, mu = rng.normal(size=9), rng.uniform(0.2, 0.8, 3)
        p = impulses(A, b, mu, np.ones(3), 500)
        left = A @ p - b  # velocity that remains
        for k in range(3):
            n, t = p[3 * k], p[3 * k + 1 : 3 * k + 3]
            assert n >= 0 and np.linalg.norm(t) <= mu[k] * n * (1 + 1e-9) + 1e-12
            assert left[3 * k] > -1e-6 and abs(n * left[3 * k]) < 1e-6
            slip = left[3 * k + 1 : 3 * k + 3]
            if n < 1e-9:
                kinds.add("apart")
            elif np.linalg.norm(t) < mu[k] * n * (1 - 1e-6):
                kinds.add("stuck")
                assert np.abs(slip).max() < 1e-6
            else:
                kinds.add("sliding")
                assert slip @ t < 0  # friction opposes what remains
    assert kinds == {"apart", "stuck", "sliding"}


def test_points_that_do_not_touch_take_no_part():
    A, b = np.eye(6) + 0.1, np.ones(6)
    p = impulses(A, b, [0.5, 0.5], [1, 0])
    np.testing.assert_array_equal(p[3:], 0)
    np.testing.assert_allclose(p[0], 1 / 1.1 - 0.1 / 1.1 * (p[1] + p[2]))


# -- closed forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("e", [0.0, 0.5, 0.8])
def test_a_ball_bounces_by_its_restitution(e):
    """v' = -e v at the first touch; without Baumgarte's push (which adds speed) tops fall by e^2, and energy never grows."""
    model = bodies(FLOOR.format(mu=0.5) + BALL.format(mu=0.5), dt=0.0005)
    p = model.parameters.values({"contact.floor.ball.restitution": e, "contact.floor.ball.baumgarte": 0.0})
    X = rollout(model, [0, 0.2, 0, 0, 0, 0], 1.0, p)
    z, v = X[:, 1], X[:, 4]
    k = int(np.argmax(np.diff(v) > 0.5))
    assert v[k + 1] == pytest.approx(-e * (v[k] - G * model.timestep), abs=2e-5 * abs(v[k]))
    energy = v**2 / 2 + G * z
    assert np.diff(energy).max() < 1.1 * (G * model.timestep) ** 2  # at rest it hops by less than a step's fall
    if e:
        top = z[k + 1 : k + 1 + int(2.2 * abs(v[k + 1]) / G / model.timestep)].max()
        assert top == pytest.approx(e**2 * 0.2, abs=0.004)


@both
def test_a_sliding_ball_ends_up_rolling(impact_time):
    """v = 5/7 v0 when slip ends, whatever the friction; at 2 v0 / (7 mu g)."""
    model = bodies(FLOOR.format(mu=0.3) + BALL.format(mu=0.3), impact_time=impact_time)
    X = rollout(model, [0, -1e-4, 0, 1.0, 0, 0], 0.2)
    t = 2 / (7 * 0.3 * G)
    before = X[int(0.8 * t / 0.001)]
    assert before[3] == pytest.approx(1 - 0.3 * G * 0.8 * t, rel=0.01)
    assert X[-1, 3] == pytest.approx(5 / 7, rel=2e-3) and X[-1, 5] * 0.1 == pytest.approx(X[-1, 3], rel=1e-3)


@pytest.mark.parametrize("mu, impact_time", [(0.3, "step"), (0.7, "step"), (0.7, "continuous")])
def test_a_table_sticks_below_and_slides_above_its_friction_angle(mu, impact_time):
    """Four feet share the load."""
    text = FLOOR.format(mu=mu) + TABLE.format(mu=mu)
    start = [0, 0, -1e-4, 0, 0, 0, 0, 0]
    choices = {"contact_pairs": (("floor", "*"),), "impact_time": impact_time}
    X = rollout(bodies(text, angle=np.arctan(0.88 * mu), **choices), start, 1.0)
    assert abs(X[-1, 4]) < 1e-3 and abs(X[-1, 0] - X[500, 0]) < 1e-4
    angle = np.arctan(1.15 * mu)
    X = rollout(bodies(text, angle=angle, **choices), start, 1.0)
    assert (X[-1, 4] - X[500, 4]) / 0.5 == pytest.approx(G * (np.sin(angle) - mu * np.cos(angle)), rel=0.05)


@both
def test_a_resting_table_stays_where_it_is(impact_time):
    model = bodies(
        FLOOR.format(mu=0.5) + TABLE.format(mu=0.5), contact_pairs=(("floor", "*"),), impact_time=impact_time
    )
    X = rollout(model, [0, 0, -1e-3] + [0] * 5, 2.0)
    late = X[-500:]
    assert -2e-5 < late[:, 2].min() <= late[:, 2].max() < 2e-5  # pushed out of the floor, then held within g h^2
    assert np.abs(late[:, [0, 1, 3]]).max() < 1e-6


@both
def test_two_bodies_keep_their_momentum_and_lose_energy(impact_time):
    model = bodies(
        """
      <body name="a"><joint name="ax" type="slide" axis="1 0 0"/><joint name="ay" type="slide" axis="0 1 0"/>
        <joint name="as" type="hinge" axis="0 0 1"/><geom name="a" type="sphere" size="0.1" mass="1"/></body>
      <body name="b" pos="0.25 0.05 0"><joint name="bx" type="slide" axis="1 0 0"/><joint name="by" type="slide" axis="0 1 0"/>
        <joint name="bs" type="hinge" axis="0 0 1"/><geom name="b" type="sphere" size="0.1" mass="0.4"/></body>""",
        impact_time=impact_time,
    )
    model_p = model.parameters.values({"contact.a.b.baumgarte": 0.0, "contact.a.b.restitution": 0.3, "gravity.z": 0.0})
    X = rollout(model, np.r_[np.zeros(6), 1.5, 0, 3.0, -0.2, 0.1, 0], 0.3, model_p)
    v = X[:, 6:].reshape(-1, 2, 3)
    linear = np.einsum("b,kbi->ki", [1.0, 0.4], v[..., :2])
    assert np.abs(linear - linear[0]).max() < 1e-12
    kinetic = build.energy(model)
    energy = np.array([float(kinetic(x[:6], x[6:], model_p)[0]) for x in X[::10]])
    assert np.diff(energy).max() < 1e-9 and 0.3 * energy[0] < energy[-1] < 0.95 * energy[0]
    # along the line of centres: relative velocity reverses by e
    assert np.abs(X[-1, 6] - 1.5) > 0.1


# -- gradients and batches ---------------------------------------------------------------------


def test_gradients_are_those_of_the_iterations():
    """Reverse sweep and Jacobian pairs against central differences: a ball with spin, sliding and landing."""
    model = bodies(FLOOR.format(mu=0.3) + BALL.format(mu=0.3))
    f, rng = Dynamics(model), np.random.default_rng(0)
    x0, p = np.array([0, 4e-4, 0, 1.0, -0.3, 2.0]), model.parameters.values({"contact.floor.ball.restitution": 0.4})
    U, weights = np.zeros((20, 0)), rng.normal(size=(21, 6))
    X = f.rollout(x0, U, p)
    assert X[:, 1].min() < 0 < X[-1, 4]  # it landed and left
    x0bar, _, pbar = f.rollout_vjp(x0, U, p, X, weights)
    loss = lambda x0, p: float((f.rollout(x0, U, p) * weights).sum())
    for k in range(6):
        e = 1e-6 * np.eye(6)[k]
        assert (loss(x0 + e, p) - loss(x0 - e, p)) / 2e-6 == pytest.approx(x0bar[k], rel=1e-6, abs=1e-6)
    for k, name in enumerate(model.parameters.names):
        e = 1e-6 * max(abs(p[k]), 1e-3) * np.eye(model.np_)[k]
        difference = (loss(x0, p + e) - loss(x0, p - e)) / (2 * e[k])
        assert difference == pytest.approx(pbar[k], rel=1e-5, abs=1e-7 * np.abs(pbar).max()), name
    for name in ("mu", "restitution", "baumgarte"):
        assert abs(pbar[model.parameters.index(f"contact.floor.ball.{name}")]) > 1e-3
    k = int(np.argmax(X[:, 1] < 0))
    A, _, C = f.sensitivity(X[k], np.zeros(0), p)
    S = f.rollout_vjp(X[k], U[:1], p, X[k : k + 2], np.r_[np.zeros((1, 6)), np.ones((1, 6))])
    np.testing.assert_allclose(A.sum(0), S[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(C.sum(0), S[2], rtol=1e-9, atol=1e-9)


def test_batches_are_single_robots():
    model = bodies(FLOOR.format(mu=0.3) + TABLE.format(mu=0.3), contact_pairs=(("floor", "*"),))
    f, rng = Dynamics(model), np.random.default_rng(1)
    x0 = rng.normal(size=(5, model.nx)) * 0.01
    p = model.parameters.nominal * rng.uniform(0.9, 1.1, (5, model.np_))
    together = f.rollout(x0, np.zeros((50, 0)), p)
    alone = np.stack([f.rollout(a, np.zeros((50, 0)), b) for a, b in zip(x0, p)])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-9)


def test_schemes_of_several_stages_are_refused():
    model = bodies(FLOOR.format(mu=0.3) + BALL.format(mu=0.3))
    with pytest.raises(ValueError, match="one stage"):
        build.step(model, 0.001, "rk4")
