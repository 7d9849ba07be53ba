"""Executors: order, errors, lost workers, and results that depend on none of it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from jobs import die, die_once, draw, fail_at_three

from sim_core.host.executors import LocalProcesses, WorkerLost, open_executor, spread


def unknown_there(job):
    """A worker elsewhere cannot import this module."""
    return job


@pytest.fixture(scope="module")
def processes():
    with open_executor("processes:2") as executor:
        yield executor


def test_results_come_in_the_order_of_the_jobs_whoever_computes(processes):
    expected = [draw(seed) for seed in range(7)]
    for executor in (None, ThreadPoolExecutor(3), processes):
        counts = []
        assert np.array_equal(spread(draw, range(7), executor, counts.append), expected)
        assert counts == list(range(1, 8))


def test_errors_of_the_function_come_through(processes):
    for executor in (None, processes):
        with pytest.raises(ValueError, match="three"):
            spread(fail_at_three, range(6), executor)


def test_the_work_of_a_process_that_dies_is_done_again(processes, tmp_path):
    results = spread(die_once, [(n, str(tmp_path)) for n in range(6)], processes)
    assert (tmp_path / "died").exists()
    assert [n for n, _ in results] == list(range(6))
    assert all(np.array_equal(values, draw(n)) for n, values in results)


def test_a_job_that_ends_every_worker_is_given_up():
    with LocalProcesses(1) as executor, pytest.raises(WorkerLost, match="3 times"):
        spread(die, [0], executor)


def test_a_place_that_is_none_is_one_sentence():
    with pytest.raises(ValueError, match="processes:N"), open_executor("processes:0"):
        pass
    with pytest.raises(ValueError, match="'moon'"), open_executor("moon"):
        pass


def test_a_dask_cluster_whose_worker_is_killed_in_the_middle_gives_the_same(tmp_path):
    """Two worker processes; one is killed while it works, so its finished and its running jobs are lost."""
    distributed = pytest.importorskip("distributed")
    jobs = [(n, str(tmp_path)) for n in range(12)]
    options = {"dashboard_address": None, "threads_per_worker": 1, "silence_logs": 50, "host": "127.0.0.1"}
    with distributed.LocalCluster(2, processes=True, **options) as cluster:
        with open_executor(cluster.scheduler_address) as executor:
            results = spread(die_once, jobs, executor)
            with pytest.raises(ModuleNotFoundError):
                spread(unknown_there, [0], executor)
    assert (tmp_path / "died").exists()
    assert [n for n, _ in results] == list(range(12))
    assert all(np.array_equal(values, draw(n)) for n, values in results)


def test_a_result_whose_worker_is_lost_just_after_it_came_is_a_result(monkeypatch):
    distributed = pytest.importorskip("distributed")
    gather = distributed.Client._gather

    async def gather_and_lose(client, futures, *args, **kwargs):
        results = await gather(client, futures, *args, **kwargs)
        for future in futures:
            future._state.lose()
        return results

    monkeypatch.setattr(distributed.Client, "_gather", gather_and_lose)
    options = {"dashboard_address": None, "threads_per_worker": 1, "silence_logs": 50, "protocol": "tcp://"}
    with distributed.LocalCluster(1, processes=False, host="127.0.0.1", **options) as cluster:
        with open_executor(cluster.scheduler_address) as executor:
            assert np.array_equal(spread(draw, range(3), executor), [draw(seed) for seed in range(3)])


def test_no_scheduler_is_one_sentence(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("sim_core.host.executors.CONNECT_TIMEOUT", 0.5)
    with pytest.raises(ConnectionError, match="dask scheduler"), open_executor("tcp://127.0.0.1:9"):
        pass
