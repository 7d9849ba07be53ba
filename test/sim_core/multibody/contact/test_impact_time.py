"""When an impact happens: closed forms of a bouncing ball and their gradients, with and without the time of the impact."""

import numpy as np
import pytest

from sim_core.multibody import Dynamics, load_model
from sim_core.multibody.model import build

G, E = 9.81, 0.7


def ball(h, impact_time, gravity=G, joints='<joint name="z" type="slide" axis="0 0 1"/>'):
    return load_model(
        f"""<mujoco><option timestep="{h}" gravity="0 0 {-gravity}"/><worldbody>
      <geom name="floor" type="plane" size="1 1 1" friction="0.3"/><body name="ball" pos="0 0 0.1">{joints}
      <geom name="ball" type="sphere" size="0.1" mass="1" friction="0.3"/></body></worldbody></mujoco>""",
        contact="impulse",
        impact_time=impact_time,
    )


def parameters(model, e=E, cfm=1e-9):
    return model.parameters.values(
        {"contact.floor.ball.restitution": e, "contact.floor.ball.baumgarte": 0.0, "contact.floor.ball.cfm": cfm}
    )


def ending(model, x0, T, e=E):
    """State (2,) at T and its Jacobian (2, 3) by z0, v0 and e."""
    f, p, x0 = Dynamics(model), parameters(model, e), np.asarray(x0, float)
    U = np.zeros((round(T / model.timestep), 0))
    X = f.rollout(x0, U, p)
    rows = []
    for i in range(2):
        Xbar = np.zeros_like(X)
        Xbar[-1, i] = 1
        x0bar, _, pbar = f.rollout_vjp(x0, U, p, X, Xbar)
        rows.append([*x0bar, pbar[model.parameters.index("contact.floor.ball.restitution")]])
    return X[-1], np.array(rows)


def closed_form(z0, v0, T, e=E):
    """The same of a point that falls, bounces, falls: every quantity beside its derivative by z0, v0 and e."""
    z, v, t = np.array([z0, 1.0, 0, 0]), np.array([v0, 0, 1.0, 0]), np.zeros(4)
    while True:
        w = np.r_[np.sqrt(v[0] ** 2 + 2 * G * z[0]), 0, 0, 0]
        w[1:] = (v[0] * v[1:] + G * z[1:]) / w[0]  # speed of the impact
        if t[0] + (v[0] + w[0]) / G > T:
            break
        t = t + (v + w) / G
        z, v = np.zeros(4), e * w + np.r_[0, 0, 0, w[0]]
    r = np.r_[T, 0, 0, 0] - t
    z = z + np.r_[v[0] * r[0] - G * r[0] ** 2 / 2, v[1:] * r[0] + v[0] * r[1:] - G * r[0] * r[1:]]
    v = v - G * r
    return np.array([z[0], v[0]]), np.array([z[1:], v[1:]])


@pytest.mark.parametrize("T, bounces", [(0.3, 1), (0.55, 2)])
def test_continuous_impacts_have_the_gradient_of_the_closed_form(T, bounces):
    """Of the first order in h, as the integrator: final height and velocity by height, velocity and restitution."""
    (z, v), J = closed_form(0.2, -0.5, T)
    errors = {}
    for h in (2e-3, 5e-4):
        x, found = ending(ball(h, "continuous"), [0.2, -0.5], T)
        np.testing.assert_allclose(x, [z, v], atol=10 * bounces * h)
        errors[h] = np.abs(found - J).max(axis=1) / np.abs(J).max(axis=1)
    assert errors[2e-3].max() < 0.04 * bounces and errors[5e-4].max() < 0.01 * bounces
    assert np.all(errors[5e-4] < 0.4 * errors[2e-3])


def test_impacts_between_steps_have_no_time_in_their_gradient():
    """What impact_time="step" leaves out, whatever h: the velocity after the bounce forgets the height."""
    _, J = closed_form(0.2, -0.5, 0.3)
    for h in (2e-3, 2.5e-4):
        _, found = ending(ball(h, "step"), [0.2, -0.5], 0.3)
        assert found[0, 0] == 1.0 and found[1, 0] == 0.0
        np.testing.assert_allclose(found[1, 1], -E, rtol=1e-6)
        np.testing.assert_allclose(found[:, 2], J[:, 2], rtol=0.03)  # restitution does not need the time
    assert J[0, 0] == pytest.approx(0.465, abs=1e-3) and J[1, 0] == pytest.approx(8.16, abs=0.01)
    assert J[1, 1] == pytest.approx(0.584, abs=1e-3)  # of another sign


def test_without_gravity_the_bounce_is_exact():
    """z_T = e (|v| T - z0), to rounding; steps of any size."""
    for h in (0.05, 0.01):
        x, J = ending(ball(h, "continuous", gravity=0.0), [0.2, -0.73], 0.5)
        np.testing.assert_allclose(x, [E * (0.73 * 0.5 - 0.2), E * 0.73], rtol=1e-7)
        np.testing.assert_allclose(J, [[-E, -E * 0.5, 0.73 * 0.5 - 0.2], [0, -E, 0.73]], rtol=1e-7, atol=1e-7)


