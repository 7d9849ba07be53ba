"""A camera's picture on the pixels that networks know: a scene of known colours, seen by a tilted camera."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_core.excavation.overhead_picture import View
from sim_core.excavation.rectified_view import rectified_view

pytestmark = pytest.mark.pure
K = np.array([[500.0, 0.0, 319.5], [0.0, 500.0, 239.5], [0.0, 0.0, 1.0]])
LEVEL, STEP, EDGE = 0.0, 0.05, 0.50  # heights left and right of x = EDGE [m]


def camera(tilt=0.0):
    """Above the middle of the view, its picture's top towards +x, and tilted about y."""
    X = np.eye(4)
    down = np.array([[0.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
    X[:3, :3] = Rotation.from_euler("y", tilt).as_matrix() @ down
    X[:3, 3] = 0.50 + 0.9 * np.sin(tilt), 0.0, 0.9 * np.cos(tilt)
    return X


def seen(X):
    """Colours that tell x in red and y in green, and depths, of two level grounds."""
    v, u = np.mgrid[0:480, 0:640]
    rays = np.stack([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], np.ones(u.shape)], -1)
    ways = rays @ X[:3, :3].T
    depth = np.full(u.shape, np.inf)
    for height, side in ((STEP, 1.0), (LEVEL, -1.0)):
        t = (height - X[2, 3]) / ways[..., 2]
        hits = (side * (X[0, 3] + t * ways[..., 0] - EDGE) >= 0.0) & (t < depth)
        depth = np.where(hits, t, depth)
    depth[~np.isfinite(depth)] = np.nan
    points = X[:3, 3] + np.nan_to_num(depth)[..., None] * ways
    colour = np.zeros((480, 640, 3), np.uint8)
    colour[..., 0] = np.clip(points[..., 0] * 300.0, 0, 255).astype(np.uint8)
    colour[..., 1] = np.clip(points[..., 1] * 300.0 + 128.0, 0, 255).astype(np.uint8)
    return colour, depth


@pytest.mark.parametrize("tilt", [0.0, 0.25])
def test_what_is_seen_stands_where_it_is(tilt):
    X, view = camera(tilt), View()
    picture = rectified_view(*seen(X), K, X, view)
    assert picture.shape == (64, 32, 3) and picture.dtype == np.uint8
    x = view.low[0] + view.cell * (np.arange(64) + 0.5)
    y = view.low[1] + view.cell * (np.arange(32) + 0.5)
    assert (
        np.abs(picture[..., 0] - (300.0 * x)[:, None]).max() <= 3.0
    )  # 3 of 255 are a centimetre, at the hidden foot of the step
    assert np.abs(picture[..., 1] - (300.0 * y + 128.0)).max() <= 3.0


def test_a_pile_that_is_hidden_and_pictures_of_two_sizes_are_refused():
    X = camera()
    colour, depth = seen(X)
    hidden = depth.copy()
    hidden[150:330] = np.nan
    with pytest.raises(ValueError, match="of the pile, at least 90 %"):
        rectified_view(colour, hidden, K, X)
    with pytest.raises(ValueError, match="0 % of the pile"):
        rectified_view(colour, np.full_like(depth, np.nan), K, X)
    with pytest.raises(ValueError, match="expected colours"):
        rectified_view(colour[1:], depth, K, X)
