"""The GPU's form of the kernel: compiled by NVRTC, run on the host thread by thread, and on a GPU where there is one."""

import numpy as np
import pytest
from cuda_on_host import HostDevice, needs_gpu, needs_host, needs_nvrtc

from sim_core.lidar.kernel import RUNTIME, Tracer
from sim_core.lidar.material import GLASS, MIRROR, Material
from sim_core.lidar.on_cuda import CudaTracer, compile_kernels
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import Body, Scene
from sim_core.lidar.settings import LidarSettings
from sim_core.lidar.shapes import pane, panel, room

pytestmark = pytest.mark.pure
SCENE = Scene(
    (
        Body("walls", room((1.85, 0.92, 0.28), "wall")),
        Body("mirror", panel(0.3, 0.2, "mirror"), (0.5, 0.1, 0.0, 0.0, 0.05, 0.3), soft=True),
        Body("pane", pane(0.3, 0.2, 0.01, "glass"), (-0.1, 0.3, 0.0, 0.0, 0.1, 1.3)),
    ),
    {"wall": Material(0.6, 0.2), "mirror": MIRROR, "glass": GLASS},
)
SETTINGS = LidarSettings(beams=90, spacing=0.04, softness=0.02)
NAMES = ("sensor.yaw", "mirror.x", "diode.b")


def agree(gpu, cpu, rtol):
    rows = np.random.default_rng(0).uniform(-0.1, 0.1, (3, len(NAMES)))
    values = cpu.inputs.full(cpu.inputs.values, NAMES, rows + np.array([0.0, 0.5, 0.0]))
    found, wanted = gpu.scans(values, NAMES), cpu.scans(values, NAMES)
    np.testing.assert_array_equal(found[0]["integer"], wanted[0]["integer"])
    np.testing.assert_allclose(found[0]["range"], wanted[0]["range"], rtol=rtol)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e3 * rtol, atol=1e3 * rtol)


@needs_host
def test_the_gpus_form_run_on_the_host_is_the_cpus(tmp_path):
    class OnHost(CudaTracer):
        def _load(self, width):
            return self._device.load({}, RUNTIME / "lidar.cu", {"LIDAR_P": width})

    agree(OnHost(SCENE, SETTINGS, HostDevice(tmp_path, backwards=True)), Tracer(SCENE, SETTINGS), 1e-11)


@needs_nvrtc
def test_nvrtc_compiles_it():
    assert compile_kernels(3, "sm_80").stat().st_size > 10_000


@needs_gpu
def test_a_gpu_scans_as_the_cpu_does():
    agree(CudaTracer(SCENE, SETTINGS), Tracer(SCENE, SETTINGS), 1e-9)


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="cpu or cuda"):
        Lidar(SCENE, device="gpu")
