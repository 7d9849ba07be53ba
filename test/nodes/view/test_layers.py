"""What each layer draws of which messages, asked of the page itself and held against independent sums."""

import ast
import json
import re
import sys
import time
from pathlib import Path

import mujoco
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from page_watcher import Watcher
from view_messages import fields, header, parameter, parameter_set, vector

from config.robot import robot_file
from nodes.framework.clouds import cloud_points
from nodes.view.layers.belief import BeliefLayer
from nodes.view.layers.cloud import CloudLayer
from nodes.view.layers.devices import DevicesLayer
from nodes.view.layers.ghost import GhostLayer
from nodes.view.layers.image import ImageLayer, picture
from nodes.view.layers.lidar import LidarLayer
from nodes.view.layers.parameters import ParametersLayer, in_words
from nodes.view.layers.path import PathLayer
from nodes.view.layers.robot import RobotLayer
from nodes.view.layers.scan import ScanLayer
from nodes.view.layers.scores import ScoresLayer
from nodes.view.layers.stiffness import StiffnessLayer
from nodes.view.layers.supervisor import STATES, SupervisorLayer
from nodes.view.layers.tracking import TrackingLayer
from nodes.view.layers.wrench import WrenchLayer
from nodes.view.layers_table import LAYERS, layer_classes
from nodes.view.stage.layer import Layer

ROOT = Path(__file__).resolve().parents[3]
Q = np.array([0.3, -0.4, 0.5, -1.6, 0.7, 1.2, 0.9])
NAMES = [f"joint{i}" for i in range(1, 8)]


def node(stage, name):
    """A node of the scene by its name."""
    return stage.scene._handle_from_node_name[name]


def pose_in_world(stage, name):
    """(4, 4) of a node, from the poses that the page has for it and all above it."""
    X = np.eye(4)
    for end in [i for i, letter in enumerate(name) if letter == "/"][1:] + [len(name)]:
        handle, R, step = node(stage, name[:end]), np.zeros(9), np.eye(4)
        mujoco.mju_quat2Mat(R, np.array(handle.wxyz, float))
        step[:3, :3], step[:3, 3] = R.reshape(3, 3), handle.position
        X = X @ step
    return X


def name_of_body(stage, body):
    return next(
        name for name in stage.scene._handle_from_node_name if name.startswith("/robot/") and name.endswith(f"/{body}")
    )


def by_mujoco(q):
    model = mujoco.MjModel.from_xml_path(str(robot_file("panda")))
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_kinematics(model, data)
    return data


def joint_state(q, sec=1):
    return fields(header=header(sec=sec), name=NAMES[::-1], position=list(q[::-1]))


def test_the_robot_stands_as_its_joints_say(stage):
    layer = RobotLayer(stage)
    layer.take("joint_states", joint_state(Q), 1.0)
    layer.refresh()
    data = by_mujoco(Q)
    for body in ("link1", "link4", "hand"):
        X = pose_in_world(stage, name_of_body(stage, body))
        np.testing.assert_allclose(X[:3, 3], data.body(body).xpos, atol=1e-6)
        np.testing.assert_allclose(X[:3, :3].ravel(), data.body(body).xmat, atol=1e-6)
    layer.take("joint_states", joint_state(np.full(7, np.nan)), 2.0)
    layer.refresh()
    np.testing.assert_allclose(
        pose_in_world(stage, name_of_body(stage, "hand"))[:3, 3], data.body("hand").xpos, atol=1e-6
    )


def test_only_what_has_moved_is_sent(stage):
    layer = RobotLayer(stage)
    layer.take("joint_states", joint_state(Q), 1.0)
    assert layer._drawing.update() == 7  # one turn for each joint, and no position
    assert layer._drawing.update() == 0


