"""Processes: output, exit, respawn, shutdown with escalation, nothing left behind."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from launch.actions import (
    EmitEvent,
    ExecuteProcess,
    LogInfo,
    RegisterEventHandler,
    SetEnvironmentVariable,
    Shutdown,
    TimerAction,
)
from launch.event_handlers import OnProcessExit, OnProcessIO, OnProcessStart
from launch.events import matches_action
from launch.events.process import ShutdownProcess, SignalProcess
from launch.substitutions import LaunchConfiguration

PYTHON = [sys.executable, "-S", "-E", "-c"]
PATIENCE = 120.0  # [s] for anything that has to happen, far beyond what an idle machine needs

STUBBORN = """
import os, signal, time
for s in (signal.SIGINT, signal.SIGTERM):
    signal.signal(s, lambda n, _: os.write(1, f"ignoring {signal.Signals(n).name}\\n".encode()))
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""


def is_alive(pid):
    """Return whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def pids_of(command):
    """Return the processes with this command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_text().rstrip("\0").split("\0") == command:
                found.append(int(path.parent.name))
        except OSError:
            pass  # it has just ended
    return found


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def when_ready(process, *actions):
    """Visit actions once the process has written 'ready'."""
    return RegisterEventHandler(
        OnProcessIO(target_action=process, on_stdout=lambda event: list(actions) if b"ready" in event.text else None)
    )


def test_output_prefix_and_exit_messages(run_launch, messages):
    process = ExecuteProcess(
        cmd=["sh", "-c", "echo out; echo err >&2; printf rest; exit 3"], name="worker", output="screen"
    )
    code, _ = run_launch(process)
    lines = messages()
    name = process.process_details["name"]
    assert re.fullmatch(r"worker-\d+", name)
    for line in (f"[{name}] out", f"[{name}] err", f"[{name}] rest"):
        assert line in lines
    pid = process.process_details["pid"]
    assert f"[INFO] [{name}]: process started with pid [{pid}]" in lines
    assert any(line.startswith(f"[ERROR] [{name}]: process has died [pid {pid}, exit code 3, cmd ") for line in lines)
    assert code == 0 and process.return_code == 3


def test_output_log_shows_only_errors_on_screen(run_launch, messages, tmp_path):
    process = ExecuteProcess(cmd=["sh", "-c", "echo out; echo err >&2"], name="w")
    run_launch(process)
    shown = "\n".join(messages())
    assert "] err" in shown and "] out" not in shown
    (log,) = (tmp_path / "ros_log").glob("*/launch.log")
    assert "] err" in log.read_text() and "] out" in log.read_text()


def test_output_dictionary_and_unknown_sink(run_launch, messages):
    run_launch(ExecuteProcess(cmd=["sh", "-c", "echo out; echo err >&2"], output={"stdout": "screen", "stderr": "log"}))
    shown = "\n".join(messages())
    assert "] out" in shown and "] err" not in shown
    assert run_launch(ExecuteProcess(cmd=["true"], output="sreen"))[0] == 1
    assert "expected one of screen, log, both" in "\n".join(messages())


def test_cached_output_and_split_utf8(run_launch):
    text = "ü" * 100000
    process = ExecuteProcess(
        cmd=[*PYTHON, f'print("ü" * {len(text)})'], cached_output=True, additional_env={"PYTHONIOENCODING": "utf-8"}
    )
    run_launch(process)
    assert process.get_stdout() == text + "\n" and process.get_stderr() == ""
    with pytest.raises(RuntimeError, match="cached output"):
        ExecuteProcess(cmd=["true"]).get_stdout()


def test_environment_and_directory(run_launch, tmp_path):
    show = ["sh", "-c", "echo $REFIT_A $REFIT_B; pwd"]
    added = ExecuteProcess(
        cmd=show, additional_env={"REFIT_B": LaunchConfiguration("b")}, cwd=str(tmp_path), cached_output=True
    )
    alone = ExecuteProcess(cmd=show, env={"REFIT_B": "only", "PATH": os.environ["PATH"]}, cached_output=True)
    run_launch(SetEnvironmentVariable("REFIT_A", "a"), added, alone, configurations={"b": "b"})
    assert added.get_stdout() == f"a b\n{tmp_path}\n"
    assert alone.get_stdout().startswith("only\n")


def test_shell_prefix_and_tty(run_launch):
    shell = ExecuteProcess(cmd=["echo $((1+", LaunchConfiguration("x"), "))"], shell=True, cached_output=True)
    prefixed = ExecuteProcess(cmd=["echo", "b"], prefix="echo a", cached_output=True)
    tty = ExecuteProcess(cmd=["sh", "-c", "test -t 1 && test -t 2 && echo tty"], emulate_tty=True, cached_output=True)
    pipe = ExecuteProcess(cmd=["sh", "-c", "test -t 1 || echo pipe"], cached_output=True)
    run_launch(shell, prefixed, tty, pipe, configurations={"x": " 2 "})
    assert shell.get_stdout() == "3\n" and prefixed.get_stdout() == "a echo b\n"
    assert tty.get_stdout() == "tty\n" and pipe.get_stdout() == "pipe\n"


