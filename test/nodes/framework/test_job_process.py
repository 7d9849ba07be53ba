"""What a job in a process of its own told between two looks at it."""

from types import SimpleNamespace

import pytest

from nodes.framework.job_process import JobProcess


class Bunch(JobProcess):
    """A job that told all of this since the last look; no process."""

    def __init__(self, *messages):
        self.messages, self.closed = list(messages), False

    def poll(self):
        return self.messages

    def close(self):
        self.closed = True


def news(stage, step=0):
    return ("news", {"stage": stage, "step": step})


@pytest.mark.parametrize(
    "ends, end", [([], None), ([("done", 3)], ("done", 3)), ([("failed", "no data")], ("failed", "no data"))]
)
def test_a_stage_that_passes_between_two_looks_is_said_too(ends, end):
    bunch = Bunch(
        news("adam", 1), news("adam", 2), news("lbfgs", 3), ("news", {"step": 4}), news("reporting", 5), *ends
    )
    feedback, said = SimpleNamespace(stage="starting", step=0), []
    assert bunch.take(feedback, lambda f: said.append((f.stage, f.step))) == end
    assert said == [("adam", 2), ("lbfgs", 4), ("reporting", 5)]
    assert bunch.closed == (end is not None)


def test_nothing_new_is_not_said():
    said = []
    assert Bunch().take(SimpleNamespace(stage="adam"), said.append) is None
    assert Bunch(("done", 1)).take(SimpleNamespace(stage="adam"), said.append) == ("done", 1)
    assert not said