def test_the_ghost_is_the_end_of_the_plan_until_the_plan_is_old(stage):
    RobotLayer(stage).take("joint_states", joint_state(Q), 1.0)
    layer, stage.time = GhostLayer(stage), 1.0
    points = [fields(positions=list(Q)), fields(positions=list(Q + 0.1))]
    layer.take("controller/plan", fields(header=header(), joint_names=NAMES, points=points), 1.0)
    layer.refresh()
    np.testing.assert_allclose(layer._shape.pose("hand")[:3, 3], by_mujoco(Q + 0.1).body("hand").xpos, atol=1e-9)
    way = node(stage, "/ghost/it/way").points
    np.testing.assert_allclose(way[0], [by_mujoco(q).site("hand_site").xpos for q in (Q, Q + 0.1)], atol=1e-6)
    assert node(stage, "/ghost/it").visible
    stage.time = 2.5
    layer.refresh()
    assert not node(stage, "/ghost/it").visible


def test_the_path_is_drawn_point_by_point(stage):
    points = np.array([[0.5, 0.0, 0.4], [0.5, 0.1, 0.5], [0.5, 0.0, 0.4]])
    poses = [fields(pose=fields(position=vector(*p))) for p in points]
    PathLayer(stage).take("controller/path", fields(header=header(), poses=poses), 0.0)
    np.testing.assert_allclose(node(stage, "/path/line").points, [points[:2], points[1:]], atol=1e-6)


def until(condition):
    end = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_press_asks_once_and_its_answer_is_said(stage, server, asked):
    layer = SupervisorLayer(stage)
    with Watcher(server.get_port()) as hand:
        hand.set(layer._buttons["stop"], True)
        until(lambda: asked)
        hand.set(layer._buttons["resume"], True)  # what is pressed later comes later
        until(lambda: len(asked) == 2)
    assert [verb for verb, _ in asked] == ["stop", "resume"]
    assert "no answer yet" in layer._answer.content
    asked[0][1](True, "stopped: all joints are at rest")
    assert "stop: done. stopped: all joints are at rest" in layer._answer.content
    asked[1][1](False, "a <fault> is present")
    assert "resume: FAILED. a &lt;fault&gt; is present" in layer._answer.content


def test_what_lets_the_robot_move_can_be_pressed_only_in_the_state_that_it_ends(stage):
    layer = SupervisorLayer(stage)
    for state, (name, _) in STATES.items():
        layer.take("supervisor/status", fields(state=state, code=0, message="why"), 0.0)
        assert name in layer._banner.content and "why" in layer._banner.content
        disabled = {verb: button.disabled for verb, button in layer._buttons.items()}
        assert disabled == {"stop": False, "resume": name != "HALTED", "arm": name != "DISARMED"}


def test_states_have_the_names_of_the_message():
    status = pytest.importorskip("refit_interfaces.msg").SupervisorStatus
    assert {n: getattr(status, f"STATE_{name}") for n, (name, _) in STATES.items()} == {n: n for n in STATES}


def test_a_replay_has_no_buttons(stage):
    stage.operator = None
    assert not SupervisorLayer(stage)._buttons


def test_the_payload_hangs_where_the_hand_is(stage):
    stage.robot.put(NAMES, Q)
    layer = ParametersLayer(stage)
    load = [parameter(f"hand.payload.com.{axis}", c, 0.001, "m") for axis, c in zip("xyz", (0.03, 0.02, 0.08))]
    layer.take("refit/parameters", parameter_set(3, parameter("hand.payload.mass", 2.0, 0.01), *load), 2.0)
    layer.refresh()
    hand = by_mujoco(Q).body("hand")
    expected = hand.xpos + hand.xmat.reshape(3, 3) @ [0.03, 0.02, 0.08]
    np.testing.assert_allclose(node(stage, "/payload/it").position, expected, atol=1e-6)
    assert node(stage, "/payload/it").visible and node(stage, "/payload/it/label").text == "2.000 (1.990 to 2.010) kg"
    assert layer._choice.value == "hand.payload.mass" and "Revision 3" in layer._said.content
    assert "speak" not in layer._said.content
    held = "held-out loss 2 -> 1; the data speak for friction other than the model's, which the refit holds"
    layer.take("refit/parameters", parameter_set(3, parameter("hand.payload.mass", 2.0, 0.01), message=held), 2.2)
    said = layer._said.content
    assert (
        "Revision 3" in said
        and "The data speak for friction other than the model&#x27;s" in said
        and "loss" not in said
    )
    layer.take("refit/parameters", parameter_set(3, accepted=False, message="the loss does not fall"), 2.5)
    assert "the loss does not fall" in layer._said.content
    layer.take("refit/parameters", parameter_set(4, parameter("hand.payload.mass", 0.001, 0.01)), 3.0)
    layer.refresh()
    assert not node(stage, "/payload/it").visible  # an interval that holds zero
    t, value, low, high = layer._plot._drawn.data
    assert t.tolist() == [2.0, 2.2, 3.0] and value.tolist() == [2.0, 2.0, 0.001]
    np.testing.assert_allclose([low, high], [[1.99, 1.99, -0.009], [2.01, 2.01, 0.011]])


