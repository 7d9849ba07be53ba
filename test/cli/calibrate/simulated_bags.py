"""Bags of a simulated dxl_arm whose truth is known, as the recorder writes them, and what `refit calibrate` made of them."""

import json
from functools import cache

import mujoco
import numpy as np
import yaml
from scipy.spatial.transform import Rotation

from cli.main import main
from recording import BagWriter
from recording.message_types import typestore
from sim_core.multibody import load_model

ROBOT = "dxl_arm"
#: waist ... wrist_roll [rad]; the wrench sensor is tilted to many sides
POSES = np.array([
    [0.0, 0.0, 0.5, 0.0, -0.5, 0.0], [0.4, 0.2, 0.6, 0.0, 0.8, 0.5], [-0.5, -0.3, 0.2, 1.4, 1.2, 0.0], [0.2, 0.1, -0.6, 0.6, -1.5, 1.0],
    [-0.3, 0.3, 0.8, -1.5, 1.3, -1.2], [0.6, -0.2, -0.3, 0.0, -1.7, 2.0], [0.0, 0.4, 1.0, 2.0, -1.2, -2.0], [0.3, -0.5, -0.8, -0.8, 0.5, 1.5],
    [-0.6, 0.0, 0.9, 0.9, 0.9, 2.6], [0.1, 0.2, -0.9, 2.6, 1.5, -0.6], [0.5, -0.1, 0.3, -2.2, -0.9, 0.3], [-0.2, 0.1, -0.2, -0.3, 1.7, -2.7],
])  # fmt: skip
DT, T_REST, T_MOVE = 0.008, 0.9, 0.6  # [s]


def tour(poses=POSES, position_noise=4.4e-4, velocity_noise=7e-3, seed=0):
    """(t, q as measured, q true, at rest) every DT of a robot that visits poses along cosines; no dynamics are needed at rest."""
    rng, t, rows = np.random.default_rng(seed), 0.0, []
    for k, goal in enumerate(poses):
        start = poses[k - 1] if k else goal
        for s in np.arange(0.0, T_MOVE + T_REST, DT):
            q = start + (goal - start) * 0.5 * (1.0 - np.cos(np.pi * min(s / T_MOVE, 1.0)))
            rows.append((t, q + position_noise * rng.standard_normal(6), q, k == 0 or s >= T_MOVE))
            t += DT
    return rows


