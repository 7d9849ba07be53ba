"""Where the scanner stood in a known scene, or a body of it, scan by scan of a recording.

found = poses_of_bag(open_bag("runs/today/bag"), BagSettings(scene="data/lidar/mirror.yaml", body="mirror"))

The searches are those of the node `lidar`, with its default settings, so that equal scans give equal numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from identification.errors import UnusableInput, unusable_input
from recording import BagError, BagReader
from sim_core.lidar.files import scene_of_file
from sim_core.lidar.measured import measured_ranges, seen_by
from sim_core.lidar.parameters import SENSOR
from sim_core.lidar.scan import Lidar
from sim_core.lidar.search import FOLLOWING, Found, Outcome, SearchOptions, flat, locate

__all__ = ["BagPoses", "BagSettings", "ScanPose", "poses_of_bag"]

LASER_SCAN = "sensor_msgs/msg/LaserScan"


@dataclass(frozen=True)
class BagSettings:
    """What is looked for.

    Attributes:
        scene: file, see sim_core/lidar/files.py. topic: scans, sensor_msgs/LaserScan.
        body: of the scene that is followed; "": the scanner itself.
        guess: x, y, yaw of it in the scene [m, m, rad]; None: the scene's own. reach: how far from it [m, m, rad]; None: as the node.
        every: scans, one of so many is fitted. begin, end: of the stretch that is used, from the bag's beginning on [s].
    """

    scene: str
    topic: str = "scan"
    body: str = ""
    guess: Sequence[float] | None = None
    reach: Sequence[float] | None = None
    every: int = 1
    begin: float = 0.0
    end: float = float("inf")


@dataclass(frozen=True, eq=False)
class ScanPose:
    """One scan: `time` since the bag's beginning and `stamp` [s], `ranges` (beams,) [m] with NaN where invalid, and what was found; or,
    where the scan is none of this scanner's, `found` of outcome NO_SCAN and no ranges."""

    time: float
    stamp: float
    ranges: np.ndarray
    found: Found


@dataclass(frozen=True, eq=False)
class BagPoses:
    """All scans of a recording in their order; `lidar` is the scene, seen by the scanner; `names` are those of what was looked for."""

    lidar: Lidar
    names: tuple[str, ...]
    scans: list[ScanPose]

    @property
    def found(self) -> list[ScanPose]:
        """Those in which it was found."""
        return [scan for scan in self.scans if scan.found.outcome == Outcome.FOUND]


@unusable_input(BagError)
def poses_of_bag(reader: BagReader, settings: BagSettings, advance: Callable[[], object] = lambda: None) -> BagPoses:
    """Fit scan after scan, each from the pose of the one before; what was lost is looked for where it was last.

    Args:
        advance: called after each scan that was fitted.

    Raises:
        UnusableInput: the bag has no scans, the scene cannot be read or has no such body, or a number makes no sense.
    """
    try:
        scene, values = scene_of_file(settings.scene)
    except (OSError, ValueError) as error:
        raise UnusableInput(str(error)) from None
    owner = settings.body or SENSOR
    if settings.body and settings.body not in (bodies := [body.name for body in scene.bodies]):
        raise UnusableInput(f"the scene has no body '{settings.body}'; it has {', '.join(bodies)}")
    reader.require(settings.topic)
    kind = reader.topics[reader.resolve(settings.topic)].message_type
    if kind != LASER_SCAN:
        raise UnusableInput(f"'{settings.topic}' holds {kind}, expected {LASER_SCAN}; name another --topic")
    names = flat(owner)
    lidar: Lidar | None = None
    scans: list[ScanPose] = []
    first, near = reader.span[0], False
    start: dict[str, float] = {}
    reach = _three("reach", settings.reach, names)
    for k, (received, message) in enumerate(reader.messages(settings.topic)):
        time = 1e-9 * (received - first)
        if k % settings.every or not settings.begin <= time <= settings.end:
            continue
        stamp = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        told = float(message.angle_min), float(message.angle_increment)
        try:
            if lidar is None:
                lidar = Lidar(scene, seen_by(*told, len(message.ranges)), values)
                start = _three("guess", settings.guess, names) or {name: lidar.values[name] for name in names}
            ranges = measured_ranges(
                message.ranges, float(message.range_min), float(message.range_max), *told, lidar.settings
            )
        except UnusableInput:
            raise
        except ValueError as error:
            scans.append(ScanPose(time, stamp, np.zeros(0), Found(Outcome.NO_SCAN, str(error), start)))
            continue
        found = locate(lidar, ranges, start, {} if near else reach, FOLLOWING if near else SearchOptions())
        if found.outcome == Outcome.FOUND:
            start, near = found.values, True
        scans.append(ScanPose(time, stamp, ranges, found))
        advance()
    if lidar is None:
        why = scans[0].found.message if scans else "none of them is within the stretch that was asked for"
        raise UnusableInput(f"'{settings.topic}' of '{reader.path}' holds no scan that can be used: {why}")
    return BagPoses(lidar, names, scans)


def _three(what: str, given: Sequence[float] | None, names: tuple[str, ...]) -> dict[str, float]:
    if given is None:
        return {}
    if len(given) != len(names) or not np.isfinite(given).all() or what == "reach" and min(given) <= 0.0:
        raise UnusableInput(
            f"{what}: expected x, y and yaw as finite numbers{', positive ones' if what == 'reach' else ''}, found {given}"
        )
    return dict(zip(names, map(float, given)))
