"""Where a camera is, on the hand or beside the robot (hand-eye calibration).

found = calibrate_camera(open_bag("runs/today/bag"), CameraSettings(mount="base", hand="tool0"))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from identification.calibrate.calibration import Calibration
from identification.calibrate.estimates import estimate, student
from identification.calibrate.page import start_page
from identification.calibrate.parameter_files import static_transform
from identification.calibrate.resting import frame_poses, in_stretch, resting_poses, robot_model
from identification.calibrate.seen_targets import Sightings, inverse, mean_pose, read_sightings
from identification.errors import UnusableInput, unusable_input
from recording import BagError, BagReader
from reporting import PALETTE, Report, Result, figure
from sim_core.perception.hand_eye import HandEye, hand_eye

__all__ = ["CameraSettings", "calibrate_camera"]

OWN_PAGE = "docs/calibration.md"
FEWEST_SIGHTINGS = 1  # of a stretch at rest
NAMES = ("x", "y", "z", "roll", "pitch", "yaw")


@dataclass(frozen=True)
class CameraSettings:
    """Where camera and target are, and what counts as rest.

    Attributes:
        mount: "hand": the camera moves with the hand and the target stays; "base": the camera stays and the target is on
            the hand.
        topic: poses of the target in the camera's optical frame (geometry_msgs/PoseStamped), or images
            (sensor_msgs/Image) of a chessboard.
        board: chessboard in the images, "COLUMNSxROWSxEDGE": inner corners per row and column, edge of a square [m].
        hand: body or site that carries camera or target. base: body or site that counts as the robot's base.
        child: frame whose pose is written, if /tf_static leads from it to the optical frame.
        still_speed: the robot is still while no joint is faster [rad/s or m/s]. still_time: shortest stretch [s].
        robot: name in config/robots or a model file; None: robot_description of the bag.
    """

    mount: str = "hand"
    topic: str = "target_pose"
    board: str | None = None
    hand: str = "hand"
    base: str = "base_link"
    child: str = "camera_link"
    still_speed: float = 0.05
    still_time: float = 0.5
    robot: str | None = None

    def __post_init__(self) -> None:
        if self.mount not in ("hand", "base"):
            raise UnusableInput(f"the camera's mount is '{self.mount}', expected hand or base")


@unusable_input(BagError)
def calibrate_camera(reader: BagReader, settings: CameraSettings = CameraSettings()) -> Calibration:
    """Pose of a camera on the hand or beside the robot, from a target that it saw from ten to twenty poses at rest.

    Files: static_transform.yaml with the pose in `hand` or `base`.

    Raises:
        UnusableInput: the bag cannot be used, or the target was seen too rarely.
    """
    topic, mount = settings.topic, settings.mount
    reader.require("joint_states", topic)
    model = robot_model(reader, settings.robot)
    poses = resting_poses(reader, model, settings.still_speed, settings.still_time)
    seen = read_sightings(reader, topic, settings.board, poses.rests)
    q, X_CT = [], []
    for rest in poses.rests:
        index = in_stretch(rest, seen.t, FEWEST_SIGHTINGS)
        if index is not None:
            q.append(poses.mean_q(rest, seen.t[index]))
            X_CT.append(mean_pose(seen.X_CT[index]))
    if len(q) < 3:
        why = f" ({len(seen.t)} of {seen.looked} images at rest show it; {seen.why})" if seen.why else ""
        raise UnusableInput(
            f"the target was seen in {len(q)} of {len(poses.rests)} stretches at rest, at least 3 are needed, "
            f"better 15: keep the target in view{why}"
        )
    X_BH = inverse(frame_poses(model, settings.base, np.array(q[:1]))[0]) @ frame_poses(
        model, settings.hand, np.array(q)
    )
    try:
        found = hand_eye(X_BH, np.array(X_CT), camera=mount)
    except ValueError as error:
        raise UnusableInput(f"{len(q)} poses: {error}") from None
    return _result(reader, settings, seen, X_BH, found, len(poses.rests))


def _result(
    reader: BagReader, settings: CameraSettings, seen: Sightings, X_BH: np.ndarray, found: HandEye, stretches: int
) -> Calibration:
    parent, child = settings.hand if settings.mount == "hand" else settings.base, settings.child
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
    rpy = ", ".join(f"{a:z.2f}" for a in np.rad2deg(values[3:]))
    report = start_page(
        "Camera on the hand" if settings.mount == "hand" else "Camera beside the robot",
        reader,
        result,
        estimates,
        {
            "position": f"{', '.join(f'{1e3 * x:z.1f}' for x in values[:3])} mm",
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

    def angles(turn: np.ndarray) -> np.ndarray:
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
