"""What the four calibrations of `refit calibrate` share: the options, what is read from a bag, and what is left behind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Optional

import numpy as np
import typer
import yaml
from rich.console import Console
from rich.table import Table

from cli.errors import CommandError
from cli.outputs import check_outputs
from recording import BagError, BagReader
from reporting import Report, Result, RunDirectory, write_run
from sim_core.multibody import ModelError, load_model
from sim_core.multibody.model import build
from sim_core.multibody.model.parameters import NamedEstimate
from sim_core.perception.still_stretches import Rest, still_stretches

__all__ = [
    "AllowTruncated",
    "Bag",
    "Calibration",
    "Json",
    "Out",
    "Poses",
    "Robot",
    "StillSpeed",
    "StillTime",
    "calibrate",
    "estimate",
    "frame_poses",
    "in_stretch",
    "resting_poses",
    "robot_model",
    "ros_parameters",
    "start_report",
    "static_transform",
    "student",
]

SURROUNDINGS = 0.1  # [s] to either side: counts of an encoder average out, creeping is followed

Bag = Annotated[Path, typer.Argument(help="bag directory or .mcap file")]
Robot = Annotated[
    Optional[str], typer.Option(help="robot in config/robots, or a model file; default: robot_description of the bag")
]
Out = Annotated[Optional[Path], typer.Option(help="new folder for the results; default below runs/")]
Json = Annotated[Optional[Path], typer.Option(help="write the checks to this file as well")]
AllowTruncated = Annotated[bool, typer.Option("--allow-truncated", help="use what a cut-off bag still holds")]
StillSpeed = Annotated[
    float, typer.Option(help="the robot is still while no joint is faster, in rad/s or m/s", min=1e-4)
]
StillTime = Annotated[float, typer.Option(help="shortest stretch at rest that counts, in s", min=0.1)]


@dataclass(frozen=True)
class Calibration:
    """What a calibration found.

    Attributes:
        result: its checks. estimates: with intervals. report: the page.
        files: name -> text of the parameters, written if every check passed.
        assumed: name of an estimate -> what was taken for it until now.
        remarks: sentences for the screen.
    """

    result: Result
    estimates: list[NamedEstimate]
    report: Report
    files: Mapping[str, str]
    assumed: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def calibrate(
    what: str,
    bag: Path,
    out: Path | None,
    json: Path | None,
    allow_truncated: bool,
    compute: Callable[[BagReader], Calibration],
) -> int:
    """Open the bag, compute, print, and leave the folder, all or nothing. Returns the exit code.

    Raises:
        CommandError: the bag cannot be used; one line.
    """
    check_outputs(out, json)
    try:
        reader = BagReader(bag)
        if reader.truncated and not allow_truncated:
            raise CommandError(f"{reader.truncated} Use --allow-truncated to calibrate from that part.")
        found = compute(reader)
    except BagError as error:
        raise CommandError(str(error)) from None
    result = found.result
    result.detail(
        "estimates",
        [
            {
                "name": e.name,
                "unit": e.unit,
                "value": e.value,
                "std": e.std,
                "lower": e.lower,
                "upper": e.upper,
                **({"assumed": found.assumed[e.name]} if e.name in found.assumed else {}),
            }
            for e in found.estimates
        ],
    )

    def fill(run: RunDirectory) -> None:
        found.report.write(run / "report.html")
        result.to_json(run / "result.json")
        if result.passed:
            for name, text in found.files.items():
                (run / name).write_text(text, encoding="utf-8")

    folder = write_run(f"calibrate-{what}", fill, out, bag=str(bag))
    console = Console()
    result.print(console)
    _print_estimates(console, found)
    for sentence in [*([reader.truncated] if reader.truncated else []), *found.remarks]:
        console.print(sentence, markup=False, highlight=False)
    for name in ("report.html", *(found.files if result.passed else ())):
        console.print(f"{name.partition('.')[0]}: {folder / name}", markup=False, highlight=False, soft_wrap=True)
    if not result.passed:
        console.print(f"not written, because a check failed: {', '.join(found.files)}", markup=False, highlight=False)
    if json is not None:
        result.to_json(json)
    return result.exit_code


def _print_estimates(console: Console, found: Calibration) -> None:
    table = Table(box=None, header_style="bold")
    for column in ("parameter", *(["assumed"] if found.assumed else []), "value", "95 % interval", "unit"):
        table.add_column(column, overflow="fold")
    for e in found.estimates:
        assumed = [f"{found.assumed[e.name]:.4g}" if e.name in found.assumed else ""] if found.assumed else []
        value, lower, upper = _texts(e)
        table.add_row(e.name, *assumed, value, f"{lower} .. {upper}", e.unit)
    console.print(table)


def start_report(
    title: str,
    reader: BagReader,
    result: Result,
    estimates: list[NamedEstimate],
    numbers: Mapping[str, object],
    warnings: list[str],
    assumed: Mapping[str, float] = {},
) -> Report:
    """The page as far as all calibrations have it in common: numbers, warnings, checks, estimates."""
    report = Report(title, str(reader.path)).numbers(numbers)
    for sentence in [*([reader.truncated] if reader.truncated else []), *warnings]:
        report.warning(sentence)
    report.checks(result)
    headers = ["parameter", "unit", *(["assumed"] if assumed else []), "value", "95 % interval"]
    rows = []
    for e in estimates:
        value, lower, upper = _texts(e)
        rows.append([e.name, e.unit, *([assumed.get(e.name, "")] if assumed else []), value, f"{lower} to {upper}"])
    return report.section("Estimates").table(headers, rows)


def _texts(e: NamedEstimate) -> tuple[str, str, str]:
    """Value and ends of its interval, to two digits of the interval's half-width."""
    half = 0.5 * (e.upper - e.lower)
    decimals = min(max(1 - math.floor(math.log10(half)), 0), 9) if half > 0.0 else 6
    return tuple(f"{x:.{decimals}f}" for x in (e.value, e.lower, e.upper))


