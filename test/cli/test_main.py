"""Commands are found lazily; every ending becomes an exit code and, where a person erred, one line."""

import subprocess
import sys
import types
from pathlib import Path

import pytest
import typer

import cli.main as entry
from cli.errors import CommandError
from cli.launch import launch, ros2_words


@pytest.fixture
def command(monkeypatch):
    """Registers a function as the command `probe`."""

    def register(function):
        module = types.ModuleType("probe_module")
        module.probe = function
        module.__spec__ = types.SimpleNamespace(name="probe_module")
        monkeypatch.setitem(sys.modules, "probe_module", module)
        monkeypatch.setitem(entry.COMMANDS, "probe", ("probe_module", "probe"))

    return register


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (1, 1), (2, 2)])
def test_return_value_is_the_exit_code(command, returned, code):
    command(lambda: returned)
    assert entry.main(["probe"]) == code


def test_options_arrive_with_their_types(command):
    got = {}

    def probe(seed: int = 0, name: str = "x"):
        got.update(seed=seed, name=name)

    command(probe)
    assert entry.main(["probe", "--seed", "3"]) == 0 and got == {"seed": 3, "name": "x"}


def one_line(capsys):
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["probe", "--bad"], "No such option: --bad"),
        (["probe", "--seed", "x"], "--seed"),
        (["porbe"], "did you mean 'probe'?"),
        (["zzz"], "commands:"),
        ([], "commands:"),
    ],
)
def test_wrong_usage_is_one_line_and_2(command, capsys, words, said):
    def probe(seed: int = 0):
        raise AssertionError("must not run")

    command(probe)
    assert entry.main(words) == 2
    assert said in one_line(capsys)


def test_command_error_is_one_line(command, capsys):
    def probe():
        raise CommandError("bag.mcap has no /joint_states; record with profile 'full'.")

    command(probe)
    assert entry.main(["probe"]) == 2
    assert one_line(capsys) == "refit probe: bag.mcap has no /joint_states; record with profile 'full'.\n"


def test_interruption(command, capsys):
    def probe():
        raise KeyboardInterrupt

    command(probe)
    assert entry.main(["probe"]) == 130
    assert "interrupted" in one_line(capsys)


def test_typer_exit(command):
    def probe():
        raise typer.Exit(1)

    command(probe)
    assert entry.main(["probe"]) == 1


def test_a_defect_keeps_its_traceback(command):
    def probe():
        raise ZeroDivisionError

    command(probe)
    with pytest.raises(ZeroDivisionError):
        entry.main(["probe"])


def test_absent_module_is_said_clearly(monkeypatch, capsys):
    monkeypatch.setitem(entry.COMMANDS, "demo", ("cli.no_such_module", "demo"))
    assert entry.main(["demo"]) == 2
    assert "does not contain the command" in one_line(capsys)


@pytest.mark.parametrize("name", sorted(entry.COMMANDS))
def test_every_command_answers_help(name):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cli.main", name, "--help"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert f"refit {name}" in done.stdout


def test_a_list_is_quick_to_import():
    """`--list` must not pay for the algorithms."""
    program = "import sys, cli.main; cli.main.main(['experiment', '--list']); print([m for m in ('torch', 'casadi', 'mujoco', 'rclpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_launch_files_are_listed_with_what_each_starts(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert launch(["--list"]) == 0
    lines = dict(line.rstrip().split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    folder = Path(__file__).parents[2] / "launch"
    assert lines.keys() == {file.name for file in folder.iterdir() if file.suffix == ".py"}
    assert lines["record.launch.py"] == "Record a running robot to a rosbag2 MCAP bag."


@pytest.mark.parametrize(("words", "said"), [([], "--list shows ours"), (["sim.launch.py", "--list"], "stands alone")])
def test_a_launch_without_its_file_or_with_one_too_many_is_wrong_usage(words, said):
    with pytest.raises(CommandError, match=said):
        launch(words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sim.launch.py", "robot:=panda"], ["refit", "sim.launch.py", "robot:=panda"]),
        (["--show-args", "sim.launch.py"], ["--show-args", "refit", "sim.launch.py"]),
        (["other", "a.launch.py"], ["other", "a.launch.py"]),
        ([__file__], [__file__]),
        ([], []),
    ],
)
def test_words_for_ros2_launch(words, expected):
    assert ros2_words(words) == expected
