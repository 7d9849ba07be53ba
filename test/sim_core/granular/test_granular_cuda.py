"""The granular kernels' CUDA form: compiled by NVRTC anywhere, run as host code anywhere, run on a GPU where one is."""

import numpy as np
import pytest
from cuda_on_host import HostDevice, needs_gpu, needs_host, needs_nvrtc

from sim_core.codegen import cuda
from sim_core.granular import world as world_module
from sim_core.granular.grains import ball, plate, rock
from sim_core.granular.granular_cuda import SOURCE, OnCuda, compile_kernels
from sim_core.granular.law import Material
from sim_core.granular.on_threads import OnThreads, kernels
from sim_core.granular.population import Grains, pour
from sim_core.granular.tools import Part, Tool, container
from sim_core.granular.world import GrainsTooFast, GranularWorld

pytestmark = pytest.mark.pure
SIDE = 0.06


def stirred(grains=60, **settings):
    """Rocks, slates and balls, some of them sticky, in a box in which a blade moves and turns."""
    shapes = [rock(0.014, 2600.0, 0, spheres=4), plate(0.016, 0.005, 2600.0), ball(0.006, 1500.0)]
    every = Grains.of(shapes, [("grain", "wet")[k % 2] for k in range(grains)], np.arange(grains) % 3)
    blade = Tool("blade", (Part((0.02, 0.0, 0.02), rounding=0.003),), position=(0.0, -0.02, 0.025))
    materials = {"grain": Material(0.6, 0.1), "wet": Material(0.5, 0.05, adhesion=0.2), "tool": Material(0.4)}
    w = GranularWorld(pour(every, (SIDE, SIDE), seed=2), [container((SIDE, SIDE, 0.5)), blade], materials, **settings)
    w.move("blade", velocity=(0.0, 0.08, 0.0), spin=(0.0, 0.0, 0.8))
    return w


class OnHost(OnCuda):
    """The CUDA form with the host in the GPU's place."""

    device: HostDevice
    module = None

    def __init__(self, *arguments):
        super().__init__(*arguments, device=self.device)

    def _load(self):
        return self.module


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """By whether threads run backwards."""
    found = {}
    for backwards in (False, True):
        device = HostDevice(tmp_path_factory.mktemp("cuda"), backwards)
        module = device.load({}, SOURCE, {"REFIT_FLOAT": 1})
        found[backwards] = type("OnHost", (OnHost,), {"device": device, "module": module})
    return found


@pytest.fixture
def on_host(forms, monkeypatch):
    """Worlds on "cuda" run on the host; no form fuses multiplications and additions, so that they may agree to the bit."""
    unfused = kernels(("-ffp-contract=off",))
    monkeypatch.setattr(world_module, "OnCuda", forms[False])
    monkeypatch.setattr(world_module, "OnThreads", lambda data, threads: OnThreads(data, threads, unfused))


@pytest.fixture(scope="module")
def pile():
    """What a world remembers whose grains have fallen onto each other."""
    w = stirred()
    w.move("blade", position=(0.0, 0.0, 1.0))
    w.run(2500)
    w.move("blade", position=(0.0, -0.02, 0.025), velocity=(0.0, 0.08, 0.0), spin=(0.0, 0.0, 0.8))
    return w.state()


