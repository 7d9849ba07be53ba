"""What a planner is asked, told and stored as; and an exam of several regions."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sim_core.auscultation.exam import ROBOT, SIMULATION, Exam, disc_grid
from sim_core.auscultation.regions import REGIONS, places
from sim_core.planning import checkpoint
from sim_core.planning.candidates import Candidates, NoCandidate
from sim_core.planning.parametric_mean import LandmarkMean, ZeroMean
from sim_core.planning.planner import BayesianPlanner
from sim_core.planning.surrogate import MarginalSparGp, SparGp

MARKS = np.array(list(places("heart", "front").values()))
TRUE_PRIOR = LandmarkMean(MARKS)
TRUTH = LandmarkMean(MARKS + [0.012, -0.007], height=0.6)
HEART = {region: np.array(place) for region, place in REGIONS.items() if region[0] == "heart"}
MODELS = {"spar": SparGp(LandmarkMean(MARKS)), "marginal": MarginalSparGp(LandmarkMean(MARKS))}


def quality(place):
    return float(TRUTH.value(TRUTH.default, place[None])[0])


def planner(model="spar", **words):
    return BayesianPlanner(disc_grid(MARKS, 0.03), MODELS[model], **words)


def go(one, count):
    taken = []
    for _ in range(count):
        taken.append(one.ask().index)
        one.tell(taken[-1], quality(one.candidates.places[taken[-1]]))
    return taken


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("acquisition", ["ei", "ucb", "greedy"])
def test_no_place_is_tried_twice_and_the_best_is_found(model, acquisition):
    one = planner(model, acquisition=acquisition)
    taken = go(one, 12)
    assert len(set(taken)) == 12
    best = max(quality(place) for place in one.candidates.places)
    everywhere = np.ones(len(one.candidates), bool)
    assert one.best(everywhere) > (0.6 if acquisition == "greedy" else 0.85) * best


@pytest.mark.parametrize("model", MODELS)
def test_from_every_checkpoint_it_goes_on_to_the_bit(model, tmp_path):
    one = planner(model, seed=3)
    one.candidates.close([0, 5], "out of reach")
    for step in range(6):
        checkpoint.save(one.checkpoint(), tmp_path / "state.json")
        two = BayesianPlanner.resume(checkpoint.load(tmp_path / "state.json"), MODELS[model])
        mine, other = one.ask(), two.ask()
        assert (mine.index, mine.worth, mine.mean, mine.deviation) == (
            other.index,
            other.worth,
            other.mean,
            other.deviation,
        )
        assert one.posterior.theta.tobytes() == two.posterior.theta.tobytes()
        one.tell(mine.index, quality(mine.place))
        if step == 2:
            one.fail(one.ask().index, "no contact")
    assert two.candidates.closed["no contact"]


def test_equal_worth_is_decided_by_the_seed_and_the_same_each_time():
    found = [BayesianPlanner(disc_grid(MARKS, 0.03), SparGp(ZeroMean()), seed=s) for s in range(20)]
    indices = [one.ask().index for one in found]
    assert len(set(indices)) > 10
    assert indices == [one.ask().index for one in found]


def test_what_is_closed_is_not_suggested_and_the_reasons_are_said():
    one = planner()
    among = one.candidates.within(MARKS[0], 0.011)
    assert among.sum() == 5
    one.tell(one.ask(among).index, 0.1)
    one.fail(one.ask(among).index, "no contact")
    one.candidates.close(np.flatnonzero(among & one.candidates.open)[:2], "out of reach")
    assert one.ask(among).index in np.flatnonzero(among & one.candidates.open)
    one.candidates.close(among, "unsafe")
    text = r"none of 5 candidates is left \(1 observed, 1 no contact, 2 out of reach, 5 unsafe\)"
    with pytest.raises(NoCandidate, match=text):
        one.ask(among)
    one.candidates.reopen("unsafe")
    assert among[one.ask(among).index]
    assert len(one.history) == 1, "a failure teaches nothing"


@pytest.mark.parametrize("index, value, says", [(0, np.nan, "finite"), (0, np.inf, "finite"), (-1, 0.5, "there are")])
def test_impossible_outcomes_are_refused_and_nothing_is_learnt(index, value, says):
    one = planner()
    before = one.checkpoint()
    with pytest.raises(ValueError, match=says):
        one.tell(index, value)
    assert one.checkpoint() == before


@pytest.mark.parametrize(
    "given, says",
    [
        (np.zeros((0, 2)), "shape"),
        (np.zeros(3), "shape"),
        (np.array([[0.0, np.nan]]), "number 0 is not"),
        (np.zeros((2, 2)), "the same place"),
    ],
)
def test_impossible_candidates_are_refused(given, says):
    with pytest.raises(ValueError, match=says):
        Candidates(given)


@pytest.mark.parametrize(
    "spoil, says",
    [
        (lambda s: s | {"version": 2}, "version 1, this one 2"),
        (lambda s: {k: v for k, v in s.items() if k != "start"}, "lacks start"),
        (lambda s: s | {"surrogate": {"model": "other"}}, "same settings"),
    ],
)
def test_checkpoints_of_others_are_refused(spoil, says):
    with pytest.raises(ValueError, match=says):
        BayesianPlanner.resume(spoil(planner().checkpoint()), MODELS["spar"])


@pytest.mark.parametrize("content", ["", '{"version": 1, "pla', "[1, 2]"])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(ValueError, match="state.json is no planner's checkpoint"):
        checkpoint.load(tmp_path / "state.json")


def test_a_state_that_cannot_be_written_leaves_the_old_one(tmp_path):
    checkpoint.save({"a": 1}, tmp_path / "state.json")
    with pytest.raises(ValueError, match="nan|NaN|JSON"):
        checkpoint.save({"a": float("nan")}, tmp_path / "state.json")
    assert checkpoint.load(tmp_path / "state.json") == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


# ---- an exam -------------------------------------------------------------------------------------


def conduct(exam, outcome=quality, most=1000):
    visits = []
    while (visit := exam.ask()) is not None and len(visits) < most:
        visits.append(visit)
        exam.tell(visit, outcome(visit.suggestion.place))
    return visits


def test_an_exam_visits_region_after_region_and_uses_no_more_than_its_readings():
    exam = Exam(HEART, config=SIMULATION)
    visits = conduct(exam)
    order = [visit.region for visit in visits]
    assert order == sorted(order, key=list(HEART).index) and len(visits) == 4 * SIMULATION.readings
    assert len({visit.suggestion.index for visit in visits}) == len(visits)
    for visit in visits:
        assert exam.candidates(visit.region)[visit.suggestion.index]
        assert exam.report(visit.region).state == "exhausted"


def test_a_region_ends_only_above_the_adequate_score():
    exam = Exam(HEART, config=ROBOT)
    region = exam.ask().region
    exam.tell(exam.ask(), 0.5)
    assert exam.ask().region == region and exam.report(region).state == "waiting"
    exam.tell(exam.ask(), 0.501)
    report = exam.report(region)
    assert exam.ask().region != region
    assert (report.state, report.best, report.readings) == ("heard", 0.501, 2) and "0.50, more than 0.5" in report.why


def test_what_one_region_shows_moves_the_others():
    exam = Exam(HEART, config=SIMULATION)
    conduct(exam, most=10)
    moved = exam.planners["heart", "front"].posterior.theta[:2]
    assert np.linalg.norm(moved - [0.012, -0.007]) < 0.5 * np.linalg.norm([0.012, -0.007])


def test_failed_visits_end_a_region_and_teach_nothing():
    exam = Exam(HEART, config=ROBOT)
    first = exam.ask().region
    theta = exam.planners["heart", "front"].posterior.theta
    for _ in range(ROBOT.readings):
        exam.fail(exam.ask(), "force never reached")
    report = exam.report(first)
    assert (report.state, report.best) == ("unreachable", None) and "force never reached" in report.why
    assert (exam.planners["heart", "front"].posterior.theta == theta).all()
    assert exam.ask().region != first


def test_a_region_without_reachable_places_is_passed_over():
    exam = Exam(HEART, config=ROBOT)
    first = next(iter(HEART))
    exam.planners["heart", "front"].candidates.close(exam.candidates(first), "out of reach")
    assert exam.ask().region != first
    assert exam.report(first).state == "unreachable" and "out of reach" in exam.report(first).why


def test_a_lucky_score_does_not_mislead_the_choice_by_belief():
    """A place far from every landmark has the highest score; its neighbours, and the prior, say that it was luck."""
    region = ("heart", "front", "aortic")
    found = {}
    for choose in ("score", "belief"):
        exam = Exam(HEART, config=replace(SIMULATION, choose=choose, variance=0.05))
        planner, inside = exam.planners["heart", "front"], exam.candidates(region)
        places = planner.candidates.places
        far = int(np.argmax(np.where(inside, np.linalg.norm(places - HEART[region], axis=1), -1.0)))
        for index in np.flatnonzero(inside):
            planner.tell(
                int(index),
                0.8 if index == far else 0.95 * float(TRUE_PRIOR.value(TRUE_PRIOR.default, places[[index]])[0]),
            )
        found[choose] = places[exam.report(region).candidate]
        assert exam.report(region).best == 0.8
    assert (found["score"] == places[far]).all()
    assert np.linalg.norm(found["belief"] - HEART[region]) < 0.011


@pytest.mark.parametrize("score", [-0.01, 1.01, np.nan])
def test_impossible_scores_are_refused(score):
    exam = Exam(HEART)
    with pytest.raises(ValueError, match="from 0 to 1"):
        exam.tell(exam.ask(), score)


@pytest.mark.parametrize("cut", [0, 1, 5, 9])
def test_an_exam_goes_on_from_its_checkpoint(cut):
    regions = {region: np.array(place) for region, place in REGIONS.items() if region[1] == "front"}
    whole = Exam(regions, seed=5)
    half = Exam(regions, seed=5)
    expected = [(v.region, v.suggestion.index) for v in conduct(whole)]
    conduct(half, most=cut)
    resumed = Exam.resume(json.loads(json.dumps(half.checkpoint())))
    assert [(v.region, v.suggestion.index) for v in conduct(resumed)] == expected[cut:]
    assert [resumed.report(r) for r in regions] == [whole.report(r) for r in regions]


def test_an_exam_of_other_settings_is_refused():
    with pytest.raises(ValueError, match="same settings"):
        Exam.resume(Exam(HEART).checkpoint(), SIMULATION)
    with pytest.raises(ValueError, match="lacks planners, readings|lacks"):
        Exam.resume({"regions": []})
    with pytest.raises(ValueError, match="at least one region"):
        Exam({})
