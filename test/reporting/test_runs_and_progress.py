"""Run directories and progress objects."""

import io
import json
import re
import subprocess

import pytest
from rich.console import Console

from reporting import LineProgress, RichProgress, SilentProgress, git_state, new_run, progress_for
from reporting.progress import duration_text
from reporting.runs import runs_root


def test_runs_of_one_second_do_not_share_a_folder(tmp_path):
    first, second = new_run("demo", tmp_path, seed=1), new_run("demo", tmp_path, seed=2)
    assert first.path != second.path
    assert re.fullmatch(r"demo-\d{8}T\d{6}Z", first.path.name)
    facts = json.loads((second / "run.json").read_text())
    assert facts["name"] == "demo" and facts["seed"] == 2 and set(facts["git"]) == {"hash", "dirty"}


@pytest.mark.parametrize("name", ["", "../x", "a b", ".hidden", "a/b"])
def test_run_names_are_plain(tmp_path, name):
    with pytest.raises(ValueError, match="plain name"):
        new_run(name, tmp_path)


def test_runs_go_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.setenv("REFIT_RUNS", str(tmp_path / "results"))
    assert runs_root() == tmp_path / "results"


def test_git_state_of_a_checkout(tmp_path):
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *words],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip

    assert git_state(tmp_path) == {"hash": None, "dirty": None}
    git("init", "-q")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-qm", "a")
    state = git_state(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{40}", state["hash"]) and state["dirty"] is False
    (tmp_path / "a").write_text("2")
    assert git_state(tmp_path)["dirty"] is True
    (tmp_path / "copy").mkdir()
    assert git_state(tmp_path / "copy")["hash"] is None  # a folder inside is not that checkout


@pytest.mark.parametrize("make", [SilentProgress, RichProgress, LineProgress])
def test_progress_objects_are_interchangeable(make):
    console = Console(file=io.StringIO())
    progress = make() if make is SilentProgress else make(console)
    with progress, progress.stage("outer", total=3) as stage:
        assert list(progress.track([1, 2, 3], "inner")) == [1, 2, 3]
        assert list(progress.track((n for n in range(2)), "unknown length")) == [0, 1]
        stage.advance(2)
        stage.say("nearly")
        progress.say("a line with [brackets]")
    if make is not SilentProgress:
        assert "a line with [brackets]" in console.file.getvalue()


@pytest.mark.parametrize("make", [RichProgress, lambda console: LineProgress(console, period=0.0)])
def test_a_stage_may_be_closed_before_its_block_ends(make):
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    with make(console) as progress:
        with progress.stage("starting nodes") as stage:
            stage.close()
            with progress.stage("running", total=2) as inner:
                inner.advance()
        with progress.stage("after"):
            pass
    assert console.file.getvalue().count("starting nodes: ") <= 1


def test_silence_is_silent(capfd):
    with SilentProgress().stage("x", 2) as stage:
        stage.advance()
    assert capfd.readouterr() == ("", "")


def test_lines_tell_the_time_left():
    console = Console(file=io.StringIO(), width=200)
    progress = LineProgress(console, period=0.0)
    with progress.stage("fitting", total=4) as stage:
        stage.advance()
    assert re.search(r"fitting: 25 %, about \d+ s left", console.file.getvalue())


def test_bars_only_on_terminals():
    assert isinstance(progress_for(Console(file=io.StringIO())), LineProgress)
    assert isinstance(progress_for(Console(file=io.StringIO(), force_terminal=True)), RichProgress)


@pytest.mark.parametrize(("seconds", "text"), [(7.6, "8 s"), (125, "2 min 05 s"), (4200, "1 h 10 min")])
def test_duration_text(seconds, text):
    assert duration_text(seconds) == text