class Recording:
    """A bag of dxl_arm as the recorder writes it, by sentences such as bag.joints(t, q)."""

    def __init__(self, path, description=True):
        self.bag = BagWriter(path)
        self.types = typestore(
            "sensor_msgs/msg/JointState",
            "geometry_msgs/msg/WrenchStamped",
            "geometry_msgs/msg/PoseStamped",
            "sensor_msgs/msg/LaserScan",
            "tf2_msgs/msg/TFMessage",
            "sensor_msgs/msg/Image",
            "sensor_msgs/msg/CameraInfo",
        ).types
        if description:
            self.put("/robot_description", 0.0, "std_msgs/msg/String", data=arm().xml)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.bag.close()

    def new(self, kind, **fields):
        return self.types[kind](**fields)

    def header(self, t, frame):
        stamp = round(t * 1e9)
        time = self.new("builtin_interfaces/msg/Time", sec=stamp // 10**9, nanosec=stamp % 10**9)
        return self.new("std_msgs/msg/Header", stamp=time, frame_id=frame)

    def put(self, topic, t, kind, **fields):
        self.bag.add_topic(topic, kind)
        self.bag.write_message(topic, round(t * 1e9), self.new(kind, **fields))

    def joints(self, t, q):
        self.put(
            "/joint_states",
            t,
            "sensor_msgs/msg/JointState",
            header=self.header(t, ""),
            name=list(arm().joint_names),
            position=q,
            velocity=np.zeros(6),
            effort=np.zeros(6),
        )

    def vector(self, v):
        return self.new("geometry_msgs/msg/Vector3", x=float(v[0]), y=float(v[1]), z=float(v[2]))

    def quaternion(self, R):
        return self.new(
            "geometry_msgs/msg/Quaternion", **dict(zip("xyzw", map(float, Rotation.from_matrix(R).as_quat())))
        )

    def wrench(self, t, w, frame="ft_sensor_link"):
        self.put(
            "/ft_sensor/wrench_raw",
            t,
            "geometry_msgs/msg/WrenchStamped",
            header=self.header(t, frame),
            wrench=self.new("geometry_msgs/msg/Wrench", force=self.vector(w[:3]), torque=self.vector(w[3:])),
        )

    def target(self, t, X, frame="camera_color_optical_frame"):
        pose = self.new(
            "geometry_msgs/msg/Pose",
            position=self.new("geometry_msgs/msg/Point", **dict(zip("xyz", map(float, X[:3, 3])))),
            orientation=self.quaternion(X[:3, :3]),
        )
        self.put("/target_pose", t, "geometry_msgs/msg/PoseStamped", header=self.header(t, frame), pose=pose)

    def static(self, parent, child, X):
        transform = self.new(
            "geometry_msgs/msg/Transform", translation=self.vector(X[:3, 3]), rotation=self.quaternion(X[:3, :3])
        )
        stamped = self.new(
            "geometry_msgs/msg/TransformStamped",
            header=self.header(0.0, parent),
            child_frame_id=child,
            transform=transform,
        )
        self.put("/tf_static", 0.0, "tf2_msgs/msg/TFMessage", transforms=[stamped])

    def scan(self, t, angles, ranges):
        self.put(
            "/scan",
            t,
            "sensor_msgs/msg/LaserScan",
            header=self.header(t, "laser"),
            angle_min=angles[0],
            angle_max=angles[-1],
            angle_increment=angles[1] - angles[0],
            time_increment=0.0,
            scan_time=0.1,
            range_min=0.02,
            range_max=5.6,
            ranges=np.asarray(ranges, np.float32),
            intensities=np.zeros(0, np.float32),
        )


@cache
def arm():
    return load_model(ROBOT)


def pose(rotation_vector, position):
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = Rotation.from_rotvec(rotation_vector).as_matrix(), position
    return X


def site_pose(data, name):
    X = np.eye(4)
    X[:3, :3], X[:3, 3] = data.site(name).xmat.reshape(3, 3), data.site(name).xpos
    return X


def run(capsys, *words):
    """Exit code and what was said on stderr."""
    code = main(["calibrate", *map(str, words)])
    return code, capsys.readouterr().err


def found(folder):
    document = json.loads((folder / "result.json").read_text())
    return document, {row["name"]: row for row in document["details"]["estimates"]}


def parameters(folder, name):
    """Node key and parameters of a written ROS parameter file."""
    ((node, content),) = yaml.safe_load((folder / name).read_text()).items()
    return node, content["ros__parameters"]


def inside(estimate, truth):
    return estimate["lower"] <= truth <= estimate["upper"]


# -- bags of a tool, a camera and a scanner --

OFFSET = np.array([3.0, -7.0, 12.0, 0.2, -0.1, 0.05])


def payload_arm():
    """Physics of the arm with 0.25 kg beside its fingers; tool mass and centre behind the sensor."""
    spec = mujoco.MjSpec.from_string(arm().xml)
    spec.body("hand").add_geom(
        type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.02, 0, 0], pos=[0.015, -0.01, 0.07], mass=0.25
    )
    site = spec.site("ft_sensor")
    for kind, name in ((mujoco.mjtSensor.mjSENS_FORCE, "force"), (mujoco.mjtSensor.mjSENS_TORQUE, "torque")):
        spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=site.name)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    body = model.body("ft_sensor_link").id  # MuJoCo's sensor weighs its own body too
    X = site_pose(data, "ft_sensor")
    return model, data, float(model.body_subtreemass[body]), X[:3, :3].T @ (data.subtree_com[body] - X[:3, 3])