def test_numbers_have_the_digits_that_their_interval_allows():
    assert in_words(2.00123, 1.9981, 2.0043) == "2.0012 (1.9981 to 2.0043)"
    assert in_words(12.3, 2.0, 22.0) == "12 (2 to 22)"
    assert in_words(1.5, float("nan"), float("nan")) == "1.5"


def status(cycles, error, source, state=1):
    return fields(
        cycles=cycles, period=0.02, state=state, tracking_error=error, parameters_source=source, parameters_revision=1,
        solve_time=0.001, deadline_misses=0, message="",
    )  # fmt: skip


def test_the_error_is_drawn_by_whose_parameters_were_in_force(stage):
    layer = TrackingLayer(stage)
    for k, (error, source, state) in enumerate([(0.004, 0, 1), (0.005, 0, 1), (0.001, 1, 1), (0.002, 1, 3)]):
        layer.take("controller/status", status(k, error, source, state), 0.02 * k)
    for _ in range(6):
        layer.refresh()
    t, refitted, nominal = layer._plot._drawn.data
    np.testing.assert_allclose(t, [0.0, 0.02, 0.04, 0.06])
    np.testing.assert_allclose(nominal, [4.0, 5.0, np.nan, np.nan])  # [mm]
    np.testing.assert_allclose(refitted, [np.nan, np.nan, 1.0, np.nan])  # the last one was stopped


def test_a_force_points_from_its_sensor_into_the_world(stage):
    stage.robot.put(NAMES, Q)
    layer = WrenchLayer(stage)
    wrench = fields(force=vector(3.0, 0.0, 4.0), torque=vector(0.0, 0.1, 0.0))
    layer.take("wrench", fields(header=header("flange"), wrench=wrench), 0.0)
    layer.refresh()
    X = stage.robot.pose("flange")
    begin, end = node(stage, "/wrench/wrench").points[0]
    np.testing.assert_allclose(begin, X[:3, 3], atol=1e-6)
    np.testing.assert_allclose(end - begin, X[:3, :3] @ [0.03, 0.0, 0.04], atol=1e-6)
    assert layer._texts["wrench"].value.startswith("3.0 0.0 4.0 N")


def fixed(parent, child, x):
    transform = fields(translation=vector(x, 0.0, 0.0), rotation=fields(x=0.0, y=0.0, z=0.0, w=1.0))
    return fields(transforms=[fields(header=header(parent, 0), child_frame_id=child, transform=transform)])


def test_a_scan_is_where_tf_static_has_fixed_its_scanner(stage):
    layer = ScanLayer(stage)
    scan = fields(
        header=header("laser"),
        ranges=[1.0, np.inf, 2.0],
        angle_min=0.0,
        angle_increment=np.pi / 4,
        range_min=0.1,
        range_max=4.0,
    )
    layer.take("scan", scan, 0.0)
    assert "/scan/scan" not in stage.scene._handle_from_node_name  # nobody has said where it is
    stage.robot.put(NAMES, Q)
    stage.frames.add_static(fixed("hand", "laser", 0.1))
    layer.take("scan", scan, 0.0)
    hand = stage.robot.pose("hand")
    expected = [hand[:3, :3] @ (np.array(p) + [0.1, 0, 0]) + hand[:3, 3] for p in ([1.0, 0, 0], [0.0, 2.0, 0])]
    np.testing.assert_allclose(np.asarray(node(stage, "/scan/scan").points, float), expected, atol=2e-3)


