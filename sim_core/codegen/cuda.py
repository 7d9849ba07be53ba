"""The CUDA form of emitted kernels: compiled by NVRTC, run through the driver, both by ctypes.

NVRTC compiles without a GPU, so the text can be checked anywhere the library is
(``pip install nvidia-cuda-nvrtc-cu12``). Running needs NVIDIA's driver.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import casadi as ca
import numpy as np

from sim_core.codegen.compiler import RUNTIME, CompileError, cached
from sim_core.codegen.emitter import block_text, called_blocks, emit
from sim_core.codegen.library import pointer

#: Compiled for when no GPU is present.
DEFAULT_ARCHITECTURE = "sm_80"


class CudaUnavailable(RuntimeError):
    """NVRTC, the driver or a GPU is missing; the message says which."""


def compile_cuda(
    name: str,
    functions: Mapping[str, ca.Function],
    source: str | Path,
    *,
    dtype: str = "float64",
    defines: Mapping[str, object] = {},
    architecture: str | None = None,
) -> Path:
    """Compile emitted functions and the kernels of a .cu file that call them.

    Args:
        name: readable start of the cached file's name.
        functions: C name -> function; printed by the same emitter as for the CPU.
        source: path of the file with the ``extern "C" __global__`` kernels; it may include headers beside it.
        dtype: "float64" or "float32".
        defines: macros for the source.
        architecture: e.g. "sm_90"; default that of GPU 0, or ``DEFAULT_ARCHITECTURE``.

    Returns:
        Path of the cubin (with the cache's digest behind it).

    Raises:
        CudaUnavailable: no NVRTC.   CompileError: with NVRTC's log.
    """
    blocks = called_blocks(functions.values())
    text = "\n".join(
        ['#include "real.h"', block_text(blocks), *(emit(n, f) for n, f in functions.items()), Path(source).read_text()]
    )
    defines = {"REFIT_CUDA": 1, "REFIT_LANES": 1, "BLOCK_THREADS": Device.BLOCK, **defines}
    if dtype == "float32":
        defines["REFIT_FLOAT"] = 1
    if architecture is None:
        architecture = Device.architecture() if device_count() else DEFAULT_ARCHITECTURE
    files = [*(RUNTIME / n for n in ("real.h", "cuda.h", "thread.h", "block.h")), *Path(source).parent.glob("*.h")]
    headers = {h.name: h.read_text() for h in [*files, *(block.header for block in blocks)]}
    options = [
        f"--gpu-architecture={architecture}",
        "--std=c++17",
        "--fmad=true",
        *(f"-D{k}={v}" for k, v in sorted(defines.items())),
    ]
    nvrtc = _Nvrtc()
    key = [text, *options, *headers.values(), nvrtc.version()]
    return cached(name, key, ".cubin", lambda folder: nvrtc.compile(name, text, headers, options))


class _Nvrtc:
    """The five calls of NVRTC that are needed."""

    def __init__(self) -> None:
        self.lib = _load(_nvrtc_paths(), "NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12")

    def version(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self.lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return f"NVRTC {major.value}.{minor.value}"

    def compile(self, name: str, text: str, headers: Mapping[str, str], options: Sequence[str]) -> bytes:
        program = ctypes.c_void_p()
        contents, names = (_strings(part) for part in (headers.values(), headers))
        self._check(
            self.lib.nvrtcCreateProgram(
                ctypes.byref(program), text.encode(), f"{name}.cu".encode(), len(headers), contents, names
            )
        )
        try:
            status = self.lib.nvrtcCompileProgram(program, len(options), _strings(options))
            if status:
                log = self._fetch(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
                first = "\n".join(log.decode(errors="replace").rstrip("\0").splitlines()[:12])
                raise CompileError(f"NVRTC could not compile {name}:\n{first}")
            return self._fetch(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
        finally:
            self.lib.nvrtcDestroyProgram(ctypes.byref(program))

    def _fetch(self, program: ctypes.c_void_p, size_call: str, call: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self.lib, size_call)(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self.lib, call)(program, buffer))
        return buffer.raw

    def _check(self, status: int) -> None:
        if status:
            self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise CompileError(f"NVRTC: {self.lib.nvrtcGetErrorString(status).decode()}")


@functools.cache
def usable() -> bool:
    """Whether there are a GPU, its driver and NVRTC."""
    try:
        return device_count() > 0 and bool(_Nvrtc())
    except CudaUnavailable:
        return False


def device_count() -> int:
    """Number of usable GPUs; 0 without a driver."""
    try:
        return _driver()[1]
    except CudaUnavailable:
        return 0


class Device:
    """GPU 0 through the driver, in the primary context that torch uses as well.

    Raises:
        CudaUnavailable: no driver or no GPU.
    """

    BLOCK = 64  # threads, a power of two: robots need many registers each, so small blocks spread best

    def __init__(self) -> None:
        self.driver, count = _driver()
        if not count:
            raise CudaUnavailable("NVIDIA's driver is here, but no GPU")
        context = ctypes.c_void_p()
        self._check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self.context = context
        self._functions: dict[tuple[int | None, str], ctypes.c_void_p] = {}
        self._stream = ctypes.c_void_p()  # the default one

    @staticmethod
    def architecture() -> str:
        """Of GPU 0, e.g. "sm_90"."""
        driver, _ = _driver()
        found = []
        for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
            value = ctypes.c_int()
            driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0)
            found.append(value.value)
        return "sm_{}{}".format(*found)

    def load(self, cubin: Path) -> ctypes.c_void_p:
        """Module from a file of ``compile_cuda``."""
        module = ctypes.c_void_p()
        self._check(self.driver.cuCtxSetCurrent(self.context))
        self._check(self.driver.cuModuleLoadData(ctypes.byref(module), cubin.read_bytes()[:-32]))
        return module

    def memory(self, nbytes: int) -> Memory:
        """Memory of the GPU, not initialised."""
        return Memory(self, nbytes)

    def upload(self, array: np.ndarray) -> Memory:
        """Memory of the GPU that holds a copy of an array."""
        memory = self.memory(array.nbytes)
        memory.write(array)
        return memory

    def launch(self, module: ctypes.c_void_p, kernel: str, threads: int, arguments: Sequence[KernelArgument]) -> None:
        """Run a kernel and wait for it.

        Args:
            threads: how many are to run, at least.
            arguments: in the kernel's order: int64 as int, other numbers and structures as ctypes, arrays as ``Buffer``;
                buffers marked ``out`` are copied back.
        """
        sent = [(a, self.upload(a.array)) for a in arguments if isinstance(a, Buffer)]
        addresses = iter([ctypes.c_uint64(memory.address) for _, memory in sent])
        self.enqueue(module, kernel, threads, [next(addresses) if isinstance(a, Buffer) else a for a in arguments])
        self._check(self.driver.cuCtxSynchronize())
        for buffer, memory in sent:
            if buffer.out:
                memory.read(buffer.array)

    def enqueue(self, module: ctypes.c_void_p, kernel: str, threads: int, arguments: Sequence[int | Number]) -> None:
        """Let a kernel run after those before it; whatever reads or writes memory from here waits for it. Arguments: see `launch`."""
        self._check(self.driver.cuCtxSetCurrent(self.context))
        values = [ctypes.c_int64(a) if isinstance(a, int) else a for a in arguments]
        packed = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        blocks = (threads + self.BLOCK - 1) // self.BLOCK
        function = self._function(module, kernel)
        self._check(self.driver.cuLaunchKernel(function, blocks, 1, 1, self.BLOCK, 1, 1, 0, self._stream, packed, None))

    def record(self, enqueue: Callable[[], None]) -> Graph:
        """The kernels that `enqueue` enqueues, as a graph: each call of it enqueues them all, with the arguments that they had. What is
        enqueued by itself costs a Python program ten microseconds; a kernel of a graph costs a GPU one or two."""
        return Graph(self, enqueue)

    def _function(self, module: ctypes.c_void_p, kernel: str) -> ctypes.c_void_p:
        key = (module.value, kernel)
        if key not in self._functions:
            function = ctypes.c_void_p()
            self._check(self.driver.cuModuleGetFunction(ctypes.byref(function), module, kernel.encode()))
            self._functions[key] = function
        return self._functions[key]

    def _check(self, status: int) -> None:
        if status:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"CUDA driver, error {status}: {(text.value or b'unknown').decode()}")


class Graph:
    """Kernels recorded once; a call enqueues all of them, one after the other. See `Device.record`."""

    def __init__(self, device: Device, enqueue: Callable[[], None]) -> None:
        self._device, driver, check = device, device.driver, device._check
        check(driver.cuCtxSetCurrent(device.context))
        stream, graph, ready = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        check(driver.cuStreamCreate(ctypes.byref(stream), 1))  # CU_STREAM_NON_BLOCKING
        try:
            check(driver.cuStreamBeginCapture_v2(stream, 1))  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            device._stream = stream
            try:
                enqueue()
            finally:
                device._stream = ctypes.c_void_p()
                check(driver.cuStreamEndCapture(stream, ctypes.byref(graph)))
            check(driver.cuGraphInstantiateWithFlags(ctypes.byref(ready), graph, ctypes.c_ulonglong(0)))
        finally:
            driver.cuGraphDestroy(graph)
            driver.cuStreamDestroy_v2(stream)
        self._ready = ready
        weakref.finalize(self, _destroy, device, ready)

    def __call__(self) -> None:
        """Enqueue the kernels; whatever reads or writes memory from here waits for them."""
        self._device._check(self._device.driver.cuCtxSetCurrent(self._device.context))
        self._device._check(self._device.driver.cuGraphLaunch(self._ready, None))


def _destroy(device: Device, ready: ctypes.c_void_p) -> None:
    device.driver.cuCtxSetCurrent(device.context)
    device.driver.cuGraphExecDestroy(ready)


class Memory:
    """Memory of the GPU; given back when the object goes."""

    def __init__(self, device: Device, nbytes: int) -> None:
        self._device, self.nbytes = device, nbytes
        address = ctypes.c_uint64()
        device._check(device.driver.cuCtxSetCurrent(device.context))
        device._check(device.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(nbytes, 8))))
        self.address = address.value
        weakref.finalize(self, _give_back, device, address)

    def write(self, array: np.ndarray) -> None:
        """Copy a contiguous array here."""
        self._copy(
            self._device.driver.cuMemcpyHtoD_v2, ctypes.c_uint64(self.address), ctypes.c_void_p(pointer(array)), array
        )

    def read(self, array: np.ndarray) -> None:
        """Fill a contiguous array from here."""
        self._copy(
            self._device.driver.cuMemcpyDtoH_v2, ctypes.c_void_p(pointer(array)), ctypes.c_uint64(self.address), array
        )

    def _copy(
        self,
        copy: Callable[..., int],
        to: ctypes.c_uint64 | ctypes.c_void_p,
        origin: ctypes.c_uint64 | ctypes.c_void_p,
        array: np.ndarray,
    ) -> None:
        if array.nbytes:
            self._device._check(self._device.driver.cuCtxSetCurrent(self._device.context))
            self._device._check(copy(to, origin, ctypes.c_size_t(array.nbytes)))


def _give_back(device: Device, address: ctypes.c_uint64) -> None:
    device.driver.cuCtxSetCurrent(device.context)  # whichever thread collects the object
    device.driver.cuMemFree_v2(address)


class Buffer:
    """A contiguous numpy array that travels to the GPU, and back if ``out``."""

    def __init__(self, array: np.ndarray, out: bool = False) -> None:
        self.array, self.out = np.ascontiguousarray(array), out


#: Numbers and structures as C has them, and what a kernel takes: int64 as int, other numbers and structures as ctypes, arrays as `Buffer`.
Number = ctypes.c_int64 | ctypes.c_uint64 | ctypes.c_int | ctypes.c_double | ctypes.c_float | ctypes.Structure
KernelArgument = int | Number | Buffer


def _driver() -> tuple[ctypes.CDLL, int]:
    """libcuda, initialised, and the number of GPUs."""
    driver = _load(["libcuda.so.1"], "there is no NVIDIA driver (libcuda.so.1) on this machine")
    status = driver.cuInit(0)
    count = ctypes.c_int()
    if status or driver.cuDeviceGetCount(ctypes.byref(count)):
        raise CudaUnavailable(f"NVIDIA's driver does not start (cuInit gives {status})")
    return driver, count.value


def _nvrtc_paths() -> list[str]:
    folders = []
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        folders += sorted(Path(root).glob("*/lib"))
    for root in filter(None, (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")):
        folders += [Path(root, "lib64"), Path(root, "lib")]
    paths = [str(f) for folder in folders for f in sorted(folder.glob("libnvrtc.so.*[0-9]"), reverse=True)]
    return [*paths, *filter(None, [ctypes.util.find_library("nvrtc")])]


def _load(paths: Sequence[str], otherwise: str) -> ctypes.CDLL:
    for path in paths:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise CudaUnavailable(otherwise)


def _strings(items: Iterable[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [ctypes.c_char_p(i.encode()) for i in items]
    return (ctypes.c_char_p * len(encoded))(*encoded)
