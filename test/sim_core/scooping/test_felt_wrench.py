"""What the ground does to a scoop, from MuJoCo's sensor at its wrist: the weight taken away, about the blade, in the world's axes."""

import mujoco
import numpy as np
import pytest

from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant
from sim_core.scooping.arm.felt_wrench import FeltWrench

pytestmark = pytest.mark.pure

ROBOT = "ur5e_scoop"


@pytest.fixture(scope="module")
def model():
    return load_model(ROBOT)


@pytest.mark.parametrize("seed", range(4))
def test_a_wrench_on_the_blade_is_felt_as_it_is(model, seed):
    """MuJoCo holds the arm still in a posture and pushes at the blade; what is left of the reading is that push."""
    rng = np.random.default_rng(seed)
    plant = MujocoPlant(ROBOT, wrench_site="wrist", initial_q=rng.uniform(-2.0, 2.0, 6))
    mj, data = plant.world.model, plant.world.data
    mj.dof_armature[:] = 1e9  # it does not move
    mujoco.mj_forward(mj, data)
    blade, body = mj.site("blade").id, mj.body("scoop").id
    force, torque = rng.uniform(-30, 30, 3), rng.uniform(-2, 2, 3)
    at = data.site_xpos[blade] - data.xipos[body]
    data.xfrc_applied[body] = np.r_[force, torque + np.cross(at, force)]
    rotation = data.site_xmat[blade].reshape(3, 3)
    felt = FeltWrench(model, "wrist", "blade").external(plant.wrench(), rotation)
    assert np.allclose(felt, np.r_[force, torque], atol=1e-5)


def test_a_reading_is_smoothed_and_forgotten(model):
    felt, R = FeltWrench(model, "wrist", "blade", cutoff=10.0, patience=0.05), np.eye(3)
    assert np.isnan(felt.at(0.0)).all()
    still = np.zeros(6)
    wanted = felt.external(still, R)
    for k in range(400):
        felt.feel(still, R, 1e-3 * k)
    assert np.allclose(felt.at(0.4), wanted)
    felt.feel(np.full(6, np.nan), R, 0.41)
    felt.feel(np.ones(6), R, 0.399)  # older than the last
    assert np.allclose(felt.at(0.42), wanted)
    assert np.isnan(felt.at(0.46)).all() and np.isnan(felt.at(0.1)).all()  # too long ago, and of a time to come
    pushed = still + [10.0, 0, 0, 0, 0, 0]
    felt.feel(pushed, R, 0.4)
    share = np.linalg.norm(felt.at(0.4) - wanted) / np.linalg.norm(felt.external(pushed, R) - wanted)
    assert share == pytest.approx(1.0 - np.exp(-2 * np.pi * 10.0 * 1e-3), rel=1e-6)


def test_what_is_no_rigid_piece_is_refused(model):
    with pytest.raises(ValueError, match="a joint moves the site 'blade' against the site 'tray'"):
        FeltWrench(model, "tray", "blade")


def test_a_late_reading_from_before_time_went_back_does_not_silence_the_sensor(model):
    felt, fresh, R = FeltWrench(model, "wrist", "blade", patience=0.05), FeltWrench(model, "wrist", "blade"), np.eye(3)
    felt.feel(np.ones(6), R, 46.0)  # arrives after everything was forgotten
    for stamp in (0.002, 0.004):
        felt.feel(np.full(6, 2.0), R, stamp)
        fresh.feel(np.full(6, 2.0), R, stamp)
    np.testing.assert_array_equal(felt.at(0.005), fresh.at(0.005))
    assert np.isfinite(felt.at(0.005)).all()
