"""The pages' Python runs as it is printed: block after block of a page in one session, in an empty folder.

A comment above a block says what it takes for granted (`<!-- given: ... -->`, snippet_givens.py), or which test runs it
(`<!-- elsewhere: FILE ... -->`). Nothing else is left out.
"""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
sys.path.insert(0, str(Path(__file__).parent))  # for what all tests share

from pages import PAGES, ROOT, name_of, python_blocks
from snippet_givens import GIVENS

ABOVE = "the blocks above"
WITH_PYTHON = [page for page in PAGES if python_blocks(page)]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_python_of_the_pages_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, ran = {"__name__": "a_page"}, 0
    for block in python_blocks(page):
        kind, text = block.note or ("given", "")
        if kind == "elsewhere":
            continue
        if ran == 0 or text not in ("", ABOVE):
            assert text != ABOVE, f"{name_of(page)}:{block.line}: no block above it has run"
            if text:
                GIVENS[text](names, tmp_path)
        # Line numbers are those of the page.
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
        ran += 1


def test_what_does_not_run_here_names_the_test_that_runs_it():
    wrong = []
    for page in PAGES:
        for block in python_blocks(page):
            where, note = f"{name_of(page)}:{block.line}", block.note
            if note is None:
                continue
            kind, text = note
            if kind == "given":
                if text != ABOVE and text not in GIVENS:
                    wrong.append(f"{where}: nothing is known of '{text}'; there are {', '.join(GIVENS)}")
            elif kind != "elsewhere":
                wrong.append(f"{where}: expected given or elsewhere, found '{kind}'")
            else:
                named = re.search(r"test/[\w/.]+", text)
                if named is None or not (ROOT / named[0]).exists():
                    wrong.append(f"{where}: no test is named that exists")
    assert not wrong, "\n".join(wrong)


def test_most_of_it_runs_here():
    blocks = [block for page in PAGES for block in python_blocks(page)]
    elsewhere = [block for block in blocks if block.note and block.note[0] == "elsewhere"]
    tutorial = [block for block in elsewhere if block.page.name == "tutorial.md"]
    assert len(blocks) >= 30 and len(elsewhere) - len(tutorial) <= 8


def test_every_given_is_asked_for():
    asked = {
        block.note[1] for page in PAGES for block in python_blocks(page) if block.note and block.note[0] == "given"
    }
    assert asked - {ABOVE} == set(GIVENS)
