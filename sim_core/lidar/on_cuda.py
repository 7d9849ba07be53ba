"""Scans on a GPU: the kernel's text of the CPU, a thread per beam.

Tables of a scene go there once; a call sends the inputs and their derivatives, and fetches the beams.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import numpy as np

from sim_core.codegen import cuda
from sim_core.lidar.kernel import RUNTIME, Tracer, WorldData
from sim_core.lidar.scene import Scene
from sim_core.lidar.settings import LidarSettings

__all__ = ["CudaTracer", "compile_kernels"]


@functools.cache
def compile_kernels(width: int, architecture: str | None = None) -> Path:
    """Path of the compiled kernel with derivatives by `width` parameters; needs no GPU when `architecture` (e.g. "sm_80") is given."""
    return cuda.compile_cuda(
        "refit_lidar_cuda", {}, RUNTIME / "lidar.cu", defines={"LIDAR_P": width}, architecture=architecture
    )


class CudaTracer(Tracer):
    """A `Tracer` whose scans are made on GPU 0; rays and returns are still the CPU's.

    Raises:
        CudaUnavailable: no NVRTC, driver or GPU. RuntimeError: there is no C compiler.
    """

    def __init__(self, scene: Scene, settings: LidarSettings, device: cuda.Device | None = None) -> None:
        super().__init__(scene, settings)
        self._device = device or cuda.Device()
        self._there = {name: self._device.upload(self._arrays[name]) for name in WorldData.POINTERS}
        self._data = WorldData.from_buffer_copy(self.data)
        for name, memory in self._there.items():
            setattr(self._data, name, memory.address)
        self._modules: dict[int, Any] = {}

    def _load(self, width: int) -> Any:
        return self._device.load(compile_kernels(width))

    def _run(
        self, width: int, rows: np.ndarray, slopes: np.ndarray, beams: np.ndarray, out: np.ndarray, threads: int
    ) -> None:
        if width not in self._modules:
            self._modules[width] = self._load(width)
        sent = [self._device.upload(array) for array in (rows, slopes)]
        back = [self._device.memory(array.nbytes) for array in (beams, out)]
        addresses = [ctypes.c_uint64(memory.address) for memory in (*sent, *back)]
        arguments: list[int | cuda.Number] = [self._data, *addresses, len(rows)]
        self._device.enqueue(self._modules[width], "scans", len(rows) * self.settings.beams, arguments)
        for memory, array in zip(back, (beams, out)):
            memory.read(array)
