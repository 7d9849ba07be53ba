"""What `launch` refuses, and how it ends while it starts.

Wrong arguments: one sentence, exit code 2, nothing started. Ctrl-C at any moment: no traceback, nobody left behind.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from launched import until

from cli.main import main
from nodes.supervision.launch_check import check_arguments
from sim_core.multibody import load_model
from sim_core.multibody.model.parameter_file import ParameterFile

ROOT = Path(__file__).resolve().parents[2]

#: argument -> part of the sentence
WRONG = {
    "robot:=nobody": "No robot named 'nobody'. Known: avatar,",
    "robot:=config/robots": "No robot named 'config/robots'",
    "real_time_factor:=-1": "Parameter 'real_time_factor' is -1.0; expected 0 to 1000",
    "real_time_factor:=fast": "real_time_factor:=fast: expected a number",
    "real_time_factor:=nan": "Parameter 'real_time_factor' is nan; expected 0 to 1000",
    "seed:=1.5": "seed:=1.5: expected a whole number",
    "seed:=-1": "Parameter 'seed' is -1; expected 0 to",
    "lockstep:=maybe": "Parameter 'lockstep' is 'maybe'; expected true or false",
    "paused:=maybe": "'maybe' is not valid, valid options are: true, false",
    "recipe:=sweet": "'sweet' is not valid, valid options are: robust, literal",
    "namespace:=two words": "namespace:=two words: expected letters, digits and underscores",
    "secure:=true": "secure:=true needs keystore:=DIR, which ./refit security create DIR makes",
    "keystore:=keys": "keystore:=keys is only used with secure:=true",
    "params_file:=nowhere.yaml": "params_file:=nowhere.yaml: cannot be read (No such file or directory)",
    "prior:=nowhere.yaml": "prior:=nowhere.yaml: cannot be read (No such file or directory)",
    "prior:=start": "'start' is for cart-poles, this is panda",
    "scenario:=nowhere.yaml": "Cannot read the scenario file 'nowhere.yaml'",
    "scenario:=[{time: 1, action: explode}]": "unknown action; known: attach, detach,",
    "scenario:=[{time: 1, action: attach, frame: tail, mass: 2}]": "No body or site 'tail'",
    "scenario:=[{time: 1, action: attach, frame: hand, mass: .nan}]": "'mass' must be a number",
    "scenario:=[{time: 1": "The scenario is not YAML",
    "robt:=panda": "sim.launch.py has no argument 'robt'; did you mean 'robot'?",
}


@pytest.fixture
def nothing_started(monkeypatch):
    """A process that is started all the same fails the test."""

    def start(*arguments, **options):
        raise AssertionError(f"started: {arguments}")

    monkeypatch.setattr(subprocess, "Popen", start)


@pytest.mark.parametrize("argument", WRONG)
def test_a_wrong_argument_is_one_sentence_and_exit_2(argument, nothing_started, capsys):
    assert main(["launch", "sim.launch.py", argument]) == 2
    out, err = capsys.readouterr()
    assert WRONG[argument] in err, err
    assert out == "" and err.count("\n") == 1


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["robot.launch.py", "robot:=dxl_arm", "devices:=toaster"], "dxl_arm has no toaster, only urg,"),
        (["drivers.launch.py", "robot:=dxl_arm", "seed:=many"], "seed:=many: expected a whole number"),
        (["refit", "drivers", "robot:=nobody"], "No robot named 'nobody'"),
        ([str(ROOT / "launch" / "robot.launch.py"), "robot:=nobody"], "No robot named 'nobody'"),
    ],
)
def test_of_any_launch_file_however_it_is_named(words, sentence, nothing_started, capsys):
    assert main(["launch", *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1


def test_a_file_of_parameters_that_no_robot_has(nothing_started, tmp_path, capsys):
    """Whoever would start from it: the plant and the controller, or the controller alone."""
    model, path = load_model("panda"), tmp_path / "parameters.yaml"
    p = model.parameters.values({"gravity.z": -1e300})
    ParameterFile.from_vector(model, p, np.zeros((model.np_, model.np_))).save(path)
    for argument in ("params_file", "prior"):
        assert main(["launch", "sim.launch.py", f"{argument}:={path}"]) == 2
        err = capsys.readouterr().err
        assert "gravity.z is -1e+300 m/s^2, expected" in err and err.count("\n") == 1
    path.write_text(path.read_text().replace("robot: panda", "robot: cartpole"))
    assert main(["launch", "sim.launch.py", f"params_file:={path}"]) == 2
    assert "holds parameters of robot 'cartpole', the model is 'panda'" in capsys.readouterr().err


def test_what_can_be_given_is_not_refused():
    for value in (
        {},
        {"robot": "quadruped", "namespace": "left/arm", "seed": "7", "real_time_factor": "0", "lockstep": "true"},
        {"robot": str(ROOT / "config" / "robots" / "cartpole"), "prior": "start"},
        {"scenario": "[{time: 5, action: attach, frame: hand, mass: 2.0}]", "use_sim_time": "true"},
        {"robot": "dxl_arm", "devices": "dynamixel,urg"},
    ):
        check_arguments(value)


class Started:
    """A launch in a session of its own, as the script `refit` starts it; its processes carry a mark."""

    def __init__(self, folder: Path, *words: str) -> None:
        folder.mkdir()
        self._log, self._mark = folder / "output", str(uuid.uuid4())
        command = ["env", "--block-signal=INT", sys.executable, "-P", "-m", "cli.main", "launch", "sim.launch.py"]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "record:=true", f"run_directory:={folder}", *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "REFIT_TEST": self._mark},
            )

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def left(self) -> list[str]:
        """Commands of the processes that are still there."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended meanwhile, or is not ours
                if self._mark.encode() in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def interrupted(self, delay: float, nodes_first: bool) -> tuple[int, str, list[str]]:
        """(exit code, output, what is left behind) of a launch that gets Ctrl-C.

        Args:
            delay: since its start, or since that of its first node [s].
        """
        try:
            if nodes_first:
                until(lambda: "process started" in self.output or self.process.poll() is not None, "a node is started")
            time.sleep(delay)
            os.killpg(self.process.pid, signal.SIGINT)
            code = self.process.wait(60.0)
            with contextlib.suppress(AssertionError):
                until(lambda: not self.left(), "nobody is left behind", 10.0)
            return code, self.output, self.left()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def test_ctrl_c_at_any_moment_of_the_start(domain, tmp_path):
    """A few launches at a time, each in a namespace, as they share a graph.

    Half of the moments count from the start of the command, half from that of its first node: on a busy machine there
    are seconds between them.
    """
    rng = np.random.default_rng(4)
    count = 8
    delays = 0.2 + 0.4 * np.arange(count) + rng.uniform(-0.15, 0.15, (2, count))

    def run(k: int) -> tuple[int, str, list[str]]:
        started = Started(tmp_path / str(k), f"robot:={('cartpole', 'panda', 'quadruped')[k % 3]}", f"namespace:=r{k}")
        return started.interrupted(delays.ravel()[k], nodes_first=k >= count)

    with ThreadPoolExecutor(4) as several:
        for k, (code, output, left) in enumerate(several.map(run, range(2 * count))):
            assert code in (0, 130), f"{k}: exit code {code}\n{output}"
            # Executors of rclpy say "Exception in ... callback" and where, without the word "Traceback".
            assert "Traceback" not in output and "Exception" not in output, f"{k}:\n{output}"
            assert not left, f"{k}: {left}\n{output}"


STORM = """
import os, signal, threading, time
from nodes.framework.launching import shield

signal.signal(signal.SIGINT, lambda *_: None)
over = threading.Event()

def storm():
    while not over.is_set():
        os.killpg(0, signal.SIGINT)
        time.sleep(2e-4)

thread = threading.Thread(target=storm)
thread.start()
found = {shield.__wrapped__() for _ in range(30)}
over.set()
thread.join()
print(found)
"""


def test_a_ctrl_c_while_the_shield_is_tried_leaves_no_node_without_it():
    done = subprocess.run([sys.executable, "-c", STORM], capture_output=True, text=True, start_new_session=True)
    assert done.stdout == "{'env --block-signal=INT'}\n", done.stderr
