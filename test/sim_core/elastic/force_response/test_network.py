"""The network that sees an object and a poke: groups, order of points, symmetries, and what counts."""

import numpy as np
import pytest
import torch

from sim_core.elastic.force_response.clouds import canonical, frame_of, seen, symmetries
from sim_core.elastic.force_response.grouping import GroupCache, farthest_points, groups_of, neighbours
from sim_core.elastic.force_response.network import FULL, SMALL, ForceExtractor

pytestmark = pytest.mark.pure
rng = np.random.default_rng(0)


def cloud(count=2048, seed=0):
    """Coloured points on an ellipsoid (count, 6), of radius about 1."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(count, 3))
    u /= np.linalg.norm(u, axis=1)[:, None]
    return np.column_stack([u * [1.0, 0.7, 0.5], rng.random((count, 3))]).astype(np.float32)


def test_farthest_points_on_a_line_halve_the_gaps():
    points = np.zeros((9, 3))
    points[:, 0] = np.arange(9.0) ** 1.001
    chosen = farthest_points(points, 5)
    assert chosen[0] == 8 and chosen[1] == 0 and chosen[2] == 4
    assert sorted(chosen[3:]) == [2, 6]
    with pytest.raises(ValueError, match="9"):
        farthest_points(points, 10)


def test_neighbours_are_those_within_the_radius_and_the_nearest_fills_up():
    points = rng.random((200, 3))
    found = neighbours(points, points[:7], 0.25, 16)
    distance = np.linalg.norm(points[:7, None] - points, axis=2)
    for k in range(7):
        inside = np.flatnonzero(distance[k] <= 0.25)
        nearest = set(inside[np.argsort(distance[k][inside])][:16])
        assert set(found[k]) == nearest and found[k, 0] == k
    assert neighbours(points[:3], points[:1], 0.25, 5).shape == (1, 5)


def test_groups_do_not_depend_on_the_order_of_the_points():
    one = cloud(500)
    other = one[rng.permutation(500)]
    a, b = groups_of(one, SMALL.levels), groups_of(other, SMALL.levels)
    np.testing.assert_array_equal(one[a.order], other[b.order])
    for x, y in zip((*a.centroids, *a.neighbours), (*b.centroids, *b.neighbours)):
        assert torch.equal(x, y)


@pytest.mark.parametrize("size", ["small", "full"])
def test_what_is_found_in_a_cloud_does_not_depend_on_the_order_of_its_points(size):
    torch.manual_seed(0)
    extractor, one = ForceExtractor(size), torch.from_numpy(cloud())
    with torch.no_grad():
        found = extractor.encode(torch.stack([one, one[torch.from_numpy(rng.permutation(2048))]]))
        assert found.shape == (2, extractor.widths.dense[-1])
        assert (found[0] - found[1]).abs().max() < 1e-4
        other = one.clone()
        other[:200, 3:] = 0.0
        assert (extractor.encode(other[None]) - found[0]).abs().max() > 1e-2
        alone = extractor.encode(one[None])[0]
        assert torch.allclose(alone, found[0], atol=1e-5)


def test_published_widths():
    extractor = ForceExtractor("full")
    shapes = [[tuple(p.shape) for p in part.parameters() if p.ndim == 2] for part in extractor.levels]
    assert shapes == [[(64, 6), (64, 64), (128, 64)], [(128, 131), (128, 128), (256, 128)]]
    assert [tuple(p.shape) for p in extractor.whole.parameters() if p.ndim == 2] == [
        (256, 259),
        (512, 256),
        (1024, 512),
    ]
    assert [tuple(p.shape) for p in extractor.dense.parameters() if p.ndim == 2] == [(512, 1024), (256, 512)]
    assert [tuple(p.shape) for p in extractor.head.parameters() if p.ndim == 2] == [(64, 260), (32, 64)]
    assert FULL.levels[0].radius == 0.2 and FULL.levels[1].count == 64


def test_a_set_abstraction_by_hand():
    """One level, computed point by point: offsets from the centre and colours, layers, the largest."""
    torch.manual_seed(1)
    extractor, view = ForceExtractor("small"), cloud(300, 3)
    groups = groups_of(view, SMALL.levels)
    points = view[groups.order.numpy()]
    layers = extractor.levels[0]
    with torch.no_grad():
        expected = []
        for centre, around in zip(groups.centroids[0].tolist(), groups.neighbours[0].tolist()):
            rows = [np.concatenate([points[j, :3] - points[centre, :3], points[j, 3:]]) for j in around]
            expected.append(torch.relu(layers(torch.from_numpy(np.stack(rows)))).amax(0))
        # The second level's centres are chosen among the first's.
        chosen = torch.stack(expected)
        places = torch.from_numpy(points[groups.centroids[0].numpy(), :3])
        second = []
        for centre, around in zip(groups.centroids[1].tolist(), groups.neighbours[1]):
            rows = torch.cat([places[around] - places[centre], chosen[around]], 1)
            second.append(torch.relu(extractor.levels[1](rows)).amax(0))
        left = places[groups.centroids[1]]
        whole = torch.relu(extractor.whole(torch.cat([left, torch.stack(second)], 1)).amax(0))
        np.testing.assert_allclose(
            extractor.encode(torch.from_numpy(view)[None])[0], torch.relu(extractor.dense(whole)), rtol=1e-4, atol=1e-6
        )


def test_groups_are_found_once_for_each_cloud():
    cache, views = GroupCache(SMALL.levels, size=2), torch.from_numpy(np.stack([cloud(300, k) for k in range(3)]))
    first = cache(views[:2])
    assert cache(views[:2])[0] is first[0]
    cache(views[2:])
    assert cache(views[1:2])[0] is first[1] and cache(views[:1])[0] is not first[0]


def test_turned_and_mirrored_objects():
    views, numbers = torch.from_numpy(cloud(50))[None], torch.from_numpy(rng.random((4, 4)).astype(np.float32))
    where = torch.cat([numbers[:, :3], torch.from_numpy(rng.normal(size=(4, 3)).astype(np.float32))], 1)
    seen_once = {tuple(np.round(views[0, 0, :2].tolist(), 5))}
    for which in range(1, 8):
        turned, places, others = symmetries((views, numbers, where), which)
        # A normal turns with its place.
        assert torch.equal(others[:, :3], places[:, :3])
        np.testing.assert_allclose(
            (others[:, :3] * others[:, 3:]).sum(1), (where[:, :3] * where[:, 3:]).sum(1), rtol=1e-5
        )
        assert torch.equal(turned[..., 2:], views[..., 2:]) and torch.equal(places[:, 2:], numbers[:, 2:])
        # Distances between pokes and points stay.
        before, after = torch.cdist(numbers[:, :3], views[0, :, :3]), torch.cdist(places[:, :3], turned[0, :, :3])
        np.testing.assert_allclose(after, before, atol=1e-6)
        seen_once.add(tuple(np.round(turned[0, 0, :2].tolist(), 5)))
    assert len(seen_once) == 8


def test_an_object_in_its_own_frame():
    points = rng.random((3000, 3)) * [0.3, 0.2, 0.1] + [1.0, -2.0, 0.5]
    frame = frame_of(points)
    inside = frame.points(points)
    assert np.abs(inside.mean(0)).max() < 1e-12
    assert np.linalg.norm(inside, axis=1).max() == pytest.approx(1.0)
    numbers = frame.numbers(points[:2], np.array([0.01, -0.002]))
    np.testing.assert_allclose(numbers[:, 3] * frame.radius, [0.01, -0.002], rtol=1e-6)
    view = seen(points, rng.random((3000, 3)), frame)
    assert view.shape == (1, 2048, 6) and len(np.unique(view[0], axis=0)) == 2048
    np.testing.assert_array_equal(canonical(view[0]), view[0])
    few = seen(points[:100], np.zeros((100, 3)), frame, 150)
    assert few.shape == (1, 150, 6) and len(np.unique(few[0], axis=0)) == 100


def test_the_same_points_are_seen_whatever_their_order():
    points, colours = rng.random((3000, 3)), rng.random((3000, 3))
    order = rng.permutation(3000)
    one = seen(points, colours, frame_of(points))
    np.testing.assert_array_equal(seen(points[order], colours[order], frame_of(points[order])), one)


def test_what_is_refused():
    with pytest.raises(ValueError, match="one place"):
        frame_of(np.ones((5, 3)))
    with pytest.raises(ValueError, match="finite"):
        frame_of(np.full((5, 3), np.nan))
    with pytest.raises(ValueError, match="from 0 to 1"):
        seen(np.random.rand(5, 3), np.full((5, 3), 255.0), frame_of(np.random.rand(5, 3)))
    with pytest.raises(ValueError, match="small"):
        ForceExtractor("huge")
    with pytest.raises(ValueError, match="clouds"):
        ForceExtractor().encode(torch.zeros(1, 5, 3))
