"""`refit calibrate WHAT BAG`: bags of simulated robots whose truth is known, and one line with exit code 2 for every bad bag."""

import json
import shutil
from functools import cache

import mujoco
import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from cli.main import main
from experiments.adaptive_mpc.identify_panda import RunWriter, record_fourier
from hardware.dynamixel.tables import MODELS
from identification.calibrate.resting import RestingPoses
from identification.calibrate.tool import missing_sides, orientations
from nodes.devices.dynamixel_config import DynamixelConfig
from nodes.devices.force_torque import ForceTorqueConfig
from recording import BagWriter
from recording.message_types import typestore
from sim_core.multibody import load_model
from sim_core.multibody.model.parameter_file import ParameterFile
from sim_core.perception.still_stretches import Rest, still_stretches
from sim_core.plant import MujocoPlant

ROBOT = "dxl_arm"
#: waist ... wrist_roll [rad]; the wrench sensor is tilted to many sides
POSES = np.array([
    [0.0, 0.0, 0.5, 0.0, -0.5, 0.0], [0.4, 0.2, 0.6, 0.0, 0.8, 0.5], [-0.5, -0.3, 0.2, 1.4, 1.2, 0.0], [0.2, 0.1, -0.6, 0.6, -1.5, 1.0],
    [-0.3, 0.3, 0.8, -1.5, 1.3, -1.2], [0.6, -0.2, -0.3, 0.0, -1.7, 2.0], [0.0, 0.4, 1.0, 2.0, -1.2, -2.0], [0.3, -0.5, -0.8, -0.8, 0.5, 1.5],
    [-0.6, 0.0, 0.9, 0.9, 0.9, 2.6], [0.1, 0.2, -0.9, 2.6, 1.5, -0.6], [0.5, -0.1, 0.3, -2.2, -0.9, 0.3], [-0.2, 0.1, -0.2, -0.3, 1.7, -2.7],
])  # fmt: skip
DT, T_REST, T_MOVE = 0.008, 0.9, 0.6  # [s]


# -- bags ---------------------------------------------------------------------------------------------


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


# -- tool ---------------------------------------------------------------------------------------------

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


@pytest.fixture(scope="module")
def tool_bag(tmp_path_factory):
    """Path, mass, centre."""
    path = tmp_path_factory.mktemp("tool") / "bag"
    return path, *write_tool_bag(path)


def test_tool(tool_bag, tmp_path, capsys):
    path, mass, com = tool_bag
    assert run(capsys, "tool", path, "--out", tmp_path / "out", "--json", tmp_path / "checks.json")[0] == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "report.html",
        "result.json",
        "run.json",
        "ft_sensor.yaml",
    }
    assert json.loads((tmp_path / "checks.json").read_text())["passed"]
    document, rows = found(tmp_path / "out")
    assert document["details"]["poses"] == len(POSES) and document["details"]["orientations"] >= 8
    assert rows["tool.mass"]["value"] == pytest.approx(mass, rel=0.01) and inside(rows["tool.mass"], mass)
    for k, axis in enumerate("xyz"):
        assert rows[f"tool.com.{axis}"]["value"] == pytest.approx(com[k], abs=0.002)
        assert rows[f"offset.force.{axis}"]["value"] == pytest.approx(OFFSET[k], abs=0.05)
        assert rows[f"offset.torque.{axis}"]["value"] == pytest.approx(OFFSET[3 + k], abs=0.002)
    node, values = parameters(tmp_path / "out", "ft_sensor.yaml")
    assert node == "/**/ft_sensor"
    config = ForceTorqueConfig(tool_mass=values.pop("tool.mass"), tool_com=tuple(values.pop("tool.com")))
    assert not values and config.tool_mass == pytest.approx(rows["tool.mass"]["value"], rel=1e-6)


def test_a_sensor_that_drifts_fails_the_check_and_writes_no_parameters(tmp_path, capsys):
    """0.1 N/s over 18 s: half a newton of standard deviation that no tool explains."""
    write_tool_bag(tmp_path / "bag", drift=0.1)
    assert run(capsys, "tool", tmp_path / "bag", "--out", tmp_path / "out")[0] == 1
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"report.html", "result.json", "run.json"}
    missed = [check for check in found(tmp_path / "out")[0]["checks"] if not check["passed"]]
    assert missed[0]["name"].startswith("force left unexplained") and missed[0]["value"] > 0.3


