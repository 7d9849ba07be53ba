"""A trial step by step: the same as `run_trial`, and the same again after it was put into a file and taken out."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sim_core.excavation.expectation import expectation
from sim_core.excavation.pile import Outcome
from sim_core.excavation.policies import State
from sim_core.excavation.primitives import WIGGLE, displacements
from sim_core.excavation.reference_path import PathSettings, make_reference_path
from sim_core.excavation.shipped_policies import POLICIES, needs_pictures, shipped_policy
from sim_core.excavation.trial import run_trial
from sim_core.excavation.trial_run import TrialRun, path_of
from sim_core.planning.checkpoint import load, save

pytestmark = pytest.mark.pure
PATH = make_reference_path(PathSettings(depth=0.05))


class Spring:
    """A `Dig` without blocks: nine tenths of each motion come about, and a spring pulls back; pictures are drawn by lot."""

    def __init__(self, jams_at=10**6):
        self.jams_at = jams_at

    def reset(self, seed, pose):
        self.rng, self.pose, self.start, self.count = np.random.default_rng(seed), pose.copy(), pose.copy(), 0
        return self.state()

    def state(self):
        image = self.rng.integers(0, 255, (64, 32, 3)).astype(np.uint8)
        return State(self.pose.copy(), -60.0 * (self.pose - self.start)[:3], image)

    def execute(self, primitive):
        self.count += 1
        moved = 0.9 * displacements()[primitive]
        self.pose = self.pose + moved
        return Outcome(self.state(), self.count == self.jams_at, 9.0, 7.0, np.abs(moved))

    def lift(self):
        return Outcome(self.state(), False, 1.0, 1.0, np.zeros(4))

    def weigh(self):
        return 0.1


def steps(run, dig, count=10**6):
    """The trial goes on for some motions."""
    while count and (motion := run.ask()) is not None:
        run.settle(dig.execute(motion))
        count -= 1


@pytest.mark.parametrize("name", ["follow", "closed-loop", "open-loop", "bf3"])
def test_step_by_step_it_is_what_run_trial_says(name):
    dig = Spring()
    whole = run_trial(dig, shipped_policy(name, PATH), PATH, seed=4, longest=25)
    run = TrialRun(shipped_policy(name, PATH), PATH, longest=25)
    run.begin(dig.reset(4, PATH.poses[0]))
    steps(run, dig)
    np.testing.assert_array_equal(run.actions, whole.actions)
    np.testing.assert_array_equal([one.pose for one in run.states], whole.poses)
    np.testing.assert_array_equal(run.closest, whole.closest)
    assert (run.finished, run.jammed, run.bound) == (whole.finished, whole.jammed, whole.bound)
    assert run.errors() == (whole.position_error, whole.angle_error)
    assert run.ended and run.ask() is None


@pytest.mark.parametrize("done", [0, 1, 3, 12])
@pytest.mark.parametrize("name", ["follow", "closed-loop", "open-loop", "bf3", "rs5"])
def test_from_a_file_it_goes_on_with_the_same_motions(name, done, tmp_path):
    motions = []
    for cut in (False, True):
        dig = Spring()
        run = TrialRun(shipped_policy(name, PATH, seed=3), PATH, longest=done + 2)
        run.begin(dig.reset(1, PATH.poses[0]))
        steps(run, dig, done)
        if cut:
            save(run.state(), tmp_path / "trial.json")
            found = load(tmp_path / "trial.json")
            run = TrialRun.resume(found, shipped_policy(name, path_of(found), seed=3))
            assert json.dumps(run.state()) == json.dumps(found)
        steps(run, dig)
        motions.append((run.actions, run.closest, run.ended))
    assert motions[0] == motions[1]


def test_it_says_why_it_ended():
    def ended(longest=100, jams_at=10**6, name="follow"):
        run = TrialRun(shipped_policy(name, PATH), PATH, longest)
        dig = Spring(jams_at)
        run.begin(dig.reset(0, PATH.poses[0]))
        steps(run, dig)
        return run

    assert "jammed in motion 4" in ended(jams_at=4).ended
    assert "not reached within 6 motions" in ended(6).ended
    done = ended()
    assert done.finished and f"reached after {len(done.actions)} motions" in done.ended and WIGGLE not in done.actions
    assert done.progress > 0.6  # the rest is turning, which it did a little before the end
    cut = TrialRun(shipped_policy("follow", PATH), PATH)
    cut.begin(Spring().reset(0, PATH.poses[0]))
    assert cut.ask() is not None
    cut.stopped = "out of reach"
    again = TrialRun.resume(cut.state(), shipped_policy("follow", PATH))
    assert cut.ask() is None and "after 0 motions it was over: out of reach" in cut.ended == again.ended
    blind = ended(name="open-loop")  # nine tenths of each motion: it does not come to the end
    assert not blind.finished and "no more to say" in blind.ended
    assert TrialRun.resume(blind.state(), shipped_policy("open-loop", PATH)).ended == blind.ended


def test_a_planner_makes_another_motion_where_the_arm_refuses_one_and_anybody_else_stops():
    dig = Spring()
    run = TrialRun(shipped_policy("bf3", PATH), PATH)
    run.begin(dig.reset(0, PATH.poses[0]))
    refused = []
    for _ in range(3):
        refused.append(run.ask())
        run.refuse("the arm does not reach it")
    other = run.ask()
    assert len({*refused, other}) == 4 and WIGGLE not in (*refused, other) and not run.ended
    assert expectation(run.policy).motions[0] == other and not set(expectation(run.policy).motions) & set(refused)
    run.settle(dig.execute(other))
    assert run.actions == [other] and len(run.policy.plans) == 1
    free = TrialRun(shipped_policy("bf3", PATH), PATH)
    free.begin(run.states[0])
    assert free.ask() == refused[0]
    free.settle(Outcome(run.states[1], False, 9.0, 7.0, np.zeros(4)))
    assert run.ask() == free.ask()  # what was refused at one state is not at the next
    for _ in range(8):  # all but the wiggle, which is not planned
        run.ask()
        run.refuse("it reaches nothing")
    assert run.ask() is None and run.ended == "after 1 motions it was over: it reaches nothing"
    scripted = TrialRun(shipped_policy("follow", PATH), PATH)
    scripted.begin(run.states[0])
    scripted.ask()
    scripted.refuse("it is too far")
    assert scripted.ask() is None and "it is too far" in scripted.ended
    with pytest.raises(RuntimeError, match="call ask first"):
        scripted.refuse("again")


def test_motions_are_the_same_until_they_are_settled_and_order_is_kept():
    run = TrialRun(shipped_policy("closed-loop", PATH), PATH)
    with pytest.raises(RuntimeError, match="call begin first"):
        run.ask()
    dig = Spring()
    run.begin(dig.reset(0, PATH.poses[0]))
    with pytest.raises(RuntimeError, match="call ask first"):
        run.settle(dig.lift())
    assert run.ask() == run.ask()
    steps(run, dig, 2)
    assert run.ask() == WIGGLE == run.ask()  # asked for twice, counted once


def test_what_is_no_trial_and_another_policy_are_refused():
    dig = Spring()
    run = TrialRun(shipped_policy("follow", PATH), PATH)
    run.begin(dig.reset(0, PATH.poses[0]))
    steps(run, dig, 6)
    found = run.state()
    with pytest.raises(ValueError, match="resume it with the policy it had"):
        TrialRun.resume(found, shipped_policy("closed-loop", PATH))
    for broken in ({}, {**found, "poses": found["poses"][:-1]}, {**found, "path": {"depth": 0.05, "colour": 3}}):
        with pytest.raises(ValueError, match="expected"):
            TrialRun.resume(broken, shipped_policy("follow", PATH))
    with pytest.raises(ValueError, match="version"):
        TrialRun.resume({**found, "version": 99}, shipped_policy("follow", PATH))


def test_expectations_are_worth_what_the_planner_said():
    policy, dig = shipped_policy("bf3", PATH), Spring()
    with pytest.raises(ValueError, match="never asked"):
        expectation(policy)
    action = policy.choose(dig.reset(2, PATH.poses[0]))
    found = expectation(policy)
    assert found.motions[0] == action and found.poses.shape == (3, 4) and found.forces.shape == (3, 3)
    assert found.total == pytest.approx(policy.plans[-1].value, abs=1e-5)
    assert found.simulations == 8**3  # it does not wiggle
    nowhere = replace(policy.model.settings.workspace, lower=(9.0, 9.0, 9.0, 9.0), upper=(9.1, 9.1, 9.1, 9.1))
    policy.model.settings = replace(policy.model.settings, workspace=nowhere)
    policy.choose(dig.execute(action).state)
    assert expectation(policy) is None


def test_every_planner_has_one_spelling_and_who_looks_says_so():
    assert POLICIES[-6:] == ("bf3", "bf5", "rs5", "rs7", "mcts5", "mcts7")
    with pytest.raises(ValueError, match="there are follow, closed-loop"):
        shipped_policy("BF 3", PATH)
    assert not needs_pictures(shipped_policy("follow", PATH))
    policy = shipped_policy("bf3", PATH)
    assert needs_pictures(policy) == policy.model.predictor.settings.vision
