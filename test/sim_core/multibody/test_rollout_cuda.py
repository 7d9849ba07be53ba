"""The CUDA form of the kernels: compiled by NVRTC anywhere, run as host code anywhere, run on a GPU where one is."""

import articulated_models as zoo
import casadi as ca
import numpy as np
import pytest
from cuda_on_host import HostDevice, needs_gpu, needs_host, needs_nvrtc

from sim_core.codegen import CompileError, cuda, graph
from sim_core.multibody import Dynamics
from sim_core.multibody.rollout import cuda_rollout


def problem(model, batch=5, steps=12):
    rng = np.random.default_rng(0)
    q, v, _ = zoo.random_states(model, batch, 0, spread=0.3)
    U = rng.normal(size=(batch, steps, model.nu))
    p = model.parameters.nominal * (1 + 0.05 * rng.uniform(-1, 1, (batch, model.np_)))
    return np.concatenate([q, v]).T, U, p


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nvrtc_compiles_every_operation(tmp_path, dtype):
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    terms = [
        ca.SX.unary(op, x) if arity == 1 else ca.SX.binary(op, x, y) for op, (_, arity) in graph.OPERATIONS.items()
    ] + [x * np.inf, y + np.nan]
    source = tmp_path / "all.cu"
    source.write_text(
        'extern "C" __global__ void all(const S *x, S *y) {\n'
        "  const S *in[] = {x, x + 1}; S *out[] = {y}; f(in, out, NULL); }\n"
    )
    f = ca.Function("f", [x, y], [ca.vertcat(*terms)])
    path = cuda.compile_cuda("all", {"f": f}, source, dtype=dtype, architecture="sm_80")
    assert path.read_bytes().startswith(b"\x7fELF") and b".text.all" in path.read_bytes()


@needs_nvrtc
@pytest.mark.parametrize("name", ["cartpole", "panda"])
def test_nvrtc_compiles_rollout_and_reverse(load, name):
    path = cuda_rollout.compile_kernels(Dynamics(load(name)), architecture="sm_80")
    assert all(kernel in path.read_bytes() for kernel in (b".text.rollout", b".text.reverse"))


@needs_nvrtc
def test_nvrtc_errors_are_shown(tmp_path):
    (tmp_path / "bad.cu").write_text('extern "C" __global__ void bad() { undeclared_thing(); }\n')
    with pytest.raises(CompileError, match="undeclared_thing"):
        cuda.compile_cuda("bad", {}, tmp_path / "bad.cu", architecture="sm_80")


def agrees_with_the_cpu(gpu, dynamics, x0, U, p):
    X = dynamics.rollout(x0, U, p)
    np.testing.assert_allclose(gpu.rollout(x0, U, p), X, rtol=1e-9, atol=1e-9)
    Xbar = np.cos(np.arange(X.size)).reshape(X.shape)
    want = dynamics.rollout_vjp(x0, U, p, X, Xbar)
    for found, bar in zip(gpu.rollout_vjp(x0, U, p, X, Xbar), want):
        assert found.shape == bar.shape
        np.testing.assert_allclose(found, bar, rtol=1e-8, atol=1e-8 * np.abs(bar).max())


@needs_host
@pytest.mark.parametrize("substeps", [1, 3])
def test_kernels_run_as_host_code_agree_with_the_cpu(load, tmp_path, substeps):
    dynamics = Dynamics(load("double_cartpole"), substeps=substeps, dt=substeps * load("double_cartpole").timestep)
    gpu = object.__new__(cuda_rollout.CudaRollout)
    gpu.dynamics, gpu._device = dynamics, HostDevice(tmp_path)
    gpu._module = gpu._device.load(cuda_rollout.functions(dynamics), cuda_rollout.SOURCE)
    x0, U, P = problem(load("double_cartpole"))
    agrees_with_the_cpu(gpu, dynamics, x0, U, P)
    agrees_with_the_cpu(gpu, dynamics, x0, U, P[0])
    agrees_with_the_cpu(gpu, dynamics, x0[0], U, P[0])
    assert gpu.rollout(x0[:0], U[:0], P[0]).shape == (0, 13, 6)


@pytest.mark.skipif(cuda.device_count() > 0, reason="a GPU is present")
def test_a_missing_gpu_is_named(load):
    with pytest.raises(cuda.CudaUnavailable, match="driver|GPU"):
        cuda_rollout.CudaRollout(Dynamics(load("cartpole")))


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("name", ["double_cartpole", "panda"])
def test_the_gpu_agrees_with_the_cpu(load, name):
    dynamics = Dynamics(load(name))
    gpu = cuda_rollout.CudaRollout(dynamics)
    x0, U, P = problem(load(name), batch=300, steps=50)
    agrees_with_the_cpu(gpu, dynamics, x0, U, P)
    agrees_with_the_cpu(gpu, dynamics, x0, U, P[0])
