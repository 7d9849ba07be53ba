"""Where pure functions run: in this process, in several, or on several machines.

    with open_executor("processes:2") as executor:      # or "", or "tcp://scheduler:8786"
        results = spread(function, jobs, executor)

Everything here is a `concurrent.futures.Executor`, so any other one serves as well. What is handed to `spread` must be
pure and picklable: the same job gives the same result wherever and however often it runs. So the results depend
neither on the number of workers nor on their order, and a job whose worker is lost is simply done again.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, InvalidStateError, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from config.tiers import require
from sim_core.host.child_process import belong_to

if TYPE_CHECKING:
    import distributed

__all__ = ["LocalProcesses", "Serial", "WorkerLost", "open_executor", "spread"]

# A job that took this many workers with it is given up.
TRIES = 3
# A scheduler that does not answer for so long is not there [s].
CONNECT_TIMEOUT = 10.0


Job = TypeVar("Job")
Outcome = TypeVar("Outcome")


class WorkerLost(RuntimeError):
    """A job ended its worker again and again, or no worker is left."""


@contextlib.contextmanager
def open_executor(where: str = "") -> Iterator[Executor]:
    """The executor that `where` names, closed at the end.

    Args:
        where: "": this process; "processes" or "processes:N": as many processes as there are cores, or N;
            "tcp://HOST:PORT": the workers of a Dask scheduler, which must have this project in their environment.

    Raises:
        ValueError: another text. ConnectionError: no scheduler answers there.
    """
    kind, _, count = where.partition(":")
    if not where:
        yield Serial()
    elif kind == "processes" and (not count or count.isdigit() and int(count) > 0):
        with LocalProcesses(int(count) if count else None) as executor:
            yield executor
    elif kind in ("tcp", "tls"):
        with _dask(where) as executor:
            yield executor
    else:
        raise ValueError(
            f"'{where}' is no place to compute; expected nothing, processes, processes:N or tcp://HOST:PORT"
        )


def spread(
    function: Callable[[Job], Outcome],
    jobs: Iterable[Job],
    executor: Executor | None = None,
    done: Callable[[int], None] | None = None,
) -> list[Outcome]:
    """function(job) of every job, in the order of the jobs.

    Args:
        executor: where the jobs run; None: in this process.
        done: called after each result with the number of results so far, in this thread; raising ends the rest.

    Raises:
        WorkerLost: a job ended its worker again and again. What `function` raises is passed on.
    """
    if executor is None or isinstance(executor, Serial):  # submitted, all would be computed before the first is done
        results = []
        for job in jobs:
            results.append(function(job))
            if done is not None:
                done(len(results))
        return results
    futures = [executor.submit(function, job) for job in jobs]
    try:
        for count, future in enumerate(as_completed(futures), start=1):
            _result(future)
            if done is not None:
                done(count)
    finally:
        for future in futures:
            future.cancel()
    return [future.result() for future in futures]


def _result(future: Future[Outcome]) -> Outcome:
    try:
        return future.result()
    except Exception as error:
        # Dask's class is told by its name, so that who computes at home need not have Dask.
        if type(error).__name__ == "KilledWorker":
            raise WorkerLost(
                f"a job took {TRIES + 1} workers of the cluster with it; see their logs (memory?)"
            ) from error
        raise


class Serial(Executor):
    """Computes each job in this thread at the moment it is submitted."""

    def submit(self, function: Callable[..., Outcome], /, *args: Any, **kwargs: Any) -> Future[Outcome]:
        """A future that already holds the result, or what the function raised."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass
class _Job:
    call: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)
    tries: int = 0


