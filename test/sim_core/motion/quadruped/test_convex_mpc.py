"""The quadratic programme against its own definition: matrix exponentials, explicit costs and another solver."""

import casadi as ca
import numpy as np
import pytest
from scipy.linalg import expm

from sim_core.motion.quadruped.convex_mpc import ConvexMpc, ConvexMpcConfig
from sim_core.motion.quadruped.observation import NAMES, SIZE, Observation
from sim_core.motion.quadruped.robot import QuadrupedRobot, rotation_rpy, skew
from sim_core.motion.quadruped.stance import QpStance, stance_torques

TROT = [1, 0, 0, 1]


@pytest.fixture(scope="module")
def robot():
    return QuadrupedRobot.load("quadruped")


def observation(robot, rng, contacts=TROT):
    """Somewhere near a trot."""
    o = Observation()
    o.velocity[:], o.angular_velocity[:] = rng.normal(0, 0.2, 3), rng.normal(0, 0.3, 3)
    o.orientation[:2] = rng.normal(0, 0.1, 2)
    o.contacts[:] = contacts
    o.feet[:] = robot.feet(robot.home + rng.uniform(-0.2, 0.2, (4, 3)))
    o.friction[:] = rng.uniform(0.3, 0.8, 4)
    o.desired_position[2] = 0.27
    o.desired_velocity[:2], o.desired_angular_velocity[2] = rng.normal(0, 0.3, 2), rng.normal(0, 0.5)
    return o


def thirteen_states(robot, o, dt):
    """Discrete A (13, 13), B (13, 12) and x0 of the model as the paper writes it, by a matrix exponential."""
    R = rotation_rpy(*o.orientation[:2])
    r = (o.feet - robot.com) @ R.T
    A, B = np.zeros((13, 13)), np.zeros((13, 12))
    A[:3, 6:9], A[3:6, 9:12], A[11, 12] = np.eye(3), np.eye(3), 1.0
    for i in range(4):
        B[6:9, 3 * i : 3 * i + 3] = np.linalg.inv(R @ robot.inertia @ R.T) @ skew(r[i])
        B[9:12, 3 * i : 3 * i + 3] = np.eye(3) / robot.mass
    E = expm(np.block([[A * dt, B * dt], [np.zeros((12, 25))]]))
    height = robot.foot_radius - r[o.contacts > 0.5, 2].mean()
    x0 = np.concatenate([o.orientation, [0, 0, height], o.angular_velocity, o.velocity, [-robot.gravity]])
    return E[:13, :13], E[:13, 13:], x0


def reference(o, k, dt, gravity):
    """x_ref at knot k, 13 states."""
    t = k * dt
    return np.concatenate(
        [
            o.desired_orientation + t * o.desired_angular_velocity,
            o.desired_position + t * o.desired_velocity,
            o.desired_angular_velocity,
            o.desired_velocity,
            [-gravity],
        ]
    )


def cost(mpc, o, u):
    """The objective, state by state."""
    config, robot = mpc.config, mpc.robot
    A, B, x = thirteen_states(robot, o, config.dt)
    total = 0.0
    for k in range(config.horizon):
        x = A @ x + B @ u[k]
        e = x - reference(o, k + 1, config.dt, robot.gravity)
        total += e @ (np.array(config.weights) * e) + config.force_weight * u[k] @ u[k]
    return total


def test_the_condensed_programme_is_the_cost_of_the_thirteen_state_model(robot):
    rng = np.random.default_rng(1)
    mpc = ConvexMpc(robot)
    for contacts in (TROT, [1, 1, 1, 1], [0, 1, 1, 1]):
        o = observation(robot, rng, contacts)
        P, q, _, _ = mpc.problem(o)
        np.testing.assert_allclose(P, P.T, rtol=1e-12)
        nothing = cost(mpc, o, np.zeros((10, 12)))
        for _ in range(3):
            u = rng.normal(0, 30, (10, 12))
            half = (0.5 * u.ravel() @ P @ u.ravel() + q @ u.ravel()) * mpc.config.force_weight
            assert 2 * half == pytest.approx(cost(mpc, o, u) - nothing, rel=1e-9)


def sparse_solution(mpc, o):
    """Forces (H, 4, 3) of the same problem with the states as variables, by another solver (qpOASES)."""
    config, robot = mpc.config, mpc.robot
    A, B, x0 = thirteen_states(robot, o, config.dt)
    opti = ca.Opti("conic")
    X, U = opti.variable(13, config.horizon + 1), opti.variable(12, config.horizon)
    opti.subject_to(X[:, 0] == x0)
    objective = 0
    for k in range(config.horizon):
        opti.subject_to(X[:, k + 1] == A @ X[:, k] + B @ U[:, k])
        e = X[:, k + 1] - reference(o, k + 1, config.dt, robot.gravity)
        objective += ca.dot(e, np.array(config.weights) * e) + config.force_weight * ca.dot(U[:, k], U[:, k])
        for i in range(4):
            f = U[3 * i : 3 * i + 3, k]
            if not o.contacts[i]:
                opti.subject_to(f == 0)
                continue
            opti.subject_to(opti.bounded(0, f[2], config.force_limit * robot.mass * robot.gravity))
            for axis in range(2):
                opti.subject_to(f[axis] <= o.friction[i] * f[2])
                opti.subject_to(-f[axis] <= o.friction[i] * f[2])
    opti.minimize(objective / config.force_weight)
    opti.solver("qpoases", {"printLevel": "none"})
    return opti.solve().value(U).T.reshape(config.horizon, 4, 3)


