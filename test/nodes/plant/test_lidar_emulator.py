"""An emulated scanner that sees by the model of its optics: what its driver reads is what the model says, and it moves when told to."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hardware.emulation.process import EmulatorProcess
from hardware.urg.device import UrgDevice, UrgSettings
from sim_core.lidar.files import scene_of_file
from sim_core.lidar.measured import seen_by
from sim_core.lidar.scan import Lidar

SCENE = Path(__file__).resolve().parents[3] / "data" / "lidar" / "mirror.yaml"
STEP = 2.0 * np.pi / 1024.0
PROGRAM = "nodes.plant.lidar_emulator"


def expected(**values):
    scene, given = scene_of_file(SCENE)
    return Lidar(scene, seen_by(-340 * STEP, STEP, 682), given).scan(values).range


def test_a_driver_reads_what_the_model_says():
    got = []
    with EmulatorProcess("urg", "--scene", SCENE, "--noise", "0", "--no-codes", program=PROGRAM) as emulator:
        device = UrgDevice(UrgSettings(port=str(emulator.link)), on_sample=lambda scan, t: got.append(scan))
        device.start()
        device.enable()
        try:
            for values in (
                {},
                {"mirror.x": 0.4, "mirror.yaw": 0.1},
                {"mirror.x": 0.5, "mirror.yaw": 0.3, "sensor.y": 0.1},
            ):
                emulator.set(values=values)
                truth = expected(**values)
                near = truth < 5.6

                def agrees(truth=truth, near=near):
                    found = got[-1].ranges if got else np.zeros(682)
                    return np.nanmax(np.abs(found - truth)[near]) < 6e-4  # whole millimetres travel

                assert device.wait_for(agrees, 60.0), values
            emulator.set(pose=[-0.2, 0.05, 0.4])
            truth = expected(**{"sensor.x": -0.2, "sensor.y": 0.05, "sensor.yaw": 0.4, "mirror.yaw": 0.3})
            assert device.wait_for(lambda: np.nanmax(np.abs(got[-1].ranges - truth)[truth < 5.6]) < 6e-4, 60.0)
            with pytest.raises(ValueError, match="no parameter"):
                emulator.set(values={"mirror.height": 1.0})
            with pytest.raises(ValueError, match="numbers by the names"):
                emulator.set(values=3)
        finally:
            device.close()


@pytest.mark.parametrize(
    "words, said",
    [
        (("--scene", "nowhere.yaml"), "nothing is there"),
        (("--scene", SCENE, "--room", "room.yaml"), "takes the place"),
        (("--scene", SCENE, "--value", "sensor.x"), "NAME=VALUE"),
        (("--scene", SCENE, "--value", "sensor.q=1"), "no parameter"),
    ],
)
def test_what_makes_no_scene_is_one_line(tmp_path, words, said):
    command = [sys.executable, "-m", PROGRAM, "urg", "--link", tmp_path / "urg", *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=SCENE.parents[2])
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.strip().splitlines()) == 1