class LocalProcesses(Executor):
    """A process pool that outlives its workers.

    Where one process of a `ProcessPoolExecutor` dies, the pool is broken and every job in it fails. Here they are done
    again in a new pool.

    Args:
        workers: number of processes; None: one for each core.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1
        self._lock = threading.RLock()
        self._pool: ProcessPoolExecutor | None = None
        self._closed = False

    def submit(self, function: Callable[..., Outcome], /, *args: Any, **kwargs: Any) -> Future[Outcome]:
        """Compute function(*args, **kwargs) in one of the processes; all of it must be picklable.

        Raises:
            RuntimeError: the processes have been shut down.
        """
        job = _Job(partial(function, *args, **kwargs))
        self._send(job)
        return job.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; as `concurrent.futures.Executor.shutdown`."""
        with self._lock:
            self._closed, pool = True, self._pool
        if pool is not None:
            pool.shutdown(wait, cancel_futures=cancel_futures)

    def _send(self, job: _Job) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("these processes have been shut down")
            if self._pool is None:
                # A forked copy of a process with threads may wait for ever for a lock that one of them held.
                self._pool = ProcessPoolExecutor(
                    self.workers, multiprocessing.get_context("spawn"), belong_to, (os.getpid(),)
                )
            pool = self._pool
            try:
                inner = pool.submit(job.call)
            except BrokenExecutor:
                self._pool = None
                return self._send(job)
        job.future.add_done_callback(lambda outer: inner.cancel() if outer.cancelled() else None)
        inner.add_done_callback(partial(self._on_done, job, pool))

    def _on_done(self, job: _Job, pool: ProcessPoolExecutor, inner: Future[Any]) -> None:
        if inner.cancelled():
            job.future.cancel()
            return
        error = inner.exception()
        if isinstance(error, BrokenExecutor):
            job.tries += 1
            with self._lock:
                if self._pool is pool:
                    self._pool = None
            if job.tries < TRIES and not self._closed and not job.future.cancelled():
                return self._send(job)
            error = WorkerLost(f"a worker process was lost {job.tries} times with the same job (memory?)")
        with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
            if error is not None:
                job.future.set_exception(error)
            else:
                job.future.set_result(inner.result())


@contextlib.contextmanager
def _dask(address: str) -> Iterator[Executor]:
    """The workers of a Dask scheduler, which does again what a lost worker had done or was doing."""
    require("inference", f"the Dask cluster '{address}'")
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address} within {CONNECT_TIMEOUT:g} s ({error}); "
            "start one with 'dask scheduler', and workers with 'dask worker ADDRESS'"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_TIMEOUT)
            client.run(importlib.import_module, __name__)
        except TimeoutError:
            raise ConnectionError(
                f"the scheduler at {address} has no workers; start some with 'dask worker {address}'"
            ) from None
        except ImportError as error:
            raise ConnectionError(
                f"a worker at {address} lacks this project ({error}); start it inside './refit shell'"
            ) from None
        yield _Cluster(client)


class _Cluster(Executor):
    """A Dask client as an executor.

    Dask's own adapter takes a result for an error, if its worker is lost just after it came (`distributed.cfexecutor`).
    """

    def __init__(self, client: distributed.Client) -> None:
        self._client = client

    def submit(self, function: Callable[..., Outcome], /, *args: Any, **kwargs: Any) -> Future[Outcome]:
        import cloudpickle  # comes with Dask

        # A worker that cannot unpickle a task itself (a module it lacks) stops listening, without a word. So every
        # task is one it knows, and what may fail happens inside.
        call = cloudpickle.dumps(_Call(partial(function, *args, **kwargs)))
        # pure=False: equal jobs are computed each, as everywhere; results of other runs under the same name are not taken.
        inner = self._client.submit(pickle.loads, call, pure=False)
        outer: Future[Any] = Future()
        # keeps the inner one, whose result the cluster forgets when nobody has it any more
        outer.add_done_callback(lambda outer: inner.cancel() if outer.cancelled() else None)
        inner.add_done_callback(partial(_hand_on, outer))
        return outer


def _hand_on(outer: Future[Any], inner: distributed.Future) -> None:
    """What has become of a Dask future, to one of Python's."""
    with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
        if inner.cancelled():
            if outer.cancel():
                outer.set_running_or_notify_cancel()  # who waits for it is told
            return
        try:
            result = inner.result()
        except (Exception, asyncio.CancelledError) as error:  # the latter: cancelled since it was asked
            outer.set_exception(error)
        else:
            outer.set_result(result)


class _Call:
    """Pickles as a call: to unpickle it is to make the call."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return self._call, ()
