"""No process falls silent: a loop that stands still, an interpreter that is held and a process that is stopped are told of."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy")

PATIENCE = 60.0  # of the tests [s]

NODE = """
import sys, time
from pathlib import Path
from nodes.framework import watchdog
from nodes.framework.lifecycle import RefitNode, spin_main

class Sleeper(RefitNode):
    name = "sleeper"

    def __init__(self):
        super().__init__()
        self.create_timer(0.05, self.work, clock=self.steady_clock)
        self.begun = time.monotonic()

    def work(self):
        if Path("hang").exists():
            self.wait_for_a_colleague()
        Path("turned").touch()

    def wait_for_a_colleague(self):
        while Path("hang").exists():
            time.sleep(0.02)

sys.exit(spin_main(Sleeper))
"""


class Said:
    """What a process has written to its two streams."""

    def __init__(self, folder: Path, script: str) -> None:
        self.path = folder / "output"
        with self.path.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", script], cwd=folder, stdout=output, stderr=subprocess.STDOUT
            )

    def __str__(self) -> str:
        return self.path.read_text()

    def until(self, condition, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None and time.monotonic() < end, f"{what} did not come: {self}"
            time.sleep(0.05)


@pytest.fixture
def start(tmp_path, domain, monkeypatch):
    """start(script): its `Said`; the process is gone afterwards."""
    root = Path(__file__).resolve().parents[3]
    monkeypatch.setenv("PYTHONPATH", f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    started = []

    def start(script: str) -> Said:
        started.append(Said(tmp_path, script))
        return started[-1]

    yield start
    for said in started:
        said.process.kill()
        said.process.wait()


@pytest.mark.graph
def test_a_callback_that_hangs_is_named_with_its_place(start, tmp_path):
    said = start(NODE)
    said.until((tmp_path / "turned").exists, "a turn")
    (tmp_path / "hang").touch()
    said.until(lambda: "The executor has made no turn for" in str(said), "the sentence")
    assert "in wait_for_a_colleague" in str(said)
    (tmp_path / "hang").unlink()
    said.until(lambda: "The executor turns again." in str(said), "the end of it")
    said.process.send_signal(signal.SIGINT)
    assert said.process.wait(PATIENCE) == 0
    assert "was not run" not in str(said) and "Timeout" not in str(said)


@pytest.mark.graph
def test_a_process_that_was_stopped_says_for_how_long(start, tmp_path):
    said = start(NODE)
    said.until((tmp_path / "turned").exists, "a turn")
    os.kill(said.process.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    time.sleep(6.0)  # longer than an executor may stand still
    lasted = time.monotonic() - stopped
    os.kill(said.process.pid, signal.SIGCONT)
    said.until(lambda: "This process was not run for" in str(said), "the sentence")
    seconds = float(str(said).rpartition("not run for ")[2].split()[0])
    assert seconds >= lasted - 1.1  # of a stop, what lies before the next look is not seen
    assert "made no turn" not in str(said)  # nobody is blamed for it
    said.process.send_signal(signal.SIGINT)
    assert said.process.wait(PATIENCE) == 0


@pytest.mark.process
def test_a_library_that_keeps_the_interpreter_is_found_too(start):
    """As in a deadlock of the middleware: no thread of Python runs any more."""
    said = start(
        """
import ctypes, time
from nodes.framework import watchdog

watchdog.INTERPRETER_PATIENCE = 2.0
watch = watchdog.Watchdog(say=print, not_run=print)
watch.start()

def hold_the_interpreter():
    ctypes.PyDLL(None).sleep(3600)

time.sleep(watchdog.PERIOD + 0.5)
hold_the_interpreter()
"""
    )
    said.until(lambda: "Timeout" in str(said) and "in hold_the_interpreter" in str(said), "the stacks")


@pytest.mark.process
def test_an_ended_watch_is_silent_and_its_limit_stays(start):
    said = start(
        """
import time
from nodes.framework import watchdog

watchdog.INTERPRETER_PATIENCE = 2.0
watch = watchdog.Watchdog(say=print, not_run=print)
watch.loop("loop", patience=lambda: 0.0)
watch.start()
time.sleep(1.5)
watch.close()
print("closed", flush=True)
time.sleep(3.0)
print("silent", flush=True)
watch.end_within(0.5)
watch.close()
time.sleep(3600)
"""
    )
    assert said.process.wait(PATIENCE) == 1
    before, after = str(said).split("closed")
    assert before.startswith("The loop has made no turn") and after.split("\n")[:2] == ["", "silent"]
    assert "Timeout" in after
