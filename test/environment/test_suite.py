"""What `./refit test` runs: every system has an experiment in it, every step its turn."""

import importlib.util
import json
import os
import shutil
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def suite():
    """test/run.py as a module."""
    spec = importlib.util.spec_from_file_location("refit_test_run", ROOT / "test" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_experiment_of_each_system_is_run(suite):
    from cli import catalog

    folders = {name: entry.module.split(".")[1] for name, entry in catalog.entries("experiments").items()}
    run = {folders[name] for name in suite.EXPERIMENTS}
    assert run | set(suite.MISSED) == set(folders.values()) and not run & set(suite.MISSED)
    assert suite.BENCHMARK in catalog.entries("benchmarks")


@pytest.mark.parametrize(
    ("words", "spreads"),
    [
        (["-m", "pure"], True),
        (["test/hardware", "-x"], True),
        (["test/hardware/urg/test_protocol.py::test_a"], False),
        (["-n", "2"], False),
        (["--co"], False),
    ],
)
def test_files_named_one_by_one_are_not_spread(suite, words, spreads):
    assert bool(suite.spread(words)) is spreads


@pytest.mark.parametrize(
    ("line", "closes"),
    [
        ("===== 2900 passed, 3 skipped in 600.00s (0:10:00) =====", True),
        ("= 1 failed, 7 passed, 37 deselected, 1 warning in 154.72s (0:02:34) =", True),
        ("2 passed in 0.10s", True),
        ("(14 durations < 5s hidden.  Use -vv to show these durations.)", False),
    ],
)
def test_the_closing_line_is_known(suite, line, closes):
    assert bool(suite.CLOSING.match(line)) is closes


def test_every_step_is_run_and_a_failure_is_told(suite, monkeypatch, capsys):
    monkeypatch.setattr(suite, "STYLE", {"lint": ("no_such_module",)})
    monkeypatch.setattr(suite, "call", lambda words: 1)
    monkeypatch.setattr(suite, "run_pytest", lambda words: (0, "== 5 passed in 1.00s =="))
    monkeypatch.setattr(suite, "compile_tests", lambda: None)
    monkeypatch.setattr(suite, "COMMANDS", {"demo": ("demo",), "others": ("demo", "others")})
    monkeypatch.setattr(suite, "run_command", lambda name, whole: "exit code 1" if name == "others" and whole else "")
    assert suite.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "== 5 passed in 1.00s =="
    told = [["FAILED", "lint,"], ["ok", "tests,"], ["FAILED", "others,"], ["ok", "demo,"]]
    assert [line.split()[:2] for line in lines[-5:-1]] == told


def test_two_commands_run_side_by_side_and_are_told_in_order(suite):
    both = threading.Barrier(2, timeout=60.0)  # neither passes without the other

    def step(why):
        both.wait()
        return why

    lines = suite.run_beside({"slow": lambda: step("because"), "quick": lambda: step("")}, 2)
    assert [line.split()[:2] for line in lines] == [["FAILED", "slow,"], ["ok", "quick,"]]
    assert set(suite.TIMED) < set(suite.COMMANDS)


@pytest.mark.process
def test_a_command_that_fails_keeps_what_it_said_and_wrote(suite, monkeypatch, capfd):
    monkeypatch.setattr(suite, "COMMANDS", {"wrong": ("experiment", "no_such_experiment")})
    assert suite.run_command("wrong", whole=True) == "exit code 2; it came to no result"
    out, err = capfd.readouterr()
    assert "no_such_experiment" in out and err == ""
    folder = Path(out.split("left its report in ")[1].strip())
    assert (folder / "said").read_text() in out
    shutil.rmtree(folder)


def test_the_last_lines_say_which_checks_a_command_missed(suite, tmp_path):
    checks = [
        {"name": "error", "value": 2.5, "relation": "<=", "target": 1.0, "passed": False},
        {"name": "time", "value": 0.5, "relation": "<=", "target": 1.0, "passed": True},
    ]
    (tmp_path / "result.json").write_text(json.dumps({"checks": checks}))
    assert suite.missed(tmp_path / "result.json") == "error: 2.5, target <= 1.0"
    assert suite.outcome("one", lambda: "error: 2.5") == "FAILED one, 0 s (error: 2.5)"


def test_what_judges_times_gets_a_second_turn_and_both_are_said(suite, monkeypatch):
    turns = iter(["exit code 1; late: 2", "", "exit code 1; late: 2", "exit code 1; late: 3", ""])
    monkeypatch.setattr(suite, "run_command", lambda name, whole: next(turns))
    lines = [suite.outcome("demo", lambda: suite.run_timed("demo")) for _ in range(3)]
    assert lines[0] == "ok     demo, 0 s (the first turn: exit code 1; late: 2)"
    assert lines[1] == "FAILED demo, 0 s (exit code 1; late: 3) (the first turn: exit code 1; late: 2)"
    assert lines[2] == "ok     demo, 0 s"


def test_a_violated_limit_gets_no_second_turn(suite, monkeypatch):
    turns = iter(["exit code 1; limits violated: 1"])
    monkeypatch.setattr(suite, "run_command", lambda name, whole: next(turns))
    assert suite.outcome("chaos", lambda: suite.run_timed("chaos")).startswith("FAILED chaos")
    assert set(suite.ONCE) < set(suite.TIMED)


def test_failures_are_counted_by_file(suite, monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    assert suite.failures() == 0
    noted = tmp_path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    noted.parent.mkdir(parents=True)
    noted.write_text(json.dumps({"test/a.py::test_1": True, "test/a.py::test_2": True, "test/b.py": True}))
    assert suite.failures() == 2


def test_tests_are_compiled_beforehand_only_where_many_are_not(suite, monkeypatch, tmp_path):
    started, file = [], tmp_path / "test" / "test_a.py"
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    monkeypatch.setattr(suite.subprocess, "Popen", lambda *words, **options: started.append(words))
    (file.parent / "__pycache__").mkdir(parents=True)
    file.write_text("")
    suite.compile_tests()
    assert len(started) == 1
    kept = file.parent / "__pycache__" / "test_a.cpython-311-pytest-8.4.2.pyc"
    kept.write_text("")
    suite.compile_tests()
    assert len(started) == 1
    os.utime(kept, (0, 0))  # older than the file
    suite.compile_tests()
    assert len(started) == 2
