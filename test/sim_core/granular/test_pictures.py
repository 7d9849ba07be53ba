"""Heights and pictures of grains against geometry."""

import numpy as np
import pytest

from sim_core.granular.pictures import Camera, draw, height_map, shaded
from sim_core.granular.world import Spheres

pytestmark = pytest.mark.pure


def test_heights_are_those_of_the_highest_sphere():
    spheres = Spheres([[0.0, 0.0, 0.1, 0.05], [0.03, 0.0, 0.02, 0.02]], [7, 3])
    heights, body = height_map(spheres, (-0.1, -0.1), (0.1, 0.1), 0.004, bottom=-0.5)
    x = -0.1 + 0.004 * (np.arange(50) + 0.5)
    X, Y = np.meshgrid(x, x, indexing="ij")
    square = 0.05**2 - X**2 - Y**2
    expected = np.where(square > 0, 0.1 + np.sqrt(np.maximum(square, 0)), -0.5)
    other = 0.02**2 - (X - 0.03) ** 2 - Y**2
    expected = np.maximum(expected, np.where(other > 0, 0.02 + np.sqrt(np.maximum(other, 0)), -0.5))
    np.testing.assert_allclose(heights, expected, atol=1e-5)
    assert set(np.unique(body)) == {-1, 7, 3} or set(np.unique(body)) == {-1, 7}


def test_a_picture_is_where_rays_meet_spheres():
    rng = np.random.default_rng(2)
    center = np.column_stack([rng.uniform(-0.2, 0.2, (40, 2)), rng.uniform(0, 0.2, 40), rng.uniform(0.01, 0.04, 40)])
    camera = Camera.above((0.02, -0.01, 0.0), 0.9, 0.6, (64, 48))
    picture = draw(Spheres(center, np.arange(40)), camera)
    v, u = np.mgrid[:48, :64]
    rays = np.stack(
        [(u - camera.K[0, 2]) / camera.K[0, 0], (v - camera.K[1, 2]) / camera.K[1, 1], np.ones((48, 64))], -1
    )
    rays = rays @ camera.axes.T
    depth, body = np.full((48, 64), np.inf), np.full((48, 64), -1)
    for k, (*c, r) in enumerate(center):
        d = np.array(c) - camera.position
        a, b = (rays**2).sum(-1), rays @ d
        rest = b**2 - a * (d @ d - r**2)
        t = np.where(rest >= 0, (b - np.sqrt(np.maximum(rest, 0))) / a, np.inf)
        body = np.where(t < depth, k, body)
        depth = np.minimum(depth, t)
    assert (picture.body == body).mean() > 0.995  # rays that graze a sphere are decided by rounding
    same = picture.body == body
    np.testing.assert_allclose(picture.depth[same], depth[same], atol=2e-4)
    points = camera.position + rays * np.where(np.isfinite(depth), depth, 0)[..., None]
    seen = same & (body >= 0)
    away = (points[seen] - center[body[seen], :3]) / center[body[seen], 3:]
    np.testing.assert_allclose(picture.normal[seen], away, atol=0.02)


def test_what_is_nearer_hides_spheres_and_light_comes_from_above():
    camera = Camera.above((0, 0, 0), 1.0, 0.4, (40, 40))
    ball = Spheres([[0, 0, 0.1, 0.1]], [0])
    assert (draw(ball, camera, np.full((40, 40), 0.5)).body == -1).all()
    picture = draw(ball, camera)
    seen = shaded(picture, np.array([[1.0, 0.5, 0.0]]), np.array([10, 20, 30]))
    assert seen[0, 0].tolist() == [10, 20, 30]
    assert seen[19, 24, 0] > seen[19, 5, 0] or picture.body[19, 5] < 0
    assert seen[20, 20, 1] == pytest.approx(seen[20, 20, 0] / 2, abs=1)
    with pytest.raises(ValueError, match="the picture's shape"):
        draw(ball, camera, np.zeros((3, 3)))
