"""The scanner's mounting is found again in scans simulated by an independent ray caster, and what cannot be found is said."""

import numpy as np
import pytest

from sim_core.perception.scan_mounting import Wall, _Problem, box, estimate_mounting, predicted_ranges

ANGLES = (np.arange(44, 726) - 384) * 2 * np.pi / 1024
ROOM = box((0.2, -0.1), (4.0, 3.0), 0.05)
TRUTH = np.array([0.31, -0.12, 0.21, 0.0, 0.0])


def scans(pose, walls=ROOM, k=5, seed=1, height=0.0):
    """k noisy scans; the noise is the URG's specification."""
    true = predicted_ranges(ANGLES, pose, walls, height)
    accuracy = np.maximum(0.01, 0.01 * np.where(np.isfinite(true), true, 0.0))
    return true + np.random.default_rng(seed).standard_normal((k, len(ANGLES))) * accuracy / 3.0


def consistent(mounting, truth, free):
    """The error beside its own covariance: the chance to exceed 4 sigma is 1 in 16,000."""
    error = (mounting.pose - truth)[free]
    assert (np.abs(error) < 4.0 * mounting.sigma[free]).all(), (error, mounting.sigma)


# ---- the prediction ------------------------------------------------------------------------------


def test_ranges_by_mujoco():
    """An independent ray caster sees the same walls, tilted scanner and leaning board included."""
    import mujoco

    pose, height = np.array([0.1, 0.2, 0.3, 0.15, -0.1]), 0.4
    model = mujoco.MjModel.from_xml_string(f"""<mujoco><worldbody>
      <geom type="box" pos="2.5 0 0" size="0.5 9 9"/><geom type="box" pos="-2.5 0 0" size="0.5 9 9"/>
      <geom type="box" pos="0 2.5 0" size="9 0.5 9"/>
      <geom type="plane" pos="0 -1.5 0" size="9 9 1" zaxis="0 {np.cos(0.3)} {-np.sin(0.3)}"/>
      <site name="s" pos="0.1 0.2 0.4"/></worldbody></mujoco>""")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    cy, sy, cp, sp, cr, sr = (f(a) for a in pose[2:] for f in (np.cos, np.sin))
    R = (
        np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
        @ np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
        @ np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    )
    u = np.stack((np.cos(ANGLES), np.sin(ANGLES), 0 * ANGLES), axis=1) @ R.T
    geom, distance = np.empty(len(u), np.int32), np.empty(len(u))
    mujoco.mj_multiRay(
        model, data, np.array([0.1, 0.2, height]), u.ravel(), None, True, -1, geom, distance, None, len(u), 1e3
    )
    # The board's foot is at y = -1.5; going along +x its right is -y, and it leans towards +y: by a negative angle.
    walls = [
        Wall((2.0, -9.0), (2.0, 9.0)),
        Wall((-2.0, 9.0), (-2.0, -9.0)),
        Wall((9.0, 2.0), (-9.0, 2.0)),
        Wall((-9.0, -1.5), (9.0, -1.5), -0.3),
    ]
    np.testing.assert_allclose(predicted_ranges(ANGLES, pose, walls, height), distance, rtol=1e-5)


def test_the_jacobian_is_that_of_the_prediction():
    pose = np.array([0.1, 0.2, 0.3, 0.15, -0.1])
    walls = [*ROOM[:3], Wall(ROOM[3].a, ROOM[3].b, 0.2)]
    problem = _Problem(ANGLES, np.full(len(ANGLES), 1.0), walls, 0.3, lambda r: np.ones_like(r))
    _, J = problem.residuals(pose)
    for k in range(5):
        step = np.zeros(5)
        step[k] = 1e-6
        with np.errstate(invalid="ignore"):
            numeric = (
                predicted_ranges(ANGLES, pose + step, walls, 0.3) - predicted_ranges(ANGLES, pose - step, walls, 0.3)
            ) / 2e-6
        known = np.nan_to_num(numeric, nan=1e9)
        smooth = (np.abs(np.gradient(known)) < 0.5) & (known < 1e8)  # not across a corner
        assert smooth.sum() > 500
        np.testing.assert_allclose(J[smooth, k], numeric[smooth], atol=2e-3)


# ---- estimates -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_a_room_gives_position_and_yaw(seed):
    mounting = estimate_mounting(ANGLES, scans(TRUTH, seed=seed), ROOM, guess=(0.1, 0.1, 0.0))
    consistent(mounting, TRUTH, [0, 1, 2])
    assert (mounting.sigma[:2] < 0.001).all() and mounting.sigma[2] < 0.001
    assert mounting.scale == pytest.approx(1.0, abs=0.1) and mounting.outliers < 10
    assert len(mounting.unobservable) == 1 and "pitch and roll" in mounting.unobservable[0]
    assert mounting.sigma[3] == mounting.sigma[4] == 0.2 and (mounting.pose[3:] == 0.0).all()
    np.testing.assert_allclose(mounting.X_BS[:2, 3], TRUTH[:2], atol=0.004)
    np.testing.assert_allclose(mounting.X_BS[:3, :3] @ mounting.X_BS[:3, :3].T, np.eye(3), atol=1e-12)


def test_its_intervals_hold():
    """Over 60 sets of scans the errors have the spread that the covariance says."""
    z = []
    for seed in range(60):
        mounting = estimate_mounting(
            ANGLES[::4], scans(TRUTH, k=1, seed=seed)[:, ::4], ROOM, guess=(0.2, 0.0, 0.1), tilt=False
        )
        z.append((mounting.pose - TRUTH)[:3] / mounting.sigma[:3])
    assert 0.75 < np.std(z) < 1.25 and np.abs(z).max() < 4.5 and np.abs(np.mean(z, axis=0)).max() < 0.5


