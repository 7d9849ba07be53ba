"""`refit calibrate camera BAG`: where a camera is, on the hand or beside the robot."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Optional

import numpy as np
import typer
from scipy.spatial.transform import Rotation

from cli.errors import CommandError
from identification.calibration import (
    AllowTruncated,
    Bag,
    Calibration,
    Json,
    Out,
    Robot,
    StillSpeed,
    StillTime,
    calibrate,
    estimate,
    frame_poses,
    in_stretch,
    resting_poses,
    robot_model,
    start_report,
    static_transform,
    student,
)
from identification.seen_targets import Sightings, inverse, mean_pose, read_sightings
from recording import BagReader
from reporting import PALETTE, Report, Result, figure
from sim_core.perception.hand_eye import HandEye, hand_eye

__all__ = ["camera"]

OWN_PAGE = "docs/calibration.md"
FEWEST_SIGHTINGS = 1  # of a stretch at rest
NAMES = ("x", "y", "z", "roll", "pitch", "yaw")


class Mount(StrEnum):
    """Where the camera is."""

    HAND = "hand"
    BASE = "base"


def camera(
    bag: Bag,
    mount: Annotated[
        Mount,
        typer.Option(
            help="hand: the camera moves with the hand and the target stays; base: the camera stays "
            "and the target is on the hand"
        ),
    ] = Mount.HAND,
    topic: Annotated[
        str,
        typer.Option(
            help="poses of the target in the camera's optical frame (geometry_msgs/PoseStamped), or "
            "images (sensor_msgs/Image) of a chessboard with --board"
        ),
    ] = "target_pose",
    board: Annotated[
        Optional[str],
        typer.Option(
            help="chessboard in the images: inner corners per row x per column x edge of a "
            "square in m, such as 7x6x0.03"
        ),
    ] = None,
    hand: Annotated[str, typer.Option(help="body or site that carries camera or target")] = "hand",
    base: Annotated[str, typer.Option(help="body or site that counts as the robot's base")] = "base_link",
    child: Annotated[
        str, typer.Option(help="frame whose pose is written, if /tf_static leads from it to the optical frame")
    ] = "camera_link",
    still_speed: StillSpeed = 0.05,
    still_time: StillTime = 0.5,
    robot: Robot = None,
    allow_truncated: AllowTruncated = False,
    out: Out = None,
    json: Json = None,
) -> int:
    """Pose of a camera on the hand or beside the robot (hand-eye calibration).

    Record joint_states, what the camera sees of a target, and /tf_static,
    while the robot visits ten to twenty poses, a second at rest in each,
    turned by 20 degrees and more about different axes. The target stays where
    it is: on the table with --mount hand, on the hand with --mount base.

    Writes static_transform.yaml for the node static_transform.
    """
    return calibrate(
        "camera",
        bag,
        out,
        json,
        allow_truncated,
        lambda reader: _calibrate(reader, mount.value, topic, board, hand, base, child, still_speed, still_time, robot),
    )


def _calibrate(
    reader: BagReader, mount, topic, board, hand, base, child, still_speed, still_time, robot
) -> Calibration:
    reader.require("joint_states", topic)
    model = robot_model(reader, robot)
    poses = resting_poses(reader, model, still_speed, still_time)
    seen = read_sightings(reader, topic, board, poses.rests)
    q, X_CT = [], []
    for rest in poses.rests:
        index = in_stretch(rest, seen.t, FEWEST_SIGHTINGS)
        if index is not None:
            q.append(poses.mean_q(rest, seen.t[index]))
            X_CT.append(mean_pose(seen.X_CT[index]))
    if len(q) < 3:
        why = f" ({len(seen.t)} of {seen.looked} images at rest show it; {seen.why})" if seen.why else ""
        raise CommandError(
            f"the target was seen in {len(q)} of {len(poses.rests)} stretches at rest, at least 3 are needed, "
            f"better 15: keep the target in view{why}"
        )
    X_BH = inverse(frame_poses(model, base, np.array(q[:1]))[0]) @ frame_poses(model, hand, np.array(q))
    try:
        found = hand_eye(X_BH, np.array(X_CT), camera=mount)
    except ValueError as error:
        raise CommandError(f"{len(q)} poses: {error}") from None
    parent = hand if mount == "hand" else base
    return _result(reader, topic, mount, parent, child, seen, X_BH, found, len(poses.rests))


def _result(reader, topic, mount, parent, child, seen: Sightings, X_BH, found: HandEye, stretches: int) -> Calibration:
    n = len(X_BH)
    quantile = student(6 * n - 12)
    values, std = pose_estimates(found)
    units = ("m", "m", "m", "rad", "rad", "rad")
    estimates = [
        estimate(f"{seen.frame}.{name}", unit, v, s, quantile) for name, unit, v, s in zip(NAMES, units, values, std)
    ]
    turn = quantile * np.sqrt(np.linalg.eigvalsh(found.covariance[:3, :3])[-1])
    shift = quantile * np.sqrt(np.linalg.eigvalsh(found.covariance[3:, 3:])[-1])
    result = Result("calibrate_camera")
    result.check("poses", n, 8, ">=", "", OWN_PAGE)
    result.check("target off, per axis", found.sigma_translation, 0.005, "<=", "m", OWN_PAGE)
    result.check("target turned, per axis", found.sigma_rotation, np.deg2rad(1.0), "<=", "rad", OWN_PAGE)
    result.check("position, widest half 95 % interval", shift, 0.005, "<=", "m", OWN_PAGE)
    result.check("orientation, widest half 95 % interval", turn, np.deg2rad(1.0), "<=", "rad", OWN_PAGE)
    result.detail("X_camera", found.X)
    result.detail("X_target", found.target)
    result.detail("residuals", found.residuals)
    X_child = seen.in_optical(child)
    name, X = (child, found.X @ X_child) if X_child is not None else (seen.frame, found.X)
    images = f", in {len(seen.t)} of {seen.looked} images" if seen.looked else ""
    remarks = [
        f"Target seen in {n} of {stretches} stretches at rest{images}; the camera's optical frame is `{seen.frame}`, its parent "
        f"`{parent}`."
    ]
    if X_child is None:
        remarks.append(
            f"/tf_static of the bag has no way from `{seen.frame}` to `{child}`: the transform is that of "
            f"`{seen.frame}` itself, which must have no other parent."
        )
    text = static_transform(parent, name, X, f"Pose of {name} in {parent}, calibrated from {reader.path.name}.")
    rpy = ", ".join(f"{a:.2f}" for a in np.rad2deg(values[3:]))
    report = start_report(
        "Camera on the hand" if mount == "hand" else "Camera beside the robot",
        reader,
        result,
        estimates,
        {
            "position": f"{', '.join(f'{1e3 * x:.1f}' for x in values[:3])} mm",
            "roll, pitch, yaw": f"{rpy}°",
            "poses": n,
            "target off by": f"{1e3 * found.sigma_translation:.2f} mm, {np.rad2deg(found.sigma_rotation):.2f}°",
        },
        remarks[1:],
    )
    report.text(remarks[0])
    _transform_section(report, parent, name, X)
    _residual_figure(report, found)
    _motion_figure(report, X_BH)
    return Calibration(result, estimates, report, {"static_transform.yaml": text}, remarks=tuple(remarks))


def pose_estimates(found: HandEye) -> tuple[np.ndarray, np.ndarray]:
    """x, y, z [m], roll, pitch, yaw [rad] of the camera and their standard deviations, (6,) each."""

    def angles(turn):
        return Rotation.from_matrix(Rotation.from_rotvec(turn).as_matrix() @ found.X[:3, :3]).as_euler("ZYX")[::-1]

    nominal, step = angles(np.zeros(3)), 1e-6
    J = np.stack([(angles(step * e) - angles(-step * e)) / (2 * step) for e in np.eye(3)], axis=1)
    std = np.sqrt(np.diag(J @ found.covariance[:3, :3] @ J.T))
    return np.concatenate([found.X[:3, 3], nominal]), np.concatenate([found.standard_errors[3:], std])


def _transform_section(report: Report, parent: str, child: str, X: np.ndarray) -> None:
    quaternion = Rotation.from_matrix(X[:3, :3]).as_quat(canonical=True)
    report.section(
        "Transform",
        f"Pose of `{child}` in `{parent}`, in `static_transform.yaml`. In a model file (MJCF): "
        f'`pos="{" ".join(f"{x:.5f}" for x in X[:3, 3])}" quat="{" ".join(f"{x:.6f}" for x in np.roll(quaternion, 1))}"`.',
    )
    report.table(["", "x", "y", "z", "w"], [["translation [m]", *X[:3, 3], ""], ["rotation, quaternion", *quaternion]])


def _residual_figure(report: Report, found: HandEye) -> None:
    report.section(
        "Fit", "Pose of the target as seen, less the pose that the calibration predicts, in the camera's axes."
    )
    fig, axes = figure(1, 2, size=(8.4, 3.0))
    pose = 1 + np.arange(len(found.residuals))
    kinds = ((slice(3, 6), 1e3, "position [mm]"), (slice(0, 3), np.rad2deg(1.0), "rotation [degrees]"))
    for axis, (part, scale, title) in zip(axes, kinds):
        for k, name in enumerate("xyz"):
            axis.plot(pose, scale * found.residuals[:, part][:, k], "o", ms=4.5, color=PALETTE[k], label=name)
        axis.axhline(0.0, color="#8a8f98", lw=1.0)
        axis.set_xlabel("pose")
        axis.set_title(title)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    report.figure(fig)


def _motion_figure(report: Report, X_BH: np.ndarray) -> None:
    """Turns between consecutive poses: their axes must differ."""
    turns = Rotation.from_matrix(X_BH[:-1, :3, :3].transpose(0, 2, 1) @ X_BH[1:, :3, :3]).as_rotvec()
    report.section(
        "Motion",
        "Turns of the hand from each pose to the next, in the hand's axes. Turns about one axis alone would "
        "leave the camera's place along it open.",
    )
    fig, axis = figure(size=(8.4, 2.8))
    for k, name in enumerate("xyz"):
        axis.bar(
            1 + np.arange(len(turns)) + 0.27 * (k - 1),
            np.rad2deg(turns[:, k]),
            0.25,
            color=PALETTE[k],
            label=f"about {name}",
        )
    axis.axhline(0.0, color="#8a8f98", lw=1.0)
    axis.set_xlabel("from pose")
    axis.set_title("turn [degrees]")
    axis.set_axisbelow(True)
    fig.legend(loc="outside upper right", ncols=3)
    report.figure(fig)
