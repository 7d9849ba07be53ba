"""`refit calibrate camera`: from poses of a target, and from images of a chessboard."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from simulated_bags import (
    DT,
    T_MOVE,
    T_REST,
    X_BC,
    X_HC,
    X_LINK_OPTICAL,
    Recording,
    arm,
    found,
    inside,
    parameters,
    pose,
    run,
    site_pose,
    tour,
    write_camera_bag,
)

from cli.main import main


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
