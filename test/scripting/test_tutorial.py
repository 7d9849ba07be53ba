"""The tutorial's code blocks run as they are printed, in order, in one session, and what they claim is so."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.graph

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Nobody is halted and no control comes late because a busy machine pauses: the supervisor is told to be patient, the
# plant waits for its controller, and nothing else is changed.
PATIENCE = """
from scripting import Robot
_start = Robot.start
Robot.start = lambda *words, **options: _start(*words, params_file={file!r}, **{{"lockstep": True}} | options)
"""

CLAIMS = """
assert result, result
assert settled.tracking_error < surprised.tracking_error
assert abs(mass.value - 2.0) < 0.1, mass
assert max(scores) > 0.8 and not task.result()
"""


def blocks(page: str) -> list[str]:
    return BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


def test_the_tutorial(domain, patient, tmp_path):
    limits = patient(state_age_limit=5.0, future_limit=5.0, command_age_limit=5.0)
    code = "\n".join([PATIENCE.format(file=str(limits)), *blocks("tutorial.md"), CLAIMS])
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    assert "still following" in ran.stdout
    # What it says of the folder it leaves is so, too.
    folder = tmp_path / "runs" / "tutorial"
    assert all((folder / name).exists() for name in ("bag", "graph.log", "revisions", "parameters.yaml"))


def test_every_verb_is_on_the_page():
    from scripting import Outcome, Robot
    from scripting.world import World

    page = (ROOT / "docs" / "scripting.md").read_text(encoding="utf-8")
    verbs = [name for kind in (Robot, World) for name in vars(kind) if not name.startswith("_")]
    missing = [name for name in [*verbs, *Outcome.__members__] if name not in page]
    # `World.change` is what `Robot.change_world` calls.
    assert not missing, missing
    assert all(compile(block, "docs/scripting.md", "exec") for block in blocks("scripting.md"))
