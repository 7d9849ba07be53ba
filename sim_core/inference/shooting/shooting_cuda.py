"""The shooting kernel on a GPU: a thread per window, sums over windows there too.

Data stay on the GPU; a call sends the particles' coordinates and fetches likelihoods, defects and gradients.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim_core.codegen import cuda
from sim_core.inference.shooting.job import RUNTIME, Job, Launchable

__all__ = ["ShootingOnCuda"]

SOURCE = RUNTIME / "shooting.cu"


class ShootingOnCuda:
    """Calls of a ShootingKernel on GPU 0.

    Raises:
        CudaUnavailable: no NVRTC, driver or GPU.
    """

    def __init__(self, kernel: Launchable, device: cuda.Device | None = None) -> None:
        self._kernel, self._device = kernel, device or cuda.Device()
        self._data = {name: self._device.upload(getattr(kernel.recorded, name)) for name in Job.DATA}
        self._modules: dict[tuple[int, str], tuple[ctypes.c_void_p, int]] = {}
        self._room: dict[str, cuda.Memory] = {}
        self._one_at_a_time = threading.Lock()  # calls share the room

    def __call__(
        self,
        given: Sequence[np.ndarray | None],
        out: Sequence[np.ndarray],
        damping: float,
        seeds: int,
        form: str,
        gradient: bool,
    ) -> None:
        """Fill `out` = (misfit, d, offsetbar, thetabar) from `given` = (theta, offsets, multipliers); see ShootingKernel."""
        with self._one_at_a_time:
            self._run(given, out, damping, seeds, form, gradient)

    def _run(
        self,
        given: Sequence[np.ndarray | None],
        out: Sequence[np.ndarray],
        damping: float,
        seeds: int,
        form: str,
        gradient: bool,
    ) -> None:
        kernel, device = self._kernel, self._device
        N, (W, H, _), itemsize = len(out[0]), kernel.recorded.u.shape, kernel.dynamics.dtype.itemsize
        module, record = self._module(seeds, form)
        columns = math.prod(out[3].shape[2:])
        elements = 1, columns, (H * kernel.dynamics.substeps + 1) * record
        memory = dict(self._data)
        for name, array in zip(Job.GIVEN, given):
            if array is not None:
                memory[name] = self._at_least(name, array.nbytes)
                memory[name].write(array)
        for name, array in zip(Job.RESULTS, out):
            memory[name] = self._at_least(name, array.nbytes)
        for name, n in zip((*Job.EACH, "records"), elements):
            memory[name] = self._at_least(name, N * W * n * itemsize)
        job = kernel.job(N, damping, gradient, {name: m.address for name, m in memory.items()})
        device.launch(module, "shooting", N * W, [job])
        device.launch(module, "sums", out[0].size * columns, [job])
        for name, array in zip(Job.RESULTS, out):
            memory[name].read(array)

    def _at_least(self, name: str, nbytes: int) -> cuda.Memory:
        """Memory under a name, kept from call to call while it is large enough."""
        if name not in self._room or self._room[name].nbytes < nbytes:
            self._room[name] = self._device.memory(nbytes)
        return self._room[name]

    def _module(self, seeds: int, form: str) -> tuple[ctypes.c_void_p, int]:
        """Kernels, and how many numbers a step leaves for the way back (equations are not written anew for each call)."""
        if (seeds, form) not in self._modules:
            step = self._kernel.functions(seeds, form)["step"]
            self._modules[seeds, form] = self._load(seeds, form), sum(map(step.numel_out, (0, 1)))
        return self._modules[seeds, form]

    def _load(self, seeds: int, form: str) -> ctypes.c_void_p:
        return self._device.load(compile_kernels(self._kernel, seeds, form))


def compile_kernels(kernel: Launchable, seeds: int, form: str, architecture: str | None = None) -> Path:
    """Path of the compiled kernels; needs no GPU when `architecture` (e.g. "sm_80") is given."""
    return cuda.compile_cuda(
        "refit_shooting_cuda",
        kernel.functions(seeds, form),
        SOURCE,
        dtype=kernel.dynamics.dtype.name,
        defines=kernel.defines(seeds),
        architecture=architecture,
    )
