"""Where a laser scanner is mounted on the robot's base, from scans of walls that are known there.

found = calibrate_scanner(open_bag("runs/today/bag"), ScannerSettings(room="4.2x3.1", center="0.3,0"))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from identification.calibrate.calibration import Calibration
from identification.calibrate.estimates import estimate
from identification.calibrate.page import start_page
from identification.calibrate.parameter_files import static_transform
from identification.calibrate.resting import frame_poses, robot_model
from identification.errors import UnusableInput, unusable_input
from recording import BagError, BagReader
from reporting import PALETTE, Report, Result, figure
from sim_core.perception.scan_mounting import (
    NAMES,
    UNITS,
    Mounting,
    Wall,
    box,
    default_accuracy,
    estimate_mounting,
    predicted_ranges,
)

__all__ = ["ScannerSettings", "calibrate_scanner"]

OWN_PAGE = "docs/calibration.md"
SCANS = 20  # evenly spaced over the bag: more say the same
FLAT = 3  # of NAMES: what a level scanner has; the rest is its tilt


@dataclass(frozen=True)
class ScannerSettings:
    """Where the walls are, and where the search begins; all in the base frame.

    Attributes:
        room: rectangular room, "LENGTHxWIDTH" along x and y [m]. center: "X,Y" of its centre [m]. room_yaw: by which it
            is turned [rad].
        walls: YAML file with walls, in place of a room.
        guess: "X,Y,YAW" of the scanner, within 0.3 m and 0.3 rad; None: the model's frame of the scans' name.
        height: of the scanner over the base frame [m]; None: the model's.
        tilt: look for pitch and roll too.
        topic: scans, sensor_msgs/LaserScan. base: body or site that counts as the robot's base.
        robot: name in config/robots or a model file; None: robot_description of the bag.
    """

    room: str | None = None
    center: str = "0,0"
    room_yaw: float = 0.0
    walls: Path | None = None
    guess: str | None = None
    height: float | None = None
    tilt: bool = False
    topic: str = "scan"
    base: str = "base_link"
    robot: str | None = None


@unusable_input(BagError)
def calibrate_scanner(reader: BagReader, settings: ScannerSettings) -> Calibration:
    """Pose of a laser scanner on the robot's base, from a few seconds of scans of known walls; the robot rests.

    What else stands in the room counts for nothing. Files: static_transform.yaml with the pose in `base`.

    Raises:
        UnusableInput: the bag or the walls cannot be used.
    """
    room, walls, topic, base = settings.room, settings.walls, settings.topic, settings.base
    guess, height, tilt = settings.guess, settings.height, settings.tilt
    if (room is None) == (walls is None):
        raise UnusableInput("say where the walls are: either --room LENGTHxWIDTH or --walls FILE")
    known = _read_walls(walls) if walls is not None else _room(str(room), settings.center, settings.room_yaw)
    reader.require(topic)
    angles, scans, frame = _scans(reader, topic)
    modelled = _modelled(reader, settings.robot, base, frame)
    start = _numbers("--guess", guess, 3) if guess is not None else modelled[:3] if modelled is not None else None
    if start is None:
        raise UnusableInput(
            f"nothing says where the scanner is about: no model with frame '{frame}' in the bag; give --guess X,Y,YAW"
        )
    z = height if height is not None else modelled[3] if modelled is not None else 0.0
    try:
        found = estimate_mounting(angles, scans, known, start, height=z, tilt=tilt)
    except ValueError as error:
        raise UnusableInput(f"'{topic}' of '{reader.path}': {error}") from None
    return _result(reader, base, frame, known, angles, scans, start, found, tilt)


# -- what is read -----------------------------------------------------------------------------------


def _numbers(option: str, text: str, count: int, separator: str = ",") -> list[float]:
    try:
        values = [float(part) for part in text.lower().split(separator)]
    except ValueError:
        values = []
    if len(values) != count or not np.isfinite(values).all():
        raise UnusableInput(f"{option} {text}: expected {count} numbers separated by '{separator}'")
    return values


def _room(room: str, center: str, yaw: float) -> list[Wall]:
    size = _numbers("--room", room, 2, "x")
    if min(size) <= 0.0:
        raise UnusableInput(f"--room {room}: length and width must be positive")
    return box(_numbers("--center", center, 2), size, yaw)


def _read_walls(path: Path) -> list[Wall]:
    """Walls of a YAML list of {from: [x, y], to: [x, y], lean: angle}."""
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
        return [Wall(_point(e["from"]), _point(e["to"]), float(e.get("lean", 0.0))) for e in entries]
    except OSError as error:
        raise UnusableInput(f"--walls {path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        sentence = str(error).splitlines()[0]
        raise UnusableInput(
            f"--walls {path}: expected a list of {{from: [x, y], to: [x, y]}} in metres, lean in rad if there is "
            f"one; {type(error).__name__}: {sentence}"
        ) from None


def _point(values: Sequence[float]) -> tuple[float, float]:
    x, y = map(float, values)
    return x, y


def _scans(reader: BagReader, topic: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Angles (n,) [rad] and up to SCANS scans (k, n) [m], NaN where nothing valid was measured, and their frame."""
    kind = reader.topics[reader.resolve(topic)].message_type
    if kind != "sensor_msgs/msg/LaserScan":
        raise UnusableInput(f"'{topic}' holds {kind}, expected sensor_msgs/msg/LaserScan; name another --topic")
    count = reader.topics[reader.resolve(topic)].count
    chosen = set(np.linspace(0, count - 1, min(SCANS, count)).round().astype(int))
    rows: list[np.ndarray] = []
    angles, frame = np.empty(0), ""
    for k, (_, message) in enumerate(reader.messages(topic)):
        if k not in chosen:
            continue
        ranges = np.asarray(message.ranges, float)
        if not rows:
            angles, frame = (
                message.angle_min + message.angle_increment * np.arange(len(ranges)),
                message.header.frame_id,
            )
        if len(ranges) != len(angles):
            raise UnusableInput(
                f"scans of '{topic}' change from {len(angles)} to {len(ranges)} ranges: record with one setting"
            )
        rows.append(np.where((ranges >= message.range_min) & (ranges <= message.range_max), ranges, np.nan))
    return angles, np.array(rows), frame