def write_tool_bag(path, poses=POSES, frame="ft_sensor_link", drift=0.0):
    """Returns mass and centre. Wrenches in motion are wild: they must count for nothing."""
    model, data, mass, com = payload_arm()
    rng = np.random.default_rng(5)
    with Recording(path) as bag:
        for t, q, true_q, still in tour(poses):
            bag.joints(t, q)
            data.qpos[:], data.qvel[:], data.qacc[:] = true_q, 0.0, 0.0
            mujoco.mj_inverse(model, data)
            w = OFFSET - np.concatenate([data.sensor("force").data, data.sensor("torque").data])
            w += np.repeat([0.05, 0.001], 3) * rng.standard_normal(6) if still else rng.uniform(-5, 5, 6)
            bag.wrench(t + 0.001, w + drift * t * np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]), frame)
    return mass, com


X_HC = pose([0.3, -0.2, 1.4], [0.05, -0.02, 0.04])
X_LINK_OPTICAL = np.eye(4)
X_LINK_OPTICAL[:3] = [[0, 0, 1, 0.0], [-1, 0, 0, 0.015], [0, -1, 0, 0.0]]
X_BT, X_BC, X_HT = (
    pose([3.0, 0.1, 0.3], [0.5, 0.1, 0.02]),
    pose([1.8, -1.0, 0.7], [-0.1, 0.3, 0.6]),
    pose([0.2, 0.1, 0.0], [0.0, 0.03, 0.1]),
)


def write_camera_bag(path, mount="hand", poses=POSES, static=True):
    """Target poses with 1 mm and 0.2 degrees of noise at 25 Hz; in motion they are wrong."""
    model = mujoco.MjModel.from_xml_string(arm().xml)
    data, rng = mujoco.MjData(model), np.random.default_rng(3)
    with Recording(path) as bag:
        if static:
            bag.static("camera_link", "camera_color_optical_frame", X_LINK_OPTICAL)
        for k, (t, q, true_q, still) in enumerate(tour(poses)):
            bag.joints(t, q)
            if k % 5:
                continue
            data.qpos[:] = true_q
            mujoco.mj_kinematics(model, data)
            X_BH = site_pose(data, "hand_site")
            X = np.linalg.inv(X_BH @ X_HC) @ X_BT if mount == "hand" else np.linalg.inv(X_BC) @ X_BH @ X_HT
            noise = pose(
                rng.normal(0, np.deg2rad(0.2), 3), rng.normal(0, 1e-3, 3) if still else rng.uniform(-0.1, 0.1, 3)
            )
            bag.target(
                t,
                np.block(
                    [
                        [noise[:3, :3] @ X[:3, :3], (X[:3, 3] + noise[:3, 3])[:, None]],
                        [np.zeros((1, 3)), np.ones((1, 1))],
                    ]
                ),
            )


ANGLES = np.deg2rad(np.linspace(-119.9, 119.9, 682))


def write_scan_bag(path, shift=(0.03, -0.02), turn=0.06, scans=12):
    """The arm's room with crate and pillar, cast by MuJoCo from a scanner that is not where the model has it."""
    spec = mujoco.MjSpec.from_string(arm().xml)
    laser = spec.body("laser")
    laser.pos = laser.pos + [*shift, 0.0]
    laser.quat = [np.cos(turn / 2), 0.0, 0.0, np.sin(turn / 2)]
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    X, rng = site_pose(data, "urg"), np.random.default_rng(8)
    rays = np.stack([np.cos(ANGLES), np.sin(ANGLES), np.zeros_like(ANGLES)], axis=1) @ X[:3, :3].T
    seen, geom = np.array([1, 1, 0, 0, 0, 0], np.uint8), np.zeros(1, np.int32)
    true = np.array([mujoco.mj_ray(model, data, X[:3, 3], ray, seen, 1, -1, geom) for ray in rays])
    with Recording(path) as bag:
        for k in range(scans):
            ranges = true + np.maximum(0.01, 0.01 * true) / 3.0 * rng.standard_normal(true.shape)
            ranges[rng.random(len(ranges)) < 0.02] = np.inf  # error codes
            bag.scan(0.1 * k, ANGLES, ranges)
    return X
