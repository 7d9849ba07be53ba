"""What the wrist's force-torque sensor carries, and its offsets, from a robot at rest in many poses.

reader = open_bag("runs/today/bag")
found = calibrate_tool(reader, ToolSettings(topic="ft_sensor/wrench_raw"))
write_calibration(found, str(reader.path))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identification.calibrate.calibration import Calibration
from identification.calibrate.estimates import estimate, student
from identification.calibrate.page import start_page
from identification.calibrate.parameter_files import ros_parameters
from identification.calibrate.resting import frame_poses, in_stretch, resting_poses, robot_model
from identification.errors import UnusableInput, unusable_input
from recording import BagError, BagReader
from reporting import PALETTE, Report, Result, figure
from sim_core.multibody import RobotModel
from sim_core.perception.tool_load import MINIMUM_POSES, ToolIdentification, identify_tool

__all__ = ["ToolSettings", "calibrate_tool", "missing_sides", "orientations"]

DISTINCT = 0.35  # [rad] between directions of gravity that count as two, as in the node's survey
FEWEST_SAMPLES = 10  # of a stretch
MAX_RESIDUAL = 0.2  # [N]
NODE_PAGE = "docs/nodes/force_torque.md, tool.max_residual_n"
OWN_PAGE = "docs/calibration.md"
#: gravity along which axis of the sensor; an axis counts as seen within the half-angle of a cube's corner
SIDES = {
    f"{sign}{axis}": np.array([(1.0 if sign == "+" else -1.0) * (axis == other) for other in "xyz"])
    for axis in "xyz"
    for sign in "+-"
}
SEEN = np.cos(np.deg2rad(54.8))


@dataclass(frozen=True)
class ToolSettings:
    """Where the wrenches are, and what counts as rest.

    Attributes:
        topic: wrenches as measured, geometry_msgs/WrenchStamped.
        frame: body or site of the model where the sensor is; None: frame_id of the wrenches.
        max_std: stretches with a larger standard deviation of any force are left out [N].
        still_speed: the robot is still while no joint is faster [rad/s or m/s]. still_time: shortest stretch [s].
        robot: name in config/robots or a model file; None: robot_description of the bag.
    """

    topic: str = "ft_sensor/wrench_raw"
    frame: str | None = None
    max_std: float = 0.5
    still_speed: float = 0.05
    still_time: float = 0.5
    robot: str | None = None


@unusable_input(BagError)
def calibrate_tool(reader: BagReader, settings: ToolSettings = ToolSettings()) -> Calibration:
    """Mass and centre of the tool behind a force-torque sensor, and the sensor's offsets.

    Where the robot stands still, the mean wrench is m g plus an offset; gravity in the sensor's axes follows from the
    joints. Files: <node of the topic>.yaml with tool.mass [kg] and tool.com [m].

    Raises:
        UnusableInput: the bag cannot be used, or holds too few poses.
    """
    topic, max_std = settings.topic, settings.max_std
    reader.require("joint_states", topic)
    model = robot_model(reader, settings.robot)
    t, wrench, frame_id = _wrenches(reader, topic)
    poses = resting_poses(reader, model, settings.still_speed, settings.still_time)
    q, means, left_out = [], [], 0
    for rest in poses.rests:
        index = in_stretch(rest, t, FEWEST_SAMPLES)
        if index is None or wrench[index, :3].std(axis=0).max() > max_std:
            left_out += 1
            continue
        q.append(poses.mean_q(rest, t[index]))
        means.append(wrench[index].mean(axis=0))
    if not means:
        raise UnusableInput(
            f"none of the {len(poses.rests)} stretches at rest has {FEWEST_SAMPLES} wrenches that vary by less "
            f"than {max_std:g} N: do the clocks of joint_states and wrenches agree, and does nobody touch the tool?"
        )
    X = frame_poses(model, settings.frame or frame_id, np.array(q))
    gravity = X[:, :3, :3].transpose(0, 2, 1) @ _gravity(model)
    directions, missing = orientations(gravity), missing_sides(gravity)
    lacking = "all six sides of the sensor were down once"
    if missing:
        lacking = f"gravity never points along {', '.join(missing)} of the sensor"
    if directions < MINIMUM_POSES:
        raise UnusableInput(
            f"{len(means)} poses at rest in {directions} different orientations, at least {MINIMUM_POSES} are "
            f"needed, {np.rad2deg(DISTINCT):.0f} degrees apart: {lacking}"
        )
    try:
        found = identify_tool(gravity, np.array(means))
    except ValueError as error:
        raise UnusableInput(f"{len(means)} poses at rest: {error}") from None
    return _result(reader, topic, gravity, np.array(means), found, directions, lacking, left_out)


def _wrenches(reader: BagReader, topic: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Stamps (T,) [s], wrenches (T, 6) [N, N m], and their frame. Raises UnusableInput: another type, or not finite."""
    times, rows, frame = [], [], ""
    for _, message in reader.messages(topic):
        if not hasattr(message, "wrench"):
            raise UnusableInput(
                f"'{topic}' holds {message.__msgtype__}, expected geometry_msgs/msg/WrenchStamped; name another --topic"
            )
        stamp, w = message.header.stamp, message.wrench
        times.append(stamp.sec + 1e-9 * stamp.nanosec)
        rows.append((w.force.x, w.force.y, w.force.z, w.torque.x, w.torque.y, w.torque.z))
        frame = message.header.frame_id
    wrench = np.array(rows)
    if not np.isfinite(wrench).all():
        raise UnusableInput(
            f"{(~np.isfinite(wrench).all(axis=1)).sum()} of {len(wrench)} wrenches of '{topic}' are not finite"
        )
    return np.array(times), wrench, frame


