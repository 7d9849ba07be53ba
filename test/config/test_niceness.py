"""A process's niceness counts for its session too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from config import niceness
from config.niceness import carry_over

AUTOGROUP = Path("/proc/self/autogroup")


class Weights:
    """In place of /proc/self/autogroup: refuses as often as it is told to."""

    def __init__(self, *refusals):
        self.refusals, self.written = list(refusals), []

    def write_text(self, text, encoding):
        if self.refusals:
            raise self.refusals.pop(0)
        self.written.append(text)


@pytest.fixture
def leader(monkeypatch):
    """leader(niceness): this process leads its session, and is that nice."""

    def pretend(nice, leads=True):
        monkeypatch.setattr(niceness.os, "getpriority", lambda which, who: nice)
        monkeypatch.setattr(niceness.os, "getsid", lambda pid: os.getpid() if leads else 1)
        monkeypatch.setattr(niceness.time, "sleep", lambda seconds: None)

    return pretend


@pytest.mark.parametrize(
    ("nice", "leads", "written"), [(-10, True, ["-10"]), (5, True, ["5"]), (0, True, []), (5, False, [])]
)
def test_who_leads_a_session_gives_it_its_niceness(leader, nice, leads, written):
    leader(nice, leads)
    weights = Weights()
    carry_over(weights)
    assert weights.written == written


def test_a_kernel_that_is_asked_too_often_is_asked_again(leader):
    leader(5)
    weights = Weights(BlockingIOError(), BlockingIOError())
    carry_over(weights)
    assert weights.written == ["5"]


@pytest.mark.parametrize("refusal", [PermissionError(), FileNotFoundError(), OSError(5, "no autogroup")])
def test_without_the_right_or_the_file_nothing_happens(leader, refusal):
    leader(-10)
    weights = Weights(refusal)
    carry_over(weights)
    assert weights.written == [] and not weights.refusals  # asked once


def test_it_gives_up_on_a_kernel_that_always_says_later(leader):
    leader(5)
    weights = Weights(*(BlockingIOError() for _ in range(50)))
    carry_over(weights)
    assert weights.written == [] and len(weights.refusals) >= 40


@pytest.mark.process
@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel does not weigh sessions")
def test_the_kernel_has_heard_it():
    program = f"from config.niceness import carry_over; carry_over(); print(open('{AUTOGROUP}').read())"
    done = subprocess.run(
        ["nice", "-n", "7", sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert done.stdout.split()[-1] == "7", done.stderr
