"""Records of a RealSense camera as ROS messages. Bulk data go as buffers (`nodes.framework.images`): no Python list on the way."""

from __future__ import annotations

import json
import math

import numpy as np
from geometry_msgs.msg import Quaternion, TransformStamped, Vector3
from sensor_msgs.msg import CameraInfo, Image, Imu, PointCloud2, PointField

from hardware.realsense import records
from nodes.framework.images import buffer, camera_info_message, image_message

__all__ = ["camera_info", "extrinsics", "image", "imu", "imu_info", "metadata_json", "point_cloud", "static_transforms"]

_ENCODINGS = {"z16": "16UC1", "y8": "mono8", "y16": "mono16", "rgb8": "rgb8", "bgr8": "bgr8"}
_DISTORTIONS = {"kannala_brandt4": "equidistant"}
_FIELDS = [
    PointField(name=name, offset=offset, datatype=PointField.FLOAT32, count=1)
    for name, offset in (("x", 0), ("y", 4), ("z", 8), ("rgb", 16))
]
#: optical frame (x right, y down, z forward) in its body frame (x forward, y left, z up)
R_BODY_OPTICAL = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])


def image(record: records.Image, stamp, frame_id: str) -> Image:
    """An image; depth in millimetres (16UC1) whatever the camera's units."""
    pixels = record.pixels
    if record.depth_units and not math.isclose(record.depth_units, 0.001, rel_tol=1e-6):
        pixels = np.rint(pixels * np.float32(1e3 * record.depth_units)).astype(np.uint16)
    return image_message(pixels, _ENCODINGS.get(record.format, record.format), stamp, frame_id)


def camera_info(lens: records.Lens, stamp, frame_id: str, baseline: float = 0.0) -> CameraInfo:
    """Intrinsics; `baseline` [m] of the right imager of a stereo pair shifts its projection."""
    distortion = _DISTORTIONS.get(lens.distortion, "plumb_bob")
    return camera_info_message(
        lens.K, lens.width, lens.height, stamp, frame_id, distortion, lens.coefficients, baseline
    )


def point_cloud(cloud: records.Cloud, stamp, frame_id: str) -> PointCloud2:
    """A cloud: x, y, z, and rgb where it has colour, 20 bytes a point."""
    message = PointCloud2(
        height=cloud.height,
        width=cloud.width,
        is_bigendian=False,
        point_step=20,
        row_step=20 * cloud.width,
        is_dense=cloud.dense,
        fields=_FIELDS if cloud.textured else _FIELDS[:3],
    )
    message.header.stamp, message.header.frame_id = stamp, frame_id
    message.data = buffer(cloud.points)
    return message


def imu(motion: records.Motion, stamp, frame_id: str, angular_variance: float, linear_variance: float) -> Imu:
    """A motion sample; what it did not measure has covariance -1, orientation always."""
    message = Imu()
    message.header.stamp, message.header.frame_id = stamp, frame_id
    message.orientation_covariance[0] = -1.0
    for measured, vector, covariance, variance in (
        (motion.angular, message.angular_velocity, message.angular_velocity_covariance, angular_variance),
        (motion.linear, message.linear_acceleration, message.linear_acceleration_covariance, linear_variance),
    ):
        if measured is None:
            covariance[0] = -1.0
        else:
            vector.x, vector.y, vector.z = map(float, measured)
            covariance[0] = covariance[4] = covariance[8] = variance
    return message


def metadata_json(record) -> str:
    """What a frame tells about itself, as the reference driver names it."""
    if isinstance(record, records.Motion):
        return json.dumps({"frame_number": record.number})
    return json.dumps(
        {
            "frame_number": record.number,
            "clock_domain": record.domain,
            "frame_timestamp": 1e3 * record.device_time,
            **record.metadata,
        }
    )


def extrinsics(kind, X_DS: np.ndarray):
    """realsense2_camera_msgs/Extrinsics from the depth imager to a stream: points of D in S; column-major as the SDK's."""
    R_SD = X_DS[:3, :3].T
    return kind(rotation=R_SD.T.ravel(), translation=-R_SD @ X_DS[:3, 3])


def imu_info(kind, data: np.ndarray, noise: np.ndarray, bias: np.ndarray, frame_id: str):
    """realsense2_camera_msgs/IMUInfo."""
    message = kind(data=data.ravel(), noise_variances=noise, bias_variances=bias)
    message.header.frame_id = frame_id
    return message


def static_transforms(layout: records.Layout, camera: str, base: str, united: bool, stamp) -> list[TransformStamped]:
    """base -> camera_<stream>_frame -> camera_<stream>_optical_frame of every stream, and the inertial frames."""
    transforms = []

    def add(parent: str, child: str, R: np.ndarray, p=(0.0, 0.0, 0.0)) -> None:
        transform = TransformStamped(child_frame_id=child)
        transform.header.stamp, transform.header.frame_id = stamp, parent
        transform.transform.translation = Vector3(x=float(p[0]), y=float(p[1]), z=float(p[2]))
        transform.transform.rotation = _quaternion(R)
        transforms.append(transform)

    B = R_BODY_OPTICAL
    for name, X_DS in layout.poses.items():
        add(base, f"{camera}_{name}_frame", B @ X_DS[:3, :3] @ B.T, B @ X_DS[:3, 3])
        add(f"{camera}_{name}_frame", f"{camera}_{name}_optical_frame", B)
    if united and "gyro" in layout.poses:
        add(f"{camera}_gyro_frame", f"{camera}_imu_frame", np.eye(3))
        add(f"{camera}_imu_frame", f"{camera}_imu_optical_frame", B)
    return transforms


def _quaternion(R: np.ndarray) -> Quaternion:
    """Of a rotation matrix (3, 3), w >= 0."""
    from scipy.spatial.transform import (
        Rotation,
    )  # loaded when the camera has answered: its import takes a driver's start

    q = Rotation.from_matrix(R).as_quat(canonical=True)
    return Quaternion(**dict(zip("xyzw", map(float, q), strict=True)))
