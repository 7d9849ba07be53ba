"""What a camera saw of a calibration target: poses from a bag, given as such or found in images of a chessboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from identification.errors import UnusableInput
from recording import BagReader
from sim_core.perception.chessboard import board_pose, find_corners
from sim_core.perception.still_stretches import Rest

__all__ = ["Sightings", "mean_pose", "read_sightings", "inverse"]

IMAGES_PER_REST = 3  # a second at rest holds thirty that say the same
CHANNELS = {"mono8": 1, "8UC1": 1, "rgb8": 3, "bgr8": 3, "8UC3": 3}


#: child -> (parent, pose of the child in the parent (4, 4))
StaticTransforms = dict[str, tuple[str, np.ndarray]]


@dataclass(frozen=True)
class Sightings:
    """Poses of the target.

    Attributes:
        t: stamps, (n,) [s]. X_CT: poses in the camera's optical frame, (n, 4, 4).
        frame: that frame. static: child -> (parent, pose in the parent (4, 4)), of /tf_static.
        looked: how many images were searched for it, 0 if poses were given; why: the last one does not show it.
    """

    t: np.ndarray
    X_CT: np.ndarray
    frame: str
    static: StaticTransforms
    looked: int = 0
    why: str = ""

    def in_optical(self, frame: str) -> np.ndarray | None:
        """Pose of an ancestor of the optical frame in the optical frame, (4, 4); None if no static transforms lead there."""
        at, X = self.frame, np.eye(4)
        for _ in range(len(self.static) + 1):
            if at == frame:
                return inverse(X)
            if at not in self.static:
                return None
            parent, X_PC = self.static[at]
            at, X = parent, X_PC @ X
        return None


def read_sightings(reader: BagReader, topic: str, board: str | None, rests: list[Rest]) -> Sightings:
    """Poses of the target on `topic`; of images only those taken in `rests`.

    Raises:
        UnusableInput: another type than PoseStamped or Image, images without --board, images that cannot be read.
    """
    kind = reader.topics[reader.resolve(topic)].message_type
    static = _static_transforms(reader)
    if kind == "geometry_msgs/msg/PoseStamped":
        return _poses(reader, topic, static)
    if kind != "sensor_msgs/msg/Image":
        raise UnusableInput(
            f"'{topic}' holds {kind}, expected geometry_msgs/msg/PoseStamped or sensor_msgs/msg/Image; name another "
            "--topic"
        )
    if board is None:
        raise UnusableInput(
            f"'{topic}' holds images: say with --board what chessboard is in them, such as --board 7x6x0.03"
        )
    return _boards(reader, topic, *_board(board), rests, static)


def _poses(reader: BagReader, topic: str, static: StaticTransforms) -> Sightings:
    times, poses, frame = [], [], ""
    for _, message in reader.messages(topic):
        p, q = message.pose.position, message.pose.orientation
        values = np.array([p.x, p.y, p.z, q.x, q.y, q.z, q.w])
        if not np.isfinite(values).all() or np.linalg.norm(values[3:]) < 0.5:
            raise UnusableInput(
                f"'{topic}' has a pose that is none ({', '.join(f'{v:g}' for v in values)}): leave out frames without "
                "a target"
            )
        times.append(_seconds(message))
        poses.append(_pose(values[:3], values[3:]))
        frame = message.header.frame_id
    return Sightings(np.array(times), np.array(poses), frame, static)


def _board(text: str) -> tuple[tuple[int, int], float]:
    """Inner corners per row and column, and the edge of a square [m]."""
    try:
        columns, rows, square = text.lower().split("x")
        counts, edge = (int(columns), int(rows)), float(square)
    except ValueError:
        raise UnusableInput(
            f"--board {text}: expected inner corners per row x per column x edge of a square in metres, such as "
            "7x6x0.03"
        ) from None
    if (sum(counts) % 2 == 0) or min(counts) < 2 or edge <= 0.0:
        raise UnusableInput(
            f"--board {text}: one number of inner corners must be odd and the other even, at least 2, or half a "
            "turn looks the same; the edge is positive"
        )
    return counts, edge


def _boards(
    reader: BagReader,
    topic: str,
    counts: tuple[int, int],
    square: float,
    rests: list[Rest],
    static: StaticTransforms,
) -> Sightings:
    info_topic = reader.resolve(topic).rsplit("/", 1)[0] + "/camera_info"
    reader.require(info_topic)
    _, info = next(reader.messages(info_topic))
    K = np.asarray(info.k, float).reshape(3, 3)
    if np.any(np.abs(np.asarray(info.d, float)) > 1e-9):
        raise UnusableInput(
            f"'{info_topic}' has distortion coefficients {np.round(info.d, 4).tolist()}: record rectified images"
        )
    taken = dict.fromkeys(range(len(rests)), 0)
    times, poses, frame, looked, why = [], [], "", 0, ""
    for _, message in reader.messages(topic):
        stamp = _seconds(message)
        k = next(
            (i for i, rest in enumerate(rests) if rest.begin <= stamp <= rest.end and taken[i] < IMAGES_PER_REST), None
        )
        if k is None:
            continue
        taken[k], looked, frame = taken[k] + 1, looked + 1, message.header.frame_id
        try:
            corners = find_corners(_image(message, topic), counts)
        except ValueError as error:
            why = str(error)
            continue
        times.append(stamp)
        poses.append(board_pose(corners, counts, square, K).X_CT)
    return Sightings(np.array(times), np.array(poses).reshape(-1, 4, 4), frame, static, looked, why)


def _image(message: Any, topic: str) -> np.ndarray:
    """Pixels (h, w) or (h, w, 3)."""
    channels = CHANNELS.get(message.encoding)
    if channels is None:
        raise UnusableInput(f"'{topic}' is encoded as {message.encoding}, expected one of {', '.join(CHANNELS)}")
    rows = np.asarray(message.data, np.uint8).reshape(message.height, message.step)[:, : message.width * channels]
    return rows.reshape(message.height, message.width, channels).squeeze()


def _static_transforms(reader: BagReader) -> StaticTransforms:
    if not reader.has("tf_static"):
        return {}
    found = {}
    for _, message in reader.messages("tf_static"):
        for transform in message.transforms:
            p, q = transform.transform.translation, transform.transform.rotation
            found[transform.child_frame_id] = transform.header.frame_id, _pose((p.x, p.y, p.z), (q.x, q.y, q.z, q.w))
    return found


def _pose(position: Sequence[float] | np.ndarray, quaternion: Sequence[float] | np.ndarray) -> np.ndarray:
    """Pose (4, 4) of a position and a quaternion x, y, z, w."""
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = Rotation.from_quat(quaternion).as_matrix(), position
    return X


def _seconds(message: Any) -> float:
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def mean_pose(X: np.ndarray) -> np.ndarray:
    """Of poses (n, 4, 4) that differ little, (4, 4)."""
    mean = np.eye(4)
    mean[:3, :3], mean[:3, 3] = Rotation.from_matrix(X[:, :3, :3]).mean().as_matrix(), X[:, :3, 3].mean(axis=0)
    return mean


def inverse(X: np.ndarray) -> np.ndarray:
    """Inverse of a pose (4, 4)."""
    X_inverse = np.eye(4)
    X_inverse[:3, :3], X_inverse[:3, 3] = X[:3, :3].T, -X[:3, :3].T @ X[:3, 3]
    return X_inverse
