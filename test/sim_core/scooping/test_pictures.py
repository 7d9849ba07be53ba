"""Pictures, crops and the files of scoops: exact geometry, and what is written is what is read."""

import numpy as np
import pytest

from sim_core.scooping.bed.actions import Actions, grid, random_actions
from sim_core.scooping.bed.rendering import PIXEL, Camera, Picture
from sim_core.scooping.bed.suite import Recipe
from sim_core.scooping.bed.terrain import make_terrain
from sim_core.scooping.learning.crops import CROP, START, crops, halved
from sim_core.scooping.learning.dataset import DataSetError, collect, generate, load, read_record

pytestmark = pytest.mark.pure


def ramp(a, b):
    """A picture whose height is a x + b y + 0.1 and whose colours are flat."""
    x = (np.arange(360) + 0.5) * PIXEL - 0.45
    y = (np.arange(240) + 0.5) * PIXEL - 0.30
    height = (0.1 + a * x[None] + b * y[:, None]).astype(np.float32)
    return Picture(np.full((240, 360, 3), [51, 102, 204], np.uint8), height, np.array([-0.45, -0.30]))


@pytest.mark.parametrize("size", [64, 32])
def test_a_crop_of_a_plane_is_the_plane_seen_along_the_drag(size):
    some = random_actions(40, np.random.default_rng(0))
    found = crops(ramp(0.3, -0.2), some, size)
    assert found.shape == (40, 4, size, size) and found.dtype == np.float32
    assert np.allclose(found[:, :3], np.array([0.2, 0.4, 0.8])[:, None, None], atol=1e-6)
    u = ((np.arange(size) + 0.5) / size - START[0]) * CROP
    v = ((np.arange(size) + 0.5) / size - START[1]) * CROP
    cosine, sine = (f(some.yaw)[:, None, None] for f in (np.cos, np.sin))
    exact = 0.3 * (u * cosine - v[:, None] * sine) - 0.2 * (u * sine + v[:, None] * cosine)
    assert np.allclose(found[:, 3], exact, atol=2e-5)


def test_halved_is_the_mean_of_four():
    some = np.random.default_rng(0).uniform(size=(3, 4, 8, 8)).astype(np.float32)
    assert halved(some)[1, 2, 0, 3] == pytest.approx(some[1, 2, :2, 6:].mean())


def test_a_window_shows_what_the_whole_shows():
    terrain = make_terrain(Recipe(9, "Partition", ("gravel", "corn")))
    camera = Camera(terrain)
    whole = camera.picture(np.random.default_rng(0), noise=False)
    some = random_actions(6, np.random.default_rng(1))
    for k in range(6):
        part = camera.picture(np.random.default_rng(0), some.place[k], noise=False)
        assert part.height.size < whole.height.size
        assert np.allclose(crops(part, some[[k]]), crops(whole, some[[k]]), atol=1e-4)


def test_noise_is_a_camera_s_and_grains_are_others_after_a_scoop():
    terrain = make_terrain(Recipe(1, "Single", ("sand",)))
    camera = Camera(terrain)
    exact = camera.picture(np.random.default_rng(0), noise=False)
    noisy = camera.picture(np.random.default_rng(0))
    assert np.isfinite(noisy.height).all()
    assert 0.001 < np.std(noisy.height - exact.height) < 0.005
    terrain.touched[20:30, 40:50] += 1
    other = camera.picture(np.random.default_rng(0), noise=False)
    changed = (other.colour != exact.colour).any(-1)
    assert changed[85:115, 165:195].mean() > 0.9 and not changed[:70].any()


def test_materials_look_different():
    means = [
        Camera(make_terrain(Recipe(k, "Single", (name,)))).picture(np.random.default_rng(0)).colour.mean((0, 1))
        for k, name in enumerate(("sand", "slates", "corn", "mulch"), 1)
    ]
    assert min(np.abs(a - b).max() for i, a in enumerate(means) for b in means[:i]) > 15.0


def test_files_hold_what_was_collected_and_a_killed_run_goes_on(tmp_path):
    recipes = [Recipe(1, "Single", ("corn",)), Recipe(64, "Layers", ("sand", "bedding", "rock"))]
    made = generate(recipes, tmp_path, scoops=5)
    fresh = collect(recipes[1], 5)
    assert made[1].name == recipes[1].name == "64 Layers sand + bedding + rock"
    assert np.allclose(made[1].crops, fresh.crops, atol=2.1e-3) and (made[1].volumes == fresh.volumes).all()
    assert (made[1].actions.table() == fresh.actions.table()).all()
    assert np.allclose(made[1].first.height, fresh.first.height, atol=1e-4)
    assert made[0].threshold(2) == np.sort(made[0].volumes)[-2]
    lost = tmp_path / "terrain_64.npz"
    before = lost.read_bytes()
    lost.unlink()
    counts = []
    again = generate(recipes, tmp_path, scoops=5, done=counts.append)
    assert counts == [1] and (again[1].crops == made[1].crops).all() and lost.stat().st_size == len(before)
    assert [record.number for record in load(tmp_path)] == [1, 64]
    with pytest.raises(DataSetError, match="other settings"):
        generate(recipes, tmp_path, scoops=6)
    lost.write_bytes(before[:1000])
    with pytest.raises(DataSetError, match="delete it"):
        read_record(lost)
    with pytest.raises(DataSetError, match="found none"):
        load(tmp_path / "empty")


def test_the_grid_s_crops_are_many_and_the_same_as_alone():
    picture = ramp(0.1, 0.2)
    every = grid()[::8]
    found = crops(picture, every, 32)
    assert found.shape == (1440, 4, 32, 32)
    one = Actions.of(every.table()[[777]])
    assert (crops(picture, one, 32)[0] == found[777]).all()


def test_crops_are_the_same_with_and_without_a_compiler(monkeypatch):
    from sim_core.scooping.learning import crops as module

    if module.kernels() is None:
        pytest.skip("there is no C compiler here")
    rng = np.random.default_rng(8)
    shape = (60, 90)
    picture = Picture(
        rng.integers(0, 255, (*shape, 3)).astype(np.uint8),
        rng.uniform(0, 0.2, shape).astype(np.float32),
        -np.array([0.45, 0.3]),
        0.01,
    )
    actions = random_actions(40, rng)
    compiled = module.crops(picture, actions, 16, threads=3)
    monkeypatch.setattr(module, "kernels", lambda: None)
    np.testing.assert_allclose(compiled, module.crops(picture, actions, 16), atol=3e-5)