def _modelled(reader: BagReader, robot: str | None, base: str, frame: str) -> list[float] | None:
    """x, y [m], yaw [rad] and height [m] of the scans' frame in the base, by the model; None without a model of it."""
    if robot is None and not reader.has("robot_description"):
        return None
    model = robot_model(reader, robot)
    if frame not in (*model.body_names, *model.frame_names):
        return None
    X_WB, X_WS = (frame_poses(model, name, model.q_home[None])[0] for name in (base, frame))
    R = X_WB[:3, :3].T @ X_WS[:3, :3]
    x, y, z = X_WB[:3, :3].T @ (X_WS[:3, 3] - X_WB[:3, 3])
    return [float(x), float(y), float(np.arctan2(R[1, 0], R[0, 0])), float(z)]


# -- what is left -----------------------------------------------------------------------------------


def _result(
    reader: BagReader,
    base: str,
    frame: str,
    walls: Sequence[Wall],
    angles: np.ndarray,
    scans: np.ndarray,
    start: Sequence[float],
    found: Mounting,
    tilt: bool,
) -> Calibration:
    tilted = bool(np.any(found.pose[FLAT:] != 0.0))
    shown = len(NAMES) if tilted else FLAT
    estimates = [
        estimate(f"{frame}.{name}", unit, v, s)
        for name, unit, v, s in zip(NAMES[:shown], UNITS, found.pose, found.sigma)
    ]
    assumed = {f"{frame}.{name}": v for name, v in zip(NAMES, start)}
    usable = found.residuals.size + found.outliers
    result = Result("calibrate_scanner")
    result.check("ranges off the walls, in units of accuracy", found.scale, 2.0, "<=", "1", OWN_PAGE)
    result.check("share of ranges on the walls", found.residuals.size / max(usable, 1), 0.3, ">=", "1", OWN_PAGE)
    result.check("position, wider half 95 % interval", 1.96 * found.sigma[:2].max(), 0.01, "<=", "m", OWN_PAGE)
    result.check("yaw, half 95 % interval", 1.96 * found.sigma[2], np.deg2rad(0.5), "<=", "rad", OWN_PAGE)
    result.detail("X_scanner", found.X_BS)
    result.detail("height", found.height)
    result.detail("rms", found.rms)
    result.detail("scans", len(scans))
    result.detail("not_determined", found.unobservable)
    remarks = [
        f"{len(scans)} scans, {found.residuals.size} ranges on the walls with an RMS of {1e3 * found.rms:.1f} mm, "
        f"{found.outliers} on other things; height {found.height:g} m as given."
    ]
    open_ = [f"Not determined: {what}." for what in found.unobservable]
    if not tilted:
        open_ = [sentence for sentence in open_ if "pitch and roll" not in sentence]
        remarks.append(
            "Pitch and roll are taken as 0: "
            + (
                "the scans fit as well without a tilt. Between upright walls it shows beyond 0.1 rad only."
                if tilt
                else "nobody looked for a tilt (--tilt)."
            )
        )
    text = static_transform(base, frame, found.X_BS, f"Pose of {frame} in {base}, calibrated from {reader.path.name}.")
    report = start_page(
        "Mounting of the laser scanner",
        reader,
        result,
        estimates,
        {
            "position": f"{1e3 * found.pose[0]:z.1f}, {1e3 * found.pose[1]:z.1f} mm",
            "yaw": f"{np.rad2deg(found.pose[2]):z.2f}°",
            "RMS on the walls": f"{1e3 * found.rms:.1f} mm",
            "ranges on the walls": f"{100 * found.residuals.size / max(usable, 1):.0f} %",
        },
        open_,
        assumed,
    )
    for sentence in remarks:
        report.text(sentence)
    report.text(
        f"Assumed was where the search began. The transform from `{base}` to `{frame}` is in `static_transform.yaml`. "
        "Intervals are the scans' share: an error in the measured walls goes straight into the pose."
    )
    _plan_figure(report, walls, angles, scans, found)
    _residual_figure(report, walls, angles, scans, found)
    return Calibration(result, estimates, report, {"static_transform.yaml": text}, assumed, (*remarks, *open_))


