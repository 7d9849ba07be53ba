"""A checkout with stand-ins for Python, pip and colcon, so that the script's own logic runs in seconds."""

import os
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0  # [s] for anything that has to happen, far beyond what an idle machine needs

# Answers as the script's Python would, writes down what it was asked, and stops where a test wants
# to interrupt: at the first step that contains $HANG, until `Checkout.go_on`, or fails at one that contains $FAIL.
PYTHON = """#!/bin/sh
echo "$*" | tr '\\n' ' ' >>"$CALLS"; echo >>"$CALLS"
if [ -n "${FAIL:-}" ]; then case "$*" in *"$FAIL"*) echo "no such package on earth"; exit 1;; esac; fi
if [ -n "${HANG:-}" ]; then case "$*" in *"$HANG"*) echo $$ >"$CALLS.hanging.part"; mv "$CALLS.hanging.part" "$CALLS.hanging"
    n=0; while [ ! -e "$CALLS.go" ] && [ $((n += 1)) -lt 3000 ]; do sleep 0.1; done;; esac; fi
case "$*" in
    *find_spec*) exit "${NO_RCLPY:-0}" ;;
    *ensurepip*) echo "$STUB" ;;
    *"-m venv"*)
        for folder; do :; done
        mkdir -p "$folder/bin" && cp "$STUB" "$folder/bin/python" ;;
    *platform*) echo 3.11.9 ;;
    *sys.version_info*) echo python3.11 ;;
    *"-m colcon"*)
        previous=
        for word; do
            case $previous in --build-base | --install-base) mkdir -p "$word" && : >"$word/made" ;; esac
            previous=$word
        done ;;
    *"cli.main"* | *test/run.py*) echo "in $(pwd): $*" ;;
esac
"""

TOOLS = ("sh env sed grep cat find sort mkdir mv rm cp cut tr sha256sum date sleep dirname basename readlink uname "
         "id tail ls flock ldconfig xargs setsid gcc g++ make cmake pwd").split()  # fmt: skip


class Checkout:
    """A small copy of the repository and the means to start its script."""

    def __init__(self, folder):
        self.root = folder / "checkout"
        self.calls_file = folder / "calls"
        self.bin = folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool, path="/usr/bin:/bin:/usr/sbin:/sbin")
            if found:
                (self.bin / tool).symlink_to(found)
        self.write(self.bin / "python3.11", PYTHON, executable=True)
        self.root.mkdir()
        shutil.copy(ROOT / "refit", self.root / "refit")
        for name, text in {
            "requirements.lock": "numpy==1\n",
            "requirements-ros.lock": "setuptools==79.0.1\n",
            "requirements-inference.lock": "numpyro==1\n",
            "requirements-learning.lock": "torch==1\n",
            "requirements-calibration.lock": "opencv==1\n",
            "requirements-security.lock": "cryptography==1\n",
            "requirements-robots.lock": "pin==1\n",
            "requirements-view.lock": "viser==1\n",
            "requirements-telepresence.lock": "aiohttp==1\n",
            "requirements-docs.lock": "pdoc==1\n",
            "requirements-test.lock": "pytest==1\n",
            "requirements-bench.lock": "jax==1\n",
            "setup.py": "", "setup.cfg": "", "package.xml": "",
            "interfaces/msg/A.msg": "bool a\n",
            "pip_ros/interfaces/tf2_msgs/package.xml": "",
            **{f"pip_ros/interfaces/{package}/package.xml": "" for package in (
                "simulation_interfaces", "control_msgs", "audio_common_msgs", "realsense2_camera_msgs")},
            "experiments/csvgd/sampled.py": '"""Of both."""\n\nTIERS = ("inference", "learning")\n',
            "experiments/neuralsim/trained.py": 'import torch\n\nTIERS = ("learning",)\n',
            "experiments/plain.py": "def run(): ...\n",
            "launch/sim.launch.py": "", "nodes/table.py": "",
        }.items():  # fmt: skip
            self.write(self.root / name, text)
        self.env = {
            "PATH": str(self.bin), "HOME": str(folder), "CALLS": str(self.calls_file),
            "STUB": str(self.bin / "python3.11"), "MUJOCO_GL": "egl",
        }  # fmt: skip

    @staticmethod
    def write(path, text, executable=False):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if executable:
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def start(self, *words, cwd=None, script=None, **env):
        """The script as a process group of its own."""
        return subprocess.Popen(
            [str(script or self.root / "refit"), *words], cwd=cwd or self.root, env={**self.env, **env},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, *words, **options):
        """(exit code, stdout, stderr, what Python was asked meanwhile)"""
        self.calls_file.unlink(missing_ok=True)
        process = self.start(*words, **options)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err, self.calls()

    def calls(self):
        """But for the question that env.sh asks at every start: what to do about the network."""
        calls = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        return [call for call in calls if "config.network" not in call]

    def interrupt(self, step, *words, with_signal=signal.SIGKILL):
        """Start, wait until `step` runs, then signal. SIGKILL ends the step's processes too, as a power
        cut does. Returns (exit code, stderr)."""
        process, leader = self.start_hanging(step, *words)
        os.killpg(process.pid, with_signal)
        if with_signal == signal.SIGKILL:
            os.killpg(leader, signal.SIGKILL)
        _, err = process.communicate(timeout=PATIENCE)
        return process.returncode, err

    def start_hanging(self, step, *words):
        """Start, and wait until `step` runs; it goes on after `go_on`. Returns (process, process id of the step)."""
        hanging = Path(f"{self.calls_file}.hanging")
        hanging.unlink(missing_ok=True)
        process = self.start(*words, HANG=step)
        deadline = time.monotonic() + PATIENCE
        while not hanging.exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline, self.calls()
            time.sleep(0.02)
        return process, int(hanging.read_text())

    def go_on(self):
        """Let the step that hangs go on."""
        Path(f"{self.calls_file}.go").touch()


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)
