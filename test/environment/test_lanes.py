"""A worker that dies takes nobody with it: the others have the rest of the tests, and the run ends."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
sys.path.insert(0, {root!r})
spec = spec_from_file_location("ours", {root!r} + "/test/conftest.py")
ours = module_from_spec(spec)
spec.loader.exec_module(ours)
ours._computes = lambda file: True
pytest_xdist_make_scheduler = ours.pytest_xdist_make_scheduler
"""
DIES = """
import os
from pathlib import Path
def test_a(): pass
def test_dies():
    first = Path({mark!r})
    if not first.exists():
        first.touch()
        os._exit(9)
def test_c(): pass
"""


def test_a_run_ends_after_a_worker_has_died(tmp_path):
    """Late, when it has many files behind it; xdist by itself waits for ever (25 s were not enough for these 3 s)."""
    (tmp_path / "conftest.py").write_text(CONFTEST.format(root=str(ROOT)))
    short = "import time\ndef test_a():\n    time.sleep(0.05)\n"
    for k in range(14):
        (tmp_path / f"test_f{k:02d}.py").write_text(short)
    (tmp_path / "test_y.py").write_text(DIES.format(mark=str(tmp_path / "died")))
    (tmp_path / "test_z.py").write_text(short.replace("0.05", "2"))
    options = [
        "-q",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *options, str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1 and "1 failed, 18 passed" in ended.stdout, ended.stdout + ended.stderr
