"""What the excavation experiments share, without digging."""

import json

import numpy as np
import pytest

from config.share import shared_folder
from experiments.excavation.excavation_calibration import misfit
from experiments.excavation.excavation_mpc import METHODS, PUBLISHED
from experiments.problems import excavation_runs as runs
from sim_core.excavation.costs import TUNED, CostSettings
from sim_core.excavation.mpc import PLANNERS
from sim_core.excavation.pile import PileSettings
from sim_core.excavation.predictor import without_wiggle
from sim_core.excavation.reference_path import DEPTHS
from sim_core.excavation.shipped_policies import SHIPPED, shipped_policy
from sim_core.excavation.trial import Trial

pytestmark = pytest.mark.pure


def trial(actions, forces):
    T = len(actions)
    strong = np.column_stack([forces, np.zeros((T + 1, 2))])
    return Trial(
        np.array(actions), np.zeros((T + 1, 4)), strong, None, np.zeros(T), np.zeros(T), np.zeros(T + 1, int), 0, False, True, 0.0, 0.0, 0.0
    )  # fmt: skip


def test_a_job_that_was_done_is_read_and_not_done_again(tmp_path, monkeypatch):
    monkeypatch.setenv("REFIT_EXCAVATION", str(tmp_path))
    dug = []
    monkeypatch.setattr(runs, "_pile", lambda limit, picture: runs.Pile.__new__(runs.Pile))
    monkeypatch.setattr(runs, "policy_of", lambda job, path, pile: dug.append(job))
    monkeypatch.setattr(runs, "run_trial", lambda *rest: trial([1, 8], [0.0, 5.0, 20.0]))
    jobs = [runs.Job("follow", "deep", 3), runs.Job("follow", "deep", 4), runs.Job("follow", "deep", 3, limit=99.0)]
    first = runs.collect(jobs)
    assert dug == jobs and len({job.name for job in jobs}) == 3
    again = runs.collect(jobs)
    assert len(dug) == 3
    for one, two in zip(first, again):
        np.testing.assert_array_equal(one.forces, two.forces)


def test_every_strategy_takes_part_on_a_pile_and_a_path_of_its_own():
    jobs = runs.data_jobs(12)
    assert {job.policy for job in jobs} == {*runs.STRATEGIES}
    assert len({job.seed for job in jobs}) == 12
    ends = [tuple(runs.data_path(job.seed).poses[-1]) for job in jobs]
    tests = [tuple(runs.test_path(depth).poses[-1]) for depth in DEPTHS]
    assert len({*ends, *tests}) == 15  # no path of the data is one of those judged on


def test_planners_learn_from_themselves_on_piles_and_paths_of_their_own(tmp_path):
    weights = tmp_path / "weights.npz"
    weights.write_bytes(b"of a network")
    scripted, own = runs.data_jobs(6), runs.pupils_jobs(len(runs.PUPILS), 6, str(weights))
    assert [job.seed for job in (*scripted, *own)] == list(range(6 + len(own)))
    assert {job.policy for job in own} == {*runs.PUPILS} and {job.depth for job in own} == {""}
    assert all((job.weights == "") == (job.policy in runs.STRATEGIES) for job in own)


def test_a_planner_is_as_shipped_but_for_what_its_name_says(tmp_path):
    weights = tmp_path / "weights.npz"
    weights.write_bytes(b"of a network")
    jobs = {name: runs.Job(f"RS 7{name}", "deep", 3, str(weights)) for name in ("", *runs.DEPARTURES)}
    assert {job.planning[0] for job in jobs.values()} == {"RS 7"}
    assert jobs[""].planning[1] == SHIPPED == {"costs": TUNED, "peaks": True, "allowed": without_wiggle()}
    assert jobs[" (published weights)"].planning[1] == {**SHIPPED, "costs": CostSettings(), "peaks": False}
    assert jobs[" without peaks"].planning[1] == {**SHIPPED, "peaks": False}
    assert jobs[" with wiggle"].planning[1] == {**SHIPPED, "allowed": None}
    shipped = shipped_policy("rs7", jobs[""].path).model
    assert (shipped.settings, shipped.peaks, tuple(shipped.allowed)) == (TUNED, True, without_wiggle())


@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_method_of_the_experiment_is_one_that_can_be_asked(size, tmp_path):
    weights = tmp_path / "weights.npz"
    weights.write_bytes(b"of a network")
    methods = METHODS[size]
    assert len(set(methods)) == len(methods) and set(runs.BASELINES) < set(methods)
    asked = [runs.Job(one, "deep", 0, str(weights)) for one in methods if one not in runs.BASELINES]
    assert {job.planning[0] for job in asked} <= set(PLANNERS)
    assert len({job.name for job in asked}) == len(asked)  # each keeps trials of its own


def test_trials_with_other_weights_of_the_cost_have_other_files(tmp_path, monkeypatch):
    weights = tmp_path / "weights.npz"
    weights.write_bytes(b"of a network")
    job = runs.Job("BF 3", "deep", 3, str(weights))
    before = job.name
    monkeypatch.setitem(SHIPPED, "costs", CostSettings())
    assert job.name != before


def test_wiggles_are_counted_by_the_force_they_were_chosen_at():
    rows = runs.wiggles_by_force([trial([8, 0, 8], [12.0, 3.0, 30.0, 99.0]), trial([0], [11.0, 0.0])])
    assert rows[0] == (0.0, 0.0, 1) and rows[1] == (10.0, 0.5, 2) and rows[3] == (25.0, 1.0, 1)
    assert np.isnan(rows[2][1]) and rows[2][2] == 0


def test_the_limit_that_fits_best_is_found_where_it_lies():
    held = {
        "shallow": np.array([10.0, 30, 50, 70]),
        "medium": np.array([20.0, 45, 55, 80, 90]),
        "deep": np.array([60.0] * 4),
    }
    assert misfit(held, 50.0) == 0.0
    assert misfit(held, 40.0) > 0 and misfit(held, 65.0) > 0


def test_published_numbers_and_frozen_settings_are_whole():
    frozen = json.loads((shared_folder("data/excavation") / "calibration.json").read_text())
    assert PileSettings().force_limit == frozen["force_limit"]
    assert runs.DATA < frozen["seeds"][0] == runs.CALIBRATION <= frozen["seeds"][1] < runs.JUDGED
    assert {len(jams) for jams, _ in PUBLISHED.values()} == {3} and PUBLISHED["follow"][0] == (5, 6, 10)
    assert PileSettings().force_limit > 17.5  # what the cost leaves free must not jam
