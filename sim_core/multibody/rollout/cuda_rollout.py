"""Roll-outs on a GPU, one thread per robot: for thousands of robots at once.

The kernels hold the same emitted text as the CPU's (`sim_core.codegen`). Below some hundred robots a CPU core is
faster: a thread of a GPU runs its roll-out alone, step after step.
"""

import ctypes

import numpy as np

from sim_core.codegen import cuda
from sim_core.multibody.rollout import derivatives
from sim_core.multibody.rollout.rollout import RUNTIME

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

    def __init__(self, dynamics):
        self.dynamics = dynamics
        self._device = cuda.Device()
        self._module = self._device.load(compile_kernels(dynamics))

    def rollout(self, x0, U, p):
        d = self.dynamics
        batch, steps = d._horizon("rollout", x0, U, p)
        X = np.empty((steps + 1, d.nx, batch.size), d.dtype)
        self._run("rollout", batch, steps, [*_inputs(batch, (0, 1, 2)), cuda.Buffer(X, out=True)])
        return _batch_first(X, batch)

    def rollout_vjp(self, x0, U, p, X, Xbar):
        d = self.dynamics
        batch, steps = d._horizon("rollout_vjp", x0, U, p, ("X", X), ("Xbar", Xbar))
        bars = [np.zeros((*shape, batch.size), d.dtype) for shape in ((d.nx,), (steps, d.nu), (d.np_,))]
        outputs = [cuda.Buffer(bar, out=True) for bar in bars]
        self._run("reverse", batch, steps, [*_inputs(batch, (1, 2, 3, 4)), *outputs])
        return tuple(_batch_first(bar, batch) for bar in bars)

    def _run(self, kernel, batch, steps, arguments):
        substeps = ctypes.c_int(self.dynamics.substeps)
        if batch.size:
            self._device.launch(self._module, kernel, batch.size, [*arguments, batch.size, steps, substeps])


def compile_kernels(dynamics, architecture=None):
    """Path of the compiled kernels; needs no GPU when `architecture` (e.g. "sm_80") is given."""
    return cuda.compile_cuda(
        "refit_cuda", functions(dynamics), SOURCE, dtype=dynamics.dtype.name, architecture=architecture
    )


def functions(dynamics):
    """C name -> function."""
    return {"step": dynamics._step, "step_vjp": derivatives.step_vjp(dynamics._step)}


def _inputs(batch, which):
    """Kernel arguments for arrays of a Batch: batch dimension last; p with a flag that says whether it is shared."""
    for i in which:
        if i == 2 and batch.shared[2]:
            yield cuda.Buffer(batch.arrays[2])
        else:
            yield cuda.Buffer(np.moveaxis(batch.flat(i), 0, -1))
        if i == 2:
            yield ctypes.c_int(batch.shared[2])


def _batch_first(a, batch):
    return np.ascontiguousarray(np.moveaxis(a, -1, 0)).reshape(*batch.lead, *a.shape[:-1])
