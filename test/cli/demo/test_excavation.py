"""What the demonstration of a dig says of trials: masses of blocks by closed forms, checks that are missed, a page that shows them."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

from cli.demo.excavation import DigStory, Dug, _mass_in, _volume, check, page
from nodes.framework.clouds import cloud_message
from sim_core.excavation.pile import Outcome, PileSettings
from sim_core.excavation.policies import State
from sim_core.excavation.primitives import displacements
from sim_core.excavation.reference_path import DEPTHS, PathSettings, make_reference_path
from sim_core.excavation.shipped_policies import shipped_policy
from sim_core.excavation.trial_run import TrialRun

pytestmark = pytest.mark.pure
DENSITY = float(np.mean(PileSettings().densities))


def dug(policy="follow", depth="medium", jams=False, mass=0.1, truth=0.11, off=0.0):
    """A trial in free space."""
    path = make_reference_path(PathSettings(depth=DEPTHS[depth]))
    run = TrialRun(shipped_policy("follow", path), path)
    pose = path.poses[0].copy()
    run.begin(State(pose, np.zeros(3)))
    while (motion := run.ask()) is not None:
        pose = pose + displacements()[motion]
        jammed = jams and len(run.actions) == 9
        run.settle(Outcome(State(pose, np.full(3, 5.0)), jammed, 30.0, 20.0, np.zeros(4)))
    found = run.state()
    found["poses"] = (np.array(found["poses"]) + [0.0, off, 0.0, 0.0]).tolist()
    state = {"policy": policy, "path": depth, "trial": found, "ended": run.ended}
    state["lifted"] = {"mass": 0.0 if jams else mass, "jammed": jams}
    return Dug(state, np.array([0.01, 0.03]), truth)


def test_a_good_day_passes_and_each_bad_one_misses_its_own_target():
    def missed(*trials):
        return [one.name for one in check(DigStory(list(trials)), 0, False).checks if not one.passed]

    planned = dug("bf3")
    assert missed(dug(), planned) == [] == missed(dug(jams=True), planned)
    stuck = dug("bf3", jams=True)
    assert missed(dug(jams=True), stuck) == ["bf3, medium: blocks in the bucket"]
    assert missed(dug(), stuck) == ["jams of the planner over those of Follow", "bf3, medium: blocks in the bucket"]
    assert missed(dug(mass=0.2), planned) == ["follow, medium: weighed mass off that of the blocks"]
    assert missed(dug(), dug("bf3", mass=0.01, truth=0.02)) == ["bf3, medium: blocks in the bucket"]
    assert missed(dug(off=0.06), planned) == ["follow, medium: mean distance from the path"]
    cut = dug()
    cut.state["lifted"] = None
    assert missed(cut, planned) == ["trials that came to a declared end"]
    assert missed(dug()) == ["trials that came to a declared end"]


def test_what_the_bucket_carries_is_weighed_by_the_blocks_own_volume():
    ball = np.array([[0.0, 0.0, 0.0, 0.02]])
    assert _volume(ball) == pytest.approx(4 / 3 * np.pi * 0.02**3, rel=0.03)
    assert _volume(np.repeat(ball, 3, axis=0)) == pytest.approx(_volume(ball))  # a union
    apart = np.array([[0.0, 0, 0, 0.02], [0.1, 0, 0, 0.02]])
    assert _volume(apart) == pytest.approx(2 * 4 / 3 * np.pi * 0.02**3, rel=0.03)
    X = np.eye(4)
    X[:3, 3] = 0.0, 0.0, 0.16
    pose = [0.5, 0.02, 0.1, 0.7]
    inside = np.array([0.5, 0.02, 0.26])
    edge = inside + [0.07, 0.0, 0.0]  # its middle is not over the bucket's floor
    below = inside - [0.0, 0.0, 0.08]  # on top of the pile
    blocks = np.repeat(np.stack([inside, edge, inside + [0.2, 0.0, 0.0], below]), 3, axis=0)
    cloud = cloud_message(blocks, SimpleNamespace(sec=0, nanosec=0), "world", radii=np.full(12, 0.02))
    latest = {"sim_plant/grains": cloud, "bucket/state": SimpleNamespace(pose=pose)}
    assert _mass_in(latest, X) == pytest.approx(2 * DENSITY * 4 / 3 * np.pi * 0.02**3, rel=0.03)
    assert np.isnan(_mass_in({}, X))


def test_the_page_shows_both_trials():
    story = DigStory([dug(jams=True), dug("bf3")])
    shown = page(story, check(story, 0, False), SimpleNamespace(title="An arm"), "no film").html()
    assert (
        "follow, medium" in shown and "bf3, medium" in shown and "jammed in motion 10" in shown and "no film" in shown
    )
