"""An emulated URG-04LX that sees by the model of a continuous-wave LIDAR: mirrors, glass, mixed returns, a diode.

    ./refit emulate urg --link /tmp/urg --scene data/lidar/mirrors.yaml
    python -m nodes.plant.lidar_emulator urg --link /tmp/urg --world /dev/shm/arm.world --optics

The emulator itself is that of hardware/urg, which asks a scene what rays meet and does not know this model; here both come together,
above `hardware` and `sim_core`: a scene of its own, or the simulated robot's world. What the model says takes the place of cast rays;
noise and error codes of the sensor's optics come on top, as before. No ROS. Page: docs/hardware/urg.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hardware import emulate
from hardware.emulation.faults import Faults
from hardware.emulation.world import world_of_plant
from hardware.urg import emulator
from hardware.urg.scene import NORMAL, Hits, MujocoScene
from sim_core.lidar.files import materials_of_file, scene_of_file
from sim_core.lidar.material import Material
from sim_core.lidar.measured import seen_by
from sim_core.lidar.of_mjcf import looks, pose_of, scene_of_model
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import POSE

__all__ = ["LidarEmulator", "LidarScene", "LidarWorld", "arguments", "main", "make"]

DEVICES = {"urg": ("nodes.plant.lidar_emulator", "Hokuyo URG-04LX scanner that sees by the model of its optics")}


class LidarScene:
    """What the model sees from where the sensor is; a `Scene` of hardware/urg.

    Args:
        file: a scene, see sim_core/lidar/files.py. angles: of the beams (n,) [rad].

    Attributes:
        pose: x, y, yaw of the scanner in the scene [m, m, rad].

    Raises:
        FileNotFoundError, ValueError: the file describes no scene.
    """

    def __init__(self, file: str, angles: np.ndarray) -> None:
        scene, values = scene_of_file(file)
        settings = seen_by(float(angles[0]), float(angles[1] - angles[0]), len(angles))
        self.lidar = Lidar(scene, settings, values)
        self._values: dict[str, float] = {}
        self._key: tuple[float, ...] | None = None
        self._range = np.zeros(len(angles))

    @property
    def pose(self) -> np.ndarray:
        values = self.lidar.values | self._values
        return np.array([values[f"sensor.{q}"] for q in ("x", "y", "yaw")])

    @pose.setter
    def pose(self, pose: np.ndarray) -> None:
        self.change(dict(zip(("sensor.x", "sensor.y", "sensor.yaw"), map(float, pose))))

    def change(self, values: Mapping[str, float]) -> None:
        """Move something, or make it of something else.

        Raises:
            KeyError: an unknown parameter. ValueError: a value that is not finite.
        """
        changed = self._values | {str(name): float(value) for name, value in values.items()}
        self.lidar.tracer.inputs.full(changed)
        self._values = changed

    def cast(self, angles: np.ndarray) -> Hits:
        """Ranges of the model; what it sees nothing of is infinitely far."""
        key = tuple(self._values.values())
        if key != self._key:  # what stands still is computed once
            self._range, self._key = self.lidar.scan(self._values).range, key
        return _hits(self._range)


class LidarWorld(MujocoScene):
    """What the model sees of the simulated robot's world, posed as the plant says; a MujocoScene whose rays are the model's.

    Args:
        materials: by the names of the world's materials; what has none of them is of the albedo that its colour has, or a mirror.
        angles: of the beams (n,) [rad]. The rest: as MujocoScene's.

    Raises:
        ValueError: as MujocoScene, or the world holds what is no surface.
    """

    def __init__(
        self,
        mjcf: str,
        joints: list[str],
        positions: Callable[[], np.ndarray],
        site: str,
        materials: Mapping[str, Material],
        angles: np.ndarray,
    ) -> None:
        super().__init__(mjcf, joints, positions, site)
        self.follow()
        made_of, of = looks(self.model, materials)
        own = int(self.model.site_bodyid[self._site])  # its housing would hide the world
        scene, self._bodies = scene_of_model(self.model, self.data, made_of, of, without=own)
        self.lidar = Lidar(scene, seen_by(float(angles[0]), float(angles[1] - angles[0]), len(angles)))

    def cast(self, angles: np.ndarray) -> Hits:
        """Ranges of the model; what it sees nothing of is infinitely far."""
        self.follow()
        poses = {name: pose_of(self.data.xpos[k], self.data.xmat[k]) for name, k in self._bodies.items()}
        poses["sensor"] = pose_of(self.data.site_xpos[self._site], self.data.site_xmat[self._site])
        values = {f"{name}.{q}": value for name, pose in poses.items() for q, value in zip(POSE, pose)}
        return _hits(self.lidar.scan(values).range)


def _hits(ranges: np.ndarray) -> Hits:
    return Hits(np.where(np.isfinite(ranges), ranges, np.inf), np.full(len(ranges), NORMAL))


class LidarEmulator(emulator.UrgEmulator):
    """UrgEmulator whose scene is a LidarScene or a LidarWorld: `set` takes `values` of a LidarScene's parameters as well."""

    def set(self, **values: Any) -> None:
        """values: {parameter: value}, `mirror.x` say; the rest as UrgEmulator's."""
        changed = values.pop("values", None)
        super().set(**values)
        if changed is not None:
            if not isinstance(self.scene, LidarScene):
                raise ValueError("values are those of a scene (--scene); in a world the plant says where everything is")
            if not isinstance(changed, Mapping):
                raise ValueError(f"values are numbers by the names of parameters, not {changed}")
            try:
                self.scene.change(changed)
            except KeyError as error:
                raise ValueError(str(error.args[0])) from None


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the emulated scanner, `--scene` and `--optics`."""
    emulator.arguments(parser)
    names = ", ".join(f"sensor.{q}" for q in POSE[:2])
    parser.add_argument("--scene", help="file with the scene, as docs/lidar.md describes it")
    parser.add_argument(
        "--optics",
        nargs="?",
        const="",
        metavar="FILE",
        help="see the world of --world by the model; FILE: materials by the names of the world's, else they are as it looks",
    )
    parser.add_argument(
        "--value", action="append", default=[], metavar="NAME=VALUE", help=f"of a parameter ({names}, ...); repeatable"
    )


def make(options: argparse.Namespace, faults: Faults) -> emulator.UrgEmulator:
    """The emulator that the options describe.

    Raises:
        FileNotFoundError, ValueError: they do not fit together, or the file describes no scene.
    """
    angles = (np.arange(emulator.FIRST, emulator.LAST + 1) - emulator.FRONT) * (2.0 * np.pi / emulator.STEPS)
    if options.optics is not None:
        if not options.world or options.scene or options.room or options.value:
            raise ValueError("--optics is of the world of --world, without --scene, --room and --value")
        materials = materials_of_file(options.optics) if options.optics else {}
        world = world_of_plant(options.world)
        seen = LidarWorld(world.mjcf, world.joints, lambda: world.state().q, options.site, materials, angles)
        return emulator.make(options, faults, seen, LidarEmulator)
    if not options.scene or options.world or options.room:
        raise ValueError("--scene takes the place of --room and --world; give one of them")
    scene = LidarScene(options.scene, angles)
    for word in options.value:
        name, equals, value = word.partition("=")
        try:
            scene.change({name: float(value)})
        except KeyError as error:
            raise ValueError(f"--value {word}: {error.args[0]}") from None
        except ValueError:
            raise ValueError(f"--value {word}: expected NAME=VALUE with a number, such as sensor.x=0.2") from None
    return emulator.make(options, faults, scene, LidarEmulator)


def main(argv: list[str] | None = None) -> int:
    """Run the emulator until it is ended; returns the exit code."""
    return emulate.main(argv, DEVICES)


if __name__ == "__main__":
    sys.exit(main())
