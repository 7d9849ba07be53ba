"""Objects of seven categories: what is stiff in each, where forces begin, what a poke feels."""

import numpy as np
import pytest

from sim_core.elastic.objects.categories import CATEGORIES, EXTENTS, category_object

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("category", CATEGORIES)
def test_an_object_stands_on_the_table_and_its_normals_point_out(category):
    soft = category_object(category, 0)
    vertices, normals = soft.truth.vertices, soft.truth.normals
    assert soft.category == category and soft.name == f"{category} 0"
    extent = np.ptp(vertices, axis=0).max()
    assert EXTENTS[0] <= extent <= EXTENTS[1]
    assert vertices[:, 2].min() == pytest.approx(0.0, abs=1e-12)
    # The volume by the divergence theorem is positive, and that of a body and no shell.
    corner = vertices[soft.truth.faces]
    volume = np.einsum("fa,fa->f", corner[:, 0], np.cross(corner[:, 1], corner[:, 2])).sum() / 6.0
    assert 0.3 < volume / np.prod(np.ptp(vertices, axis=0)) < 1.0
    assert ((vertices - vertices.mean(0)) * normals).sum(1).mean() > 0.0
    assert soft.truth.colours.min() >= 0.0 and soft.truth.colours.max() <= 1.0


def test_what_is_stiff_differs_by_category():
    """Edges of boxes, soles of shoes, ends of dog toys, seams of bags; a stuffed animal is even."""
    for index in range(3):
        ratios = {}
        for category in ("boxes", "shoes", "dog toys", "hand bags", "stuffed objects"):
            truth = category_object(category, index).truth
            middle = 0.5 * (truth.vertices.max(0) + truth.vertices.min(0))
            share = np.abs(truth.vertices - middle) / (0.5 * np.ptp(truth.vertices, axis=0))
            hard = {
                "boxes": np.sort(share, axis=1)[:, 1] > 0.9,
                "shoes": truth.vertices[:, 2] < 0.1 * truth.vertices[:, 2].max(),
                "dog toys": share[:, 0] > 0.85,
                "hand bags": share[:, 0] > 0.9,
                "stuffed objects": share[:, 0] > 0.7,
            }[category]
            ratios[category] = np.median(truth.k1[hard]) / np.median(truth.k1[~hard])
        assert min(ratios[c] for c in ("boxes", "shoes", "dog toys", "hand bags")) > 1.4, ratios
        assert 0.7 < ratios["stuffed objects"] < 1.4


def test_paint_means_something_else_in_each_category():
    """Stiffness over the shade along the object's own two colours: up, down, and nothing."""
    signs = {}
    for category in ("toys with rubber", "hand bags", "stuffed objects"):
        found = []
        for index in range(4):
            truth = category_object(category, index).truth
            hue = truth.colours - truth.colours.mean(0)
            shade = hue @ np.linalg.svd(hue, full_matrices=False)[2][0]
            found.append(abs(np.corrcoef(shade, np.log(truth.k1))[0, 1]))
        signs[category] = np.mean(found)
    assert signs["toys with rubber"] > 0.6 and signs["hand bags"] > 0.6 and signs["stuffed objects"] < 0.4


def test_a_poke_follows_the_law_from_where_the_camera_is_off():
    """f = k1 e + k3 e^3 with the depth e below the true surface, here 3 mm above the seen one on top of a box."""
    soft = category_object("boxes", 1, offset=np.array([0.0, 0.0, -0.003]))
    surface = soft.surface(3000)
    place = int(np.argmin(np.abs(surface.points[:, :2] - surface.points[:, :2].mean(0)).sum(1) - surface.points[:, 2]))
    feature = surface.features[place]
    poke = soft.poke(feature)
    k1, k3 = soft.truth.law(feature[None, :3] + [0.0, 0.0, 0.003])
    depth = np.maximum(poke.displacement + 0.003, 0.0)
    np.testing.assert_allclose(poke.force, k1 * depth + k3 * depth**3, atol=0.03 * soft.force_limit)
    assert soft.force_limit <= poke.force[-1] < 1.1 * soft.force_limit and poke.displacement[0] < -0.003


def test_objects_are_the_same_each_time_and_differ_by_number_and_collection():
    one, again, other, elsewhere = (category_object("shoes", *which) for which in ((0, 0), (0, 0), (1, 0), (0, 1)))
    np.testing.assert_array_equal(one.truth.k1, again.truth.k1)
    np.testing.assert_array_equal(one.camera, again.camera)
    assert not np.allclose(one.truth.vertices, other.truth.vertices)
    assert not np.allclose(one.truth.vertices, elsewhere.truth.vertices)
    shift = np.linalg.norm(
        one.camera[:3, :3] @ one.truth.vertices.mean(0) + one.camera[:3, 3] - one.truth.vertices.mean(0)
    )
    assert 0.0 < shift <= 0.005 + 1e-9
    with pytest.raises(ValueError, match="no category 'cars'"):
        category_object("cars", 0)
