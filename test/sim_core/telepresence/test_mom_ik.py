"""The threshold of manipulability holds whatever is asked for, and away from it the step is Newton's."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from sim_core.multibody import load_model
from sim_core.telepresence.arm_ik import PERIOD
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.mom_ik import HIGHER, MomIk, nearest_rising


@pytest.fixture(scope="module")
def arm():
    return ArmKinematics(load_model("panda"), "hand_site")


def beside(arm, q, rng, distance=0.02, angle=0.1):
    """A target near a posture."""
    now = arm.at(q)
    turn = Rotation.from_rotvec(rng.normal(0, angle, 3)).as_matrix()
    return Pose(now.position + rng.normal(0, distance, 3), turn @ now.rotation)


def inner(arm, count, seed):
    """Postures that are far from every limit."""
    spread = 0.3 * (arm.upper - arm.lower)
    return arm.neutral + np.random.default_rng(seed).uniform(-spread, spread, (count, len(arm.joints)))


def test_the_threshold_holds_whatever_is_asked_for(arm):
    rng, ik, q = np.random.default_rng(0), MomIk(arm), arm.home
    least, moved = np.inf, 0.0
    for k in range(8000):
        if k % 40 == 0:
            target = Pose(rng.uniform(-1.2, 1.2, 3), Rotation.random(rng=rng).as_matrix())
            bias = rng.uniform(arm.lower, arm.upper)
        before, q = q, ik.step(target, q, bias)
        assert (q >= arm.lower).all() and (q <= arm.upper).all() and np.isfinite(q).all()
        assert (np.abs(q - before) <= 1.0001 * PERIOD * arm.speed).all()
        least, moved = min(least, arm.manipulability(q)), moved + np.abs(q - before).sum()
    assert least >= ik.threshold and moved > 50.0


def test_from_below_the_threshold_the_measure_never_falls_and_comes_back(arm):
    rng, ik, came_back = np.random.default_rng(1), MomIk(arm), 0
    low = [q for q in rng.uniform(arm.lower, arm.upper, (400, len(arm.joints))) if arm.manipulability(q) < 0.5][:20]
    for q in low:
        target, measure = arm.at(arm.home).pose, arm.manipulability(q)
        for _ in range(400):
            q = ik.step(target, q)
            now = arm.manipulability(q)
            assert now >= min(measure, ik.threshold)
            measure = now
        came_back += measure >= ik.threshold
    assert came_back >= 18


@pytest.mark.parametrize("threshold", [1e-3, 1.5])
def test_a_step_is_the_formula(arm, threshold):
    """Within limits and speeds, and where the measure does not fall below the threshold."""
    margin, raising, pull, damping = 0.5 * threshold, 0.2, 0.0244, 0.02
    ik = MomIk(arm, threshold=threshold, margin=margin, reach=(1.0, 1.0), period=1.0)
    rng, compared, changed = np.random.default_rng(2), 0, 0
    for q in inner(arm, 300, seed=2):
        now, target = arm.at(q), beside(arm, q, rng, 0.002, 0.005)
        bias = q + rng.normal(0, 0.3, len(q))
        if now.manipulability < threshold:
            continue
        scale = np.r_[np.full(3, 1.0 / arm.length), np.ones(3)]
        S, wanted = scale[:, None] * now.J, scale * pose_error(target, now.pose)
        inverse = S.T @ np.linalg.inv(S @ S.T + damping**2 * np.eye(6))
        g = inverse.T @ now.gradient
        n = g / np.linalg.norm(g)
        rho = np.clip((threshold + margin - now.manipulability) / margin, 0.0, 1.0)
        missing = max((1.0 + HIGHER) * threshold - now.manipulability, 0.0)
        x = wanted - rho * min(n @ wanted, 0.0) * n + min(raising * missing / np.linalg.norm(g), 0.05) * n
        without = np.eye(len(q)) - inverse @ S
        own, rising = without @ (pull * (bias - q)), without @ now.gradient
        own = own - rho * min(now.gradient @ own, 0.0) / (now.gradient @ rising) * rising
        there = q + inverse @ x + own
        if arm.manipulability(there) >= threshold and rising @ rising > 1e-6:
            np.testing.assert_allclose(ik.step(target, q, bias), there, atol=1e-6)
            compared, changed = compared + 1, changed + (rho > 0.0)
    assert compared > 100 and (threshold < 1.0 or changed > 20)


def test_a_target_within_reach_is_come_to(arm):
    rng, ik = np.random.default_rng(4), MomIk(arm, threshold=0.5)
    for _ in range(5):
        target, q = beside(arm, arm.home, rng, 0.05, 0.15), arm.home
        for _ in range(250):
            q = ik.step(target, q, arm.home)
        error = pose_error(target, arm.at(q).pose)
        assert np.linalg.norm(error[:3]) < 1e-3 and np.linalg.norm(error[3:]) < 1e-3


def test_an_arm_at_the_threshold_slides_along_it(arm):
    """A hand that circles out of reach is followed by an arm that is held back from stretching itself."""
    ik, q, rotation = MomIk(arm), arm.home, arm.at(arm.home).rotation
    for k in range(3000):
        angle = 0.6 * np.sin(2 * np.pi * k / 2000)
        q = ik.step(Pose(np.array([1.1 * np.cos(angle), 1.1 * np.sin(angle), 0.5]), rotation), q)
        assert arm.manipulability(q) >= ik.threshold
        if k > 1000:
            position = arm.at(q).position
            assert abs(np.arctan2(position[1], position[0]) - angle) < 0.2
            assert arm.manipulability(q) < ik.threshold + 0.3


def test_joints_at_a_limit_leave_the_motion_to_the_others(arm):
    ik, q = MomIk(arm, threshold=0.3), arm.home.copy()
    q[6] = arm.upper[6]
    now = arm.at(q)
    target = Pose(now.position, Rotation.from_rotvec(0.05 * now.rotation[:, 2]).as_matrix() @ now.rotation)
    assert now.J[3:, 6] @ (target.rotation @ now.rotation.T - np.eye(3))[[2, 0, 1], [1, 2, 0]] > 0  # its way is barred
    for _ in range(300):
        q = ik.step(target, q)
    error = pose_error(target, arm.at(q).pose)
    assert np.linalg.norm(error[:3]) < 2e-3 and np.linalg.norm(error[3:]) < 2e-3


def test_the_nearest_rising_point_is_the_nearest():
    rng = np.random.default_rng(6)
    for _ in range(40):
        step, gradient = rng.normal(0, 0.02, 7), rng.normal(size=7) * (rng.random(7) < 0.8)
        low, high = -rng.uniform(0, 0.02, 7), rng.uniform(0, 0.02, 7)
        most = float(np.maximum(gradient * low, gradient * high).sum())
        rise = rng.uniform(-1.0, 0.95) * most
        found = nearest_rising(step, gradient, low, high, rise)
        assert (found >= low - 1e-15).all() and (found <= high + 1e-15).all() and gradient @ found >= rise - 1e-12
        known = minimize(
            lambda d: 1e4 * np.sum((d - step) ** 2),
            np.clip(step, low, high),
            jac=lambda d: 2e4 * (d - step),
            bounds=list(zip(low, high)),
            constraints={"type": "ineq", "fun": lambda d: gradient @ d - rise, "jac": lambda d: gradient},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 300},
        )
        assert 1e4 * np.sum((found - step) ** 2) <= known.fun * (1.0 + 1e-5) + 1e-6
    beyond = nearest_rising(step, gradient, low, high, 2.0 * most + 1.0)
    assert gradient @ beyond == pytest.approx(most)


@pytest.mark.parametrize("name", ["threshold", "margin", "damping", "period"])
def test_what_has_to_be_positive_is(arm, name):
    with pytest.raises(ValueError, match=name):
        MomIk(arm, **{name: 0.0})