def posed(x, y, yaw):
    return fields(position=vector(x, y, 0.0), orientation=fields(x=0.0, y=0.0, z=np.sin(yaw / 2), w=np.cos(yaw / 2)))


def test_a_known_scene_is_drawn_with_its_scanner_and_its_scan(stage):
    layer = LidarLayer(stage)
    corners = np.array([[0, -0.2, 0], [0, 0.2, 0], [0, 0.2, 0.3]], float)

    def marker(name, x):
        points = [vector(*p) for p in corners]
        return fields(
            ns=name, type=11, points=points, pose=posed(x, 0.1, 0.3), color=fields(r=0.5, g=0.5, b=0.5, a=0.8)
        )

    layer.take("lidar/scene", fields(markers=[marker("mirror", 0.5), marker("wall", 2.0)]), 0.0)
    sent = node(stage, "/lidar/bodies/mirror")
    np.testing.assert_allclose(sent.vertices, corners)
    layer.take("lidar/scene", fields(markers=[marker("mirror", 0.6)]), 1.0)
    assert node(stage, "/lidar/bodies/mirror") is sent and sent.position[0] == pytest.approx(
        0.6
    )  # moved, not sent anew
    assert "/lidar/bodies/wall" not in stage.scene._handle_from_node_name
    scan = fields(
        header=header("laser"), ranges=[1.0, np.nan, 2.0], angle_min=0.0, angle_increment=np.pi / 4, range_min=0.1, range_max=4.0
    )  # fmt: skip
    layer.take("scan", scan, 1.0)
    assert "/lidar/scan" not in stage.scene._handle_from_node_name  # nobody has said where it is
    layer.take("lidar/sensor", fields(header=header(), pose=posed(-0.3, 0.2, np.pi / 2)), 1.0)
    layer.take("scan", scan, 1.0)
    drawn, X = node(stage, "/lidar/scan"), pose_in_world(stage, "/lidar/scan")
    world = np.asarray(drawn.points, float) @ X[:3, :3].T + X[:3, 3]
    np.testing.assert_allclose(world, [[-0.3, 1.2, 0.0], [-2.3, 0.2, 0.0]], atol=2e-3)
    estimate = fields(
        names=["mirror.x", "mirror.y"], values=[0.5, 0.1], covariance=[1e-6, 0.0, 0.0, np.nan], beams=600, residual=0.01, lost=False
    )  # fmt: skip
    layer.take("lidar/estimate", estimate, 1.0)
    assert "mirror.x: 0.5000 ± 0.0020" in layer._text.content and "not determined" in layer._text.content
    stage.frames.add_static(fixed("hand", "laser", 0.1))
    before = layer._sensor
    layer.take("scan", fields(**{**vars(scan), "ranges": [3.0]}), 2.0)  # the scan's own layer draws it from now on
    assert len(node(stage, "/lidar/scan").points) == 2 and layer._sensor is before