def test_program_that_does_not_exist(run_launch, messages):
    code, _ = run_launch(ExecuteProcess(cmd=["no_such_program"], name="w"))
    assert code == 0  # the launch itself did not fail
    assert any("[ERROR]" in line and "No such file or directory: 'no_such_program'" in line for line in messages())


def test_start_and_exit_handlers_and_on_exit(run_launch):
    events = []
    process = ExecuteProcess(
        cmd=["sh", "-c", "exit 2"], on_exit=lambda event, context: events.append(("on_exit", event.returncode))
    )
    other = ExecuteProcess(cmd=["true"])
    run_launch(
        RegisterEventHandler(
            OnProcessStart(target_action=process, on_start=lambda event, context: events.append("start"))
        ),
        RegisterEventHandler(
            OnProcessExit(
                target_action=process, on_exit=lambda event, context: [LogInfo(msg="x"), events.append("exit")][:1]
            )
        ),
        RegisterEventHandler(
            OnProcessExit(
                target_action=lambda action: action is other, on_exit=lambda event, context: events.append("other")
            )
        ),
        process,
        other,
    )
    assert sorted(map(str, events)) == sorted(map(str, ["start", "exit", ("on_exit", 2), "other"]))
    assert events.index("start") < events.index("exit")


def test_required_process_ends_the_launch(run_launch, messages):
    sleeper = ExecuteProcess(cmd=["sleep", "60"])
    code, _ = run_launch(sleeper, ExecuteProcess(cmd=["true"], name="key", on_exit=Shutdown()))
    assert code == 0 and sleeper.return_code == -signal.SIGINT
    assert any(re.search(r"process\[key-\d+\] was required", line) for line in messages())


def test_respawn(run_launch, tmp_path):
    file = tmp_path / "count"
    run_launch(
        ExecuteProcess(
            cmd=["sh", "-c", f"echo x >> {file}; exit 1"], respawn=True, respawn_max_retries=2, respawn_delay=0.05
        )
    )
    assert file.read_text() == "x\n" * 3


def test_respawn_stops_with_the_launch(run_launch, tmp_path):
    file = tmp_path / "count"
    start = time.monotonic()
    run_launch(
        ExecuteProcess(
            cmd=["sh", "-c", f"echo x >> {file}"],
            respawn=True,
            respawn_delay=600.0,
            on_exit=TimerAction(period=0.2, actions=[Shutdown()]),
        ),
    )
    assert file.read_text() == "x\n" and time.monotonic() - start < 300.0


def test_escalation_to_sigkill(run_launch, messages):
    process = ExecuteProcess(
        cmd=[*PYTHON, STUBBORN],
        name="mule",
        output="screen",
        sigterm_timeout="0.5",
        sigkill_timeout=LaunchConfiguration("kill"),
        cached_output=True,
    )
    code, _ = run_launch(when_ready(process, Shutdown()), process, configurations={"kill": "3.5"})
    assert code == 0 and process.return_code == -signal.SIGKILL
    assert process.get_stdout() == "ready\nignoring SIGINT\nignoring SIGTERM\n"
    text = "\n".join(messages())
    name = process.process_details["name"]
    assert (
        f"process[{name}] failed to terminate '0.5' seconds after receiving 'SIGINT', escalating to 'SIGTERM'"
    ) in text
    assert (
        f"process[{name}] failed to terminate '3.5' seconds after receiving 'SIGTERM', escalating to 'SIGKILL'"
    ) in text


def test_default_timeouts():
    from launch import LaunchContext
    from launch.utilities import perform_substitutions

    process = ExecuteProcess(cmd=["true"])
    for timeout in (process.sigterm_timeout, process.sigkill_timeout):
        assert perform_substitutions(LaunchContext(), timeout) == "5"


def test_events_for_one_process(run_launch):
    first = ExecuteProcess(cmd=["sleep", "60"])
    second = ExecuteProcess(cmd=["sleep", "60"])
    run_launch(
        first,
        second,
        RegisterEventHandler(
            OnProcessStart(
                target_action=second,
                on_start=[
                    EmitEvent(event=SignalProcess(signal_number="SIGUSR1", process_matcher=matches_action(first))),
                    EmitEvent(event=ShutdownProcess(process_matcher=matches_action(second))),
                ],
            )
        ),
    )
    assert first.return_code == -signal.SIGUSR1 and second.return_code == -signal.SIGINT


def test_children_that_a_process_leaves_are_killed(run_launch, tmp_path):
    file = tmp_path / "pid"
    run_launch(ExecuteProcess(cmd=["sh", "-c", f'trap "" INT TERM; sleep 60 & echo $! > {file}; exit 0']))
    assert not is_alive(int(file.read_text()))


# -- whole launches as processes of their own, interrupted from outside -------


