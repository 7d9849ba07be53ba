"""Roll-outs on a GPU, one thread per robot: for thousands of robots at once.

The kernels hold the same emitted text as the CPU's (`sim_core.codegen`). Below some hundred robots a CPU core is
faster: a thread of a GPU runs its roll-out alone, step after step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from sim_core.codegen import cuda
from sim_core.codegen.library import Batch
from sim_core.multibody.rollout import derivatives
from sim_core.multibody.rollout.rollout import RUNTIME, Dynamics

__all__ = ["CudaRollout"]

SOURCE = RUNTIME / "rollout.cu"


class CudaRollout:
    """`rollout` and `rollout_vjp` of a Dynamics on GPU 0; same arguments and results as there.

    Args:
        dynamics: Dynamics; its dtype decides the GPU's.

    Raises:
        CudaUnavailable: no NVRTC, driver or GPU.

    Example: CudaRollout(Dynamics(model)).rollout(x0, U, p)
    """

    def __init__(self, dynamics: Dynamics) -> None:
        self.dynamics = dynamics
        self._device = cuda.Device()
        self._module = self._device.load(compile_kernels(dynamics))

    def rollout(self, x0: ArrayLike, U: ArrayLike, p: ArrayLike) -> np.ndarray:
        """As `Dynamics.rollout`."""
        d = self.dynamics
        batch, steps = d._horizon("rollout", x0, U, p)
        X = np.empty((steps + 1, d.nx, batch.size), d.dtype)
        self._run("rollout", batch, steps, [*_inputs(batch, (0, 1, 2)), cuda.Buffer(X, out=True)])
        return _batch_first(X, batch)

    def rollout_vjp(
        self, x0: ArrayLike, U: ArrayLike, p: ArrayLike, X: ArrayLike, Xbar: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `Dynamics.rollout_vjp`, one gradient per robot."""
        d = self.dynamics
        batch, steps = d._horizon("rollout_vjp", x0, U, p, ("X", X), ("Xbar", Xbar))
        bars = [np.zeros((*shape, batch.size), d.dtype) for shape in ((d.nx,), (steps, d.nu), (d.np_,))]
        outputs = [cuda.Buffer(bar, out=True) for bar in bars]
        self._run("reverse", batch, steps, [*_inputs(batch, (1, 2, 3, 4)), *outputs])
        x0bar, Ubar, pbar = (_batch_first(bar, batch) for bar in bars)
        return x0bar, Ubar, pbar

    def _run(self, kernel: str, batch: Batch, steps: int, arguments: Sequence[cuda.KernelArgument]) -> None:
        substeps = ctypes.c_int(self.dynamics.substeps)
        if batch.size:
            self._device.launch(self._module, kernel, batch.size, [*arguments, batch.size, steps, substeps])


def compile_kernels(dynamics: Dynamics, architecture: str | None = None) -> Path:
    """Path of the compiled kernels; needs no GPU when `architecture` (e.g. "sm_80") is given."""
    return cuda.compile_cuda(
        "refit_cuda", functions(dynamics), SOURCE, dtype=dynamics.dtype.name, architecture=architecture
    )


def functions(dynamics: Dynamics) -> dict[str, ca.Function]:
    """C name -> function."""
    return {"step": dynamics._step, "step_vjp": derivatives.step_vjp(dynamics._step)}


def _inputs(batch: Batch, which: Iterable[int]) -> Iterator[cuda.Buffer | ctypes.c_int]:
    """Kernel arguments for arrays of a Batch: batch dimension last; p with a flag that says whether it is shared."""
    for i in which:
        if i == 2 and batch.shared[2]:
            yield cuda.Buffer(batch.arrays[2])
        else:
            yield cuda.Buffer(np.moveaxis(batch.flat(i), 0, -1))
        if i == 2:
            yield ctypes.c_int(batch.shared[2])


def _batch_first(a: np.ndarray, batch: Batch) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(a, -1, 0)).reshape(*batch.lead, *a.shape[:-1])
