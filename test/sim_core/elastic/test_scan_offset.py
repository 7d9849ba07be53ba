"""Where pokes begin, and the shift of the scan that they tell; models that are asked with caution."""

import numpy as np
import pytest

from sim_core.elastic.poke import Poke, downsampled
from sim_core.elastic.scan_offset import onset, scan_shift, shifted
from sim_core.elastic.surface import Surface

pytestmark = pytest.mark.pure


def poke(normal, begins, rng, stiffness=500.0, noise=0.05, deepest=0.01):
    """A spring that is met at a displacement `begins`, sampled every 8 um."""
    d = np.arange(-0.006, begins + deepest, 8e-6)
    n = np.asarray(normal, float) / np.linalg.norm(normal)
    force = stiffness * np.maximum(d - begins, 0.0) + noise * rng.normal(size=len(d))
    return Poke(np.concatenate([rng.normal(size=3), [0.5] * 3, n]), d, force)


@pytest.mark.parametrize("begins", [-0.004, 0.0, 0.003])
def test_a_force_begins_where_the_surface_is(begins):
    rng = np.random.default_rng(0)
    assert onset(poke((0, 0, 1), begins, rng)) == pytest.approx(begins, abs=2e-4)
    # of few samples as well, from the first to the last of the poke
    few = downsampled(poke((0, 0, 1), begins, rng, noise=0.0), 40)
    assert onset(few) == pytest.approx(begins, abs=3e-4)


def test_a_poke_that_hardly_touched_tells_nothing():
    rng = np.random.default_rng(1)
    light = poke((0, 0, 1), 0.0, rng, stiffness=20.0)
    assert np.isnan(onset(light)) and np.isnan(onset(Poke(light.feature, light.displacement[:2], light.force[:2])))
    with pytest.raises(ValueError, match="none of 2 did"):
        scan_shift([light, light])


def test_pokes_from_several_sides_tell_all_of_the_shift():
    rng = np.random.default_rng(2)
    shift = np.array([0.002, -0.001, 0.0035])
    normals = rng.normal(size=(10, 3)) * [0.6, 0.6, 0.2] + [0.0, 0.0, 1.0]
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    pokes = [poke(n, -float(n @ shift), rng, stiffness=rng.uniform(300.0, 1500.0)) for n in normals]
    found = scan_shift([*pokes, poke((0, 0, 1), 0.0, rng, stiffness=10.0)])
    assert found == pytest.approx(shift, abs=4e-4)


def test_what_no_normal_tells_stays():
    rng = np.random.default_rng(3)
    found = scan_shift([poke((0, 0, 1), -0.003, rng) for _ in range(10)])
    assert found == pytest.approx([0.0, 0.0, 0.003], abs=2e-4)


def test_after_the_shift_forces_begin_at_the_surface():
    rng = np.random.default_rng(4)
    shift = np.array([0.001, 0.002, -0.003])
    normals = rng.normal(size=(8, 3)) * [0.5, 0.5, 0.1] + [0.0, 0.0, 1.0]
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    pokes = [poke(n, -float(n @ shift), rng) for n in normals]
    surface = Surface(rng.normal(size=(5, 3)), np.full((5, 3), 0.5), np.tile([0.0, 0.0, 1.0], (5, 1)))
    moved, there = shifted(surface, pokes, shift)
    assert moved.points - surface.points == pytest.approx(np.tile(shift, (5, 1)))
    for before, after in zip(pokes, there):
        assert onset(after) == pytest.approx(0.0, abs=2e-4)
        assert after.feature[:3] - before.feature[:3] == pytest.approx(shift)
        # the tip is where it was: p - d n
        tip = [p.feature[:3] - p.displacement[:, None] * p.feature[6:] for p in (before, after)]
        across = np.eye(3) - np.outer(before.feature[6:], before.feature[6:])
        assert tip[1] - tip[0] == pytest.approx(np.tile(across @ shift, (len(before.force), 1)), abs=1e-12)
