"""Drawing in a child: each library in turn, and a sentence where none works."""

import pytest

from sim_core.host import offscreen
from sim_core.host.offscreen import BACK_ENDS, draw_in_child, installed_back_end

pytestmark = pytest.mark.process


@pytest.fixture
def module(tmp_path, monkeypatch):
    def write(text):
        (tmp_path / "drawing_of_a_test.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return "drawing_of_a_test"

    return write


def test_the_second_library_draws_where_the_first_cannot(module, tmp_path):
    text = "import os, sys\nopen(sys.argv[1], 'a').write(os.environ['MUJOCO_GL'] + ' ')\nsys.exit(os.environ['MUJOCO_GL'] == 'egl')"
    assert draw_in_child(module(text), [str(tmp_path / "said")]) == ""
    assert (tmp_path / "said").read_text().split() == list(BACK_ENDS)


def test_why_nothing_is_drawn(module):
    why = draw_in_child(module("raise SystemExit('no such library')"), [])
    assert why.startswith("Nothing can be drawn here (osmesa: no such library).") and "apt-get install" in why


def test_a_library_that_hangs_is_given_up(module):
    why = draw_in_child(module("import time; time.sleep(60)"), [], timeout=0.5)
    assert "osmesa took more than 0 s" in why or "osmesa took more than 1 s" in why


def test_the_first_library_that_is_installed_is_taken(monkeypatch):
    monkeypatch.setattr(offscreen, "find_library", lambda name: "libOSMesa.so" if name == "OSMesa" else None)
    monkeypatch.setenv("MUJOCO_GL", "egl")
    assert installed_back_end() == "egl"
    monkeypatch.delenv("MUJOCO_GL")
    assert installed_back_end() == "osmesa"
    monkeypatch.setattr(offscreen, "find_library", lambda name: None)
    assert installed_back_end() == "disable"
