"""The chaos study's plan, and what its checks make of outcomes."""

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")

from experiments.problems.chaos_arm import ARMS
from experiments.problems.chaos_injections import kinds, plan
from experiments.problems.chaos_study import Outcome
from experiments.safety.chaos import by_kind, judge, report, shortcomings
from reporting import Result


def test_a_seed_is_a_plan_in_which_every_kind_has_its_turn():
    graphs = plan("full", 0)
    assert graphs == plan("full", 0) != plan("full", 1)
    injections = [injection for graph in graphs for injection in graph]
    assert len(injections) >= 300 and len({i.seed for i in injections}) == len(injections)
    for robot, arm in ARMS.items():
        assert {i.kind for i in injections if i.arm == robot} == set(kinds(arm))
    assert sum(map(len, plan("quick", 0))) == 20


def test_a_graph_ends_with_what_it_cannot_bear_and_with_nothing_before():
    for graph in plan("full", 3):
        arm = ARMS[graph[0].arm]
        killed = [i.kind.removeprefix("kill_") for i in graph if i.kind.startswith("kill_")]
        assert graph[-1].kind == f"kill_{killed[-1]}" and killed[-1] in arm.essential
        assert set(killed[:-1]) <= set(arm.others) and {i.arm for i in graph} == {arm.robot}


def outcome(**changes):
    """An injection that did nothing, but for `changes`."""
    return Outcome(
        **{"arm": "panda", "kind": "flood_far", "seed": 1, "graph": 0, "verdict": "unaffected", "took": 0.0} | changes
    )


def failed(*outcomes, planned=None):
    result = Result("chaos", seed=0, size="quick")
    judge(result, outcomes, planned or len(outcomes))
    return {check.name for check in result.checks if not check.passed}


def test_nothing_happened():
    assert failed(outcome()) == set()
    assert failed(outcome(), planned=2) == {"injections done"}
    assert failed(outcome(what="not done: nobody answered")) == {"injections done"}


@pytest.mark.parametrize("name", ["speed", "torque", "position", "share"])
def test_a_violation_is_counted(name):
    assert failed(outcome(**{name: 1.04})) == set()
    missed = failed(outcome(**{name: 1.06}))
    assert len(missed) == 2 and "injections with a limit violated" in missed


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"silent": ["from 1.0 to 2.0 s"]}, "silent states"),
        ({"halts": ["LIMIT: "], "objections": ["empty: ''"]}, "halts and ends explained in one sentence"),
        ({"took": float("nan")}, "injections after which the arm followed again"),
        ({"stuck": True}, "ways back that needed a restart although all processes ran"),
        ({"accepted": "sim_plant/set took 1e+300"}, "forged parameters accepted"),
        (
            {"kind": "kill_supervisor", "exit_code": 0},
            "launches that ended with code 1 when their supervisor was killed",
        ),
        ({"kind": "kill_recorder", "lost": 1.2}, "data lost at SIGKILL, most"),
        ({"died": ["recorder"]}, "processes that died by themselves"),
        ({"unreadable": "bag is damaged"}, "graphs with a bag that cannot be read"),
    ],
)
def test_whatever_falls_short_is_named(changes, check):
    assert failed(outcome(), outcome(**changes)) == {check}


def test_motion_of_a_stopped_arm_is_a_violation():
    assert failed(outcome(later=0.03)) == {
        "panda: farthest move of a stopped joint",
        "injections with a limit violated",
    }
    assert shortcomings(outcome(later=0.03)) == ["motion of a stopped arm"]


def test_the_table_and_the_page(tmp_path):
    outcomes = [
        outcome(refused={"sim_plant/refused_limit": 7}),
        outcome(verdict="halted", refused={"sim_plant/refused_limit": 3}, way="resume", took=1.5, speed=1.2),
        outcome(
            arm="dxl_arm",
            kind="kill_supervisor",
            verdict="ended",
            halts=["the supervisor has ended"],
            way="restart",
            took=9.0,
        ),
    ]
    first, second = by_kind(outcomes)
    assert (first["times"], first["unaffected"], first["halted"], first["refused"]) == (2, 1, 1, 10)
    assert (first["speed"], first["way back, s"], second["ended"]) == (1.2, 1.5, 1)
    result = Result("chaos", seed=0, size="quick")
    judge(result, outcomes, 3)
    text = report(result, outcomes).write(tmp_path / "report.html").read_text()
    assert "the supervisor has ended" in text and "flood_far" in text