def test_two_walls_at_an_angle_suffice():
    walls = [Wall((2.0, -1.0), (2.0, 1.5)), Wall((2.0, 1.5), (-1.0, 1.5))]
    mounting = estimate_mounting(ANGLES, scans(TRUTH, walls, k=3), walls)
    consistent(mounting, TRUTH, [0, 1, 2])
    assert mounting.sigma[:3].max() < 0.002


def test_one_wall_leaves_its_own_direction_open():
    walls = [Wall((2.0, -8.0), (2.0, 8.0))]
    mounting = estimate_mounting(ANGLES, scans(TRUTH, walls, k=3), walls, guess=(0.2, 0.05, 0.1), tilt=False)
    assert mounting.unobservable[0] == "y"
    consistent(mounting, TRUTH, [0, 2])
    assert mounting.pose[1] == pytest.approx(0.05, abs=1e-3) and mounting.sigma[1] == pytest.approx(0.5, rel=0.01)
    turned = [Wall((2.0 + 8.0, 2.0 - 8.0), (2.0 - 8.0, 2.0 + 8.0))]  # a wall at 45 degrees
    mounting = estimate_mounting(ANGLES, scans(TRUTH, turned, k=3), turned, guess=(0.2, 0.05, 0.1), tilt=False)
    assert mounting.unobservable[0] in ("+0.71 x -0.71 y", "-0.71 x +0.71 y")


def test_a_box_seen_from_outside():
    walls = box((1.2, 0.1), (0.6, 0.5), 0.8)  # a corner towards the scanner: two faces
    readings = scans(TRUTH, walls, k=10)
    assert np.isinf(readings).any()
    mounting = estimate_mounting(ANGLES, readings, walls, guess=(0.25, -0.05, 0.15), tilt=False)
    consistent(mounting, TRUTH, [0, 1, 2])
    assert mounting.sigma[:3].max() < 0.005


def test_people_error_codes_and_furniture_count_for_nothing():
    readings = scans(TRUTH, k=8)
    rng = np.random.default_rng(3)
    readings[:, 200:300] = np.minimum(readings[:, 200:300], 0.9)  # somebody stands there: a seventh of the view
    readings[rng.random(readings.shape) < 0.1] = np.nan
    readings[rng.random(readings.shape) < 0.02] = np.inf
    readings[rng.random(readings.shape) < 0.05] *= 0.7
    mounting = estimate_mounting(ANGLES, readings, ROOM, guess=(0.2, 0.0, 0.1))
    consistent(mounting, TRUTH, [0, 1, 2])
    assert mounting.outliers > 700 and mounting.rms < 0.02


@pytest.mark.parametrize("pitch, roll", [(0.17, 0.0), (-0.2, 0.0), (0.0, 0.2), (0.2, -0.12)])
def test_a_large_tilt_shows_by_its_size_between_known_walls(pitch, roll):
    """Without its sign: a room stretches alike for both."""
    truth = np.array([0.31, -0.12, 0.21, pitch, roll])
    mounting = estimate_mounting(ANGLES, scans(truth, k=20), ROOM, guess=(0.2, 0.0, 0.1))
    assert any(line.startswith("sign of pitch and roll") for line in mounting.unobservable)
    either = min((truth, truth * [1, 1, 1, -1, -1]), key=lambda t: np.abs(mounting.pose - t).max())
    np.testing.assert_allclose(np.abs(mounting.pose[:3]), np.abs(either[:3]), atol=0.01)
    np.testing.assert_allclose(mounting.pose[3:], either[3:], atol=0.04)


def test_a_leaning_board_tells_the_sign():
    walls = [*ROOM[:2], Wall(ROOM[2].a, ROOM[2].b, 0.6), Wall(ROOM[3].a, ROOM[3].b, -0.6)]
    for tilt in ((0.06, -0.04), (-0.06, 0.04)):
        truth = np.array([0.31, -0.12, 0.21, *tilt])
        mounting = estimate_mounting(
            ANGLES, scans(truth, walls, k=10, height=0.3), walls, guess=(0.2, 0.0, 0.1), height=0.3
        )
        consistent(mounting, truth, [0, 1, 2, 3, 4])
        assert mounting.unobservable == [] and mounting.sigma[3:].max() < 0.01


def test_a_wrong_map_shows_in_the_scale():
    mounting = estimate_mounting(
        ANGLES, scans(TRUTH), box((0.2, -0.1), (4.0, 3.3), 0.05), guess=(0.2, 0.0, 0.1), tilt=False
    )
    assert mounting.scale > 2.0 or mounting.outliers > 300


def test_the_report_says_it_in_words():
    text = estimate_mounting(ANGLES, scans(TRUTH), ROOM).report()
    assert (
        "x         0.31" in text and "rad" in text and "not determined: pitch and roll" in text and "rays, rms" in text
    )


def test_unusable_input():
    with pytest.raises(ValueError, match="at least one"):
        estimate_mounting(ANGLES, scans(TRUTH), [])
    with pytest.raises(ValueError, match="as many ranges"):
        estimate_mounting(ANGLES, np.ones(5), ROOM)
    with pytest.raises(ValueError, match="too few"):
        estimate_mounting(ANGLES, np.full(682, np.nan), ROOM)
    with pytest.raises(ValueError, match="two different ends"):
        Wall((1.0, 1.0), (1.0, 1.0))
