"""An emulated scanner that sees by the model of its optics: what its driver reads is what the model says, and it moves when told to."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hardware.emulation.process import EmulatorProcess
from hardware.urg.device import UrgDevice, UrgSettings
from hardware.urg.scene import MujocoScene
from nodes.plant.lidar_emulator import LidarWorld
from sim_core.lidar.files import materials_of_file, scene_of_file
from sim_core.lidar.material import MIRROR
from sim_core.lidar.measured import seen_by
from sim_core.lidar.scan import Lidar
from sim_core.plant import robot_mjcf

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


ANGLES = (np.arange(682) - 340) * STEP
WORLD = """<mujoco><asset><material name="tin" rgba="0.7 0.7 0.7 1"/><material name="shiny" reflectance="0.9"/></asset><worldbody>
  <geom name="wall" type="box" pos="2.1 0 0" size="0.1 9 1" rgba="0.6 0.6 0.6 1"/>
  <geom name="behind" type="box" pos="-3.1 0 0" size="0.1 9 1" rgba="0.6 0.6 0.6 1"/>
  <body name="door" pos="0 0 0"><joint name="slide" type="slide" axis="1 0 0"/><geom type="box" pos="1 0 0" size="0.01 0.4 1" material="tin"/></body>
  <body name="base"><joint name="turn" type="hinge" axis="0 0 1"/><geom type="sphere" size="0.1"/>
    <site name="urg" pos="0 0 0.05"/></body></worldbody></mujoco>"""


def test_a_robots_world_is_seen_as_plain_rays_see_it_where_nothing_shines():
    mjcf = robot_mjcf("dxl_arm")[1]
    plain, model = (
        MujocoScene(mjcf, [], lambda: np.zeros(0)),
        LidarWorld(mjcf, [], lambda: np.zeros(0), "urg", {}, ANGLES),
    )
    away = np.abs(plain.cast(ANGLES).distance - model.cast(ANGLES).distance)
    # Beams have a width, and round things here have facets.
    assert np.median(away) < 1e-4 and np.quantile(away, 0.9) < 1e-3


def test_a_mirror_in_a_robots_world_shows_what_is_before_it_and_moves_with_its_joint(tmp_path):
    file = tmp_path / "materials.yaml"
    file.write_text("materials:\n  tin: {reflectivity: 0.95}\n")
    q = np.zeros(2)  # slide, turn
    dull, mirror = (
        LidarWorld(WORLD, ["slide", "turn"], lambda: q, "urg", of, ANGLES) for of in ({}, materials_of_file(file))
    )
    oblique = int(np.argmin(np.abs(ANGLES - 0.3)))  # met off the right angle, at which a mirror returns itself
    angle = ANGLES[oblique]
    face = 0.99 / np.cos(angle)
    assert dull.cast(ANGLES).distance[oblique] == pytest.approx(face, abs=1e-3)
    through = (2.0 * 0.99 + 3.0) / np.cos(angle)  # to the mirror, and back past the sensor to the wall behind it
    assert mirror.cast(ANGLES).distance[oblique] == pytest.approx(through, abs=5e-3)
    q[0] = -0.2
    assert dull.cast(ANGLES).distance[oblique] == pytest.approx(0.79 / np.cos(angle), abs=1e-3)
    q[1] = np.pi  # turned round, it faces the other wall
    assert dull.cast(ANGLES).distance[340] == pytest.approx(3.0, abs=1e-3)
    with pytest.raises(ValueError, match="no material 'tinn'; it has tin, shiny"):
        LidarWorld(WORLD, ["slide", "turn"], lambda: q, "urg", {"tinn": MIRROR}, ANGLES)
    file.write_text("bodies: []\n")
    with pytest.raises(ValueError, match="'materials' by their names"):
        materials_of_file(file)
    with pytest.raises(FileNotFoundError, match="materials are expected in the file"):
        materials_of_file(tmp_path / "nowhere.yaml")
    # What a model's own materials reflect needs no file.
    shiny = LidarWorld(
        WORLD.replace('material="tin"', 'material="shiny"'), ["slide", "turn"], lambda: 0.0 * q, "urg", {}, ANGLES
    )
    assert shiny.cast(ANGLES).distance[oblique] == pytest.approx(through, abs=5e-3)


@pytest.mark.parametrize(
    "words, said",
    [
        ((), "--scene takes the place"),
        (("--optics",), "of the world of --world"),
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