@pytest.mark.parametrize("contacts", [TROT, [1, 1, 1, 1]])
def test_osqp_finds_what_another_solver_finds_in_another_formulation(robot, contacts):
    o = observation(robot, np.random.default_rng(7), contacts)
    exact = sparse_solution(ConvexMpc(robot), o)
    assert np.abs(exact[:, np.array(contacts) == 1, 2]).max() > 30  # it carries something
    tight = ConvexMpc(robot, ConvexMpcConfig(tolerance=1e-7)).solve(o).forces
    np.testing.assert_allclose(tight, exact, atol=0.05)  # [N]
    # In so violent a state, at the friction limit, the default tolerance costs a few newtons; in a walk 0.3 N at most.
    np.testing.assert_allclose(ConvexMpc(robot).solve(o).forces[0], exact[0], atol=0.05 * robot.mass * robot.gravity)


def test_warm_solves_equal_cold_ones_and_keep_to_the_friction_pyramid(robot):
    rng = np.random.default_rng(2)
    config = ConvexMpcConfig(tolerance=1e-6)
    warm = ConvexMpc(robot, config)
    for k in range(20):
        o = observation(robot, rng, TROT if k % 10 < 5 else [0, 1, 1, 0])
        found = warm.solve(o)
        f, mu = found.forces, o.friction[None, :, None]
        assert found.status == "solved"
        np.testing.assert_allclose(f[0], ConvexMpc(robot, config).solve(o).forces[0], atol=0.02)
        assert (np.abs(f[..., :2]) <= mu * f[..., 2:] + 0.01).all()
        assert (f[..., 2] <= robot.mass * robot.gravity + 0.01).all()
        assert np.abs(f[:, o.contacts == 0]).max() < 0.01


def test_torques_push_the_ground_by_the_forces(robot):
    """Virtual work: what the legs' torques do along joint rates is what the ground's forces do against the feet's motion."""
    rng = np.random.default_rng(4)
    o = observation(robot, rng, [1, 1, 1, 1])
    forces = rng.normal(0, 15, (4, 3))
    tau = stance_torques(robot, o, forces)
    q, rate, h = robot.joint_angles(o.feet), rng.normal(size=(4, 3)), 1e-6
    moved = (robot.feet(q + h * rate) - robot.feet(q - h * rate)) / (2 * h) @ rotation_rpy(*o.orientation[:2]).T
    assert np.sum(tau * rate) == pytest.approx(-np.sum(forces * moved), rel=1e-7)
    assert np.abs(stance_torques(robot, o, 1e4 * forces)).max() == 33.5


def test_standing_still_the_forces_carry_the_weight(robot):
    """At the desired height and at rest, a programme that hardly minds forces holds the trunk up: sum f_z = m g."""
    o = Observation()
    o.contacts[:], o.friction[:], o.feet[:] = 1, 0.45, robot.feet(robot.home)
    o.desired_position[2] = robot.foot_radius - (o.feet - robot.com)[:, 2].mean()
    config = ConvexMpcConfig(force_weight=1e-9, tolerance=1e-6, weights=(5, 5, 0.2, 0, 0, 10, 0, 0, 1, 1, 1, 1, 0))
    assert ConvexMpc(robot, config).solve(o).forces[0, :, 2].sum() == pytest.approx(
        robot.mass * robot.gravity, rel=0.01
    )


def test_bad_days(robot):
    o = observation(robot, np.random.default_rng(0))
    solver = QpStance(robot)
    assert np.isfinite(solver.solve(o).torques).all() and (solver.solve(o).torques[[1, 2]] == 0).all()
    o.contacts[:] = 0
    assert (solver.solve(o).torques == 0).all()
    o.contacts[:], o.velocity[1] = TROT, np.nan
    with pytest.raises(ValueError, match="holds NaN"):
        solver.solve(o)
    with pytest.raises(ValueError, match="41 numbers, found shape"):
        Observation(np.zeros(40))
    with pytest.raises(ValueError, match="13 numbers"):
        ConvexMpcConfig(weights=(1.0,) * 12)


def test_an_observation_is_named_views_on_41_numbers():
    o = Observation()
    o.feet[3, 2], o.desired_angular_velocity[2] = -0.3, 0.5
    assert SIZE == 41 and o.vector[NAMES.index("feet.RR.z")] == -0.3 and o.vector[40] == 0.5
    assert (
        NAMES[:3] == ("velocity.x", "velocity.y", "velocity.z")
        and NAMES[9] == "contacts.FL"
        and NAMES[25] == "friction.FL"
    )
