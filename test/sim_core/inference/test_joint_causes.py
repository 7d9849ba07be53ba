"""What a simulator lacks, as joint forces: their effects against derivatives of roll-outs and against changed robots."""

import numpy as np
import pytest

from sim_core.inference.shooting.joint_causes import KINDS, JointCauses, held_inertias
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.multibody import Dynamics, load_model
from sim_core.multibody.equations.inertia import com_inertia

MOVED = {
    "cartpole": ([0.0, 0.5, 0.3, -1.0], lambda t: 4 * np.sin(5 * t) + 3),
    "double_cartpole": ([0.0, 0.5, -0.8, 0.3, -1.0, 2.0], lambda t: 20 * np.sin(5 * t)),
}


def moving(robot, steps=60, dt=0.002):
    """Dynamics, physical vector, states (1, T+1, nx) and controls (1, T, nu)."""
    dynamics = Dynamics(load_model(robot), dt=dt)
    x0, force = MOVED[robot]
    u = force(dt * np.arange(steps))[None, :, None]
    p = dynamics.nominal
    return dynamics, p, dynamics.rollout(np.array([x0]), u, p), u


@pytest.mark.parametrize("robot", MOVED)
def test_a_body_that_is_heavier_does_to_a_roll_out_what_its_derivative_says(robot):
    dynamics, p, X, u = moving(robot)
    causes = JointCauses(dynamics)
    forces = causes.forces(p, X[:, :-1], u)["bodies"]
    layout = dynamics.model.parameters
    at = layout.index("pole.mass" if robot == "cartpole" else "pole1.mass")
    direction = np.zeros((len(p), 1))
    direction[at] = p[at]
    _, S = dynamics.rollout_sensitivity(X[:, 0], u, p, direction)
    exact = S[0, :, :, -1]
    found = causes.response(p, X, u, forces)[0]
    scale = np.abs(exact).max()
    closest = min(range(found.shape[-1]), key=lambda k: np.abs(found[..., k] - exact).max())
    assert np.abs(found[..., closest] - exact).max() < 0.02 * scale


def test_an_inertia_that_is_held_does_to_a_roll_out_what_its_derivative_says():
    """The second pole's, and nobody else's."""
    dynamics, p, X, u = moving("double_cartpole")
    causes = JointCauses(dynamics)
    entries = dynamics.model.parameters.inertia_slice("pole2")
    mass, centre, about = com_inertia(p[entries])
    assert causes.forces(p, X[:, :-1], u)["inertia"].shape[-1] == 0
    forces = causes.forces(p, X[:, :-1], u, ("pole2",))["inertia"]
    directions = np.zeros((len(p), 6))
    directions[entries.start + 4 : entries.stop] = max(mass * centre @ centre, np.trace(about)) * np.eye(6)
    exact = dynamics.rollout_sensitivity(X[:, 0], u, p, directions)[1][0, :, :, -6:]
    found = causes.response(p, X, u, forces)[0]
    assert forces.shape[-1] == 6 and np.abs(exact).max() > 1e-3
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())


def test_an_inertia_is_held_where_mass_or_centre_alone_is_asked_for():
    model = load_model("double_cartpole")
    place = lambda *names: LimitedParameters(model, {name: (0.1, 1.0) for name in names})
    held = lambda parameters: held_inertias(
        model, parameters.pullback(np.full((model.np_, parameters.n), 0.5), np.eye(model.np_))
    )
    assert held(place("pole1.mass")) == ("pole1",) and held(place("pole2.com.z", "slider.damping")) == ("pole2",)
    assert held(place("pole1.mass", "pole1.I_com.yy")) == () and held(place("slider.damping")) == ()


def test_places_and_tilts_come_from_the_same_equations():
    """Poles that are longer: the second one sits farther out in the first."""
    dynamics, p, X, u = moving("double_cartpole")
    twin = Dynamics(load_model(dynamics.model.mj_model, geometry=True), dt=dynamics.dt)
    layout = twin.model.parameters
    at = layout.index("pole2.pos.z")
    direction = np.zeros((len(layout.nominal), 1))
    direction[at] = np.linalg.norm([layout.nominal[layout.index(f"pole2.pos.{axis}")] for axis in "xyz"])
    _, S = twin.rollout_sensitivity(X[:, 0], u, layout.nominal, direction)
    exact = S[0, :, :, -1]
    causes = JointCauses(dynamics)
    found = causes.response(p, X, u, causes.forces(p, X[:, :-1], u)["geometry"])[0]
    errors = [np.abs(found[..., k] - exact).max() for k in range(found.shape[-1])]
    assert min(errors) < 0.02 * np.abs(exact).max()


def test_a_constant_force_moves_a_roll_out_as_the_simulator_says():
    """A force on the cart is a control; central differences of the roll-out by it."""
    dynamics, p, X, u = moving("cartpole")
    gear = p[dynamics.model.parameters.index("slider.gear")]
    step = 1e-4
    numeric = (dynamics.rollout(X[:, 0], u + step, p) - dynamics.rollout(X[:, 0], u - step, p)) / (2 * step)
    force = np.zeros((1, u.shape[1], 2, 1))
    force[0, :, 0, 0] = gear
    found = JointCauses(dynamics).response(p, X, u, force)[..., 0]
    assert np.abs(found - numeric).max() < 0.02 * np.abs(numeric).max()


def test_every_cause_counts_in_shares_of_the_load():
    dynamics, p, X, u = moving("cartpole")
    causes = JointCauses(dynamics)
    found, load = causes.forces(p, X[:, :-1], u), causes.load(p, X[:, :-1], u)
    assert tuple(found) == KINDS and (load > 0).all()
    v = X[0, :-1, 2:]
    coulomb, viscous = found["friction"][0, ..., :2], found["friction"][0, ..., 2:]
    np.testing.assert_allclose(np.sqrt(np.mean(viscous[:, 0, 0] ** 2)), load[0])
    assert np.abs(coulomb).max() <= load.max() + 1e-12 and (np.sign(coulomb[:, 1, 1]) == np.sign(v[:, 1])).all()
    np.testing.assert_allclose(found["posture"][0, :, 0, 0], load[0])
    assert not coulomb[:, 0, 1].any() and not viscous[:, 1, 0].any()  # each joint has its own


def test_a_pendulum_s_load_is_what_pulls_at_it():
    """A passive hinge: nothing drives it, gravity pulls with m g l sin(angle)."""
    dynamics = Dynamics(
        load_model(
            """<mujoco model="swing"><option timestep="0.002"/><worldbody><body name="arm"><joint name="hinge" axis="0 1 0"/>
            <inertial pos="0 0 -0.5" mass="2" diaginertia="0.1 0.1 0.1"/></body></worldbody></mujoco>"""
        )
    )
    X = np.array([[[0.7, 0.0]]])
    load = JointCauses(dynamics).load(dynamics.nominal, X, np.zeros((1, 1, 0)))
    np.testing.assert_allclose(load, 2 * 9.81 * 0.5 * np.sin(0.7), rtol=1e-9)


def test_balls_and_free_joints_are_refused_by_name():
    model = load_model(
        """<mujoco model="thrown"><worldbody><body name="box"><freejoint/><geom size="0.1" mass="1"/></body></worldbody></mujoco>"""
    )
    with pytest.raises(ValueError, match="expected hinges and slides, found thrown with 7 positions and 6 velocities"):
        JointCauses(Dynamics(model))
