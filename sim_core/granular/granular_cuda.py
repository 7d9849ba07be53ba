"""A world's steps on a GPU: bodies and pairs stay there; a run sends the tools and fetches the wrenches.

Bodies travel only when somebody looks at them (`fetch`), since whoever looks may also write. Steps are taken in sequences, recorded once
for a world: no longer than the list of pairs will last if it lasts as the one before. A look at the GPU then says how many were taken
before pairs had to be listed anew (runtime/granular.cu), so that lists are made in the same steps as on the CPU, and results differ by
the rounding of fused operations and the order of sums alone.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from sim_core.codegen import cuda
from sim_core.granular.on_threads import OK, PAIRS, RUNTIME, TOO_FAST, WorldData

__all__ = ["OnCuda", "compile_kernels"]

SOURCE = RUNTIME / "granular.cu"
SEQUENCES = (64, 32, 16, 8, 4, 2, 1)  # steps between two looks at the GPU; the first is SEQUENCE of runtime/granular.cu
LEAST = 8  # that are tried, even if the list before lasted less
BLOCK = cuda.Device.BLOCK
MOST_CHUNKS = 1024  # of the sum over what touches tools
MEASURING = 512  # blocks that measure what holds all spheres
SUMMED = 1024  # numbers in a chunk of a sum, CHUNK of runtime/granular.cu
FOREVER = 1 << 62
_P, _I64 = ctypes.c_void_p, ctypes.c_int64
#: arrays of a list of pairs; None: the room for them. Actions, slots and incidents: see `granular_job` of runtime/granular.cu
KEPT: dict[str, tuple[tuple[int | None, ...], str]] = {
    **{"a": ((None,), "i4"), "b": ((None,), "i4"), "touches": ((None,), "u1"), "history": ((6, None), "f4")},
    **{"action": ((2, None, 8), "f4"), "slot": ((2, None), "i4"), "incident": ((2, None), "i8")},
}
BODIES = ("motion", "quaternion", "center")


def compile_kernels(architecture: str | None = None) -> Path:
    """Path of the compiled kernels; needs no GPU when `architecture` (e.g. "sm_80") is given."""
    return cuda.compile_cuda("refit_granular_cuda", {}, SOURCE, dtype="float32", architecture=architecture)


class PairsData(ctypes.Structure):
    """`granular_pairs` of runtime/law.h."""

    _fields_ = [
        *((name, _P) for name in ("a", "b", "history", "force", "touches")),
        *((name, _I64) for name in ("parts", "count", "room")),
    ]


class CellsData(ctypes.Structure):
    """`granular_cells` of runtime/neighbours.h."""

    _fields_ = [(name, _P) for name in ("grid", "first", "of", "sorted", "center")]


class Job(ctypes.Structure):
    """`granular_job` of runtime/granular.cu."""

    COUNTS = ("cell_counts", "starts", "starts_before", "incident_counts", "incident", "action", "slot")
    _fields_ = [
        ("w", WorldData),
        ("pairs", PairsData),
        ("before", PairsData),
        ("cells", CellsData),
        ("status", _P),
        *((name, _P) for name in COUNTS),
        ("region", _P),
        ("partial", _P),
        ("chunks", _I64),
    ]


class Status(ctypes.Structure):
    """`granular_status` of runtime/granular.cu."""

    _fields_ = [
        *((name, _I64) for name in ("last", "failed", "parts", "pairs")),
        ("way", ctypes.c_float * SEQUENCES[0]),
    ]


class OnCuda:
    """`sim_core.granular.on_threads.Steps` on GPU 0.

    Args:
        data: of the world on the host. arrays: behind its pointers, by name; those of bodies are filled by `fetch`.
        structures: the tools, parts and laws behind its pointers, by name.

    Raises:
        CudaUnavailable: no NVRTC, driver or GPU.
    """

    def __init__(
        self,
        data: WorldData,
        arrays: Mapping[str, np.ndarray],
        structures: Mapping[str, ctypes.Array],
        device: cuda.Device | None = None,
    ) -> None:
        self._device = device or cuda.Device()
        self._module = self._load()
        self._structures = structures
        self._host = {**arrays, **{name: np.frombuffer(memoryview(s), np.uint8) for name, s in structures.items()}}
        self._there = {name: self._device.upload(array) for name, array in self._host.items()}
        self._data, self.lists = data, 0
        n, bodies = data.spheres, data.bodies
        cells = 4 * n + 4096 + 2  # MOST_CELLS of runtime/neighbours.h
        sizes = {
            **{"grid": 64, "of": 4 * n, "sorted": 4 * n, "sorted_center": 16 * n},
            **{"job": ctypes.sizeof(Job), "status": ctypes.sizeof(Status)},
            **{"cell_counts": 8 * cells, "incident_counts": 8 * (bodies + 2)},
            **{"region": 28 * MEASURING, "partial": 48 * MOST_CHUNKS * data.tools, "sums": 8 * _blocks(cells, SUMMED)},
        }
        self._memory = {name: self._device.memory(size) for name, size in sizes.items()}
        self._starts = [self._device.upload(np.zeros(2 * n + 1, np.int64)) for _ in range(2)]
        self._pairs, self._spare = self._room(8 * n), self._room(8 * n)
        self._parts, self._count, self._stale, self._tool_way = 0, 0, True, 0.0
        self._newer, self._written = False, False
        self._since, self._lasted = 0, LEAST  # steps since pairs were listed, and of the list before
        self._sequences: dict[tuple[int, int], Callable[[], None]] = {}  # by steps and pairs
        self._tell()

    def _load(self) -> ctypes.c_void_p:
        return self._device.load(compile_kernels())

    def forget(self) -> None:
        self._stale = True

    def fetch(self) -> None:
        if self._newer:
            for name in BODIES:
                self._there[name].read(self._host[name])
        self._newer, self._written = False, True

    def pairs(self) -> dict[str, np.ndarray]:
        count = self._count
        there = {name: self._pairs.array(name) for name in KEPT if name != "incident"}
        for name, array in there.items():
            self._pairs.memory[name].read(array)
        on_a, on_b = (there["action"].reshape(-1, 8)[slots[:count]] for slots in there["slot"])
        place = np.stack([on_a[:, 3], on_a[:, 7], on_b[:, 3]], 1)
        return {
            **{name: there[name][:count].copy() for name in ("a", "b", "touches")},
            "history": np.ascontiguousarray(there["history"].T[:count]),
            "force": np.concatenate([on_b[:, :3], on_a[:, 4:7], on_b[:, 4:7], place], 1),
        }

    def put_pairs(self, pairs: Mapping[str, np.ndarray]) -> int:
        self._count = len(pairs["a"])
        self._grow(self._count)
        for name, given in pairs.items():
            room = self._pairs.array(name)
            (room.T if name == "history" else room)[: self._count] = given
            self._pairs.memory[name].write(room)
        n = self._data.spheres
        kind = n * (np.asarray(pairs["b"], np.int64) >= n)
        each = np.bincount(np.asarray(pairs["a"], np.int64) + kind, minlength=2 * n)
        starts = np.concatenate([[0], np.cumsum(each)]).astype(np.int64)
        self._starts[0].write(starts)
        self._parts = int(starts[n])
        self._tell()
        self._stale = True
        return OK

    def run(self, steps: int) -> tuple[int, int]:
        for name in ("tool", "wrench", "peak", *(BODIES if self._written else ())):
            self._there[name].write(self._host[name])
        self._written = False
        self._enqueue("place", max(self._data.bodies, self._data.parts))
        per_step, done, failed = self._farthest_part(), 0, -1
        while done < steps and failed < 0:
            if self._stale:
                self._list()
            expected = min(max(self._lasted - self._since, LEAST), steps - done)
            taken, failed = self._take(next(n for n in SEQUENCES if n <= expected), per_step)
            failed, done = failed + done if failed >= 0 else -1, done + taken
        for name in ("tool", "wrench", "peak"):
            self._there[name].read(self._host[name])
        self._newer = True
        return (OK if failed < 0 else TOO_FAST), failed

    def _take(self, count: int, per_step: float) -> tuple[int, int]:
        """Up to `count` steps; how many were taken, and which failed or -1."""
        ways = [self._tool_way]
        for _ in range(count):
            ways.append(ways[-1] + per_step)
        self._memory["status"].write(_bytes(Status(last=FOREVER, failed=-1, way=tuple(ways[1:]))))
        self._sequence(count)()
        status = self._status()
        taken = min(status.last + 1, count)
        self._tool_way, self._stale, self._since = ways[taken], status.last < count, self._since + taken
        return taken, status.failed

    def _sequence(self, count: int) -> Callable[[], None]:
        """So many steps, recorded when they are needed first, for as many pairs as there are or up to a fifth more."""
        enough = math.ceil(2 ** (math.ceil(4 * math.log2(self._count + 1)) / 4))
        if (count, enough) not in self._sequences:
            self._sequences[count, enough] = self._device.record(lambda: self._enqueue_steps(count, enough))
        return self._sequences[count, enough]

    def _enqueue_steps(self, count: int, pairs: int) -> None:
        tools, pairs = self._data.tools * BLOCK, _whole(pairs)
        for step in range(count):
            self._enqueue("contacts", pairs + tools, step)
            self._enqueue("bodies", _whole(self._data.bodies) + min(pairs, MOST_CHUNKS * BLOCK) + tools, step)
        self._enqueue("wrenches", tools, count - 1)

    def _list(self) -> None:
        """List pairs anew."""
        spheres, bodies = self._data.spheres, self._data.bodies
        cells, memory = 4 * spheres + 4096, self._memory
        self._starts.reverse()
        self._pairs, self._spare = self._spare, self._pairs
        self._tell()
        self._enqueue("measure", MEASURING * BLOCK, MEASURING)
        self._enqueue("fit", BLOCK, MEASURING)
        self._enqueue("clear", cells + 2)
        self._enqueue("count_in_cells", spheres)
        self._sum(memory["cell_counts"], cells + 2)
        self._enqueue("put_in_cells", spheres)
        self._enqueue("sort_cells", cells)
        self._enqueue("count_pairs", 2 * spheres)
        self._sum(self._starts[0], 2 * spheres + 1)
        self._enqueue("tell_pairs", 1)
        status = self._status()
        self._parts, self._count = status.parts, status.pairs
        self._grow(self._count)
        self._tell()
        self._enqueue("put_pairs", 2 * spheres)
        self._sum(memory["incident_counts"], bodies + 2)
        self._enqueue("put_incidents", self._count)
        self._enqueue("sort_incidents", bodies)
        self._stale, self._tool_way, self.lists = False, 0.0, self.lists + 1
        self._lasted, self._since = self._since, 0

    def _sum(self, numbers: cuda.Memory, n: int) -> None:
        """Each number becomes the sum of all up to it."""
        where, sums = ctypes.c_uint64(numbers.address), ctypes.c_uint64(self._memory["sums"].address)
        chunks = _blocks(n, SUMMED)
        for kernel, threads, arguments in (
            ("sum_chunks", chunks * BLOCK, (where, n, sums)),
            ("sum_sums", BLOCK, (sums, chunks)),
            ("spread_sums", chunks * BLOCK, (where, n, sums)),
        ):
            self._device.enqueue(self._module, kernel, threads, arguments)

    def _enqueue(self, kernel: str, threads: int, *arguments: int | cuda.Number) -> None:
        self._device.enqueue(self._module, kernel, max(threads, 1), [self._at_job, *arguments])

    def _status(self) -> Status:
        status = Status()
        self._memory["status"].read(_bytes(status))
        return status

    @property
    def _at_job(self) -> ctypes.c_uint64:
        return ctypes.c_uint64(self._memory["job"].address)

    def _tell(self) -> None:
        """Tell kernels how things are now."""
        self._memory["job"].write(_bytes(self._job()))

    def _job(self) -> Job:
        at = {name: memory.address for name, memory in self._memory.items()}
        world = WorldData.from_buffer_copy(self._data)
        for name in WorldData.POINTERS:
            setattr(world, name, self._there[name].address)
        touched = self._count - self._parts
        cells = CellsData(at["grid"], at["cell_counts"] + 8, at["of"], at["sorted"], at["sorted_center"])
        starts, before = (memory.address for memory in self._starts)
        return Job(
            world,
            self._pairs.data(self._parts, self._count),
            self._spare.data(0, 0),
            cells,
            at["status"],
            **{"cell_counts": at["cell_counts"], "starts": starts, "starts_before": before},
            **{name: self._pairs.memory[name].address for name in ("incident", "action", "slot")},
            **{"incident_counts": at["incident_counts"], "region": at["region"], "partial": at["partial"]},
            chunks=min(max(_blocks(touched, BLOCK), 1), MOST_CHUNKS),
        )

    def _room(self, pairs: int) -> _Room:
        return _Room(self._device, pairs + pairs // 4 + 1024)

    def _grow(self, pairs: int) -> None:
        if pairs > self._pairs.room:
            self._pairs = self._room(pairs)

    def _farthest_part(self) -> float:
        """How far a point of a tool goes in a step at most [m]."""
        most = 0.0
        tools, parts = self._structures["tool"], self._structures["part"]
        for number, tool in enumerate(tools):
            own = [p for p in parts[: self._data.parts] if p.tool == number]
            reach = max((_norm(p.offset) + _norm(p.half) + p.rounding for p in own), default=0.0)
            most = max(most, (_norm(tool.velocity) + _norm(tool.spin) * reach) * self._data.step)
        return most


class _Room:
    """Memory for a list of pairs, and for what is sorted from it."""

    def __init__(self, device: cuda.Device, room: int) -> None:
        self.room = room
        self.memory = {name: device.upload(self.array(name)) for name in KEPT}

    def array(self, name: str) -> np.ndarray:
        """Zeros of the shape that the memory holds."""
        shape, kind = KEPT[name]
        return np.zeros([self.room if n is None else n for n in shape], kind)

    def data(self, parts: int, count: int) -> PairsData:
        at = {name: memory.address for name, memory in self.memory.items() if name in PAIRS}
        return PairsData(**at, parts=parts, count=count, room=self.room)


def _bytes(structure: ctypes.Structure) -> np.ndarray:
    """The memory of a structure."""
    return np.frombuffer(memoryview(structure).cast("B"), np.uint8)


def _blocks(n: int, size: int) -> int:
    """How many of a size hold n."""
    return (n + size - 1) // size


def _whole(threads: int) -> int:
    """Threads of whole blocks."""
    return _blocks(threads, BLOCK) * BLOCK


def _norm(x: ctypes.Array) -> float:
    return math.sqrt(sum(v * v for v in x))
