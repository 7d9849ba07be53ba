"""What a program of somebody else learns from the types of the project's packages."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import numpy as np
from sim_core.gate import CommandGate, JointLimits, Lease


def duration(gate: CommandGate, limits: JointLimits) -> float:
    gate.grant(Lease("somebody", 0.5), now=0.0)
    names: tuple[str, ...] = limits.joints
    length: {length} = len(names)
    print(gate.limits, length)
    return Lease("somebody", 0.5).duration
"""


def checked(folder, program):
    (folder / "program.py").write_text(program)
    words = ["--strict", "--follow-imports=silent", "--cache-dir", str(folder / "cache"), "program.py"]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *words],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_a_program_is_checked_against_the_types_of_the_packages(tmp_path):
    right = checked(tmp_path, PROGRAM.format(length="int"))
    assert right.returncode == 0, right.stdout
    wrong = checked(tmp_path, PROGRAM.format(length="str"))
    assert wrong.returncode == 1 and 'variable has type "str"' in wrong.stdout
    misspelt = checked(tmp_path, PROGRAM.format(length="int").replace("gate.limits", "gate.limitts"))
    assert misspelt.returncode == 1 and "limitts" in misspelt.stdout


def test_every_package_whose_types_are_checked_says_so():
    """An installed package without this file is of type Any (PEP 561)."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    packages = settings["files"] if isinstance(settings["files"], list) else settings["files"].split(", ")
    assert packages and all((ROOT / name / "py.typed").is_file() for name in packages)
    assert '"py.typed"' in (ROOT / "setup.py").read_text()