LAUNCHER = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import ExecuteProcess, TimerAction
service = LaunchService()
service.include_launch_description(LaunchDescription([{entities}]))
sys.exit(service.run())
"""


@pytest.fixture
def launcher(tmp_path):
    """Return a function that starts a launch of the given entities in its own process."""
    started = []

    def start(entities, **kwargs):
        script = tmp_path / "launcher.py"
        script.write_text(textwrap.dedent(LAUNCHER).format(entities=entities))
        process = subprocess.Popen(
            [sys.executable, str(script)],
            text=True,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(
                signal.SIGHUP, signal.SIG_DFL
            ),  # whoever runs tests under nohup ignores it
            **kwargs,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.stdout.close()
        process.wait()


def started_pids(output):
    return [int(pid) for pid in re.findall(r"process started with pid \[(\d+)\]", output)]


def read_until(process, text):
    """Return the output up to the line with the text."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"{text!r} did not appear in:\n{''.join(lines)}")


def test_ctrl_c_ends_all_with_code_0(launcher):
    process = launcher("*(ExecuteProcess(cmd=['sleep', '60']) for _ in range(3))")
    output = "".join(read_until(process, "process started") for _ in range(3))
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "user interrupted with ctrl-c (SIGINT)" in rest and "Traceback" not in rest
    assert rest.count("sending signal 'SIGINT'") == 3
    assert not any(map(is_alive, started_pids(output)))


def test_second_ctrl_c_is_ignored(launcher):
    process = launcher(
        f"ExecuteProcess(cmd={[*PYTHON, STUBBORN]!r}, output='screen', sigterm_timeout='5', sigkill_timeout='0.2')"
    )
    read_until(process, "] ready")
    process.send_signal(signal.SIGINT)
    read_until(process, "ignoring SIGINT")
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE)
    assert "again, ignoring..." in rest and process.returncode == 0
    assert rest.count("ignoring SIGINT") == 0  # it was sent to the process once


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.15, 0.2, 0.3])
def test_ctrl_c_during_start_leaves_no_orphans(launcher, tmp_path, delay):
    """A launch that starts a process every few milliseconds is interrupted in between."""
    mark = f"60.{os.getpid()}{int(delay * 100):03d}"  # finds the processes by command line
    process = launcher(
        f"*(TimerAction(period=i * 0.01, actions=[ExecuteProcess(cmd=['sleep', '{mark}'])]) for i in range(50))"
    )
    read_until(process, "Default logging")  # from here on the launch handles signals
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "Traceback" not in output
    assert not any(map(is_alive, started_pids(output)))
    assert pids_of(["sleep", mark]) == []


def test_ctrl_c_in_a_terminal_reaches_processes_once(launcher):
    """A terminal signals its whole foreground group; the processes are not in it."""
    count = (
        "import os, signal, time; "
        'got = []; signal.signal(signal.SIGINT, lambda *a: got.append(os.write(1, b"got it\\n")));'
        'print("ready", flush=True)\nwhile not got: time.sleep(0.02)\nfor _ in range(50): time.sleep(0.02)'
    )
    process = launcher(f"ExecuteProcess(cmd={[*PYTHON, count]!r}, output='screen')", process_group=0)
    read_until(process, "] ready")
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE)
    assert output.count("got it") == 1 and process.returncode == 0


@pytest.mark.parametrize("shared", [False, True])
def test_every_process_leads_a_session_of_its_own_unless_they_shall_share_one(launcher, monkeypatch, shared):
    """So that a kernel which weighs sessions takes one graph for as many as its processes; a group of its own each has in any case."""
    monkeypatch.setenv("LAUNCH_SHARED_SESSION", str(int(shared)))
    say = "import os, time; print('leads', os.getpid() == os.getpgid(0), os.getpid() == os.getsid(0), flush=True); time.sleep(60)"
    process = launcher(f"ExecuteProcess(cmd={[*PYTHON, say]!r}, output='screen')")
    assert f"leads True {not shared}" in read_until(process, "leads ")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)


def test_sigterm_ends_all_with_code_1(launcher):
    process = launcher("ExecuteProcess(cmd=['sleep', '60'])")
    output = read_until(process, "process started")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and not any(map(is_alive, started_pids(output)))


def test_second_sigterm_kills_at_once(launcher):
    process = launcher(
        f"ExecuteProcess(cmd={[*PYTHON, STUBBORN]!r}, output='screen', sigterm_timeout='600', sigkill_timeout='600')"
    )
    output = read_until(process, "] ready")
    process.send_signal(signal.SIGTERM)
    read_until(process, "ignoring SIGINT")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)  # within this, and not after the two waits of ten minutes
    assert process.returncode == 1
    assert not any(map(is_alive, started_pids(output)))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGHUP], ids=["killed", "its terminal closed"])
def test_killed_launch_takes_its_processes_with_it(launcher, end):
    process = launcher(
        f"ExecuteProcess(cmd={[*PYTHON, STUBBORN]!r}, output='screen'), ExecuteProcess(cmd=['sleep', '60'])"
    )
    output = read_until(process, "] ready")
    pids = started_pids(output)
    process.send_signal(end)
    process.wait(timeout=PATIENCE)
    wait_until(lambda: not any(map(is_alive, pids)))
