"""A camera's noise is settled: by statistics on a plane, by a closed form on a sphere."""

import numpy as np
import pytest

from sim_core.elastic.smoothing import settled
from sim_core.elastic.surface import Surface

pytestmark = pytest.mark.pure


def surface(points, normals):
    return Surface(points, np.full((len(points), 3), 0.5), normals)


def test_noise_on_a_plane_shrinks_as_a_mean_of_so_many():
    rng = np.random.default_rng(0)
    points = np.c_[rng.uniform(0.0, 0.1, (4000, 2)), rng.normal(0.0, 2e-3, 4000)]
    # neighbours are found in space, so that those of a point above the plane are above it too: more of them are needed
    found = settled(surface(points, np.tile([0.0, 0.0, 1.0], (4000, 1))), 200)
    assert found.points[:, 2].std() < 5e-4
    np.testing.assert_array_equal(found.points[:, :2], points[:, :2])


def test_a_sphere_shrinks_by_what_the_text_says():
    k = np.arange(20000) + 0.5
    z, turn = 1.0 - 2.0 * k / 20000, np.pi * (1.0 + 5.0**0.5) * k
    normals = np.stack([np.sqrt(1.0 - z**2) * np.cos(turn), np.sqrt(1.0 - z**2) * np.sin(turn), z], axis=1)
    radius, count = 0.06, 100
    found = settled(surface(radius * normals, normals), count)
    reach = 2.0 * radius * np.sqrt(count / 20000)  # of neighbours on a sphere: their share of its area
    assert radius - np.linalg.norm(found.points, axis=1).mean() == pytest.approx(reach**2 / (4.0 * radius), rel=0.02)


def test_cubes_leave_one_layer_with_unit_normals():
    rng = np.random.default_rng(1)
    points = np.c_[rng.uniform(0.0, 0.06, (6000, 2)), 0.0015 + rng.normal(0.0, 1.5e-3, 6000)]
    found = settled(surface(points, np.tile([0.0, 0.0, 1.0], (6000, 1))), 150, 3e-3)
    assert len(found) < 1.3 * (0.06 / 3e-3) ** 2
    np.testing.assert_allclose(np.linalg.norm(found.normals, axis=1), 1.0)
    with pytest.raises(ValueError, match="3 neighbours or more"):
        settled(found, 2)
