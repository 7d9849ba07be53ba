"""A material's numbers from scoops: known ones are found again, and a table comes back as it was written."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from sim_core.scooping.bed.actions import random_actions
from sim_core.scooping.bed.calibration import Response, Trials, calibrated, fit, load, save
from sim_core.scooping.bed.materials import MATERIALS
from sim_core.scooping.bed.reward import REWARD, alignment, expectation
from sim_core.scooping.bed.suite import Recipe
from sim_core.scooping.bed.swept import swept_volume
from sim_core.scooping.bed.terrain import make_terrain

pytestmark = pytest.mark.pure

GRAVEL = Response(**{name: getattr(MATERIALS["gravel"], name) for name in asdict(Response(0, 0, 0, 1, 0))})


def trials(n, response, noise=0.0, settings=REWARD):
    rng = np.random.default_rng(5)
    up, across = rng.uniform(0, 0.7, (2, n))
    made = Trials(
        rng.uniform(5e-5, 3e-4, n),
        up,
        across,
        rng.uniform(0.03, 0.08, n),
        np.arange(n) % 2 == 0,
        np.zeros(n),
        np.zeros(n),
    )
    luck = np.exp(noise * rng.standard_normal(n) - noise**2 / 2)
    return replace(made, volume=response.volume(made, settings) * luck, force=response.force(made, settings))


def test_a_response_tells_what_the_fast_model_expects():
    terrain = make_terrain(Recipe(1, "Single", ("gravel",)))
    actions = random_actions(40, np.random.default_rng(1))
    up, across = alignment(terrain, actions)
    made = Trials(
        swept_volume(terrain.surface, actions), up, across, actions.depth, actions.stiff, np.zeros(40), np.zeros(40)
    )
    would = expectation(terrain, actions)
    unlimited = replace(REWARD, capacity=np.inf)
    np.testing.assert_allclose(terrain.density * GRAVEL.volume(made, unlimited), would.volume, rtol=1e-9)
    np.testing.assert_allclose(GRAVEL.force(made), would.force, rtol=1e-9)


@pytest.mark.parametrize("capacity", [1.0, 4e-5])
def test_known_numbers_are_found_again(capacity):
    settings = replace(REWARD, capacity=capacity)
    data = trials(200, replace(GRAVEL, efficiency=2.0), settings=settings)
    full = (data.volume >= capacity).mean()
    assert full == 0.0 if capacity == 1.0 else 0.1 < full < 0.9
    found = fit(data, settings)
    # Resistances are tried in steps of a fifth; what counts is the product with the share of the way.
    assert found.resistance == pytest.approx(GRAVEL.resistance, rel=0.12)
    assert found.interlock == pytest.approx(GRAVEL.interlock, abs=0.05)
    assert found.fall_in == pytest.approx(GRAVEL.fall_in, abs=0.1)
    np.testing.assert_allclose(found.volume(data, settings), data.volume, rtol=0.05)


def test_scatter_is_found_again():
    data = trials(2000, GRAVEL, noise=0.3)
    assert fit(data).scatter == pytest.approx(0.3, rel=0.15)


def test_a_table_comes_back_as_it_was_written(tmp_path):
    save({"gravel": GRAVEL}, tmp_path / "table.json", "a command", 3)
    assert load(tmp_path / "table.json") == {"gravel": GRAVEL}
    assert calibrated(MATERIALS["gravel"], GRAVEL) == MATERIALS["gravel"]
    (tmp_path / "table.json").write_text('{"version": 0}')
    with pytest.raises(ValueError, match="version 1"):
        load(tmp_path / "table.json")


def test_too_few_scoops_are_refused():
    with pytest.raises(ValueError, match="found 4"):
        fit(trials(4, GRAVEL))
