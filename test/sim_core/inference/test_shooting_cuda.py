"""The shooting kernel's CUDA form: compiled by NVRTC anywhere, run as host code anywhere, run on a GPU where one is."""

import numpy as np
import pytest
from cuda_on_host import HostDevice, needs_gpu, needs_host, needs_nvrtc
from pendulum import dynamics, lengths, noisy, simulated

from sim_core.codegen import cuda
from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.shooting.likelihood import MultipleShooting, SingleShooting
from sim_core.inference.shooting.limited_parameters import LimitedParameters
from sim_core.inference.shooting.observation import frame_positions
from sim_core.inference.shooting.shooting_cuda import SOURCE, ShootingOnCuda, compile_kernels
from sim_core.multibody import Dynamics, load_model

CASES = {
    "mixture": {},
    "product, huber": {"combine": "product", "loss": "huber"},
    "observed": {"observe": True, "combine": "product"},
    "substeps": {"substeps": 3},
    "single shooting": {"windows": 1},
}


def density(windows=4, observe=False, substeps=1, **options):
    """Two trajectories of a double pendulum whose lengths are unknown."""
    d = dynamics(substeps=substeps)
    parameters = lengths(d.model)
    data = noisy(simulated(d, parameters, [[1.5, 2.0], [1.2, 1.7]], steps=24))
    return MultipleShooting(
        d, parameters, data, windows, observe=frame_positions(d.model, "link2") if observe else None, **options
    )


def arm():
    """Controls and friction: a Panda, five windows."""
    model = load_model("panda")
    d = Dynamics(model, dt=0.01)
    parameters = LimitedParameters(model, {"hand.mass": (0.3, 3.0), "joint4.damping": (0.0, 2.0)})
    U = 3 * np.random.default_rng(0).standard_normal((1, 10, model.nu)) + np.array([0, -20, 0, 20, 0, 2, 0])[: model.nu]
    X = d.rollout(np.r_[model.q_home, np.zeros(model.nv)][None], U, parameters.to_physical([1.0, 0.5]))
    return MultipleShooting(d, parameters, Trajectories(d.dt, X, U), 5, device="cpu")


class OnHost(ShootingOnCuda):
    def _load(self, seeds, form):
        return self._device.load(self._kernel.functions(seeds, form), SOURCE, self._kernel.defines(seeds))


def asked(shooting, particles=5, bad=None):
    """Everything a density says; particle `bad` is not finite."""
    rng = np.random.default_rng(1)
    z = rng.uniform(0.1, 0.4, (particles, shooting.n))
    starts = 0.01 * rng.standard_normal((particles, *shooting.starts_shape))
    if bad is not None:
        starts[bad, 0, 1, 0] = np.nan
    lam = rng.standard_normal(starts.shape)
    before = shooting.not_finite
    parts = [
        *vars(shooting.evaluate(z, starts, lam, 0.7)).values(),
        *vars(shooting.evaluate(z, starts, lam[..., 0], 0.7, "squared")).values(),
        *vars(shooting.evaluate(z)).values(),
        *shooting.joint(z, starts),
        shooting.log_p(z, starts),
    ]
    return parts, shooting.not_finite - before


def on(shooting, gpu):
    shooting.kernel._cuda, shooting.kernel._cuda_from = gpu, 0
    return shooting


def agree(found, expected):
    assert found[1] == expected[1]
    for a, b in zip(found[0], expected[0], strict=True):
        assert a.shape == b.shape and np.array_equal(np.isfinite(a), np.isfinite(b))
        finite = np.isfinite(b)
        np.testing.assert_allclose(
            a[finite], b[finite], rtol=1e-10, atol=1e-11 * max(1.0, np.abs(b[finite]).max(initial=0.0))
        )


@needs_host
@pytest.mark.parametrize("case", CASES)
def test_run_as_host_code_it_says_what_the_cpu_says(tmp_path, case):
    shooting = density(**CASES[case])
    bad = None if case == "single shooting" else 2
    expected = asked(shooting, bad=bad)
    assert expected[1] == (0 if bad is None else 4)
    agree(asked(on(shooting, OnHost(shooting.kernel, HostDevice(tmp_path))), bad=bad), expected)


@needs_host
def test_data_stay_on_the_device_and_other_numbers_of_particles_are_no_matter(tmp_path):
    shooting = density()
    cpu = {n: asked(shooting, n) for n in (1, 9, 3)}
    device = HostDevice(tmp_path)
    on(shooting, OnHost(shooting.kernel, device))
    uploads = device.uploads
    for n in (1, 9, 3):
        agree(asked(shooting, n), cpu[n])
    assert device.uploads == uploads


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nvrtc_compiles_it(dtype):
    d = dynamics()
    d = Dynamics(d.model, dt=d.dt, dtype=dtype)
    data = simulated(dynamics(), lengths(d.model), [[1.5, 2.0]], steps=8)
    kernel = SingleShooting(d, lengths(d.model), data, device="cpu").kernel
    for form, seeds in (("vector", 1), ("squared", 2)):
        text = compile_kernels(kernel, seeds, form, "sm_80").read_bytes()
        assert b".text.shooting" in text and b".text.sums" in text


@needs_nvrtc
def test_nvrtc_compiles_a_panda():
    assert b".text.shooting" in compile_kernels(arm().kernel, 1, "vector", "sm_80").read_bytes()


@pytest.mark.skipif(cuda.device_count() > 0, reason="a GPU is present")
def test_without_a_gpu_auto_is_the_cpu_and_cuda_is_refused():
    assert density().kernel._cuda is None
    with pytest.raises(cuda.CudaUnavailable, match="driver|GPU"):
        density(device="cuda")
    with pytest.raises(ValueError, match="auto, cpu, cuda, found 'tpu'"):
        density(device="tpu")


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("case", CASES)
def test_the_gpu_says_what_the_cpu_says(case):
    cpu, gpu = (density(**CASES[case], device=device) for device in ("cpu", "cuda"))
    agree(asked(gpu, 300), asked(cpu, 300))


@pytest.mark.gpu
@needs_gpu
def test_the_gpu_says_what_the_cpu_says_of_an_arm():
    shooting = arm()
    expected = asked(shooting, 60)
    agree(asked(on(shooting, ShootingOnCuda(shooting.kernel)), 60), expected)
