"""Where to poke next: choices, failures, and checkpoints from which the same place is asked for next."""

import json

import numpy as np
import pytest

from identification.elastic.model_choice import fit_point_model
from sim_core.elastic.exploration import CHOICES, Exploration, ExplorationSettings, voxel_sample
from sim_core.elastic.poke import Poke
from sim_core.elastic.surface import Surface
from sim_core.planning.candidates import NoCandidate
from sim_core.planning.checkpoint import load, save

pytestmark = pytest.mark.pure

FIT = fit_point_model("process")


def slab(length=0.12, width=0.08, spacing=0.004, low=0.0):
    """A flat top with two steep sides."""
    x, y = np.meshgrid(np.arange(low, length, spacing), np.arange(0.0, width, spacing), indexing="ij")
    top = np.stack([x.ravel(), y.ravel(), np.full(x.size, 0.05)], 1)
    side = top[top[:, 1] < spacing / 2] - [0.0, 0.002, 0.02]
    points = np.concatenate([top, side])
    normals = np.concatenate([np.tile([0.0, 0.0, 1.0], (len(top), 1)), np.tile([0.0, -1.0, 0.0], (len(side), 1))])
    return Surface(points, np.full((len(points), 3), 0.5), normals)


def stiffness(point):
    return 300.0 + 4000.0 * np.maximum(point[..., 0] - 0.06, 0.0)


def poked(place):
    d = np.linspace(0.0, 0.008, 8)
    return Poke(feature=place.feature, displacement=d, force=stiffness(place.point) * d)


def explore(exploration, pokes):
    places = []
    for _ in range(pokes):
        place = exploration.ask()
        places.append(place.index)
        exploration.tell(place.index, poked(place))
    return places


def test_one_point_of_each_voxel_is_a_candidate():
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.05, 0.05, (3000, 3))
    rows = voxel_sample(points, 0.02)
    voxels = {tuple(v) for v in np.floor(points / 0.02).astype(int)}
    assert len(rows) == len(voxels) == len({tuple(v) for v in np.floor(points[rows] / 0.02).astype(int)})
    k = rows[7]
    same = (np.floor(points / 0.02) == np.floor(points[k] / 0.02)).all(axis=1)
    away = np.linalg.norm(points[same] - points[same].mean(axis=0), axis=1)
    assert np.linalg.norm(points[k] - points[same].mean(axis=0)) == pytest.approx(away.min())


def test_steep_places_are_not_poked():
    exploration = Exploration(slab(), FIT)
    assert exploration.candidates.closed["too steep"]
    assert all(exploration.place(k).normal[2] == 1.0 for k in np.flatnonzero(exploration.candidates.open))
    with pytest.raises(ValueError, match="are its normals outward"):
        surface = slab()
        Exploration(Surface(surface.points, surface.colours, -surface.normals), FIT)


def test_nobody_pokes_at_the_border_and_nobody_sees_one_on_a_closed_top():
    exploration = Exploration(slab(0.2, 0.16, 0.004), FIT, ExplorationSettings(spacing=0.015, margin=0.02))
    border = exploration.candidates.places[exploration.candidates.closed["at the border"]]
    inner = exploration.candidates.places[exploration.candidates.open]
    from_edge = lambda p: np.minimum.reduce([p[:, 0], 0.196 - p[:, 0], p[:, 1], 0.156 - p[:, 1]])
    assert from_edge(inner).min() > 0.007 and from_edge(border[border[:, 2] > 0.045]).max() < 0.011
    k = np.arange(4000) + 0.5
    z, turn = 1.0 - 2.0 * k / 4000, np.pi * (1.0 + 5.0**0.5) * k
    normals = np.stack([np.sqrt(1.0 - z**2) * np.cos(turn), np.sqrt(1.0 - z**2) * np.sin(turn), z], axis=1)
    ball = Surface(0.05 * normals, np.full((4000, 3), 0.5), normals)
    assert not Exploration(ball, FIT, ExplorationSettings()).candidates.closed["at the border"]


def test_by_how_much_the_scan_is_off_is_the_median_of_where_pokes_begin():
    exploration = Exploration(slab(), FIT)
    assert exploration.onset == 0.0
    d = np.linspace(-0.004, 0.008, 60)
    for begin in (0.001, 0.002, 0.006):
        place = exploration.ask()
        exploration.tell(place.index, Poke(place.feature, d, 600.0 * np.maximum(d - begin, 0.0)))
    assert exploration.onset == pytest.approx(0.002, abs=3e-4)


@pytest.mark.parametrize("choice", CHOICES)
def test_asked_twice_it_answers_the_same_and_no_place_is_poked_twice(choice):
    exploration = Exploration(slab(), FIT, ExplorationSettings(choice=choice))
    found = []
    for _ in range(5):
        first, second = exploration.ask(), exploration.ask()
        assert first.index == second.index
        found.append(first.index)
        exploration.tell(first.index, poked(first))
    assert len(set(found)) == 5 and exploration.tried == found


