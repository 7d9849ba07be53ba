"""The beliefs that come with the project: they are there, adapt or do not, and what is asked wrongly is said."""

import numpy as np
import pytest

from sim_core.scooping.bed.actions import grid
from sim_core.scooping.bed.rendering import Camera
from sim_core.scooping.bed.suite import test_recipes as recipes
from sim_core.scooping.bed.terrain import make_terrain
from sim_core.scooping.planning.scoop_planner import ScoopPlanner
from sim_core.scooping.planning.shipped_beliefs import POLICIES, shipped_belief

pytestmark = pytest.mark.pure

ACTIONS = grid(places=(4, 3), yaws=2, levels=2)


@pytest.mark.parametrize("policy", POLICIES)
def test_it_expects_volumes_and_learns_from_scoops_if_it_can(policy):
    pytest.importorskip("torch")
    belief, size = shipped_belief(policy)
    planner = ScoopPlanner(ACTIONS, belief, size=size)
    planner.observe(Camera(make_terrain(recipes(0)[12])).picture(np.random.default_rng(0)))
    before, _ = planner.belief_of_all()
    most = 3e-3 if policy == "swept" else 400e-6  # what the blade passes through, or what a scoop may hold [m^3]
    assert np.isfinite(before).all() and 5e-6 < before.max() < most
    planner.tell(planner.ask().index, 0.0)
    after, _ = planner.belief_of_all()
    assert (after != before).any() == policy.startswith("codega")
    if policy.startswith("codega"):
        assert after.mean() < before.mean()


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="expected one of codega, codega_places, non_adaptive, swept"):
        shipped_belief("luck")
    pytest.importorskip("torch")
    with pytest.raises(FileNotFoundError, match="no model at"):
        shipped_belief("codega", tmp_path)