def _gravity(model: RobotModel) -> np.ndarray:
    """In the world, (3,) [m/s^2]."""
    first = model.parameters.index("gravity.x")
    return model.parameters.nominal[first : first + 3]


def orientations(gravity: np.ndarray) -> int:
    """Directions of gravity (n, 3) that differ by DISTINCT from those before."""
    kept: list[np.ndarray] = []
    for g in gravity / np.linalg.norm(gravity, axis=1, keepdims=True):
        if all(g @ other < np.cos(DISTINCT) for other in kept):
            kept.append(g)
    return len(kept)


def missing_sides(gravity: np.ndarray) -> list[str]:
    """Axes of the sensor near which gravity (n, 3) never points."""
    unit = gravity / np.linalg.norm(gravity, axis=1, keepdims=True)
    return [name for name, axis in SIDES.items() if (unit @ axis).max() < SEEN]


def _result(
    reader: BagReader,
    topic: str,
    gravity: np.ndarray,
    means: np.ndarray,
    found: ToolIdentification,
    directions: int,
    lacking: str,
    left_out: int,
) -> Calibration:
    n, load = len(means), found.tool
    force_t, torque_t = student(3 * n - 4), student(3 * n - 6)
    estimates = [estimate("tool.mass", "kg", load.mass, found.mass_std, force_t)]
    estimates += [
        estimate(f"tool.com.{axis}", "m", c, std, torque_t) for axis, c, std in zip("xyz", load.com, found.com_std)
    ]
    for k, axis in enumerate("xyz"):
        estimates.append(estimate(f"offset.force.{axis}", "N", found.offset[k], found.offset_std[k], force_t))
    for k, axis in enumerate("xyz", 3):
        estimates.append(estimate(f"offset.torque.{axis}", "N m", found.offset[k], found.offset_std[k], torque_t))
    result = Result("calibrate_tool")
    result.check("force left unexplained, RMS", found.force_residual, MAX_RESIDUAL, "<=", "N", NODE_PAGE)
    result.check("mass, half 95 % interval over it", force_t * found.mass_std / load.mass, 0.1, "<=", "1", OWN_PAGE)
    result.check("centre, widest half 95 % interval", torque_t * found.com_std.max(), 0.01, "<=", "m", OWN_PAGE)
    result.detail("poses", n)
    result.detail("orientations", directions)
    result.detail("missing", missing_sides(gravity))
    result.detail("gravity", gravity)
    result.detail("wrench", means)
    node = (reader.resolve(topic).rsplit("/", 2)[-2]) or "ft_sensor"
    text = ros_parameters(
        node,
        {"tool.mass": load.mass, "tool.com": load.com},
        f"Tool behind the force-torque sensor, calibrated from {reader.path.name}; of {topic}'s node.",
    )
    spread = f"{n} poses at rest in {directions} orientations; {lacking}."
    remarks = (
        spread,
        *(
            [f"{left_out} stretches at rest left out: too few wrenches, or somebody touched the tool."]
            if left_out
            else []
        ),
    )
    report = start_page(
        "Tool behind the force-torque sensor",
        reader,
        result,
        estimates,
        {
            "mass": f"{load.mass:.4g} kg",
            "centre": f"{', '.join(f'{1e3 * c:z.1f}' for c in load.com)} mm",
            "unexplained force": f"{found.force_residual:.3f} N",
            "orientations": directions,
        },
        [],
    )
    for sentence in remarks:
        report.text(sentence)
    report.text(
        f"`{node}.yaml` holds mass and centre for the node. The offsets drift with temperature: take them off with "
        "`~/bias` at the start of work, after the tool is known."
    )
    _residual_figures(report, gravity, means, found)
    _coverage_figure(report, gravity)
    return Calibration(result, estimates, report, {f"{node}.yaml": text}, remarks=remarks)