# -- estimates and files ------------------------------------------------------------------------------


def student(freedom: int) -> float:
    """Half-width of the 95 % interval in standard deviations that were estimated from so many degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(max(freedom, 1), 0.975))


def estimate(name: str, unit: str, value: float, std: float, quantile: float = 1.96) -> NamedEstimate:
    return NamedEstimate(
        name, unit, float(value), float(std), float(value - quantile * std), float(value + quantile * std)
    )


def ros_parameters(node: str, values: Mapping[str, object], said: str) -> str:
    """A ROS parameter file for one node in any namespace, or for any node (""). said: what it is, as a comment."""
    document = {
        f"/**/{node}" if node else "/**": {"ros__parameters": {name: _written(value) for name, value in values.items()}}
    }
    return f"# {said}\n" + yaml.safe_dump(document, sort_keys=False)


def _written(value):
    """Numbers in seven digits: more than any sensor has."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_written(float(x)) for x in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def static_transform(parent: str, child: str, X: np.ndarray, said: str) -> str:
    """A parameter file for a static transform, by tf2_ros's parameter names: pose X (4, 4) of `child` in `parent`."""
    from scipy.spatial.transform import Rotation

    values = {"frame_id": parent, "child_frame_id": child}
    values |= {f"translation.{axis}": float(x) for axis, x in zip("xyz", X[:3, 3])}
    values |= {
        f"rotation.{axis}": float(x) for axis, x in zip("xyzw", Rotation.from_matrix(X[:3, :3]).as_quat(canonical=True))
    }
    return ros_parameters("", values, said)


# -- the robot in a bag -------------------------------------------------------------------------------


def robot_model(reader: BagReader, robot: str | None):
    """The RobotModel of the bag, or the one named.

    Raises:
        CommandError: no such robot, or no usable description.
    """
    source = robot or reader.robot_description()
    try:
        return load_model(source)
    except ModelError as error:
        raise CommandError(
            f"--robot: {error}" if robot else f"robot_description in the bag is no usable model: {error}"
        ) from None


@dataclass(frozen=True)
class Poses:
    """A robot that stood still now and then: stretches at rest, and joint positions q (T, n) at t (T,) [s]."""

    rests: list[Rest]
    t: np.ndarray
    q: np.ndarray

    def mean_q(self, rest: Rest, stamps: np.ndarray) -> np.ndarray:
        """Joint positions in a stretch at the times of some samples, each averaged over its surroundings; their mean, (n,)."""
        first = np.searchsorted(self.t, np.maximum(stamps - SURROUNDINGS, rest.begin))
        last = np.searchsorted(self.t, np.minimum(stamps + SURROUNDINGS, rest.end), side="right")
        return np.mean([self.q[a:b].mean(axis=0) for a, b in zip(first, last)], axis=0)


def resting_poses(reader: BagReader, model, speed: float, duration: float) -> Poses:
    """Stretches of the bag in which the robot stood still.

    Raises:
        CommandError: there is none.
    """
    series = reader.joint_states(joints=model.joint_names)
    try:
        found = still_stretches(series.t, series.q, speed, duration)
    except ValueError as error:
        raise CommandError(f"joint_states in '{reader.path}': {error}") from None
    if not found:
        raise CommandError(
            f"the robot never stands still for {duration:g} s in the {np.ptp(series.t):.1f} s of '{reader.path}': "
            "record poses at rest, or raise --still-speed"
        )
    return Poses(found, series.t, series.q)


def in_stretch(rest: Rest, t: np.ndarray, least: int) -> np.ndarray | None:
    """Indices of the samples t that fall into a stretch, None if fewer than `least`."""
    index = np.flatnonzero(rest.covers(t))
    return index if len(index) >= least else None


def frame_poses(model, frame: str, q: np.ndarray) -> np.ndarray:
    """Poses of a site or body in the world at joint positions q (n, nq), shape (n, 4, 4).

    Raises:
        CommandError: the model has no such frame.
    """
    try:
        function = build.frame_pose(model, frame)
    except KeyError as error:
        raise CommandError(str(error.args[0])) from None
    X = np.tile(np.eye(4), (len(q), 1, 1))
    for pose, at in zip(X, q):
        r, R = function(at, model.parameters.nominal)
        pose[:3, 3], pose[:3, :3] = np.array(r).ravel(), np.array(R)
    return X
