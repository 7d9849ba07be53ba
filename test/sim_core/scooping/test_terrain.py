"""Terrains, what a scoop changes, and how much it brings: conservation, rest, closed forms, and the published orderings."""

from dataclasses import replace

import numpy as np
import pytest

from sim_core.scooping.bed.actions import Actions, grid, random_actions
from sim_core.scooping.bed.materials import MATERIALS, TEST, TRAINING, Soil
from sim_core.scooping.bed.relaxation import SLACK, relaxed, steepest
from sim_core.scooping.bed.reward import REWARD, alignment, expectation, scoop
from sim_core.scooping.bed.suite import SHEET, Recipe, training_recipes
from sim_core.scooping.bed.suite import test_recipes as recipes_met_afterwards
from sim_core.scooping.bed.swept import BLADE, Field, swept_volume
from sim_core.scooping.bed.terrain import CELL, Terrain, make_terrain

pytestmark = pytest.mark.pure


def action(x=0.0, y=0.0, yaw=0.0, depth=0.05, stiff=True):
    return Actions(np.array([[x, y]]), np.array([yaw]), np.array([depth]), np.array([stiff]))


def slope(name, tangent=0.0, shape=(60, 90)):
    """A plane that rises along x, 0.15 m high in its middle."""
    x = (np.arange(shape[1]) - (shape[1] - 1) / 2.0) * CELL
    height = np.tile(np.maximum(0.15 + tangent * x, 0.0), (shape[0], 1))
    zero = np.zeros(shape, int)
    return Terrain(Recipe(1, "Single", (name,)), (Soil.of([name]),), height, zero, zero, np.full(shape, np.inf), zero)


def test_the_suites_are_the_published_ones():
    training, afterwards = training_recipes(), recipes_met_afterwards()
    counts = [sum(r.composition == c for r in training) for c in ("Single", "Partition", "Mixture", "Layers")]
    assert counts == [8, 25, 18, 0] and len({(r.composition, r.materials) for r in training}) == 51
    assert {name for r in training for name in r.materials} == set(TRAINING)
    assert [r.number for r in (*training, *afterwards)] == list(range(1, 68))
    for composition in ("Single", "Mixture", "Partition", "Layers"):
        some = [r for r in afterwards if r.composition == composition]
        may = set(TEST) - ({SHEET} if composition == "Mixture" else set())
        assert len(some) == 4 and all(set(r.materials) & set(TEST) for r in some)
        assert may <= {name for r in some for name in r.materials}
        assert all(len(set(r.materials)) == len(r.materials) for r in some)
    assert not any(SHEET in r.materials for r in afterwards if r.composition == "Mixture")
    assert training_recipes(1) != training and training_recipes(0) == training


def test_slopes_come_to_rest_and_nothing_is_lost():
    height = np.zeros((41, 41))
    height[20, 20] = 5.0 * 0.01
    height[5:9, 30:33] = 0.04
    steep = np.full(height.shape, np.tan(np.radians(30.0)))
    rest = relaxed(height, steep, 0.01)
    assert rest.sum() == pytest.approx(height.sum(), rel=1e-12)
    assert steepest(rest, 0.01) <= steep[0, 0] + SLACK
    alone = relaxed(np.where(np.indices(height.shape)[1] < 25, height, 0.0), steep, 0.01)
    assert np.allclose(alone, alone.T) and np.allclose(alone, alone[::-1]), "a heap about the middle stays symmetric"
    assert (relaxed(rest, steep, 0.01) == rest).all(), "what rests, rests"
    with pytest.raises(ValueError, match="finite heights"):
        relaxed(height, steep[1:], 0.01)


def test_a_scoop_of_level_ground_sweeps_a_trapezoid():
    d = np.array([0.03, 0.055, 0.08])
    some = Actions(np.zeros((3, 2)), np.array([0.0, 0.7, -2.0]), d, np.ones(3, bool))
    level = Field(np.full((60, 90), 0.15), np.array([-0.45, -0.3]), CELL)
    exact = BLADE.width * (BLADE.drag * d + d**2 / 2.0 * (1.0 / np.tan(BLADE.attack) + 1.0 / np.tan(BLADE.rise)))
    assert swept_volume(level, some) == pytest.approx(exact, rel=0.01)


def test_uphill_sweeps_more_and_alignment_is_the_slope():
    sand = slope("sand", np.tan(np.radians(30.0)))
    yaws = np.array([0.0, np.pi / 2, np.pi])
    some = Actions(np.zeros((3, 2)), yaws, np.full(3, 0.05), np.ones(3, bool))
    up, level, down = swept_volume(sand.surface, some)
    assert up > 1.3 * level > 1.3 * down
    ahead, across = alignment(sand, some)
    assert ahead == pytest.approx([1.0, 0.0, 0.0], abs=1e-9) and across == pytest.approx([0.0, 1.0, 0.0], abs=1e-9)


