"""Experiments and benchmarks: found without importing them, run with what they ask for, recorded."""

import json
import sys

import pytest

from cli import catalog
from cli.bench import bench
from cli.errors import CommandError
from cli.experiment import experiment

MODULE = '''"""First line.

    ./refit probe

More.
"""
from reporting import Report, Result

def run({arguments}):
    result = Result("probe", seed=locals().get("seed"), size=locals().get("size", ""))
    result.check("number", {value}, 1.0, "<=")
    result.detail("rows", [{{"a": 1, "b": 2.5}}, {{"a": 2, "b": 3.5}}])
    {extra}
    return result
'''


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """Adds modules to a package `shelf` and sends runs to tmp_path/runs."""
    monkeypatch.setattr(catalog, "ROOT", tmp_path)
    monkeypatch.setattr(catalog.entries, "__defaults__", (tmp_path,))
    monkeypatch.setenv("REFIT_RUNS", str(tmp_path / "runs"))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shelf").mkdir()

    def add(name, arguments="size, seed, progress", value=0.5, extra="pass"):
        (tmp_path / "shelf" / f"{name}.py").write_text(MODULE.format(arguments=arguments, value=value, extra=extra))

    yield add
    for name in [name for name in sys.modules if name.partition(".")[0] == "shelf"]:
        del sys.modules[name]


def test_entries_are_read_not_imported(shelf, tmp_path):
    shelf("one")
    (tmp_path / "shelf" / "bad_import.py").write_text('"""Needs a rival."""\nimport no_such_rival\ndef run(): pass\n')
    (tmp_path / "shelf" / "_helper.py").write_text("def run(): pass\n")
    (tmp_path / "shelf" / "no_run.py").write_text('"""Not one."""\n')
    (tmp_path / "shelf" / "group" / "problems").mkdir(parents=True)
    (tmp_path / "shelf" / "group" / "two.py").write_text('"""In a folder."""\ndef run(): pass\n')
    (tmp_path / "shelf" / "group" / "problems" / "three.py").write_text('"""Shared by others."""\ndef run(): pass\n')
    found = catalog.entries("shelf")
    assert {name: entry.line for name, entry in found.items()} == {
        "bad_import": "Needs a rival.",
        "one": "First line.",
        "two": "In a folder.",
    }
    assert found["two"].module == "shelf.group.two"
    (tmp_path / "shelf" / "two.py").write_text('"""A namesake."""\ndef run(): pass\n')
    with pytest.raises(ValueError, match="share a name"):
        catalog.entries("shelf")


@pytest.mark.parametrize(
    "arguments", ["size, seed, progress", "progress", "size='full', seed=0, progress=None, run_directory=None", ""]
)
def test_run_gets_what_it_names(shelf, arguments, tmp_path, capsys):
    shelf("one", arguments)
    seed = 4 if "seed" in arguments else None
    assert catalog.execute("shelf", "one", "full", seed, tmp_path / "out.json") == 0
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["seed"] == seed and document["passed"]
    (run,) = (tmp_path / "runs").iterdir()
    assert {entry.name for entry in run.iterdir()} == {"run.json", "result.json", "report.html"}
    page = (run / "report.html").read_text()
    assert "2.5" in page and "<h1>First line.</h1>" in page and "More." in page and "./refit probe" not in page
    assert str(run / "report.html") in capsys.readouterr().out


def test_a_missed_target_is_1(shelf):
    shelf("one", value=2.0)
    assert catalog.execute("shelf", "one", "quick", 0, None) == 1


def test_own_report_is_kept(shelf, tmp_path):
    shelf("one", "size, seed, progress, run_directory", extra="(run_directory / 'report.html').write_text('mine')")
    catalog.execute("shelf", "one", "quick", 0, None)
    assert next((tmp_path / "runs").glob("*/report.html")).read_text() == "mine"


@pytest.mark.parametrize(
    ("size", "seed", "said"), [("quick", None, "has no size to choose"), ("full", 3, "has no seed to choose")]
)
def test_options_that_do_not_apply_are_refused(shelf, size, seed, said, tmp_path):
    shelf("one", "progress")
    with pytest.raises(CommandError, match=said):
        catalog.execute("shelf", "one", size, seed, None)
    assert not (tmp_path / "runs").exists()


def test_the_place_to_compute_reaches_those_who_name_an_executor(shelf, tmp_path):
    said = "result.detail('where', type(executor).__name__)"
    shelf("spreads", "size, seed, executor", extra=said)
    for cluster, kind in ((None, "NoneType"), ("processes:2", "LocalProcesses")):
        assert catalog.execute("shelf", "spreads", "full", 0, tmp_path / "out.json", cluster) == 0
        assert json.loads((tmp_path / "out.json").read_text())["details"]["where"] == kind


@pytest.mark.parametrize(
    ("arguments", "cluster", "said"),
    [("size, seed", "processes:2", "leave out --cluster"), ("size, seed, executor", "moon", "no place to compute")],
)
def test_a_place_that_cannot_be_used_is_refused_before_the_run(shelf, tmp_path, arguments, cluster, said):
    shelf("one", arguments, extra="raise AssertionError('ran')")
    with pytest.raises(CommandError, match=said):
        catalog.execute("shelf", "one", "full", 0, None, cluster)
    assert not (tmp_path / "runs").exists()


def test_input_that_an_experiment_cannot_use_is_one_line(shelf):
    shelf("one", extra="from identification import UnusableInput; raise UnusableInput('no such recordings')")
    with pytest.raises(CommandError, match="no such recordings"):
        catalog.execute("shelf", "one", "full", 0, None)


def test_unknown_name_suggests(shelf):
    shelf("identify_panda")
    with pytest.raises(CommandError, match="did you mean 'identify_panda'"):
        catalog.load("shelf", "identify_pandas")


@pytest.mark.parametrize("path", ["no/such/folder/out.json", "."])
def test_output_is_checked_before_the_run(shelf, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    shelf("one", extra="raise AssertionError('ran')")
    with pytest.raises(CommandError, match="--json"):
        catalog.execute("shelf", "one", "quick", 0, catalog.Path(path))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: experiment(), "--list shows them"),
        (lambda: bench(), "--list shows them"),
        (lambda: experiment("x", quick=True, full=True), "exclude each other"),
        (lambda: experiment("no_such_experiment"), "nothing named"),
    ],
)
def test_usage(call, said):
    with pytest.raises(CommandError, match=said):
        call()


@pytest.mark.parametrize("package", ["experiments", "benchmarks"])
def test_real_modules_say_what_they_are(package):
    for name, entry in catalog.entries(package).items():
        assert len(entry.line) > 10, f"{package}/{name}.py needs a docstring whose first line says what it answers"