def _residual_figures(report: Report, gravity: np.ndarray, means: np.ndarray, found: ToolIdentification) -> None:
    report.section(
        "Fit",
        "Left: mean wrench of each pose less the sensor's offset, against the weight of the tool found. Right: the rest.",
    )
    weight = found.tool.wrench(gravity)
    measured = means - found.offset
    kinds = (("force", "N", slice(0, 3), found.force_residual), ("torque", "N m", slice(3, 6), found.torque_residual))
    for what, unit, part, rms in kinds:
        fig, (left, right) = figure(1, 2, size=(8.4, 3.1))
        for k, axis in enumerate("xyz"):
            left.plot(weight[:, part][:, k], measured[:, part][:, k], "o", ms=4.5, color=PALETTE[k], label=axis)
            right.plot(
                1 + np.arange(len(means)), (measured - weight)[:, part][:, k], "o", ms=4.5, color=PALETTE[k], label=axis
            )
        ends = np.array([weight[:, part].min(), weight[:, part].max()])
        left.plot(ends, ends, color="#8a8f98", lw=1.0, zorder=0)
        left.set_xlabel(f"of the tool found [{unit}]")
        left.set_title(f"{what} measured [{unit}]")
        right.axhline(0.0, color="#8a8f98", lw=1.0)
        right.set_xlabel("pose")
        right.set_title(f"{what} unexplained [{unit}], RMS {rms:.2g}")
        fig.legend(*left.get_legend_handles_labels(), loc="outside upper right", ncols=3)
        report.figure(fig)


def _coverage_figure(report: Report, gravity: np.ndarray) -> None:
    """Directions of gravity as longitude and latitude in the sensor's frame."""
    report.section(
        "Orientations",
        "Where gravity pointed in the sensor's axes. Directions that spread over the sphere tell "
        "mass, centre and offsets apart; a side without a point near it would help most.",
    )
    x, y, z = (gravity / np.linalg.norm(gravity, axis=1, keepdims=True)).T
    fig, axis = figure(size=(8.4, 3.4))
    for name, side in SIDES.items():
        seen = name not in missing_sides(gravity)
        at = (np.rad2deg(np.arctan2(side[1], side[0])), np.rad2deg(np.arcsin(side[2])))
        for longitude in [at[0]] if abs(at[0]) < 179.0 else [-180.0, 180.0]:
            axis.plot(longitude, at[1], "s", ms=17, color="#dbe7f3" if seen else "#f6d9c6")
            axis.annotate(name, (longitude + 9.0, at[1]), va="center", fontsize=9, color="#5b616b")
    axis.plot(np.rad2deg(np.arctan2(y, x)), np.rad2deg(np.arcsin(np.clip(z, -1, 1))), "o", color=PALETTE[0], ms=6)
    axis.set(xlim=(-200, 215), ylim=(-105, 105), xticks=range(-180, 181, 60), yticks=range(-90, 91, 30))
    axis.set_xlabel("longitude, from +x to +y [degrees]")
    axis.set_title("latitude, towards +z [degrees]")
    report.figure(fig, "Squares: the sensor's axes, orange where gravity never came near.")
