"""What the demonstration of poking says of a run: checks that are missed, and a page that shows it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

from cli.demo.poking import DEPTHS, POKES, PokeStory, _places, check, page
from identification.elastic.model_choice import fit_point_model
from sim_core.elastic.exploration import Exploration, ExplorationSettings
from sim_core.elastic.poke import Poke
from sim_core.elastic.surface import Surface

pytestmark = pytest.mark.pure


def slab():
    x, y = (a.ravel() for a in np.meshgrid(np.arange(0.0, 0.16, 0.005), np.arange(0.0, 0.1, 0.005)))
    return Surface(np.c_[x, y, 0.0 * x], np.full((len(x), 3), 0.5), np.tile([0.0, 0.0, 1.0], (len(x), 1)))


@pytest.fixture(scope="module")
def story():
    """All went well."""
    exploration = Exploration(slab(), fit_point_model("process"), ExplorationSettings(spacing=0.03))
    d = np.linspace(-0.002, 0.008, 8)
    for _ in range(POKES["full"]):
        place = exploration.ask()
        exploration.tell(place.index, Poke(place.feature, d, 400.0 * np.maximum(d, 0.0)))
    force = np.tile([0.0, 0.0, 3.0], (2 * len(DEPTHS), 1))
    return PokeStory(
        exploration=exploration,
        deviations=[0.5, 0.4, 0.3],
        failed=1,
        lines=(force, force.copy(), force + [0.5, 0.0, 0.0]),
        torques=(0.0 * force, 0.0 * force + 0.01),
        depths=np.tile(DEPTHS, 2),
        missed=np.full(20, 0.2),
        forces=np.full(20, 3.0),
        curves=[(poke.displacement, poke.force + 0.1) for poke in exploration.pokes],
        same=POKES["full"],
        over=0.1,
    )


def missed(story, quick=False):
    return [one.name for one in check(story, 0, quick).checks if not one.passed]


def test_a_good_day_passes_and_each_bad_one_misses_its_own_target(story):
    assert missed(story) == []
    said, offline, true = story.lines
    other = offline.copy()
    other[1, 2] = np.nextafter(other[1, 2], 9.0)
    assert missed(replace(story, lines=(said, other, true))) == ["answers that differ from the offline function"]
    assert missed(replace(story, same=9)) == ["of these, told by the bag to the bit"]
    assert missed(replace(story, over=0.6)) == ["largest force over a poke's limit"]
    assert missed(replace(story, missed=np.full(20, 0.5))) == ["error of a point's force at places that were not poked"]
    far = replace(story, lines=(said, offline, true + [0.0, 0.0, 2.0]))
    assert missed(far) == ["error of the force on a line"] and missed(far, quick=True) == ["pokes that told something"]


def test_the_page_shows_all_of_it(story):
    shown = page(story, check(story, 0, False), SimpleNamespace(title="An arm")).html()
    for words in (
        "Where it is hard",
        "What the pokes felt, beside the truth",
        "A line, which was never pressed",
        "How sure",
    ):
        assert words in shown


def test_lines_are_pressed_far_from_each_other_along_the_normal():
    surface = slab()
    found = _places(surface, 4)
    points = np.array([poses[0, :3, 3] + DEPTHS[0] * normal for poses, normal in found])
    apart = np.linalg.norm(points[:, None] - points, axis=2)[np.triu_indices(4, 1)]
    assert apart.min() > 0.04
    for poses, normal in found:
        np.testing.assert_allclose(poses[:, :3, 2], np.tile(normal, (len(DEPTHS), 1)))
        np.testing.assert_allclose(np.diff(poses[:, 2, 3]), -np.diff(DEPTHS))
