"""An exam on a scanned person: skin under the planner's places, faults that blame nobody, states from which it goes on and is decided again."""

import json
from dataclasses import replace as changed

import numpy as np
import pytest

from sim_core.auscultation.depth_view import depth_view
from sim_core.auscultation.examination import (
    MISSES,
    REPEATS,
    Decision,
    Examination,
    Fault,
    Trial,
    parse_regions,
    replay,
    spell,
)
from sim_core.auscultation.registration import RegistrationRejected, register
from sim_core.auscultation.simulated_patient import SimulatedPatient

pytestmark = pytest.mark.pure

PATIENT = SimulatedPatient(3)
HEART = parse_regions(["heart/front"])


@pytest.fixture(scope="module")
def registration():
    return register(depth_view(PATIENT.torso["front"], width=100, height=100), np.array([0.0, 0.0, 0.9]))


def score(place) -> float:
    return float(np.clip(0.4 * PATIENT.field["front"].gain("heart", place), 0.0, 1.0))


def listened(examination, most=100, **fault):
    """Go on with an exam to its end, or for some trials; fault: number of the trial -> Fault."""
    for number in range(most):
        target = examination.ask()
        if target is None or examination.interrupted:
            break
        visit = target.visit
        what = fault.get(f"at{number}")
        found = dict(score=score(visit.suggestion.place)) if what is None else dict(fault=what, message="because")
        examination.settle(target, Trial(visit.region, visit.suggestion.index, **found))
    return examination


def visits(examination):
    return [(trial.region, trial.candidate) for trial in examination.trials]


def test_points_lie_on_the_body_under_the_planners_places(registration):
    examination = Examination.begin(registration, HEART)
    target = examination.ask()
    torso = PATIENT.torso["front"]
    assert np.linalg.norm(torso.vertices - target.point, axis=1).min() < 0.012  # half an edge of the torso's mesh
    assert np.allclose(registration.project(target.point), target.visit.suggestion.place, atol=1e-9)
    assert np.linalg.norm(target.normal) == pytest.approx(1.0)
    assert target.normal[2] > 0.3  # out of the chest


def test_an_exam_visits_its_regions_in_order_and_ends(registration):
    examination = listened(Examination.begin(registration, HEART))
    assert examination.ask() is None and not examination.interrupted
    assert list(dict.fromkeys(trial.region for trial in examination.trials)) == HEART
    assert len(set(visits(examination))) == len(examination.trials)
    for region in HEART:
        best = examination.handed_over(region)
        inside = examination.exam.candidates(region)
        assert best.score == max(t.score for t in examination.trials if inside[t.candidate])


def test_an_interrupted_exam_goes_on_as_if_nothing_had_happened(registration):
    whole = listened(Examination.begin(registration, HEART, seed=5))
    half = listened(Examination.begin(registration, HEART, seed=5), most=3)
    resumed = Examination.resume(json.loads(json.dumps(half.state(), allow_nan=False)))
    assert visits(listened(resumed)) == visits(whole)
    assert resumed.state() == whole.state()


def test_a_state_is_enough_to_decide_again(registration):
    state = listened(Examination.begin(registration, HEART), at1=Fault.PLACE, at2=Fault.EQUIPMENT).state()
    decisions = replay(json.loads(json.dumps(state)))
    assert len(decisions) == len(state["trials"]) and all(one.agrees for one in decisions)
    state["trials"][0]["score"] = 0.99  # another exam: what follows is not what would be decided
    assert not all(one.agrees for one in replay(state))
    assert not Decision((HEART[0], 1), None).agrees


def test_equipment_that_fails_is_no_fault_of_the_place(registration):
    examination = Examination.begin(registration, HEART)
    first = examination.ask().visit
    listened(examination, most=1, at0=Fault.EQUIPMENT)
    again = examination.ask().visit
    assert (again.region, again.suggestion.index) == (first.region, first.suggestion.index)
    assert not examination.interrupted
    listened(examination, most=REPEATS - 1, **{f"at{k}": Fault.EQUIPMENT for k in range(REPEATS)})
    assert "because" in examination.interrupted
    assert not Examination.resume(examination.state()).interrupted


def test_a_body_that_is_not_where_it_was_scanned_ends_the_exam(registration):
    examination = Examination.begin(registration, HEART)
    listened(examination, **{f"at{k}": Fault.BODY for k in range(MISSES)})
    assert "Register again" in examination.interrupted and len(examination.trials) == MISSES
    before = len(examination.trials)
    examination.lay_upon(registration)
    assert not examination.interrupted
    listened(examination, most=2)
    decisions = replay(examination.state())
    assert len(decisions) == before + 2 and all(one.agrees for one in decisions)


def test_places_that_were_not_scanned_are_not_visited(registration):
    left = registration.points[:, 0] < 0.06
    cut = changed(registration, points=registration.points[left], point_normals=registration.point_normals[left])
    examination = Examination.begin(cut, HEART)
    assert np.isnan(examination.skin["heart", "front"][0]).any()
    listened(examination)
    assert all(np.isfinite(examination.skin[t.region[:2]][0][t.candidate]).all() for t in examination.trials)
    assert all(one.agrees for one in replay(json.loads(json.dumps(examination.state()))))


def test_bad_input_is_refused(registration):
    with pytest.raises(ValueError, match="register that side"):
        Examination.begin(registration, parse_regions(["lung/back"]))
    with pytest.raises(RegistrationRejected, match="landmarks by hand"):
        Examination.begin(changed(registration, why="too wide"), HEART)
    with pytest.raises(ValueError, match="there is no region 'heart/back'"):
        parse_regions(["heart/back"])
    with pytest.raises(ValueError, match="version"):
        Examination.resume({"version": 0})
    with pytest.raises(ValueError, match="lacks .*trials"):
        Examination.resume({"version": 1})
    with pytest.raises(ValueError, match="has a score, or a fault"):
        Trial(HEART[0], 0)
    examination = Examination.begin(registration, HEART)
    with pytest.raises(ValueError, match="not that of the target"):
        examination.settle(examination.ask(), Trial(HEART[3], 0, score=0.3))
    assert not examination.trials
    assert spell(parse_regions(["mitral"])[0]) == "heart/front/mitral"