def test_sand_is_best_uphill_and_gravel_across():
    """The published behaviour: sand slides in, gravel interlocks, and stones fall in from the side."""
    yaws = np.array([0.0, np.pi / 2, np.pi])
    some = Actions(np.zeros((3, 2)), yaws, np.full(3, 0.04), np.zeros(3, bool))
    tangent = np.tan(np.radians(25.0))
    up, across, down = expectation(slope("sand", tangent), some).volume
    assert up > across > down and up > 1.5 * expectation(slope("sand"), some).volume[0]
    up, across, _ = expectation(slope("gravel", tangent), some).volume
    assert across > up and across > expectation(slope("gravel"), some).volume[0]


@pytest.mark.parametrize("name", ["sand", "pebbles", "paper balls"])
def test_what_leaves_the_tray_is_what_is_in_the_scoop(name):
    terrain = make_terrain(Recipe(3, "Single", (name,)))
    rng = np.random.default_rng(4)
    some = random_actions(12, rng)
    for k in range(len(some)):
        before = terrain.volume
        brought = scoop(terrain, some[[k]], rng).volume
        assert before - terrain.volume == pytest.approx(brought, rel=1e-6, abs=1e-12)
        assert steepest(terrain.height, CELL) <= terrain.slopes[0, 0] + SLACK
    assert terrain.touched.max() >= 1


def test_scooping_uncovers_what_lies_below():
    layers, peanuts = slope("packing peanuts"), slope("packing peanuts")
    layers.soils = (*layers.soils, Soil.of(["slates"]))
    layers.below, layers.cover = np.ones_like(layers.top), np.full(layers.height.shape, 0.03)
    deep, shallow = action(depth=0.08), action(depth=0.025)
    assert expectation(layers, deep).force > 5.0 * expectation(peanuts, deep).force
    assert expectation(layers, shallow).force == expectation(peanuts, shallow).force
    for _ in range(3):
        layers.scoop(action(depth=0.05, stiff=False), 1e-4)
    bare = layers.top == 1
    assert 4 < bare.sum() < 200 and np.isinf(layers.cover[bare]).all()
    assert layers.cover[~bare].min() > 0.0 and expectation(layers, shallow).force > expectation(peanuts, shallow).force


def test_a_sheet_brings_nothing_and_stays():
    terrain = make_terrain(Recipe(62, "Single", (SHEET,)))
    before = terrain.height.copy()
    rng = np.random.default_rng(0)
    some = random_actions(20, rng)
    outcomes = [scoop(terrain, some[[k]], rng) for k in range(20)]
    assert all(outcome.volume == 0.0 for outcome in outcomes) and any(outcome.stopped for outcome in outcomes)
    assert (terrain.height == before).all()


def test_the_scoop_is_full_at_its_capacity():
    sand, rng = slope("sand", 0.5), np.random.default_rng(0)
    settings = replace(REWARD, gain=20.0)
    assert scoop(sand, action(depth=0.08), rng, settings).volume == REWARD.capacity


def test_the_arm_stops_in_slates_when_stiff_and_deep_alone():
    slates = slope("slates", 0.5)
    force = expectation(
        slates, Actions.of(np.array([[0, 0, 0, 0.08, 1], [0, 0, 0, 0.08, 0], [0, 0, 0, 0.03, 1]], float))
    ).force
    assert force[0] > REWARD.limit > max(force[1:])
    k, r, jam, up = 750.0, MATERIALS["slates"].resistance, MATERIALS["slates"].interlock, 0.5 / REWARD.steep
    assert force[0] == pytest.approx(k * r / (k + r) * 0.08 * (1.0 + jam * up))


def test_the_luck_of_buried_grains_has_mean_one():
    gravel = slope("gravel")
    would = float(expectation(gravel, action(stiff=False)).volume[0])
    rng = np.random.default_rng(1)
    found = [scoop(gravel.copy(), action(stiff=False), rng).volume for _ in range(100)]
    assert np.mean(found) == pytest.approx(would, rel=3.0 * 0.36 / np.sqrt(100))


def test_the_grid_has_every_action_once_and_shares_pictures():
    every = grid()
    assert len(every) == 11520 and len(np.unique(every.table(), axis=0)) == 11520
    pictures = every.table()[:, :3].reshape(1440, 8, 3)
    assert (pictures == pictures[:, :1]).all()
    assert np.abs(every.place).max(0) == pytest.approx([0.21, 0.11])
    assert every.numbers.min(0) == pytest.approx([0.03, 0.0]) and every.numbers.max(0) == pytest.approx([0.08, 1.0])