def agree(cpu, gpu, steps):
    """Both go on, and come to the same."""
    wrenches = cpu.run(steps)
    for tool, wrench in gpu.run(steps).items():
        np.testing.assert_allclose(wrench, wrenches[tool], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(gpu.peak[tool], cpu.peak[tool], rtol=1e-9)
        np.testing.assert_array_equal(gpu.where(tool)[0], cpu.where(tool)[0])
    for name in ("position", "quaternion", "velocity", "spin"):
        np.testing.assert_array_equal(getattr(gpu, name), getattr(cpu, name), name)
    for found, expected in zip(gpu.touching(), cpu.touching(), strict=True):
        np.testing.assert_array_equal(found, expected)


def gains_what_acts_on_it(w, steps):
    """Momentum is kept: grains gain what gravity and the tools give them."""
    before = w.mass @ w.velocity.astype(float)
    on_tools = sum(wrench[:3] for wrench in w.run(steps).values())
    gained = (w.mass @ w.velocity.astype(float) - before) / (steps * w.step)
    weight = 9.81 * w.mass.sum()
    np.testing.assert_allclose(gained + on_tools, [0.0, 0.0, -weight], atol=1e-3 * weight)


def test_the_cpu_keeps_momentum():
    w = stirred(200)
    w.run(1500)
    gains_what_acts_on_it(w, 800)


@needs_host
@pytest.mark.parametrize("backwards", [False, True])
def test_run_as_host_code_it_says_what_the_cpu_says_to_the_bit(on_host, forms, pile, monkeypatch, backwards):
    monkeypatch.setattr(world_module, "OnCuda", forms[backwards])
    cpu, gpu = stirred(), stirred(device="cuda")
    for steps in (1, 37):
        agree(cpu, gpu, steps)
    for w in (cpu, gpu):
        w.restore(pile)
    for steps in (150, 150):
        agree(cpu, gpu, steps)
    assert gpu._steps.lists > 10 and len(cpu.touching()[0]) > 40 and cpu.peak["blade"] > 0.0


@needs_host
def test_a_list_may_outgrow_its_room(on_host, pile):
    cpu, gpu = (stirred(skin=0.009, device=device) for device in ("cpu", "cuda"))
    room = gpu._steps._pairs.room
    for w in (cpu, gpu):
        w.restore(pile)
    agree(cpu, gpu, 40)
    assert gpu._steps._count > room


@needs_host
def test_a_run_goes_on_from_what_another_machine_saved(on_host, pile):
    cpu, gpu = stirred(), stirred(device="cuda")
    gpu.restore(pile)
    gpu.run(60)
    saved = gpu.state()
    cpu.restore(saved)
    for _ in range(2):
        agree(cpu, gpu, 60)
        gpu.restore(saved)
        cpu.restore(gpu.state())


@needs_host
def test_bodies_travel_when_somebody_looks(on_host):
    cpu, gpu = stirred(20), stirred(20, device="cuda")
    for w in (cpu, gpu):
        w.run(50)
        w.velocity[3] = [0.1, 0.0, 1.0]
        w.position[5, 2] += 0.2
        w.touch()
        w.run(30)
    steps = gpu._steps
    assert steps._newer and not steps._written
    np.testing.assert_array_equal(gpu.spheres.center, cpu.spheres.center)
    agree(cpu, gpu, 30)


@needs_host
def test_grains_that_fly_apart_end_the_run_at_the_same_step(on_host):
    said = []
    for device in ("cpu", "cuda"):
        w = stirred(20, device=device)
        w.run(40)
        w.velocity[2] = [0.0, 0.0, -29.0]
        w.position[2, 2] = -0.02
        w.touch()
        with pytest.raises(GrainsTooFast, match="1 of 20 grains") as error:
            w.run(1000)
        said.append(str(error.value))
    assert said[0] == said[1]


@needs_nvrtc
def test_nvrtc_compiles_it():
    text = compile_kernels("sm_80").read_bytes()
    assert all(f".text.{kernel}".encode() in text for kernel in ("contacts", "bodies", "wrenches", "put_pairs"))


def test_what_a_device_is():
    with pytest.raises(ValueError, match="'cpu' or 'cuda', not 'tpu'"):
        stirred(device="tpu")


@pytest.mark.skipif(cuda.device_count() > 0, reason="a GPU is present")
def test_without_a_gpu_it_is_refused():
    with pytest.raises(cuda.CudaUnavailable, match="driver|GPU"):
        stirred(device="cuda")


@pytest.mark.gpu
@needs_gpu
def test_the_gpu_says_what_the_cpu_says_but_for_fused_operations():
    cpu, gpu, again = stirred(600), stirred(600, device="cuda"), stirred(600, device="cuda")
    for w in (cpu, gpu, again):
        w.run(100)
    np.testing.assert_allclose(gpu.position, cpu.position, atol=1e-5)
    np.testing.assert_array_equal(gpu.position, again.position)
    for w in (cpu, gpu, again):
        w.run(3000)
    np.testing.assert_array_equal(gpu.position, again.position)
    for w in (cpu, gpu):
        gains_what_acts_on_it(w, 2000)
    assert gpu.position[:, 2].mean() == pytest.approx(cpu.position[:, 2].mean(), rel=0.02)