def test_states_are_continuous_where_the_impact_moves_to_another_step():
    """Secants over many steps' worth of impact time tell what the gradient tells; with impacts between steps they do not."""
    starts = 0.2 + np.linspace(0, 0.02, 81)
    for impact_time, jump in (("continuous", 1e-4), ("step", 5e-3)):
        model = ball(0.005, impact_time)
        f, p = Dynamics(model), parameters(model)
        z = f.rollout(np.c_[starts, np.full(81, -0.5)], np.zeros((60, 0)), p)[:, -1, 0]
        bend = np.abs(np.diff(z, 2)).max()  # second differences: a jump stays, a slope goes
        assert bend < jump if impact_time == "continuous" else bend > jump


def test_elastic_bounces_keep_their_height_and_plastic_ones_lie_still():
    model = ball(0.002, "continuous")
    f = Dynamics(model)
    X = f.rollout(np.array([0.2, 0.0]), np.zeros((4000, 0)), parameters(model, 1.0))  # twenty bounces
    energy = X[:, 1] ** 2 / 2 + G * X[:, 0]
    assert np.abs(energy / energy[0] - 1).max() < 0.05 and X[:, 0].min() > -1e-9
    X, J = ending(model, [0.2, 0.0], 0.5, e=0.0)
    assert np.abs(X).max() < 1e-6 and np.abs(J).max() < 1e-6


def test_a_spinning_ball_that_lands_against_central_differences():
    """State and every parameter, friction included; the differences reach over no other impact."""
    joints = '<joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/><joint name="roll" axis="0 1 0"/>'
    model = ball(0.001, "continuous", joints=joints)
    f, rng = Dynamics(model), np.random.default_rng(0)
    x0, p = np.array([0, 2.3e-3, 0, 1.0, -0.3, 2.0]), parameters(model, 0.4, 1e-5)
    U, weights = np.zeros((20, 0)), rng.normal(size=(21, 6))
    X = f.rollout(x0, U, p)
    assert X[:, 1].min() > -1e-12 and X[-1, 4] > 0 > X[3, 4]  # it landed, went no deeper, left
    x0bar, _, pbar = f.rollout_vjp(x0, U, p, X, weights)
    loss = lambda x0, p: float((f.rollout(x0, U, p) * weights).sum())
    for k in range(6):
        e = 1e-7 * np.eye(6)[k]
        assert (loss(x0 + e, p) - loss(x0 - e, p)) / 2e-7 == pytest.approx(x0bar[k], rel=1e-6, abs=1e-5)
    for k, name in enumerate(model.parameters.names):
        e = 1e-6 * max(abs(p[k]), 1e-3) * np.eye(model.np_)[k]
        difference = (loss(x0, p + e) - loss(x0, p - e)) / (2 * e[k])
        assert difference == pytest.approx(pbar[k], rel=1e-5, abs=1e-7 * np.abs(pbar).max()), name


def test_thrown_boxes_come_to_rest_on_the_floor():
    """Eight corners that take each other's impacts away: energy does not grow, nothing goes deep, all lie at the end."""
    model = load_model(
        """<mujoco><option timestep="0.002"/><worldbody><geom name="floor" type="plane" size="1 1 1" friction="0.5"/>
      <body name="box"><freejoint/><geom name="box" type="box" size="0.1 0.07 0.05" mass="1" friction="0.5"/></body></worldbody></mujoco>""",
        contact="impulse",
        impact_time="continuous",
    )
    rng, half = np.random.default_rng(0), np.array([0.1, 0.07, 0.05])
    turn = rng.normal(size=(8, 4))
    x0 = np.c_[
        np.zeros((8, 2)),
        np.full(8, 0.3),
        turn / np.linalg.norm(turn, axis=1, keepdims=True),
        rng.normal(size=(8, 6)) * [1, 1, 1, 5, 5, 5],
    ]
    p = model.parameters.values({"contact.floor.box.restitution": 0.5})
    X = Dynamics(model).rollout(x0, np.zeros((1000, 0)), p)
    w, x, y, z = np.moveaxis(X[..., 3:7], -1, 0)
    up = np.stack(
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=-1
    )  # the world's z in the box
    lowest = X[..., 2] - np.abs(up) @ half
    assert -1e-3 < lowest.min() and np.abs(X[:, -1, 7:]).max() < 1e-3 and np.abs(lowest[:, -1]).max() < 1e-4
    energy = build.energy(model).map(1001)
    for states in X:
        kinetic, potential = energy(states[:, :7].T, states[:, 7:].T, np.tile(p[:, None], 1001))
        total = (kinetic + potential).full().ravel()
        assert np.diff(total).max() < 2e-4 * total[0]


def test_the_option_is_checked():
    with pytest.raises(ValueError, match='"step" or "continuous"'):
        ball(0.001, "soon")
    with pytest.raises(ValueError, match='is of contact="impulse"'):
        load_model("<mujoco><worldbody/></mujoco>", contact="force", impact_time="continuous")
