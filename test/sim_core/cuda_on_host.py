"""A GPU's stand-in: the kernels of a .cu file compiled as host code and run thread after thread.

It imitates neither memory spaces nor concurrency. A block is one thread, which does alone what a GPU's block does together.
"""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sim_core.codegen import compiler, cuda, emit
from sim_core.codegen.library import pointer

__all__ = ["HostDevice", "needs_gpu", "needs_host", "needs_nvrtc"]

try:
    cuda._Nvrtc()
    NVRTC = True
except cuda.CudaUnavailable:
    NVRTC = False

needs_nvrtc = pytest.mark.skipif(not NVRTC, reason="NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12")
needs_gpu = pytest.mark.skipif(not cuda.usable(), reason="no NVIDIA GPU and driver on this machine")
needs_host = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ to run the kernels on the host")

HOST = """
#include <math.h>
#define __global__
#define __device__
#define __shared__ static
#define __syncthreads()
#define __align__(n) __attribute__((aligned(n)))
struct __align__(16) float4 { float x, y, z, w; };
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
#define __forceinline__ inline
#define int64_t refit_int64
#define int32_t refit_int32
static struct { int x; } blockIdx, blockDim = {1}, threadIdx;
template <typename T> static T atomicAdd(T *at, T more) { const T before = *at; *at = before + more; return before; }
#include "real.h"
"""
LAUNCHER = """
extern "C" void host_%s(int64_t threads%s) {
  const int all = (int)threads + 3;  /* some threads too many */
  for (int k = 0; k < all; k++) { blockIdx.x = BACKWARDS ? all - 1 - k : k; %s(%s); }
}
"""
KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(([^)]*)\)')


class HostMemory:
    """Of codegen.cuda.Memory: on the host, full of NaN at first."""

    def __init__(self, nbytes):
        self.nbytes = nbytes
        self._data = np.full(max(nbytes, 8), 0xFF, np.uint8)
        self.address = pointer(self._data)

    def write(self, array):
        self._data[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def read(self, array):
        array.reshape(-1).view(np.uint8)[:] = self._data[: array.nbytes]


class HostDevice:
    """Of codegen.cuda.Device; `load` takes functions and sources in place of a compiled file.

    Args:
        backwards: whether threads run from the last to the first, which must not matter.

    Attributes:
        uploads: arrays sent by `upload` so far.
    """

    def __init__(self, folder: Path, backwards: bool = False):
        self._backwards = int(backwards)
        self._folder, self.uploads, self._count = Path(folder), 0, 0
        self._recorded = None

    def load(self, functions, source, defines={}):
        text = Path(source).read_text()
        launchers = [
            LAUNCHER
            % (
                name,
                "".join(f", {a}" for a in filter(None, [arguments])),
                name,
                ", ".join(re.findall(r"(\w+)\s*(?:,|$)", arguments)),
            )
            for name, arguments in KERNEL.findall(text)
        ]
        self._count += 1
        file, library = self._folder / f"kernels{self._count}.cpp", self._folder / f"host{self._count}.so"
        file.write_text("\n".join([HOST, *(emit(n, f) for n, f in functions.items()), text, *launchers]))
        macros = {"REFIT_CUDA": 1, "REFIT_LANES": 1, "BLOCK_THREADS": 1, "BACKWARDS": self._backwards, **defines}
        subprocess.run(
            [
                "g++",
                "-x",
                "c++",
                "-std=c++17",
                "-O1",
                "-shared",
                "-fPIC",
                "-Wno-unknown-pragmas",
                *(f"-D{k}={v}" for k, v in macros.items()),
                f"-I{compiler.RUNTIME}",
                f"-I{Path(source).parent}",
                str(file),
                "-o",
                str(library),
            ],
            check=True,
        )
        return ctypes.CDLL(str(library))

    def memory(self, nbytes):
        return HostMemory(nbytes)

    def upload(self, array):
        self.uploads += 1
        memory = HostMemory(array.nbytes)
        memory.write(array)
        return memory

    def launch(self, module, kernel, threads, arguments):
        converted = []
        for a in arguments:
            if isinstance(a, cuda.Buffer):
                converted.append(ctypes.c_void_p(pointer(a.array)))
            else:
                converted.append(ctypes.c_longlong(a) if isinstance(a, int) else a)
        self._call(getattr(module, f"host_{kernel}"), ctypes.c_longlong(threads), *converted)

    enqueue = launch

    def _call(self, kernel, *arguments):
        if self._recorded is None:
            kernel(*arguments)
        else:
            self._recorded.append((kernel, *arguments))

    def record(self, enqueue):
        self._recorded = []
        enqueue()
        recorded, self._recorded = self._recorded, None
        return lambda: [kernel(*arguments) for kernel, *arguments in recorded]
