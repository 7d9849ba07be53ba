"""What a refit proposes is held against the samples that come after it, where the data speak for more than it may change."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "inference"))
from toy import TRUTH, ToyDynamics, ToyParameters, excite, mass_matrix

from sim_core.control.change_detection import ChangeConfig
from sim_core.control.foresight import MEMORY, PROVEN, Foresight
from sim_core.control.refit import Refit, RefitConfig, RefitResult
from sim_core.control.refit_online import OnlineConfig, OnlineRefit
from sim_core.control.release import FAR
from sim_core.inference.data.window import Window
from sim_core.inference.fit.considered import Considered

NOISE = (1e-4, 1e-3)
BEFORE, PROPOSED = np.zeros(2), np.ones(2)


class Scales:
    """A refit whose sets are as good as somebody says."""

    def __init__(self, *losses):
        self.spec = SimpleNamespace(
            prior_std=np.array([1.0, 2.0]), to_physical=np.exp, report=lambda xi, covariance: [(tuple(xi), covariance)]
        )
        self.answers, self.asked = list(losses), []

    def losses(self, windows, sets):
        self.asked.append(([w.t for w in windows], [np.array(xi) for xi in sets]))
        return np.array(self.answers.pop(0))


def window(begin, end, dt=0.01):
    t = np.arange(round(begin / dt), round(end / dt) + 1) * dt
    return Window(t, np.zeros((len(t), 1)), np.zeros((len(t), 1)), np.zeros((len(t) - 1, 1)))


def result(end, promise=5.0, after=0.9, accepted=True):
    return RefitResult(
        PROPOSED, np.exp(PROPOSED), np.eye(2), 1.0, after, accepted, "better", window=(0.0, end), promise=promise
    )


def told(*losses):
    """A foresight that has seen one proposal, and what was said of it at each look."""
    foresight, refit = Foresight(BEFORE), Scales(*losses)
    foresight.judged(result(1.0), BEFORE, refit)
    for k in range(len(losses)):
        foresight.look(refit, [window(0.0, 1.2 + 0.1 * k)])
    return foresight, refit


def test_a_proposal_waits_until_proposals_have_foretold_better():
    foresight, refit = told()
    waiting = foresight.judged(result(1.0), BEFORE, refit)
    assert not waiting.accepted and "not used yet" in waiting.reason and "nothing is known yet" in waiting.reason
    foresight, refit = told((2.0, 2.1))
    assert foresight.ratio == pytest.approx(2.0 / 2.1) and foresight.ratio > PROVEN
    assert not foresight.judged(result(1.2), BEFORE, refit).accepted
    foresight, refit = told((2.0, 2.1), (0.5, 1.0))
    proven = result(1.3)
    assert foresight.judged(proven, BEFORE, refit) is proven


def test_what_is_far_better_waits_only_where_proposals_are_known_to_foretell_worse():
    far = result(1.3, after=0.9 / FAR)
    for losses, used in (((), True), (((1.0, 1.0),), True), (((1.1, 1.0),), False)):
        foresight, refit = told(*losses)
        assert foresight.judged(far, BEFORE, refit).accepted == used


def test_what_is_used_goes_when_it_foretells_worse_and_nothing_is_claimed_of_what_comes_back():
    foresight, refit = told((1.2, 1.0))
    back = foresight.judged(result(1.3), PROPOSED, refit)
    assert back.accepted and np.array_equal(back.xi, BEFORE) and np.array_equal(back.p, np.exp(BEFORE))
    assert np.array_equal(back.covariance, np.diag([1.0, 4.0])) and back.estimates[0][0] == tuple(BEFORE)
    assert "back to the parameters from before" in back.reason and "1.2 times" in back.reason
    foresight, refit = told((1.0, 1.2))
    proven = result(1.3)
    assert foresight.judged(proven, PROPOSED, refit) is proven
    refused = result(1.3, accepted=False)  # whatever this round says of its own proposal
    foresight, refit = told((1.2, 1.0))
    assert np.array_equal(foresight.judged(refused, PROPOSED, refit).xi, BEFORE)


@pytest.mark.parametrize("losses", [(), ((9.0, 1.0),)])
@pytest.mark.parametrize("in_use", [BEFORE, PROPOSED])
def test_where_the_refit_suffices_nothing_is_judged_by_what_it_foretold(losses, in_use):
    foresight, refit = told(*losses)
    enough = result(1.3, promise=-1.0)
    assert foresight.judged(enough, in_use, refit) is enough


def test_a_proposal_is_held_against_the_samples_after_it_alone_and_for_a_while():
    foresight, refit = Foresight(BEFORE), Scales((3.0, 1.0), (1.0, 2.0))
    foresight.look(refit, [window(0.0, 1.0)])
    assert refit.asked == [] and np.isnan(foresight.ratio)  # nothing was proposed yet
    foresight.judged(result(1.0), BEFORE, refit)
    foresight.look(refit, [window(0.0, 0.8), window(0.9, 1.25)])
    stamps, sets = refit.asked[-1]
    assert len(stamps) == 1 and stamps[0][0] == pytest.approx(1.0) and stamps[0][-1] == pytest.approx(1.25)
    assert np.array_equal(sets, [PROPOSED, BEFORE]) and foresight.ratio == 3.0
    foresight.look(refit, [window(1.0 + MEMORY, 1.3 + MEMORY)])
    assert foresight.ratio == 0.5  # what was before is forgotten
    foresight.forget()
    assert np.isnan(foresight.ratio)


class Masses(ToyParameters):
    """The toy's masses and length, and no damping."""

    def __init__(self):
        super().__init__(nominal=TRUTH)
        self.n = 3
        for name in ("names", "units", "prior_mean", "prior_std", "lower", "upper"):
            setattr(self, name, getattr(self, name)[:3])

    def to_physical(self, xi):
        return np.exp(np.concatenate([xi, np.log(TRUTH[3:])]))

    def jacobian(self, xi):
        return np.diag(self.to_physical(xi))[:, :3]


