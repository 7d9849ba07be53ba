"""Noise of a depth camera: its statistics on walls, what slopes and edges do, and that it repeats."""

import numpy as np
import pytest

from sim_core.perception.depth_noise import noisy_depth

pytestmark = pytest.mark.pure

SIZE = 120


def wall(distance, slope=0.0, field=0.3):
    """Depths along rays, points and rays of a wall `distance` ahead, turned by `slope` [rad] about the vertical."""
    u, v = np.meshgrid(*[np.tan(field / 2) * np.linspace(-1, 1, SIZE)] * 2)
    rays = np.stack([u, v, np.ones_like(u)], -1)
    rays /= np.linalg.norm(rays, axis=2, keepdims=True)
    normal = np.array([np.sin(slope), 0.0, np.cos(slope)])
    depth = distance * normal[2] / (rays @ normal)
    return depth, depth[..., None] * rays, rays


def noise(distance, slope=0.0, field=0.3, seed=0):
    depth, points, rays = wall(distance, slope, field)
    return noisy_depth(depth, points, rays, np.random.default_rng(seed)) - depth


@pytest.mark.parametrize("distance, expected", [(1.0, 0.0025), (2.0, 0.01)])
def test_it_grows_with_the_square_of_the_distance(distance, expected):
    off = noise(distance, field=0.05)[np.isfinite(noise(distance, field=0.05))]
    assert np.std(off) == pytest.approx(expected, rel=0.03) and abs(np.mean(off)) < 0.05 * expected


def test_it_grows_where_the_wall_is_slanted():
    straight, slanted = (np.nanstd(noise(1.0, slope, field=0.02)) for slope in (0.0, np.deg2rad(60)))
    assert slanted / straight == pytest.approx(np.sqrt(2.0), rel=0.05)  # one over the root of the cosine


def test_rays_are_lost_now_and_then_and_where_they_graze():
    assert np.isnan(noise(1.0)).mean() == pytest.approx(0.01, abs=0.004)
    assert np.isnan(noise(1.0, np.deg2rad(85), field=0.01)).all()  # a cosine of 0.09


def test_it_repeats_with_its_seed():
    assert np.array_equal(noise(1.0, seed=3), noise(1.0, seed=3), equal_nan=True)
    assert not np.array_equal(noise(1.0, seed=3), noise(1.0, seed=4), equal_nan=True)


@pytest.mark.parametrize("behind", [np.nan, 1.2])
def test_edges_mix_depths_whether_or_not_something_is_behind(behind):
    """A wall that ends in the middle of the picture: its last column keeps its rays, a third of which lie farther away."""
    near, far, rays = wall(1.0)[0], wall(1.2)[0], wall(1.0)[2]
    half = SIZE // 2
    depth = np.where(np.arange(SIZE) < half, near, far if np.isfinite(behind) else np.nan)
    draws = [
        noisy_depth(depth, depth[..., None] * rays, rays, np.random.default_rng(seed)) - depth for seed in range(20)
    ]
    edge = np.stack(draws)[:, 1:-1, half - 1]
    mixed = edge > 0.015  # four standard deviations of the noise there
    # of those that mix, 0.7 lie that much farther away
    assert np.isnan(edge).mean() < 0.03 and mixed.mean() == pytest.approx(0.3 * 0.7, abs=0.03)
    inside = np.stack(draws)[:, 1:-1, half - 5 : half - 2]
    assert np.nanmax(np.abs(inside)) < 0.015
    if np.isfinite(behind):  # what is behind is noisy, but mixes with nothing that is farther away
        assert np.nanmax(np.stack(draws)[:, 1:-1, half:]) < 0.03
