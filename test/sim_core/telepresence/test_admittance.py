"""The virtual mass against its equation solved otherwise, its rest against Hooke's law, and contacts that do not bounce."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from sim_core.telepresence.admittance import Admittance, AdmittanceSettings
from sim_core.telepresence.clutch import Pose

ORIGIN = Pose(np.zeros(3), np.eye(3))
DT = 0.008
CALM = np.zeros(6)


def run(admittance, target, wrench, seconds, dt=DT):
    return [admittance.step(target, CALM, wrench, dt) for _ in range(round(seconds / dt))]


def test_the_published_numbers():
    s = AdmittanceSettings()
    critical = 2.0 * np.sqrt(4.0 * s.mass * s.stiffness) * np.repeat([1.0, 2.0], 3)
    assert s.damping == pytest.approx(critical, rel=1e-3)


def test_a_push_at_rest_is_a_spring():
    admittance = Admittance(AdmittanceSettings(), ORIGIN)
    force, moment = np.array([3.0, -2.0, 1.0]), np.array([0.1, 0.2, -0.3])
    pose = run(admittance, ORIGIN, np.concatenate([force, moment]), 12.0)[-1]
    assert pose.position == pytest.approx(force / 200.0, abs=1e-6)
    assert Rotation.from_matrix(pose.rotation).as_rotvec() == pytest.approx(moment / 10.0, abs=1e-5)
    assert not admittance.contact


def test_it_moves_as_its_equation_says():
    """Against an adaptive integrator, first order in the step."""
    s, goal, push = AdmittanceSettings(), np.array([0.1, 0.0, -0.05]), np.array([2.0, 1.0, 0.0])
    m, k, b = s.mass[0], s.stiffness[0], s.damping[0]

    def law(_, x):
        return np.concatenate([x[3:], (push + k * (goal - x[:3]) - b * x[3:]) / m])

    truth = solve_ivp(law, (0.0, 0.3), np.zeros(6), rtol=1e-10, atol=1e-12).y[:3, -1]
    errors = []
    for dt in (2e-3, 1e-3, 5e-4):
        poses = run(Admittance(s, ORIGIN), Pose(goal, np.eye(3)), np.concatenate([push, np.zeros(3)]), 0.3, dt)
        errors.append(np.linalg.norm(poses[-1].position - truth))
    assert errors[-1] < 3e-4
    assert np.array(errors[:-1]) / errors[1:] == pytest.approx(2.0, rel=0.15)


def test_no_faster_than_it_may_be():
    admittance = Admittance(AdmittanceSettings(linear=0.2, angular=0.5), ORIGIN)
    far = Pose(np.array([5.0, 0.0, 0.0]), Rotation.from_rotvec([0.0, 0.0, 3.0]).as_matrix())
    run(admittance, far, CALM, 0.5)
    assert np.linalg.norm(admittance.twist[:3]) == pytest.approx(0.2)
    assert np.linalg.norm(admittance.twist[3:]) == pytest.approx(0.5)


def test_against_a_stiff_wall_raised_damping_ends_the_swinging():
    """Led against a wall of 20 kN/m that is felt one step late, it comes to rest where both springs balance."""
    wall, goal, swings = 0.05, 0.4, {}
    for raised in (30.0, 1.0):
        admittance, wrench, places = Admittance(AdmittanceSettings(raised=raised), ORIGIN), np.zeros(6), []
        for _ in range(2000):
            x = admittance.step(Pose(np.array([goal, 0.0, 0.0]), np.eye(3)), CALM, wrench, 0.002).position[0]
            places.append(x)
            wrench[0] = -20e3 * max(0.0, x - wall)
        swings[raised] = np.sum(np.diff(np.sign(np.diff(places))) != 0.0)
        assert admittance.contact
        assert x == pytest.approx((200.0 * goal + 20e3 * wall) / 20.2e3, abs=1e-5)
        for _ in range(200):
            admittance.step(ORIGIN, CALM, np.zeros(6), 0.002)
        assert not admittance.contact
    assert swings[30.0] <= 2 and swings[1.0] > 10, swings


def test_any_step_is_stable_in_contact():
    admittance = Admittance(AdmittanceSettings(), ORIGIN)
    wrench = np.array([25.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    places = [pose.position[0] for pose in run(admittance, ORIGIN, wrench, 60.0, 0.02)]
    assert admittance.contact
    assert places[-1] == pytest.approx(25.0 / 200.0, abs=1e-3) and (np.diff(places) > -1e-12).all()


def test_what_is_not_a_number_pushes_nothing():
    admittance = Admittance(AdmittanceSettings(), ORIGIN)
    pose = admittance.step(ORIGIN, CALM, np.full(6, np.nan), DT)
    assert pose.position.tolist() == [0.0, 0.0, 0.0]


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match="mass: expected 6 numbers"):
        AdmittanceSettings(mass=np.ones(3))
    with pytest.raises(ValueError, match="damping: expected positive"):
        AdmittanceSettings(damping=np.zeros(6))
    with pytest.raises(ValueError, match="free: expected less than touched"):
        AdmittanceSettings(free=30.0)
