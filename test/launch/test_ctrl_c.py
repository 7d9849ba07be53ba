"""Ctrl-C at any moment: exit code 0, no traceback, nobody left behind, and a plant that says torque zero."""

import contextlib
import os
import signal
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from launched import settled, until
from sensor_msgs.msg import JointState
from simulation_interfaces.msg import SimulationState

from nodes.framework.qos import STATE

ROOT = Path(__file__).resolve().parents[2]
#: starts at a time
TOGETHER = 3
SETTINGS = """
/**/adaptive_mpc:
  ros__parameters: {mode: track}
/**/supervisor:
  ros__parameters: {lease_duration: 5.0, clock_age_limit: 30.0}
"""


class Terminal:
    """`./refit launch` in a session of its own, as in a terminal: a Ctrl-C goes to the whole process group."""

    def __init__(self, folder: Path, *words: str):
        self._mark = f"REFIT_TEST={uuid.uuid4()}"
        name, value = self._mark.split("=")
        self._log = folder / "output"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [ROOT / "refit", "launch", "sim.launch.py", *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, name: value},
            )

    def ctrl_c(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    @property
    def output(self) -> str:
        return self._log.read_text()

    def descendants(self) -> list[str]:
        """Whatever carries the mark of this start in its environment."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended meanwhile, or is not ours
                if self._mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def assert_ended_well(self) -> None:
        code = self.process.wait(60.0)
        assert code == 0, f"exit code {code}\n{self.output}"
        assert "Traceback" not in self.output, self.output
        until(lambda: not self.descendants(), f"nobody is left behind by\n{self.output}")


@pytest.fixture
def terminal(domain, tmp_path):
    """Start `./refit launch sim.launch.py` with these words; whatever a failing test leaves is killed."""
    if "package ready" not in subprocess.run([ROOT / "refit", "stamps"], capture_output=True, text=True).stdout:
        pytest.skip("something has changed that asks for ./refit setup")
    started = []

    def start(*words: str, folder: Path = tmp_path) -> Terminal:
        folder.mkdir(exist_ok=True)
        started.append(terminal := Terminal(folder, *words))
        return terminal

    yield start
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()
        print(one.output)  # pytest shows it where a test has failed


# From the script's own checks over the first imports of the launch to nodes that load their kernels; record:=true adds the recorder.
DELAYS = (0.2, 0.5, 0.8, 1.2, 1.8, 2.5, 4.0, 6.0)


def test_while_starting(terminal, tmp_path):
    """A few starts at a time, each in a namespace, as they share a graph."""

    def interrupted(k: int) -> None:
        folder = tmp_path / str(k)
        run = terminal("robot:=cartpole", "record:=true", f"run_directory:={folder}", f"namespace:=r{k}", folder=folder)
        time.sleep(DELAYS[k])
        run.ctrl_c()
        run.assert_ended_well()

    with ThreadPoolExecutor(TOGETHER) as several:
        outcomes = [several.submit(interrupted, k) for k in range(len(DELAYS))]
    failed = [f"after {delay} s: {error}" for delay, one in zip(DELAYS, outcomes) if (error := one.exception())]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("presses", [1, 3])
def test_while_moving(terminal, probe, tmp_path, presses):
    """Also for a nervous finger."""
    states = probe.watch(JointState, "joint_states", STATE)
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    seen = len(states)
    probe.forget()
    # Time waits for everybody: the swing-up is over within a second, and nobody is to miss it.
    run = terminal(
        "robot:=cartpole",
        f"params_file:={tmp_path / 'settings.yaml'}",
        "paused:=true",
        "record:=true",
        f"run_directory:={tmp_path}",
    )
    probe.wait_active("sim_plant", "adaptive_mpc", "refit_worker", "supervisor", "recorder")
    until(lambda: probe.node.count_publishers("joint_states") == 1, "the plant is heard")
    probe.set_state(SimulationState.STATE_PLAYING)
    states.wait(lambda m: abs(m.effort[0]) > 1.0, after=seen, what="the controller moves the cart")
    for _ in range(presses):
        run.ctrl_c()
        time.sleep(0.1)
    run.assert_ended_well()
    settled(states)  # the process has ended before its last words have been read
    assert list(states[-1].effort) == [0.0, 0.0]
    assert "0 lost" in run.output, run.output  # the recorder too has ended in good order
