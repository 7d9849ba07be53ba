"""Experiments whose jobs are computed elsewhere: the same numbers, whoever computes, and whoever is lost on the way."""

import os
import signal
from concurrent.futures import Executor

import numpy as np
import pytest

from experiments.neuralsim import basin_hopping_double_pendulum as experiment
from experiments.problems.ampc_study import Job, played
from reporting import SilentProgress
from reporting.progress import Stage
from sim_core.host.executors import open_executor, spread

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def few_starts(monkeypatch):
    """Four starts; what a start gives is computed as at full size."""
    monkeypatch.setitem(experiment.SIZES, "quick", 2)


@pytest.fixture(scope="module")
def alone():
    """The numbers of one process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(experiment.SIZES, "quick", 2)
        return numbers(None)


def numbers(executor: Executor | None, progress=SilentProgress()) -> list[np.ndarray]:
    details = experiment.run("quick", seed=4, progress=progress, executor=executor).details
    return [np.asarray(value, dtype=float) for table in details.values() for value in table.values()]


class AtFirstResult(SilentProgress):
    """Does something when the first job is done."""

    def __init__(self, act):
        self.act, self.done = act, 0

    def stage(self, text, total=None):
        outer = self

        class First(Stage):
            def advance(self, amount=1.0):
                outer.done += 1
                if outer.done == 1:
                    outer.act()

        return First()


def test_processes_give_the_numbers_of_one(alone):
    episodes = [Job("cartpole", seed, "frozen") for seed in (3, 4)]
    with open_executor("processes:2") as executor:
        elsewhere = numbers(executor)
        played_there = spread(played, episodes, executor)
    assert all(np.array_equal(a, b) for a, b in zip(alone, elsewhere, strict=True))
    for there, here in zip(played_there, map(played, episodes), strict=True):
        assert all(np.array_equal(a.X, b.X) and a.score == b.score for a, b in zip(there, here, strict=True))


def test_a_cluster_that_loses_a_worker_on_the_way_gives_the_same(alone):
    distributed = pytest.importorskip("distributed")
    options = {"dashboard_address": None, "threads_per_worker": 1, "silence_logs": 50, "host": "127.0.0.1"}
    with distributed.LocalCluster(2, processes=True, **options) as cluster:
        killed = []

        def kill():
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

        with open_executor(cluster.scheduler_address) as executor:
            elsewhere = numbers(executor, AtFirstResult(kill))
    assert killed and all(np.array_equal(a, b) for a, b in zip(alone, elsewhere, strict=True))
