"""The study of packing is tried on a coarse object: heights that are true, and ways that differ."""

import numpy as np
import pytest

from experiments.elastic.elastic_packing import LIMIT, WAYS, Job, packed
from sim_core.elastic.objects.figures import figure
from sim_core.elastic.rigid_body import sphere

pytestmark = pytest.mark.pure


@pytest.fixture(scope="module")
def found():
    pytest.importorskip("sklearn")
    return packed(Job("vest", 0, 0.07, 0.3))


def test_true_heights_are_where_the_limit_is_passed(found):
    solid, ball = figure("vest", 0, 0.3).truth, sphere().points
    for i, y in enumerate(found.y):
        for j, x in enumerate(found.x):
            z = found.truth[i, j]
            assert np.linalg.norm(solid.press(ball + [x, y, z]).force) <= LIMIT
            assert z <= 0.02 or np.linalg.norm(solid.press(ball + [x, y, z - 2.1e-4]).force) > LIMIT


def test_each_way_has_its_map_and_what_is_known_of_them_shows(found):
    assert set(found.heights) == set(found.forces) == set(WAYS)
    off = {way: np.abs(h - found.truth) for way, h in found.heights.items()}
    assert off["ours"].mean() < 2e-3 and off["ours"].mean() < off["no coupling"].mean()
    # points that do not know of each other resist together: the ball stays higher, with less force
    assert (found.heights["no coupling"] >= found.heights["ours"]).all()
    assert (found.heights["careful"] > found.heights["ours"]).mean() > 0.9
    assert found.forces["careful"].max() < found.forces["ours"].max()
    assert 0.0 < found.error < LIMIT


def test_the_shift_of_the_scan_is_found(found):
    camera = figure("vest", 0, 0.3).camera
    centre = figure("vest", 0, 0.3).truth.vertices.mean(0)
    seen = camera[:3, :3] @ centre + camera[:3, 3]
    # up and down, which most normals tell
    assert found.shift[2] == pytest.approx((centre - seen)[2], abs=1e-3)