def test_the_least_sure_place_is_poked_next():
    exploration = Exploration(slab(), FIT, ExplorationSettings(choice="variance"))
    explore(exploration, 2)
    place = exploration.ask()
    numbers = np.flatnonzero(exploration.candidates.open)
    assert place.deviation == pytest.approx(exploration.deviation(numbers).max())
    before = exploration.mean_deviation()
    explore(exploration, 5)
    assert exploration.mean_deviation() < before


def test_the_farthest_place_is_poked_next():
    exploration = Exploration(slab(), FIT, ExplorationSettings(choice="spread"))
    (first,) = explore(exploration, 1)
    middle = exploration.candidates.places.mean(axis=0)
    away = np.linalg.norm(exploration.candidates.places - middle, axis=1)
    assert away[first] == pytest.approx(away[np.flatnonzero(exploration.candidates.open).tolist() + [first]].min())
    place = exploration.ask()
    apart = np.linalg.norm(exploration.candidates.places - exploration.candidates.places[first], axis=1)
    assert apart[place.index] == pytest.approx(apart[exploration.candidates.open].max())


def test_pokes_where_it_is_unsure_teach_more_than_chance():
    """Error over the whole surface after six pokes, against the mean of six draws."""
    surface = slab()
    rows = np.flatnonzero(surface.normals[:, 2] > 0.5)
    d = np.full(len(rows), 0.006)

    def error(choice, seed=0):
        exploration = Exploration(surface, FIT, ExplorationSettings(choice=choice, seed=seed))
        explore(exploration, 6)
        off = exploration.model.predict(surface.features[rows], d) - stiffness(surface.points[rows]) * d
        return float(np.sqrt((off**2).mean()))

    assert error("variance") < np.mean([error("random", seed) for seed in range(6)])


@pytest.mark.parametrize("choice", CHOICES)
def test_resumed_from_its_file_it_asks_for_the_same_places(choice, tmp_path):
    surface = slab()
    whole = Exploration(surface, FIT, ExplorationSettings(choice=choice, seed=4))
    explore(whole, 3)
    unreachable = whole.ask().index
    whole.fail(unreachable, "out of reach")
    # Places at the border were closed from the begin, and nobody poked them.
    assert whole.failed == [unreachable] and whole.candidates.closed["at the border"]
    save(whole.checkpoint(), tmp_path / "exploration.json")
    resumed = Exploration.resume(load(tmp_path / "exploration.json"), surface, FIT)
    assert resumed.candidates.closed == whole.candidates.closed and resumed.tried == whole.tried
    assert resumed.checkpoint() == whole.checkpoint() == json.loads(json.dumps(whole.checkpoint()))
    features, d = surface.features, np.full(len(surface), 0.004)
    np.testing.assert_array_equal(resumed.model.predict(features, d), whole.model.predict(features, d))
    assert explore(resumed, 4) == explore(whole, 4)


def test_a_checkpoint_of_something_else_is_refused():
    exploration = Exploration(slab(), FIT)
    explore(exploration, 1)
    state = exploration.checkpoint()
    with pytest.raises(ValueError, match="another surface"):
        Exploration.resume(state, slab(length=0.1), FIT)
    with pytest.raises(ValueError, match="version"):
        Exploration.resume({**state, "version": 9}, slab(), FIT)
    with pytest.raises(ValueError, match="lacks pokes"):
        Exploration.resume({k: v for k, v in state.items() if k != "pokes"}, slab(), FIT)
    with pytest.raises(ValueError, match="no poke's record"):
        Exploration.resume({**state, "pokes": [{"depth": 1.0}]}, slab(), FIT)


def test_when_no_place_is_left_the_reasons_are_counted():
    exploration = Exploration(slab(), FIT, ExplorationSettings(spacing=0.05))
    while exploration.candidates.open.any():
        exploration.fail(exploration.ask().index, "out of reach")
    with pytest.raises(NoCandidate, match="out of reach"):
        exploration.ask()


def test_pokes_from_elsewhere_are_learnt_and_forgotten():
    exploration = Exploration(slab(), FIT)
    first = explore(exploration, 2)
    here, there = np.flatnonzero(exploration.candidates.open)[:2]
    exploration.add([poked(exploration.place(here))])
    assert exploration.tried == [*first, -1] and exploration.candidates.open[here]
    exploration.add([poked(exploration.place(there))], forget=True)
    assert len(exploration.pokes) == 1 and exploration.candidates.open[first].all()
    exploration.add([], forget=True)
    assert exploration.model is None and not exploration.pokes


def test_a_poke_that_is_not_finite_changes_nothing():
    exploration = Exploration(slab(), FIT)
    explore(exploration, 1)
    before = exploration.checkpoint()
    broken = Poke(
        feature=exploration.place(3).feature, displacement=np.array([0.0, 0.001]), force=np.array([0.0, np.nan])
    )
    for deed in (lambda: exploration.tell(3, broken), lambda: exploration.add([broken], forget=True)):
        with pytest.raises(ValueError, match="finite"):
            deed()
        assert exploration.checkpoint() == before
    with pytest.raises(ValueError, match="candidates 0 to"):
        exploration.tell(99999, poked(exploration.place(3)))