def run(truth, judged=True):
    """Sets in use after each round of 4 s, and how well each foretold the next quarter of a second, over the first one."""
    dynamics, whole = ToyDynamics(0.01), ToyParameters(nominal=TRUTH)
    config = OnlineConfig(
        window=1.0,
        min_window=0.3,
        period=0.25,
        change=ChangeConfig(noise=NOISE),
        refit=RefitConfig(time_budget=np.inf, segment_length=20, scale_floor=NOISE),
    )
    held = Considered(whole, whole.prior_mean.copy(), {"damping": ("cart.damping", "pole.damping")})
    online = OnlineRefit(None, Masses(), config, 0.01, dynamics, mass_matrix, considered=held)
    if not judged:
        online._foreseen = lambda result: result
    _, Y, u = excite(dynamics, 400, 1, NOISE, truth)
    used, ratios, before = [], [], online.xi
    for k, (x, v) in enumerate(zip(Y, np.concatenate([u[:1], u]))):
        online.append(0.01 * k, x[:2], x[2:], v)
        if online.due(0.01 * k):
            newest = online.windows()[-1]
            after, first = online.refit.losses(
                [newest.slice(max(0, len(newest.t) - 26), len(newest.t) - 1)], (online.xi, before)
            )
            ratios.append(after / first)
            online.update()
            used.append(online.xi.copy())
    return used, np.array(ratios)


def test_the_loss_of_the_truth_is_that_of_the_noise():
    dynamics = ToyDynamics(0.01)
    _, Y, u = excite(dynamics, 200, 3, NOISE, TRUTH)
    refit = Refit(None, ToyParameters(nominal=TRUTH), RefitConfig(segment_length=20), dynamics, mass_matrix)
    x = Window(0.01 * np.arange(201), Y[:, :2], Y[:, 2:], u)
    truth, other = refit.losses([x], (np.log(TRUTH), np.log(TRUTH) + 0.3)) / Y[1:].size
    assert 0.6 < truth < 1.2 < 2.0 < other
    assert refit.losses([x.slice(0, 10)], (np.log(TRUTH),)) is None and refit.losses([], (np.log(TRUTH),)) is None


def test_a_model_that_is_too_small_is_used_as_far_as_it_foretells():
    damped = TRUTH * [1, 1, 1, 2.5, 2.5, 1]
    _, blind = run(damped, judged=False)
    _, wise = run(damped)
    assert np.sum(np.log(wise)) < np.sum(np.log(blind)) and blind.max() > wise.max()


def test_masses_that_are_off_are_learnt_as_before():
    heavy = TRUTH * [1.2, 1.5, 1, 1, 1, 1]
    for mine, other in zip(run(heavy)[0], run(heavy, judged=False)[0]):
        assert np.array_equal(mine, other)


def test_another_change_begins_anew(monkeypatch):
    """What was learnt of the robot as it was is what the next proposals are held against."""
    dynamics = ToyDynamics(0.01)
    online = OnlineRefit(None, Masses(), OnlineConfig(), 0.01, dynamics, mass_matrix)
    assert np.array_equal(online._foresight.before, online.spec.prior_mean)
    online.set_parameters(online.xi + 0.1)
    assert np.array_equal(online._foresight.before, online.xi)
    learnt = replace(result(1.0), xi=online.xi + 0.1, spec=online.spec)
    online._take(learnt)
    assert not np.array_equal(online._foresight.before, online.xi)
    found = SimpleNamespace(time=5.0)
    monkeypatch.setattr("sim_core.control.refit_online.detect_change", lambda *_: found)
    for k in range(20):
        online.append(5.0 + 0.01 * k, np.zeros(2), np.zeros(2), np.zeros(1))
    online.look_for_change()
    assert np.array_equal(online._foresight.before, online.xi)
    # Soon after, it is no other change: the model is too small for the first.
    online._take(replace(learnt, xi=online.xi + 0.1))
    found.time = 5.05
    online.look_for_change()
    assert not np.array_equal(online._foresight.before, online.xi)