def test_the_sensors_frame_is_the_wrenches_own_unless_named(tmp_path, capsys):
    mass, com = write_tool_bag(tmp_path / "bag", frame="some_sensor")
    code, said = run(capsys, "tool", tmp_path / "bag", "--out", tmp_path / "out")
    assert code == 2 and "No frame 'some_sensor'" in said and "ft_sensor" in said
    assert run(capsys, "tool", tmp_path / "bag", "--frame", "ft_sensor", "--out", tmp_path / "out")[0] == 0
    assert found(tmp_path / "out")[1]["tool.com.z"]["value"] == pytest.approx(com[2], abs=0.002)


def test_orientations_that_are_missing_are_named():
    g = np.array([[0, 0, -9.81], [0, 0.5, -9.8], [0, 9.81, 0]])
    assert orientations(g) == 2 and missing_sides(g) == ["+x", "-x", "-y", "+z"]


# -- camera -------------------------------------------------------------------------------------------

X_HC, X_OPTICAL = pose([0.3, -0.2, 1.4], [0.05, -0.02, 0.04]), pose([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
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


@pytest.mark.parametrize(("mount", "truth", "parent"), [("hand", X_HC, "hand_site"), ("base", X_BC, "base_link")])
def test_camera(tmp_path, capsys, mount, truth, parent):
    write_camera_bag(tmp_path / "bag", mount)
    assert (
        run(capsys, "camera", tmp_path / "bag", "--mount", mount, "--hand", "hand_site", "--out", tmp_path / "out")[0]
        == 0
    )
    document, rows = found(tmp_path / "out")
    X = np.array(document["details"]["X_camera"])
    assert np.linalg.norm(X[:3, 3] - truth[:3, 3]) < 2e-3
    assert np.rad2deg(np.linalg.norm(Rotation.from_matrix(X[:3, :3] @ truth[:3, :3].T).as_rotvec())) < 0.3
    for name, value in zip("xyz", truth[:3, 3]):
        assert inside(rows[f"camera_color_optical_frame.{name}"], value)
    _, values = parameters(tmp_path / "out", "static_transform.yaml")
    assert values["frame_id"] == parent and values["child_frame_id"] == "camera_link"
    written = np.eye(4)
    written[:3, :3] = Rotation.from_quat([values[f"rotation.{axis}"] for axis in "xyzw"]).as_matrix()
    written[:3, 3] = [values[f"translation.{axis}"] for axis in "xyz"]
    np.testing.assert_allclose(written @ X_LINK_OPTICAL, X, atol=1e-5)


def test_camera_without_its_own_transforms_is_placed_by_its_optical_frame(tmp_path, capsys):
    write_camera_bag(tmp_path / "bag", static=False)
    assert (
        main(["calibrate", "camera", str(tmp_path / "bag"), "--hand", "hand_site", "--out", str(tmp_path / "out")]) == 0
    )
    assert "no way from `camera_color_optical_frame` to `camera_link`" in " ".join(capsys.readouterr().out.split())
    assert parameters(tmp_path / "out", "static_transform.yaml")[1]["child_frame_id"] == "camera_color_optical_frame"


COUNTS, SQUARE, FOCAL = (7, 4), 0.02, 610.0


def chessboard(X_CT):
    """640 x 480 pixels of a board with a white margin on grey, seen by a pinhole camera; two by two rays a pixel."""
    v, u = (np.mgrid[:960, :1280] - 0.5) / 2.0
    rays = np.stack([(u - 320.0) / FOCAL, (v - 240.0) / FOCAL, np.ones_like(u)], axis=-1)
    R, p = X_CT[:3, :3], X_CT[:3, 3]
    depth = (R[:, 2] @ p) / (rays @ R[:, 2])
    i, j = np.floor((rays * depth[..., None] - p) @ R[:, :2] / SQUARE).astype(int).transpose(2, 0, 1)
    board = (i >= -1) & (i < COUNTS[0]) & (j >= -1) & (j < COUNTS[1])
    margin = (i >= -2) & (i <= COUNTS[0]) & (j >= -2) & (j <= COUNTS[1])
    fine = np.where(board, np.where((i + j) % 2 == 0, 30.0, 220.0), np.where(margin, 220.0, 110.0))
    return np.rint(fine.reshape(480, 2, 640, 2).mean(axis=(1, 3))).astype(np.uint8)


def write_image_bag(path, distortion=0.0, stops=9):
    """A board on a stand before the hand; the last image shows half of it."""
    model = mujoco.MjModel.from_xml_string(arm().xml)
    data, rng = mujoco.MjData(model), np.random.default_rng(1)

    def camera_pose(q):
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        return site_pose(data, "hand_site") @ X_HC

    centre = np.eye(4)
    centre[:3, 3] = -0.5 * SQUARE * (COUNTS[0] - 1), -0.5 * SQUARE * (COUNTS[1] - 1), 0.4
    X_BT = camera_pose(arm().q_home) @ pose([0.3, 0.2, 0.1], [0.0, 0.0, 0.0]) @ centre
    middle, poses = X_BT @ [*-centre[:2, 3], 0.0, 1.0], []
    while len(poses) < stops:
        q = arm().q_home + rng.uniform(-1.0, 1.0, 6) * [0.4, 0.3, 0.3, 0.6, 0.6, 0.8]
        x, y, z, _ = np.linalg.inv(camera_pose(q)) @ middle
        if 0.3 < z < 0.5 and np.hypot(x, y) < 0.15 * z:
            poses.append(q)
    with Recording(path) as bag:
        zero = bag.new("sensor_msgs/msg/RegionOfInterest", x_offset=0, y_offset=0, height=0, width=0, do_rectify=False)
        K = np.array([FOCAL, 0, 320, 0, FOCAL, 240, 0, 0, 1.0])
        bag.put(
            "/camera/color/camera_info",
            0.0,
            "sensor_msgs/msg/CameraInfo",
            header=bag.header(0.0, "optical"),
            height=480,
            width=640,
            distortion_model="plumb_bob",
            d=np.full(5, distortion),
            k=K,
            r=np.eye(3).ravel(),
            p=np.zeros(12),
            binning_x=0,
            binning_y=0,
            roi=zero,
        )
        for k, (t, q, true_q, still) in enumerate(tour(np.array(poses))):
            bag.joints(t, q)
            if still and k % round((T_REST + T_MOVE) / DT) == 170:  # once a stop
                image = chessboard(np.linalg.inv(camera_pose(true_q)) @ X_BT)
                if t > 12.0:
                    image[:, 280:] = 110
                bag.put(
                    "/camera/color/image_raw",
                    t,
                    "sensor_msgs/msg/Image",
                    header=bag.header(t, "optical"),
                    height=480,
                    width=640,
                    encoding="mono8",
                    is_bigendian=0,
                    step=640,
                    data=image.ravel(),
                )


def test_camera_from_images_of_a_chessboard(tmp_path, capsys):
    write_image_bag(tmp_path / "bag")
    words = (
        "--topic",
        "camera/color/image_raw",
        "--board",
        "7x4x0.02",
        "--hand",
        "hand_site",
        "--out",
        tmp_path / "out",
    )
    assert run(capsys, "camera", tmp_path / "bag", *words)[0] == 0
    document, rows = found(tmp_path / "out")
    X = np.array(document["details"]["X_camera"])
    assert next(check["value"] for check in document["checks"] if check["name"] == "poses") == 8
    assert np.linalg.norm(X[:3, 3] - X_HC[:3, 3]) < 2e-3
    assert np.rad2deg(np.linalg.norm(Rotation.from_matrix(X[:3, :3] @ X_HC[:3, :3].T).as_rotvec())) < 0.3
    for words, expected in (
        ("", "say with --board"),
        ("--board 7x5x0.02", "one number of inner corners must be odd"),
        ("--board 7,4", "--board 7,4: expected"),
        ("--board 9x6x0.02", "0 of 9 images at rest show it"),
    ):
        code, said = run(capsys, "camera", tmp_path / "bag", "--topic", "camera/color/image_raw", *words.split())
        assert code == 2 and said.count("\n") == 1 and expected in said


def test_images_that_are_not_rectified_are_refused(tmp_path, capsys):
    write_image_bag(tmp_path / "bag", distortion=0.01, stops=1)
    code, said = run(capsys, "camera", tmp_path / "bag", "--topic", "camera/color/image_raw", "--board", "7x4x0.02")
    assert code == 2 and "record rectified images" in said


# -- servos -------------------------------------------------------------------------------------------

STRONGER, FRICTION, DELAY = ("shoulder", "wrist_pitch"), 0.15, 0.003
DRIVER = {
    f"joints.{joint}.{field}": value
    for joint in ("waist", "shoulder", "elbow", "forearm_roll", "wrist_pitch", "wrist_roll")
    for field, value in (("model", "XM430-W350"), ("torque_constant", 0.0))
} | {"joints.elbow.torque_constant": 1.9}


@pytest.fixture(scope="module")
def servo_bag(tmp_path_factory):
    """Two servos are stronger than their data sheet by 8 %, all gears rub half as much again as the model's, states come 3 ms late."""
    path = tmp_path_factory.mktemp("servos") / "bag"
    plant = MujocoPlant(
        ROBOT,
        seed=3,
        tick=0.004,
        position_noise=4.4e-4,
        velocity_noise=7e-3,
        sensor_delay=DELAY,
        parameters={f"{joint}.frictionloss": FRICTION for joint in arm().joint_names},
    )
    plant.apply([{"action": "actuator_gain", "joints": list(STRONGER), "factor": 1.08}])
    record_fourier(
        path, plant, 8.0, np.random.default_rng(0), {"/dynamixel": DRIVER, "/recorder": {"profile": "calibrate"}}
    )
    return path


def test_servos(servo_bag, tmp_path, capsys):
    assert run(capsys, "servos", servo_bag, "--starts", "2", "--out", tmp_path / "out")[0] == 0
    _, rows = found(tmp_path / "out")
    sheet = MODELS["XM430-W350"].motor.torque_constant
    assert inside(rows["sensor.delay"], DELAY)
    node, values = parameters(tmp_path / "out", "dynamixel.yaml")
    assert node == "/**/dynamixel" and len(values) == 6
    for joint in arm().joint_names:
        assumed = 1.9 if joint == "elbow" else sheet
        constant = rows[f"{joint}.torque_constant"]
        assert constant["assumed"] == pytest.approx(assumed) and constant["unit"] == "N m/A"
        assert inside(constant, assumed * (1.08 if joint in STRONGER else 1.0))
        assert (constant["upper"] - constant["lower"]) < 0.04 * constant["value"]
        assert inside(rows[f"{joint}.frictionloss"], FRICTION) and inside(rows[f"{joint}.damping"], 0.05)
        assert values[f"joints.{joint}.torque_constant"] == pytest.approx(constant["value"], rel=1e-6)
    physical = ParameterFile.load(tmp_path / "out" / "parameters.yaml")
    assert set(physical.parameters) == {
        f"{j}.{kind}" for j in arm().joint_names for kind in ("frictionloss", "damping")
    }
    assert MujocoPlant(ROBOT, params_file=str(tmp_path / "out" / "parameters.yaml")).world.model.dof_frictionloss[
        0
    ] == pytest.approx(rows["waist.frictionloss"]["value"])


def test_torque_constants_are_those_the_driver_knows():
    for name in ("torque_constant", "model"):
        assert name in DynamixelConfig.__dataclass_fields__["joints"].metadata["group"].__dataclass_fields__


def test_a_bag_without_the_drivers_parameters_is_refused_before_the_fit(tmp_path, capsys):
    plant = MujocoPlant(ROBOT, tick=0.004)
    with BagWriter(tmp_path / "bag") as bag:
        writer = RunWriter(bag, plant, arm(), {"/dynamixel": {k: v for k, v in DRIVER.items() if "elbow" not in k}})
        for _ in range(200):
            plant.step(np.zeros(6))
            writer.state(plant)
    code, said = run(capsys, "servos", tmp_path / "bag")
    assert code == 2 and said.count("\n") == 1 and "of a servo driver for elbow:" in said


# -- scanner ------------------------------------------------------------------------------------------

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


def test_scanner(tmp_path, capsys):
    X = write_scan_bag(tmp_path / "bag")
    words = ("--room", "2.76x2.76", "--center", "0.4,0", "--out", tmp_path / "out")
    assert run(capsys, "scanner", tmp_path / "bag", *words)[0] == 0
    document, rows = found(tmp_path / "out")
    yaw = np.arctan2(X[1, 0], X[0, 0])
    assert yaw == pytest.approx(0.06)
    for name, truth, assumed in (("x", X[0, 3], 0.12), ("y", X[1, 3], 0.0), ("yaw", yaw, 0.0)):
        assert inside(rows[f"laser.{name}"], truth) and rows[f"laser.{name}"]["assumed"] == pytest.approx(assumed)
        assert rows[f"laser.{name}"]["upper"] - rows[f"laser.{name}"]["lower"] < 0.003
    assert document["details"]["height"] == pytest.approx(0.07)
    node, values = parameters(tmp_path / "out", "static_transform.yaml")
    assert node == "/**" and (values["frame_id"], values["child_frame_id"]) == ("base_link", "laser")
    assert values["translation.x"] == pytest.approx(X[0, 3], abs=1e-3) and values["translation.z"] == pytest.approx(
        0.07
    )
    assert 2 * np.arctan2(values["rotation.z"], values["rotation.w"]) == pytest.approx(yaw, abs=2e-3)


def test_scanner_with_walls_from_a_file_and_a_guess(tmp_path, capsys):
    X = write_scan_bag(tmp_path / "bag", scans=3)
    (tmp_path / "walls.yaml").write_text(
        "- {from: [1.78, -1.4], to: [1.78, 1.4]}\n- {from: [-1.0, 1.38], to: [1.8, 1.38]}\n"
        "- {from: [-1.0, -1.38], to: [1.8, -1.38]}\n"
    )
    words = ("--walls", tmp_path / "walls.yaml", "--guess", "0.2,0,0", "--out", tmp_path / "out")
    assert run(capsys, "scanner", tmp_path / "bag", *words)[0] == 0
    _, rows = found(tmp_path / "out")
    assert rows["laser.x"]["value"] == pytest.approx(X[0, 3], abs=3e-3) and rows["laser.y"]["value"] == pytest.approx(
        X[1, 3], abs=3e-3
    )


def test_a_room_of_another_size_is_noticed(tmp_path, capsys):
    write_scan_bag(tmp_path / "bag", scans=3)
    words = ("--room", "2.9x2.6", "--center", "0.4,0", "--out", tmp_path / "out")
    assert run(capsys, "scanner", tmp_path / "bag", *words)[0] == 1
    assert not (tmp_path / "out" / "static_transform.yaml").exists() and (tmp_path / "out" / "report.html").exists()
    missed = [check["name"] for check in found(tmp_path / "out")[0]["checks"] if not check["passed"]]
    assert "ranges off the walls, in units of accuracy" in missed


def test_one_wall_leaves_the_way_along_it_open(tmp_path, capsys):
    write_scan_bag(tmp_path / "bag", scans=3)
    (tmp_path / "walls.yaml").write_text("- {from: [1.78, -1.4], to: [1.78, 1.4]}\n")
    assert (
        run(capsys, "scanner", tmp_path / "bag", "--walls", tmp_path / "walls.yaml", "--out", tmp_path / "out")[0] == 1
    )
    assert "y" in found(tmp_path / "out")[0]["details"]["not_determined"]


# -- bags that cannot be used ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def poor(tmp_path_factory):
    """Bags that lack something."""
    folder = tmp_path_factory.mktemp("poor")
    write_tool_bag(folder / "few", POSES[:4])
    write_camera_bag(folder / "two", poses=POSES[:2])
    about_one_axis = np.tile(POSES[0], (6, 1))
    about_one_axis[:, 5] = np.linspace(-1.0, 1.0, 6)
    write_camera_bag(folder / "axis", poses=about_one_axis)
    with Recording(folder / "restless") as bag:
        for k in range(500):
            bag.joints(0.004 * k, 0.3 * np.sin(0.02 * k + np.arange(6)))
            bag.wrench(0.004 * k, OFFSET)
    with Recording(folder / "nameless", description=False) as bag:
        bag.scan(0.0, ANGLES, np.ones_like(ANGLES))
    (folder / "walls.yaml").write_text("- {from: [1.0], to: [1.0, 2.0]}\n")
    (folder / "there").mkdir()
    return folder


@pytest.mark.parametrize(("words", "expected"), [
    ("tool none", "No bag at"),
    ("tool two", "lacks ft_sensor/wrench_raw"),
    ("tool few --topic joint_states", "expected geometry_msgs/msg/WrenchStamped"),
    ("tool few", "4 poses at rest in 4 different orientations, at least 6 are needed"),
    ("tool restless", "never stands still for 0.5 s in the 2.0 s"),
    ("tool few --frame nose", "No frame 'nose'"),
    ("tool few --robot nobody", "--robot: "),
    ("tool few --max-std 0.001", "vary by less than 0.001 N"),
    ("camera few", "lacks target_pose"),
    ("camera two", "seen in 2 of 2 stretches at rest, at least 3"),
    ("camera axis", "about one axis only"),
    ("camera few --topic joint_states", "expected geometry_msgs/msg/PoseStamped"),
    ("servos few", "lacks run_info"),
    ("scanner few --room 3x3", "lacks scan"),
    ("scanner nameless", "either --room LENGTHxWIDTH or --walls FILE"),
    ("scanner nameless --room 3", "--room 3: expected 2 numbers"),
    ("scanner nameless --room 3x3", "give --guess"),
    ("scanner nameless --walls {}/walls.yaml", "expected a list of {from: [x, y], to: [x, y]}"),
    ("scanner nameless --walls {}/none.yaml", "cannot be read"),
    ("scanner nameless --room 3x3 --guess a,b,c", "--guess a,b,c: expected 3 numbers"),
    ("scanner few --room 3x3 --topic joint_states", "expected sensor_msgs/msg/LaserScan"),
    ("tool few --out {}/there", "exists already"),
    ("tool few --json {}/none/checks.json", "is no file in an existing folder"),
    ("camera two --mount nose", "--mount"),
    ("kettle few", "kettle"),
])  # fmt: skip
def test_one_line_and_exit_code_2(poor, capsys, monkeypatch, words, expected):
    monkeypatch.setenv("REFIT_RUNS", str(poor / "runs"))
    what, name, *options = words.format(poor).split()
    code, said = run(capsys, what, poor / name, *options)
    assert code == 2 and said.count("\n") == 1, said
    assert expected in said
    assert not (poor / "runs").exists()


def test_a_cut_off_bag_is_used_only_when_asked(tool_bag, tmp_path, capsys):
    shutil.copytree(tool_bag[0], tmp_path / "bag")
    file = next((tmp_path / "bag").glob("*.mcap"))
    file.write_bytes(file.read_bytes()[:-300])
    code, said = run(capsys, "tool", tmp_path / "bag", "--out", tmp_path / "out")
    assert code == 2 and "--allow-truncated" in said
    assert run(capsys, "tool", tmp_path / "bag", "--allow-truncated", "--out", tmp_path / "out")[0] == 0


# -- stretches at rest -----------------------------------------------------------------------------------


def test_stretches_at_rest():
    rows = tour(POSES[:4])
    t, q = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    found = still_stretches(t, q)
    assert len(found) == 4
    for rest, goal in zip(found, POSES):
        np.testing.assert_allclose(q[rest.covers(t)].mean(axis=0), goal, atol=2e-3)
        # begins and ends away from motion: every sample belongs to the pose itself
        moving = np.array([not r[3] for r in rows])
        assert not (rest.covers(t) & moving & (np.abs(q - goal).max(axis=1) > 0.01)).any()
    assert still_stretches(t, q, duration=2.0) == []


def test_creeping_joints_are_taken_where_they_were_when_something_was_measured():
    t = np.arange(0.0, 2.0, 0.01)
    poses = RestingPoses([Rest(0.5, 1.5)], t, np.stack([0.04 * t, np.full_like(t, 0.3)], axis=1))
    np.testing.assert_allclose(
        poses.mean_q(poses.rests[0], np.array([0.7, 0.9])), [0.04 * 0.8, 0.3], atol=3e-4
    )  # half a sample
    np.testing.assert_allclose(poses.mean_q(poses.rests[0], np.array([1.5])), [0.04 * 1.45, 0.3], atol=3e-4)


def test_slow_motion_and_gaps_are_no_rest():
    t = np.arange(0.0, 4.0, 0.004)
    assert still_stretches(t, 0.04 * t[:, None]) == []
    q = np.zeros((len(t), 1))
    q[t > 2.0] = 1.0  # while nobody looked
    looked = (t < 1.9) | (t > 2.1)
    assert [round(r.end - r.begin, 2) for r in still_stretches(t[looked], q[looked])] == [1.9, 1.89]
    with pytest.raises(ValueError, match="time jumps back at sample 3"):
        still_stretches(np.array([0.0, 1.0, 2.0, 0.5]), np.zeros((4, 1)))
    with pytest.raises(ValueError, match="not finite at 0.004"):
        still_stretches(t, np.where(np.arange(len(t)) == 1, np.nan, 0.0)[:, None])