def test_a_cloud_is_read_by_its_fields(stage):
    rows = np.zeros(3, np.dtype([("pad", "<u4"), ("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("rgb", "<u4")]))
    rows["x"], rows["y"], rows["z"], rows["rgb"] = [1, 2, np.nan], 5, 6, 0x102030
    layout = [fields(name=n, offset=o, datatype=7) for n, o in zip(("x", "y", "z", "rgb"), (4, 8, 12, 16))]
    cloud = fields(
        header=header(), fields=layout, is_bigendian=False, width=3, height=1, point_step=20, data=rows.tobytes()
    )
    points, colours = cloud_points(cloud)
    np.testing.assert_array_equal(points, [[1, 5, 6], [2, 5, 6]])
    np.testing.assert_array_equal(colours, [[16, 32, 48]] * 2)
    CloudLayer(stage).take("camera/points", cloud, 0.0)
    assert len(node(stage, "/cloud/camera/points").points) == 2
    with pytest.raises(ValueError, match="expected x, y and z of type float32"):
        cloud_points(fields(fields=layout[:2]))


def test_what_an_exam_believes_is_painted_on_the_body(stage):
    places = [fields(x=0.5, y=0.1 * k, z=0.3) for k in range(3)] + [fields(x=np.nan, y=np.nan, z=np.nan)]
    belief = fields(
        header=header("world"), structure="heart", side="front", region="mitral", points=places,
        mean=[0.0, 1.0, 0.5, 0.9], deviation=[0.1] * 4, theta=[0.01, -0.02, 1.2], tried=[1, 0], scores=[0.7, np.nan],
    )  # fmt: skip
    BeliefLayer(stage).take("auscultation/belief", belief, 0.0)
    expected = node(stage, "/belief/heart/expected")
    assert len(expected.points) == 3  # what was not scanned is not drawn
    assert np.asarray(expected.colors, int).sum(axis=1)[1] < np.asarray(expected.colors, int).sum(axis=1)[0]
    tried = node(stage, "/belief/heart/tried")
    assert len(tried.points) == 2 and tuple(np.asarray(tried.colors, int)[1]) == (200, 60, 40)


def test_what_a_search_believes_is_painted_over_the_tray(stage):
    places = [fields(x=0.5, y=0.1 * k, z=0.3) for k in range(4)]
    scores = fields(
        header=header("world"), points=places, score=[1e-5, 5e-5, np.nan, 3e-5], mean=[1e-5, 4e-5, np.nan, 2e-5],
        deviation=[1e-6, 5e-6, np.nan, 5e-6], tried=places[:2], volumes=[2e-5, np.nan],
    )  # fmt: skip
    layer = ScoresLayer(stage)
    layer.take("scoop/scores", scores, 0.0)
    expected = np.asarray(node(stage, "/scores/expected").colors, int).sum(axis=1)
    assert len(expected) == 3 and expected[1] < expected[2] < expected[0]  # what cannot be scooped is not drawn
    assert tuple(np.asarray(node(stage, "/scores/tried").colors, int)[1]) == (60, 60, 70)
    assert "40 ± 5 cm³" in layer._text.content and "20, failed cm³" in layer._text.content
    layer.take("scoop/scores", fields(**{**vars(scores), "score": [np.nan] * 4, "tried": [], "volumes": []}), 0.0)
    assert "No scoop is left" in layer._text.content


def test_how_hard_an_object_is_is_painted_on_it(stage):
    clouds = pytest.importorskip("nodes.framework.clouds")
    points = np.stack([0.1 * np.arange(4), np.zeros(4), np.full(4, 0.2)], axis=1)
    normals = {"normal_x": np.zeros(4), "normal_y": np.zeros(4), "normal_z": np.ones(4)}
    told = {**normals, "force": np.arange(4.0), "deviation": np.arange(4.0)[::-1]}
    stamp, grey = {"sec": 1, "nanosec": 0}, np.full((4, 3), 90)
    layer = StiffnessLayer(stage)

    def cloud(**further):
        from builtin_interfaces.msg import Time

        return clouds.cloud_message(points, Time(**stamp), "world", grey, further=further)

    layer.take("poking/surface", cloud(**normals), 0.0)
    assert "/stiffness/surface" not in stage.scene._handle_from_node_name  # nothing was learnt yet
    layer.take("poking/surface", cloud(**told), 0.0)
    bright = np.asarray(node(stage, "/stiffness/surface").colors, int).sum(axis=1)
    assert (np.diff(bright) > 0).all()
    np.testing.assert_allclose(np.asarray(node(stage, "/stiffness/surface").points)[:, 2], 0.202, atol=1e-3)
    layer._paint.value = "uncertainty"
    bright = np.asarray(node(stage, "/stiffness/surface").colors, int).sum(axis=1)
    assert (np.diff(bright) < 0).all()
    layer.take("poking/deformed", cloud(displacement=np.array([0.0, 0.001, 0.002, 0.0])), 0.0)
    assert len(node(stage, "/stiffness/deformed").points) == 4
    ends = [fields(x=0.0, y=0.0, z=0.2), fields(x=0.0, y=0.0, z=0.3)]
    layer.take("poking/contact_forces", fields(markers=[fields(header=header(), points=ends)]), 0.0)
    assert np.asarray(node(stage, "/stiffness/forces").points).shape == (1, 2, 3)
    poke = {"feature": [0.1, 0.0, 0.2, 0.5, 0.5, 0.5, 0.0, 0.0, 1.0]}
    state = {"object": "lamb", "frame": "world", "failed": 1, "left": 2, "deviations": [0.5, 0.31]}
    state["exploration"] = {"pokes": [poke], "settings": {"depth": 0.003}}
    layer.take("poking/exploration", fields(data=json.dumps(state)), 0.0)
    assert len(node(stage, "/stiffness/pokes").points) == 1
    for words in ("lamb", "1 pokes are known, 1 failed", "3 mm deep is known to **0.31 N**", "2 more are wanted"):
        assert words in layer._text.content


def image(encoding, array):
    array = np.asarray(array)
    rows = array.reshape(len(array), -1)
    return fields(
        encoding=encoding,
        height=array.shape[0],
        width=array.shape[1],
        step=rows.strides[0],
        is_bigendian=0,
        data=array.tobytes(),
    )


def test_images_become_small_pictures(stage):
    colours = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    np.testing.assert_array_equal(picture(image("bgr8", colours)), colours[..., ::-1])
    depth = picture(image("16UC1", np.array([[0, 1000], [2000, 4000]], np.uint16)))
    assert depth.shape == (2, 2, 3) and depth[0, 0, 0] == 0 and depth[1, 1, 0] == 255
    assert picture(image("mono8", np.zeros((400, 800), np.uint8))).shape == (134, 267, 3)
    with pytest.raises(ValueError, match="encoded as 'yuv422'; drawn are rgb8"):
        picture(fields(encoding="yuv422"))
    layer = ImageLayer(stage)
    layer.take("camera/color", image("rgb8", colours), 0.0)
    layer.take("camera/color", image("rgb8", colours + 1), 0.1)
    np.testing.assert_array_equal(layer._shown["camera/color"].image, colours + 1)


def test_a_device_that_falls_silent_is_said_to(stage):
    layer = DevicesLayer(stage)

    def say(name, level, text):
        layer.take("diagnostics", fields(status=[fields(name=name, level=level, message=text)]), 0.0)

    say("ft_sensor", b"\x01", "rate is low")
    say("supervisor", 0, "running")
    layer.refresh()
    assert "WARN" in layer._table.content and "rate is low" in layer._table.content
    for _ in range(8):
        say("supervisor", 0, "running")
    layer.refresh()
    assert "has fallen silent" in layer._table.content and "rate is low" not in layer._table.content


def test_the_layer_of_the_documentation_works(stage):
    block = re.search(r"```python\n(.*?)```", (ROOT / "docs/view.md").read_text(), re.S).group(1)
    names: dict = {}
    exec(compile(ast.parse(block), "docs/view.md", "exec"), names)
    layer = names["TemperatureLayer"](stage)
    assert isinstance(layer, Layer) and layer.wants[0].topic == "motor_temperature"
    stage.robot.put(NAMES, Q)
    layer.take("motor_temperature", fields(header=header(), temperature=71.0), 1.0)
    layer.refresh()
    assert layer.text.value == "71 degrees Celsius" and layer.ball.color == (255, 0, 0)
    np.testing.assert_allclose(layer.ball.position, by_mujoco(Q).body("hand").xpos, atol=1e-6)


def test_the_table_has_every_layer_and_its_topics_are_on_the_page():
    classes = layer_classes()
    assert {path.stem for path in (ROOT / "nodes/view/layers").glob("*.py")} == set(LAYERS)
    page = (ROOT / "docs/nodes/view.md").read_text()
    for want in (want for kind in classes for want in kind.wants):
        assert want.type.replace("/msg/", "/") in page and (want.topic == "*" or f"`{want.topic}`" in page)
    with pytest.raises(ValueError, match="layer 'nowhere:Layer': expected 'module:Class'"):
        layer_classes(["nowhere:Layer"])