def _points(angles: np.ndarray, ranges: np.ndarray, found: Mounting) -> np.ndarray:
    """Of one scan in the base frame, (n, 2) [m]."""
    rays = np.stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)], axis=1)
    return (ranges[:, None] * (rays @ found.X_BS[:3, :3].T) + found.X_BS[:3, 3])[:, :2]


def _plan_figure(report: Report, walls: Sequence[Wall], angles: np.ndarray, scans: np.ndarray, found: Mounting) -> None:
    report.section(
        "Seen from above", "Walls as given and the median scan, placed by the mounting found, in the base frame [m]."
    )
    ranges = _median(scans)
    residual = ranges - predicted_ranges(angles, found.pose, walls, found.height)
    near = np.abs(residual) < 5.0 * found.scale * default_accuracy(np.nan_to_num(ranges, nan=1.0))
    points = _points(angles, ranges, found)
    fig, axis = figure(size=(8.4, 6.0))
    for k, wall in enumerate(walls):
        axis.plot(
            *zip(wall.a, wall.b),
            color="#8a8f98",
            lw=5,
            alpha=0.5,
            solid_capstyle="butt",
            label="walls" if k == 0 else None,
        )
    axis.plot(*points[near].T, ".", ms=3.5, color=PALETTE[0], label="on the walls")
    axis.plot(*points[~near].T, ".", ms=3.5, color=PALETTE[1], label="on other things")
    axis.plot(0.0, 0.0, "s", ms=8, color="#444444", label="base")
    x, y, ahead = found.X_BS[0, 3], found.X_BS[1, 3], found.X_BS[:2, 0]
    length = 0.12 * max(np.ptp([p for wall in walls for p in (wall.a, wall.b)], axis=0))
    arrow = dict(arrowstyle="->", color=PALETTE[2], lw=2)
    axis.annotate("", xy=(x + length * ahead[0], y + length * ahead[1]), xytext=(x, y), arrowprops=arrow)
    axis.plot(x, y, "o", ms=7, color=PALETTE[2], label="scanner")
    axis.set_aspect("equal")
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=1.5)
    report.figure(fig)


def _residual_figure(
    report: Report, walls: Sequence[Wall], angles: np.ndarray, scans: np.ndarray, found: Mounting
) -> None:
    report.section(
        "Fit",
        "Range measured less range to the walls. A wave along the angle means that a wall is not where it is said to be.",
    )
    predicted = predicted_ranges(angles, found.pose, walls, found.height)
    residual = 1e3 * (_median(scans) - predicted)
    fig, (left, right) = figure(1, 2, size=(8.4, 3.0))
    band = 3e3 * default_accuracy(np.where(np.isfinite(predicted), predicted, np.nan))
    left.fill_between(np.rad2deg(angles), -band, band, color="#cccccc", alpha=0.6, lw=0)
    left.plot(np.rad2deg(angles), residual, ".", ms=3, color=PALETTE[0])
    left.set_ylim(-60, 60)
    left.set_xlabel("angle of the ray [degrees]")
    left.set_title("median scan less walls [mm]; band: accuracy")
    right.hist(np.clip(1e3 * found.residuals, -60, 60), bins=60, color=PALETTE[0], alpha=0.7)
    right.set_axisbelow(True)
    right.set_xlabel("[mm]")
    right.set_title("ranges on the walls")
    report.figure(fig)


def _median(scans: np.ndarray) -> np.ndarray:
    """Of each ray over the scans (k, n), NaN where it never returned."""
    out = np.full(scans.shape[1], np.nan)
    some = np.isfinite(scans).any(axis=0)
    out[some] = np.nanmedian(scans[:, some], axis=0)
    return out
