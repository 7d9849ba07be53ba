"""The tray from above, from a picture whose every pixel is known."""

import numpy as np
import pytest

from sim_core.scooping.arm.tray import Tray
from sim_core.scooping.planning.rectified import rectified
from sim_core.telepresence.clutch import Pose

pytestmark = pytest.mark.pure

TRAY = Tray(Pose(np.array([0.5, 0.1, 0.2]), np.array([[0.0, -1.0, 0], [1, 0, 0], [0, 0, 1]])))
K = np.array([[620.0, 0, 319.5], [0, 620.0, 239.5], [0, 0, 1]])
CAMERA = Pose(np.array([0.5, 0.1, 1.3]), np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, -1]]))


def plane(x, y):
    """Height of a tilted plane in the tray's frame."""
    return 0.1 + 0.08 * x - 0.05 * y


def seen():
    v, u = np.mgrid[:480, :640]
    rays = np.stack([(u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1], np.ones_like(u, float)], -1) @ CAMERA.rotation.T
    origin = TRAY.to_tray(CAMERA.position)
    d = rays @ TRAY.pose.rotation
    depth = (plane(*origin[:2]) - origin[2]) / (d[..., 2] - 0.08 * d[..., 0] + 0.05 * d[..., 1])
    points = origin + depth[..., None] * d
    colour = np.zeros((480, 640, 3), np.uint8)
    colour[..., 0] = np.clip(128 + 200 * points[..., 0], 0, 255)
    colour[..., 1] = np.where(points[..., 1] > 0, 255, 0)
    return colour, depth


def test_a_plane_lies_where_it_lies():
    colour, depth = seen()
    depth[::7, ::5] = np.nan
    picture = rectified(colour, depth, K, CAMERA, TRAY, 0.0025)
    assert picture.height.shape == (240, 360)
    y, x = ((np.arange(n) + 0.5) * 0.0025 + o for n, o in ((240, picture.origin[1]), (360, picture.origin[0])))
    np.testing.assert_allclose(picture.height, plane(x[None, :], y[:, None]), atol=1e-3)
    np.testing.assert_allclose(picture.colour[..., 0], np.broadcast_to(128 + 200 * x, (240, 360)), atol=2)
    assert (picture.colour[:118, :, 1] == 0).all() and (picture.colour[122:, :, 1] == 255).all()


def test_a_camera_that_sees_too_little_is_refused():
    colour, depth = seen()
    depth[:, :320] = np.nan
    with pytest.raises(ValueError, match=r"sees 5\d % of the tray"):
        rectified(colour, depth, K, CAMERA, TRAY)
    with pytest.raises(ValueError, match="sees 0 %"):
        rectified(colour, np.full_like(depth, np.nan), K, CAMERA, TRAY)
    with pytest.raises(ValueError, match="expected colours"):
        rectified(colour[1:], depth, K, CAMERA, TRAY)
