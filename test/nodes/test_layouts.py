"""What the shipped RViz configuration and layouts name is there: topics, their types and fields, and frames."""

import importlib
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import mujoco
import pytest
import yaml

pytest.importorskip("rclpy")

from config.robot import robot_file, robot_names
from nodes.frames.robot_frames import RobotFrames

ROOT = Path(__file__).resolve().parents[2]
#: type of every topic of the stack, by full name
TOPICS = {
    "/" + name.lstrip("/"): kind
    for name, (kind, _) in yaml.safe_load((ROOT / "recording/profiles.yaml").read_text())["topics"].items()
}
RVIZ = {
    "rviz_default_plugins/RobotModel": "std_msgs/msg/String",
    "rviz_default_plugins/LaserScan": "sensor_msgs/msg/LaserScan",
    "rviz_default_plugins/WrenchStamped": "geometry_msgs/msg/WrenchStamped",
}


def message_class(kind):
    package, _, name = kind.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)


def number_at(kind, words):
    """Whether a field of a message type, or of a list in it, is a number."""
    for word in words:
        fields = message_class(kind).get_fields_and_field_types()
        assert word in fields, f"{kind} has no field {word}, only {', '.join(fields)}"
        kind = re.sub(r"^sequence<(.*)>$", r"\1", fields[word]).replace("/", "/msg/")
    return kind in ("double", "float") or kind.startswith(("uint", "int"))


def test_rviz_finds_its_topics_and_frames():
    manager = yaml.safe_load((ROOT / "config/rviz/refit.rviz").read_text())["Visualization Manager"]
    shown = set()
    for display in manager["Displays"]:
        for key in ("Topic", "Description Topic"):
            if key in display:
                assert TOPICS[display[key]["Value"]] == RVIZ[display["Class"]]
                shown.add(display["Class"])
    assert shown == set(RVIZ)
    assert manager["Global Options"]["Fixed Frame"] == "world"
    for robot in robot_names():
        frames = RobotFrames(mujoco.MjModel.from_xml_path(str(robot_file(robot))))
        names = {t.child_frame_id for message in (frames.tf, frames.tf_static) for t in message.transforms}
        parents = {t.header.frame_id for message in (frames.tf, frames.tf_static) for t in message.transforms}
        assert manager["Views"]["Current"]["Target Frame"] in names
        if robot != "quadruped":  # nothing but a state estimate says where a floating trunk is in the world
            assert manager["Global Options"]["Fixed Frame"] in parents


def test_foxglove_finds_its_topics_and_fields():
    layout = json.loads((ROOT / "config/foxglove/refit.json").read_text())
    panels, placed = layout["configById"], []

    def place(node):
        if isinstance(node, str):
            placed.append(node)
        else:
            place(node["first"])
            place(node["second"])

    place(layout["layout"])
    assert sorted(placed) == sorted(panels)
    for name, panel in panels.items():
        if name.startswith("Plot!"):
            for path in panel["paths"]:
                topic, *fields = re.sub(r"\[\d+\]", "", path["value"]).split(".")
                assert number_at(TOPICS[topic], fields), path["value"]
    view = panels["3D!robot"]
    assert TOPICS[view["layers"]["robot"]["topic"]] == "std_msgs/msg/String"
    assert [TOPICS[topic] for topic in view["topics"]] == ["sensor_msgs/msg/LaserScan"]
    assert TOPICS[panels["RawMessages!supervisor"]["topicPath"]] == "refit_interfaces/msg/SupervisorStatus"
    assert TOPICS[panels["DiagnosticSummary!health"]["topicToRender"]] == "diagnostic_msgs/msg/DiagnosticArray"


def test_plotjuggler_finds_its_topics_and_fields():
    root = ElementTree.parse(ROOT / "config/plotjuggler/refit.xml").getroot()
    topics = [topic.get("name") for topic in root.iter("topic")]
    assert set(topics) <= set(TOPICS)
    curves = [curve.get("name") for curve in root.iter("curve")]
    assert len(curves) > 5
    for curve in curves:
        topic = next(topic for topic in topics if curve.startswith(topic + "/"))
        assert number_at(TOPICS[topic], curve.removeprefix(topic + "/").split("/")), curve
