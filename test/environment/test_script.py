"""The script `refit`: what it does once, what it does again, and what an interruption leaves."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest


def steps(calls):
    """Which long steps were run, in order."""
    names = []
    for call in calls:
        for mark, name in (
            ("-m venv", "venv"), ("install setuptools", "setuptools"), ("-r requirements-ros.lock", "packages"),
            ("-r requirements-inference.lock", "inference"), ("-r requirements-learning.lock", "learning"),
            ("-r requirements-calibration.lock", "calibration"), ("-r requirements-security.lock", "security"),
            ("-r requirements-robots.lock", "robots"), ("-r requirements-view.lock", "view"),
            ("-r requirements-telepresence.lock", "telepresence"), ("-r requirements-docs.lock", "docs"),
            ("-r requirements-test.lock", "test"), ("-r requirements-bench.lock", "bench"),
            ("ros_wheels", "paths"), ("--base-paths interfaces", "interfaces"), ("--packages-select refit", "package"),
        ):  # fmt: skip
            if mark in call.replace("--no-input --progress-bar off ", ""):
                names.append(name)
    return names


EVERYTHING = ["venv", "setuptools", "packages", "paths", "interfaces", "package"]


@pytest.mark.parametrize("words", [[], ["help"], ["--help"]])
def test_usage_sets_nothing_up(checkout, words):
    code, out, _, calls = checkout.run(*words)
    assert code == 0 and "usage: ./refit COMMAND" in out and not calls
    for command in ("demo", "test", "launch", "experiment", "bench", "identify", "calibrate", "doctor", "shell"):
        assert f"\n  {command} " in out
    assert not (checkout.root / ".refit").exists()


def test_unknown_command(checkout):
    code, _, err, calls = checkout.run("dmeo")
    assert code == 2 and "no command 'dmeo'" in err and not calls


def test_first_start_does_everything_and_the_second_nothing(checkout):
    code, out, err, calls = checkout.run("demo", "--robot", "cartpole")
    assert code == 0, err
    assert steps(calls) == EVERYTHING
    assert "-m cli.main demo --robot cartpole" in out
    assert "ready" in err
    code, out, err, calls = checkout.run("demo")
    assert code == 0 and err == "" and len(calls) == 1 and "cli.main demo" in calls[0]


def test_from_elsewhere_and_through_links(checkout, tmp_path):
    checkout.run("setup")
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    (elsewhere / "a").symlink_to(checkout.root / "refit")
    (elsewhere / "b").symlink_to("a")
    code, out, err, calls = checkout.run("identify", "bag", script=elsewhere / "b", cwd=elsewhere)
    assert code == 0 and f"in {elsewhere}:" in out and len(calls) == 1, err


def test_shell_runs_a_command_inside_and_ends_as_it_does(checkout, tmp_path):
    code, out, err, _ = checkout.run(
        "shell", "sh", "-c", 'echo "$VIRTUAL_ENV" "$1" "$2"; exit 3', "sh", "two words", "*"
    )
    assert (code, out.split(maxsplit=1)[1]) == (3, "two words *\n"), err
    assert out.split()[0] == str(checkout.root / ".venv")
    _, out, _, _ = checkout.run("shell", "sh", "-c", "echo $PATH")
    assert out == f"{checkout.root}/.venv/bin:{checkout.root}/pip_ros/bin:{checkout.bin}\n"  # with a ros2 of our own
    code, out, err, _ = checkout.run("shell", "no-such-command")
    assert code == 127 and "no-such-command" in err
    code, out, _, calls = checkout.run("shell", "--help")
    assert code == 0 and out.startswith("usage: ./refit shell [COMMAND [WORD...]]")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("requirements.lock", ["setuptools", "packages", "paths", "interfaces", "package"]),
        ("interfaces/msg/A.msg", ["interfaces", "package"]),
        ("launch/new.launch.py", ["package"]),
        ("data/new.csv.gz", ["package"]),
        ("setup.py", ["package"]),
    ],
)
def test_a_change_redoes_what_depends_on_it(checkout, path, expected):
    checkout.run("setup")
    checkout.write(checkout.root / path, "numpy==2\n")
    _, _, _, calls = checkout.run("setup")
    assert steps(calls) == expected


def test_tiers_come_on_first_need(checkout):
    checkout.run("setup")
    assert steps(checkout.run("bench", "--list")[3]) == []
    assert steps(checkout.run("test", "-k", "x")[3]) == [
        "inference",
        "learning",
        "calibration",
        "security",
        "robots",
        "view",
        "telepresence",
        "docs",
        "test",
    ]
    assert steps(checkout.run("bench", "dynamics")[3]) == ["bench"]
    assert steps(checkout.run("test")[3]) == []


@pytest.mark.parametrize(
    ("line", "tiers"),
    [
        ("demo", []),
        ("launch sim.launch.py robot:=panda", []),
        ("calibrate tool bag", []),
        ("calibrate camera bag", ["calibration"]),
        ("security create keys", ["security"]),
        ("view bag", ["view"]),
        ("view --help", []),
        ("docs", ["docs"]),
        ("docs sim_core.control", ["docs"]),
        ("docs --help", []),
        ("launch sim.launch.py view:=true robot:=panda", ["view"]),
        ("launch teleop.launch.py", ["security", "view", "telepresence"]),
        ("launch teleop.launch.py --show-args", ["security", "view", "telepresence"]),
        ("launch teleop.launch.py --help", []),
        ("launch scooping.launch.py", ["learning"]),
        ("demo scooping --quick", ["learning"]),
        ("demo --robot ur5e_scoop", ["learning"]),
        ("launch excavation.launch.py", []),
        ("demo excavation --quick", []),
        ("launch poking.launch.py", []),
        ("launch poking.launch.py model:=extra_trees", ["learning"]),
        ("demo poking --quick", []),
        ("demo --view", ["view"]),
        ("demo --no-view", []),
        ("security create --help", []),
        ("identify bag", []),
        ("identify bag --method csvgd", []),
        ("identify bag --method nuts", ["inference"]),
        ("identify bag --method=cma-es", ["inference"]),
        ("identify bag --method bayessim", ["learning"]),
        ("identify bag --method bayessim --cluster tcp://far:8786", ["inference", "learning"]),
        ("identify bag --method nuts --help", []),
        ("experiment sampled --quick", ["inference", "learning"]),
        ("experiment --quick trained", ["learning"]),
        ("experiment plain", []),
        ("experiment plain --cluster=tls://far:8786", ["inference"]),
        ("experiment --list", []),
        ("experiment no-such", []),
        ("experiment *", []),
        ("setup learning inference", ["learning", "inference"]),
        ("setup", []),
    ],
)
def test_a_command_brings_its_tiers(checkout, line, tiers):
    checkout.run("setup")
    code, _, err, calls = checkout.run(*line.split())
    assert code == 0 and steps(calls) == tiers, err
    for tier in tiers:
        assert f"this needs the tier '{tier}' (requirements-{tier}.lock), which is installed now, once." in err
    code, _, err, calls = checkout.run(*line.split())
    assert code == 0 and err == "" and steps(calls) == []


def test_a_change_of_a_tier_updates_that_tier_alone(checkout):
    checkout.run("setup", "inference", "learning")
    checkout.write(checkout.root / "requirements-learning.lock", "torch==2\n")
    assert steps(checkout.run("experiment", "sampled")[3]) == ["learning"]


def test_a_new_base_asks_for_the_tiers_again(checkout):
    checkout.run("setup", "learning")
    checkout.write(checkout.root / "requirements.lock", "numpy==2\n")
    assert "learning" not in steps(checkout.run("setup")[3])
    assert steps(checkout.run("experiment", "trained")[3]) == ["learning"]


def test_a_wrong_tier_is_named_beside_those_there_are(checkout):
    code, _, err, calls = checkout.run("setup", "learnign")
    assert code == 2 and not calls
    assert (
        "no tier 'learnign'; there are: base inference learning calibration security robots view telepresence docs test bench."
        in err
    )


def test_the_words_that_need_a_tier_are_those_of_the_methods():
    """The script knows methods by name, because it cannot import them."""
    from identification.infer_settings import ALIASES
    from sim_core.inference.samplers import METHODS

    script = (Path(__file__).resolve().parents[2] / "refit").read_text()
    rows = [line.split() for line in script.partition("<<'WORDS'\n")[2].partition("WORDS\n")[0].splitlines()]
    said = {word: tier for command, word, tier in rows if command == "identify"}
    needed = {name: entry.tier for name, entry in METHODS.items() if entry.tier}
    assert said == needed | {alias: needed[name] for alias, name in ALIASES.items() if name in needed}


def test_tiers_have_one_name_everywhere():
    """Script, lock files and config/tiers.py."""
    from config.tiers import TIERS

    root = Path(__file__).resolve().parents[2]
    in_script = re.search(r"^TIERS='(.*)'$", (root / "refit").read_text(), re.M).group(1).split()
    assert set(TIERS) <= set(in_script)
    locks = {path.stem.removeprefix("requirements-") for path in root.glob("requirements-*.lock")}
    assert locks == {*in_script, "ros"}


@pytest.mark.parametrize("step", ["-m venv", "-r requirements.lock"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_cut_off_while_installing_starts_clean(checkout, step, how):
    code, err = checkout.interrupt(step, "demo", with_signal=how)
    assert code == (-9 if how == signal.SIGKILL else 130), err
    assert how == signal.SIGKILL or "interrupted" in err
    half = checkout.root / ".venv" / "half-a-package"
    half.parent.mkdir(exist_ok=True)
    half.write_text("")
    code, _, err, calls = checkout.run("demo")
    assert code == 0, err
    assert steps(calls) == EVERYTHING and not half.exists()


def test_cut_off_while_updating_starts_clean(checkout):
    checkout.run("setup")
    (checkout.root / "requirements.lock").write_text("numpy==2\n")
    checkout.interrupt("-r requirements.lock", "demo")
    _, _, _, calls = checkout.run("demo")
    assert steps(calls) == EVERYTHING


def test_cut_off_while_building_builds_clean(checkout):
    checkout.interrupt("--base-paths interfaces", "demo")
    half = checkout.root / ".refit" / "build" / "half.o"
    checkout.write(half, "")
    code, _, err, calls = checkout.run("demo")
    assert code == 0, err
    assert steps(calls) == ["interfaces", "package"] and not half.exists()


def test_cut_off_while_installing_a_tier_writes_it_again(checkout):
    checkout.run("setup")
    checkout.interrupt("-r requirements-test.lock", "test")
    code, _, err, calls = checkout.run("test")
    assert code == 0, err
    assert steps(calls) == ["test", "test"] and "--ignore-installed" in calls[0]


def test_cut_off_while_installing_a_tier_leaves_the_others(checkout):
    checkout.run("setup")
    checkout.interrupt("-r requirements-learning.lock", "experiment", "sampled")
    assert steps(checkout.run("demo")[3]) == []
    code, _, err, calls = checkout.run("experiment", "sampled")
    assert code == 0, err
    assert steps(calls) == ["learning", "learning"] and "--ignore-installed" in calls[0]


def test_an_orphaned_installation_is_waited_for(checkout):
    """Only the script is killed: pip goes on, and must not meet a second pip."""
    first, _ = checkout.start_hanging("-r requirements.lock", "setup")
    first.kill()
    first.wait()
    checkout.calls_file.unlink()
    second = checkout.start("setup")
    assert any("waiting for it" in line for line in second.stderr)
    checkout.go_on()
    _, err = second.communicate(timeout=300)
    assert second.returncode == 0 and steps(checkout.calls()) == EVERYTHING, err


def test_an_interruption_ends_the_steps_children(checkout):
    code, _ = checkout.interrupt("--base-paths interfaces", "demo", with_signal=signal.SIGINT)
    leader = int(checkout.calls_file.with_name("calls.hanging").read_text())
    assert code == 130
    with pytest.raises(ProcessLookupError):
        for _ in range(3000):
            os.killpg(leader, 0)
            time.sleep(0.02)


def test_a_failed_step_says_why_and_is_done_again(checkout):
    code, out, err, _ = checkout.run("demo", FAIL="-r requirements.lock")
    assert code == 1 and out == ""
    assert "no such package on earth" in err and "failed" in err and "setup.log" in err
    code, _, err, calls = checkout.run("demo")
    assert code == 0 and steps(calls) == EVERYTHING, err


def test_two_starts_at_once_set_up_once(checkout):
    first, _ = checkout.start_hanging("-r requirements.lock", "setup")
    second = checkout.start("setup")
    assert any("another start is setting up" in line for line in second.stderr)
    checkout.go_on()
    errors = [process.communicate(timeout=300)[1] for process in (first, second)]
    assert first.returncode == 0 and second.returncode == 0, errors
    assert steps(checkout.calls()) == EVERYTHING
    assert "another start is setting up" not in errors[0]


def test_a_foreign_venv_is_left_alone(checkout):
    mine = checkout.root / ".venv" / "mine"
    checkout.write(mine, "")
    code, _, err, _ = checkout.run("demo")
    assert code == 1 and "not made by refit" in err and mine.exists()


def test_a_path_that_breaks_tools_is_refused(checkout, tmp_path):
    (tmp_path / "with space").mkdir()
    moved = checkout.root.rename(tmp_path / "with space" / "checkout")
    code, _, err, calls = checkout.run("demo", script=moved / "refit", cwd=moved)
    assert code == 1 and "may not contain spaces" in err and not calls


@pytest.mark.parametrize(("user", "expected"), [("1000", 1), ("0", 0)])
def test_system_packages_are_installed_by_root_only(checkout, tmp_path, user, expected):
    (checkout.bin / "cmake").unlink()
    (checkout.bin / "id").unlink()
    checkout.write(checkout.bin / "id", f"#!/bin/sh\necho {user}\n", executable=True)
    checkout.write(checkout.bin / "apt-get", f'#!/bin/sh\necho "$*" >>{tmp_path}/apt\n', executable=True)
    code, _, err, _ = checkout.run("setup")
    assert code == expected, err
    if user == "0":
        assert "build-essential cmake" in (tmp_path / "apt").read_text()
    else:
        assert not (tmp_path / "apt").exists()
        assert "sudo apt-get install build-essential cmake" in err


def test_no_python_that_fits(checkout):
    checkout.write(
        checkout.bin / "python3.11", "#!/bin/sh\necho 'pyenv: command not found' >&2; exit 127\n", executable=True
    )
    (checkout.bin / "id").unlink()
    checkout.write(checkout.bin / "id", "#!/bin/sh\necho 1000\n", executable=True)
    # absolute candidates of the machine are out of the sandbox's reach
    script = (checkout.root / "refit").read_text().replace("/usr/bin/python3", "/nowhere/python3")
    (checkout.root / "refit").write_text(script)
    code, _, err, _ = checkout.run("demo")
    assert code == 1 and "REFIT_PYTHON" in err and "pyenv: command not found" in err
    assert not (checkout.root / ".venv" / ".refit-base").exists()


def test_a_sourced_jazzy_is_used(checkout, tmp_path):
    ros = tmp_path / "ros"
    for package in ("rclpy", "launch_ros", "tf2_msgs", "control_msgs", "launch_pytest", "ros2cli"):
        checkout.write(ros / "share" / package / "package.xml", "")
    jazzy = dict(
        ROS_DISTRO="jazzy", AMENT_PREFIX_PATH=str(ros), PYTHONPATH=f"{ros}/python", REFIT_PYTHON=checkout.env["STUB"]
    )
    code, _, err, calls = checkout.run("test", **jazzy)
    assert code == 0, err
    text = "\n".join(calls)
    assert "--system-site-packages" in text and "requirements-ros.lock" not in text
    assert (
        "--base-paths interfaces pip_ros/interfaces/simulation_interfaces pip_ros/interfaces/audio_common_msgs" in text
    )  # the rest is provided
    assert not (checkout.root / ".venv").exists()
    script = f". {checkout.root}/.refit/jazzy/env.sh; echo $AMENT_PREFIX_PATH; echo $PYTHONPATH; echo $PATH"
    prefixes, modules, path = subprocess.run(
        ["sh", "-c", script], env={**checkout.env, **jazzy}, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert prefixes == f"{checkout.root}/.refit/jazzy/install:{ros}"
    assert modules.endswith(f":{ros}/python") and "pip_ros" not in modules
    assert path == f"{checkout.root}/.venv-jazzy/bin:{checkout.bin}"  # with the distribution's own ros2
    # The wheels live beside it.
    _, _, _, calls = checkout.run("setup")
    assert steps(calls) == EVERYTHING


def test_another_distribution_is_left_aside(checkout):
    code, _, err, calls = checkout.run("setup", ROS_DISTRO="humble", AMENT_PREFIX_PATH="/opt/ros/humble")
    assert code == 0 and steps(calls) == EVERYTHING
    assert "ROS humble is sourced but is not a usable Jazzy" in err
    assert "/opt/ros/humble" not in (checkout.root / ".refit" / "env.sh").read_text()


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_any_posix_shell_parses_it(shell):
    script = Path(__file__).resolve().parents[2] / "refit"
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = {"busybox": ["busybox", "sh"], "bash": ["bash", "--posix"]}.get(shell, [shell])
    subprocess.run([*command, "-n", str(script)], check=True)
