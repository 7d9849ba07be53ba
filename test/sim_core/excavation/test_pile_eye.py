"""What a camera over an arm sees, as the networks know it: a scene of known colours under a tilted camera, an arm, and a bucket."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.excavation.overhead_picture import BUCKET, View
from sim_core.excavation.pile_eye import LIT, PileEye

pytestmark = pytest.mark.pure
K = np.array([[500.0, 0.0, 319.5], [0.0, 500.0, 239.5], [0.0, 0.0, 1.0]])
LEVEL, STEP, EDGE = 0.0, 0.05, 0.50  # heights left and right of x = EDGE [m]
POSE = np.array([0.55, 0.0, 0.06, 0.0])
X = View().low[0] + View().cell * (np.arange(64) + 0.5)
Y = View().low[1] + View().cell * (np.arange(32) + 0.5)


def camera(tilt=0.0):
    """Looks at the middle of the view, its picture's top towards +x, tilted about y."""
    pose = np.eye(4)
    down = np.array([[0.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
    pose[:3, :3] = Rotation.from_euler("y", tilt).as_matrix() @ down
    pose[:3, 3] = 0.50 + 0.9 * np.sin(tilt), 0.0, 0.9 * np.cos(tilt)
    return pose


def seen(at, blue=0, boxes=()):
    """Colours that tell x in red and y in green, and depths, of two level grounds, under boxes (low, high) that are white on top."""
    v, u = np.mgrid[0:480, 0:640]
    ways = np.stack([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], np.ones(u.shape)], -1) @ at[:3, :3].T
    depth, white = np.full(u.shape, np.inf), np.zeros(u.shape, bool)

    def meet(height, where):
        nonlocal depth
        t = (height - at[2, 3]) / ways[..., 2]
        hits = where(at[0, 3] + t * ways[..., 0], at[1, 3] + t * ways[..., 1]) & (t < depth)
        depth = np.where(hits, t, depth)
        return hits

    meet(STEP, lambda x, y: x >= EDGE)
    meet(LEVEL, lambda x, y: x < EDGE)
    for low, high in boxes:
        white |= meet(high[2], lambda x, y: (x > low[0]) & (x < high[0]) & (y > low[1]) & (y < high[1]))
    depth[~np.isfinite(depth)] = np.nan
    points = at[:3, 3] + np.nan_to_num(depth)[..., None] * ways
    colour = np.full((480, 640, 3), blue, np.uint8)
    colour[..., 0] = np.clip(points[..., 0] * 300.0, 0, 255).astype(np.uint8)
    colour[..., 1] = np.clip(points[..., 1] * 300.0 + 128.0, 0, 255).astype(np.uint8)
    colour[white] = 255
    return colour, depth


@pytest.mark.parametrize("tilt", [0.0, 0.25])
def test_what_is_seen_stands_where_it_is(tilt):
    eye, at = PileEye(), camera(tilt)
    eye.look(*seen(at), K, at)
    assert eye.ground.shape == (64, 32, 3) and eye.ground.dtype == np.uint8
    # 3 of 255 are a centimetre, at the hidden foot of the step
    assert np.abs(eye.ground[..., 0] - (300.0 * X)[:, None]).max() <= 3.0
    assert np.abs(eye.ground[..., 1] - (300.0 * Y + 128.0)).max() <= 3.0
    np.testing.assert_allclose(eye.heights[X < EDGE - 0.03], LEVEL, atol=1e-9)
    np.testing.assert_allclose(eye.heights[X > EDGE + 0.03], STEP, atol=1e-9)


def test_what_the_arm_hides_stays_as_it_was_and_the_rest_is_new():
    eye, at = PileEye(), camera()
    eye.look(*seen(at), K, at)
    arm = ((0.2, -0.05, 0.2), (0.6, 0.05, 0.3))
    bucket = ((0.53, -0.03, 0.0), (0.58, 0.03, 0.08))  # sticks out of the arm's shadow nowhere, but is over the pile
    eye.look(*seen(at, 200, [arm]), K, at, POSE)
    middle = np.ix_(X < 0.55, np.abs(Y) < 0.03)
    assert (eye.ground[..., 2][middle] == 0).all()  # hidden: as before
    assert (eye.ground[..., 2][np.ix_(X > 0.63)] == 200).all() and not (eye.ground == 255).all(-1).any()
    eye.look(*seen(at, 100, [bucket]), K, at, POSE)
    assert not (eye.ground == 255).all(-1).any()  # the bucket is not taken for a block


def test_the_bucket_is_painted_where_it_is():
    eye, at = PileEye(), camera()
    with pytest.raises(RuntimeError, match="look first"):
        eye.picture(POSE)
    eye.look(*seen(at), K, at)
    high = POSE + [0, 0, 0.03, 0]
    painted = (eye.picture(high) == np.round(255 * LIT * BUCKET).astype(np.uint8)).all(-1)
    x, y = X[np.nonzero(painted)[0]], Y[np.nonzero(painted)[1]]
    assert x.min() == pytest.approx(0.55 - 0.05, abs=0.007) and x.max() == pytest.approx(0.55 + 0.04, abs=0.007)
    assert np.abs(y).max() == pytest.approx(0.04, abs=0.007)
    np.testing.assert_array_equal(eye.picture(high)[~painted], eye.ground[~painted])
    deep = POSE - [0, 0, 0.2, 0]
    np.testing.assert_array_equal(eye.picture(deep), eye.ground)  # under the blocks nobody sees it
    other = PileEye()
    other.remember(eye.picture(high))
    np.testing.assert_array_equal(other.picture(high), eye.picture(high))


def test_a_pile_that_is_hidden_and_pictures_of_two_sizes_are_refused():
    at, eye = camera(), PileEye()
    colour, depth = seen(at)
    hidden = depth.copy()
    hidden[150:330] = np.nan
    with pytest.raises(ValueError, match="of the pile, at least 90 %"):
        eye.look(colour, hidden, K, at)
    eye.look(colour, depth, K, at)
    eye.look(colour, hidden, K, at)  # later a part suffices
    with pytest.raises(ValueError, match="0 % of the pile, at least 25 %"):
        eye.look(colour, np.full_like(depth, np.nan), K, at)
    with pytest.raises(ValueError, match="expected colours"):
        PileEye().look(colour[1:], depth, K, at)
