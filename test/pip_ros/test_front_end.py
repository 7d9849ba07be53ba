"""The command `launch`: which file, its arguments, errors in one line with exit code 2."""

import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

FILE = """
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, GroupAction
from launch.conditions import IfCondition
from launch.substitutions import EnvironmentVariable, LaunchConfiguration


def generate_launch_description():
    return LaunchDescription([
        DeclareLaunchArgument('robot', description='which robot'),
        DeclareLaunchArgument('mode', default_value='fast', choices=['fast', 'exact'],
                              description='speed or accuracy'),
        DeclareLaunchArgument('home', default_value=[EnvironmentVariable('HOME'), '/x']),
        GroupAction([DeclareLaunchArgument('extra', default_value='')],
                    condition=IfCondition('false')),
        ExecuteProcess(cmd=['echo', LaunchConfiguration('robot'), LaunchConfiguration('mode')],
                       output='screen', name='show'),
    ])
"""

SHOWN = """
Arguments (pass arguments as '<name>:=<value>'):

    'robot':
        which robot

    'mode':
        speed or accuracy. Valid choices are: ['fast', 'exact']
        (default: 'fast')

    'home':
        no description given
        (default: EnvVar('HOME') + '/x')

    'extra':*
        no description given
        (default: '')

* argument(s) which are only used if specific conditions occur
"""


@pytest.fixture
def folder(tmp_path):
    """A prefix with package refit, whose folder launch has show.launch.py."""
    share = tmp_path / "share"
    (share / "refit" / "launch").mkdir(parents=True)
    (share / "ament_index" / "resource_index" / "packages").mkdir(parents=True)
    (share / "ament_index" / "resource_index" / "packages" / "refit").touch()
    (share / "refit" / "launch" / "show.launch.py").write_text(textwrap.dedent(FILE))
    return tmp_path


@pytest.fixture
def command(folder):
    """Return a function that runs the command and returns (exit code, stdout, stderr)."""

    def run(*words):
        done = subprocess.run(
            [sys.executable, "-m", "launch_front", *words],
            cwd=folder,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            env={**os.environ, "AMENT_PREFIX_PATH": str(folder)},
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_show_args(command):
    assert command("show", "--show-args") == (0, SHOWN[1:], "")


@pytest.mark.parametrize(
    "words",
    [
        ["show"],
        ["show.launch.py"],
        ["refit", "show.launch.py"],
        ["share/refit/launch/show.launch.py"],
        ["./share/refit/launch/show.launch.py"],
    ],
)
def test_runs_by_name_package_and_path(command, words):
    code, out, _ = command(*words, "robot:=x", "robot:=panda", "mode:=exact")
    assert code == 0 and re.search(r"^\[show-1\] panda exact$", out, re.MULTILINE)


def test_a_file_of_a_packages_name_does_not_hide_it(command, folder):
    (folder / "refit").write_text("a script")
    code, out, err = command("refit", "show.launch.py", "--show-args")
    assert code == 0 and "'robot':" in out, err


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "no launch file given"),
        (["sow"], "no launch file 'sow'; package refit has: show.launch.py"),
        (["nav2", "show"], "package 'nav2' not found"),
        (["show", "robot:=x", "mod:=exact"], "has no argument 'mod'; did you mean 'mode'?"),
        (["show", "robot:=x", "q:=1"], "has no argument 'q'; it knows: robot, mode, home, extra"),
        (["show", "robot:=x", "mode:=quick"], "'quick' is not valid, valid options are: fast, exact"),
        (["show"], "needs argument 'robot' (which robot): robot:=<value>"),
        (["show", "robot:="], "malformed launch argument 'robot:='"),
        (["share/refit/launch/show.launch.py", "robot=x"], "malformed launch argument 'robot=x'"),
        (["show", "--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(command, words, message):
    code, out, err = command(*words)
    assert code == 2 and message in err
    assert out == "" and len(err.splitlines()) == 1


def test_configurations_of_launch_itself_are_no_unknown_arguments(command):
    assert command("show", "robot:=x", "sigterm_timeout:=1", "emulate_tty:=true")[0] == 0


@pytest.mark.parametrize("code, expected", [(3, 1), (0, 0)])
def test_a_launch_that_lost_what_it_needs_says_so_and_fails(command, folder, code, expected):
    (folder / "needs.launch.py").write_text(
        "from launch import LaunchDescription\n"
        "from launch.actions import ExecuteProcess, Shutdown\n"
        "def generate_launch_description():\n"
        f"    return LaunchDescription([ExecuteProcess(cmd=['sh', '-c', 'exit {code}'],\n"
        "                                             on_exit=Shutdown(reason='the guard has ended'))])\n"
    )
    done, _, err = command("needs.launch.py")
    assert done == expected and ("launch: ended, because the guard has ended" in err) == bool(code)


def test_error_in_the_launch_file_shows_where(command, folder):
    (folder / "bad.launch.py").write_text("def generate_launch_description():\n    1 / 0\n")
    code, _, err = command("bad.launch.py")
    assert code == 1 and 'bad.launch.py", line 2' in err and "ZeroDivisionError" in err


def test_ctrl_c_before_the_launch_runs(folder):
    (folder / "slow.launch.py").write_text('import time\nprint("loading", flush=True)\ntime.sleep(30)\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "launch_front", "slow.launch.py"],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0 and output == ""
