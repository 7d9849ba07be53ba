"""Who may say and hear what, as DDS Security writes it: one permissions document for each enclave, one governance for all.

An enclave is named like its node, /left/adaptive_mpc; the root / is for those who start and drive the graph. What is not
allowed is denied.

Source: OMG DDS Security 1.1 (formal/2018-04-01), 9.4.1; the names of DDS topics are ROS 2's (design.ros2.org, "Topic and
Service name mapping to DDS").
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from datetime import datetime

from cli.security_endpoints import Endpoints, endpoints
from config.description import CONTROLLERS, Device
from config.robot import load_robot
from nodes.framework.security import OPERATOR, enclave
from nodes.table import NODES

__all__ = ["Member", "governance", "members", "permissions"]

#: the highest domain that DDS's ports have room for; keys guard a graph, its number does not
LAST_DOMAIN = 232
#: what a launch file of ours puts into its namespace: two robots on one machine have their own
_OWN = {"/clock": "clock", "/tf": "tf", "/tf_static": "tf_static"}
#: among themselves all participants tell which nodes they have
_GRAPH = "ros_discovery_info"
_DRIVERS = "nodes.devices."
#: node -> the controllers that it is for: no other robot's graph has it
_GOES_WITH = {
    "telepresence_bridge": ("teleop",),
    "texture_scan": ("teleop",),
    **dict.fromkeys(("auscultation", "sim_stethoscope"), ("placement",)),
    "scooping": ("scoop_arm",),
    "excavation": ("bucket_arm",),
    "poking": ("poke_arm",),
    "sim_camera": ("placement", "scoop_arm", "bucket_arm", "poke_arm", "teleop"),
}
#: node -> its name in our launch files, where that is another
_RUNS_AS = {"sim_stethoscope": "stethoscope"}
#: node and controller -> names under which our launch files start it once more
_RUNS_ALSO_AS = {
    ("sim_camera", "poke_arm"): ("sim_camera_left", "sim_camera_right"),
    ("sim_camera", "teleop"): ("texture_camera",),
}
#: controller -> drivers that our launch files start beside those of the robot: (name there, executable)
_STARTED_WITH = {"teleop": (("microphone", "audio"), ("speaker", "speaker"))}
#: name of a node in our launch files -> its topics that are called otherwise there
_CALLED = {
    "texture_camera": {
        f"camera/{topic}": f"wrist_camera/{topic}"
        for topic in ("color/image_raw", "color/camera_info", "aligned_depth_to_color/image_raw")
    }
}
_ACTION_SERVICES = ("send_goal", "cancel_goal", "get_result")
_ACTION_TOPICS = ("feedback", "status")


@dataclass(frozen=True)
class Member:
    """One enclave, and what it may do.

    Attributes:
        enclave: its name, which its certificate bears.
        publishes, subscribes: names of DDS topics; * stands for any text.
    """

    enclave: str
    publishes: tuple[str, ...]
    subscribes: tuple[str, ...]


def members(robot: str, namespace: str = "") -> list[Member]:
    """Everybody in the graph of a robot: its controller, its drivers, every other node of ours, and the operator.

    Args:
        robot: name in config/robots, or path of a robot's folder. namespace: of the launch.

    Raises:
        FileNotFoundError, ValueError: there is no such robot, or its robot.yaml cannot be used.
    """
    described = load_robot(robot)
    devices = [
        Device(run_as, executable=name, remap=_CALLED.get(run_as, {}))
        for name, module in NODES.items()
        for run_as in (_RUNS_AS.get(name, name), *_RUNS_ALSO_AS.get((name, described.controller), ()))
        if not module.startswith(_DRIVERS)
        and (name not in CONTROLLERS or name == described.controller)
        and described.controller in _GOES_WITH.get(name, (described.controller,))
    ]
    started = _STARTED_WITH.get(described.controller, ())
    devices += [*described.devices, *(Device(name, executable=executable) for name, executable in started)]
    named = [(device, _resolved(device, namespace)) for device in devices]
    everybody = [
        _member(enclave(namespace, device.node, device.namespace), _topics(points)) for device, points in named
    ]
    return [_operator([points for _, points in named]), *everybody]


def _operator(graph: list[Endpoints]) -> Member:
    """Hears everything, asks for everything, and says what nodes wait for and no node says: a velocity, a trajectory."""
    said = {name for points in graph for name in points.publishes}
    awaited = {name for points in graph for name in points.subscribes if not name.endswith("/*")}  # the recorder's
    own = Endpoints(
        publishes=frozenset({"/rosout", "/parameter_events"} | (awaited - said)),
        subscribes=frozenset({"/*"}),
        calls=frozenset({"/*"}),
    )
    return _member(OPERATOR, _topics(own))


def _member(name: str, topics: tuple[set[str], set[str]]) -> Member:
    publishes, subscribes = topics
    return Member(name, tuple(sorted(publishes | {_GRAPH})), tuple(sorted(subscribes | {_GRAPH})))


def _resolved(device: Device, namespace: str) -> Endpoints:
    """A node's endpoints with the names that they have in the graph."""
    node = enclave(namespace, device.node, device.namespace)
    around = node.rpartition("/")[0]

    def absolute(name: str) -> str:
        name = device.remap.get(name, name)
        if namespace:
            name = _OWN.get(name, name)
        if name.startswith("~/"):
            return f"{node}/{name[2:]}"
        return name if name.startswith("/") else f"{around}/{name}"

    points = endpoints(device.executable)
    return Endpoints(**{kind: frozenset(map(absolute, names)) for kind, names in vars(points).items()})


def _topics(points: Endpoints) -> tuple[set[str], set[str]]:
    """(published, heard) DDS topics of resolved endpoints."""
    publishes = {f"rt{name}" for name in points.publishes}
    subscribes = {f"rt{name}" for name in points.subscribes}
    asked = points.calls | {f"{name}/_action/{part}" for name in points.requests for part in _ACTION_SERVICES}
    answered = points.serves | {f"{name}/_action/{part}" for name in points.executes for part in _ACTION_SERVICES}
    publishes |= {f"rq{name}Request" for name in asked} | {f"rr{name}Reply" for name in answered}
    subscribes |= {f"rr{name}Reply" for name in asked} | {f"rq{name}Request" for name in answered}
    publishes |= {f"rt{name}/_action/{part}" for name in points.executes for part in _ACTION_TOPICS}
    subscribes |= {f"rt{name}/_action/{part}" for name in points.requests for part in _ACTION_TOPICS}
    return publishes, subscribes


def permissions(member: Member, begin: datetime, end: datetime) -> bytes:
    """The permissions document of one enclave, valid from `begin` to `end` (UTC)."""
    root, grant = _document("permissions"), ElementTree.Element("grant", name=member.enclave)
    root[0].append(grant)
    _add(grant, "subject_name", f"CN={member.enclave}")
    validity = _add(grant, "validity")
    _add(validity, "not_before", f"{begin:%Y-%m-%dT%H:%M:%S}")
    _add(validity, "not_after", f"{end:%Y-%m-%dT%H:%M:%S}")
    rule = _add(grant, "allow_rule")
    _add_domains(rule)
    for what, names in (("publish", member.publishes), ("subscribe", member.subscribes)):
        topics = _add(_add(rule, what), "topics")
        for name in names:
            _add(topics, "topic", name)
    _add(grant, "default", "DENY")
    return _text(root)


def governance() -> bytes:
    """Nobody without a certificate joins, every topic is access-controlled, and everything is encrypted."""
    root = _document("domain_access_rules")
    rule = _add(root[0], "domain_rule")
    _add_domains(rule)
    _add(rule, "allow_unauthenticated_participants", "false")
    _add(rule, "enable_join_access_control", "true")
    for protected in ("discovery", "liveliness", "rtps"):
        _add(rule, f"{protected}_protection_kind", "ENCRYPT")
    topic = _add(_add(rule, "topic_access_rules"), "topic_rule")
    _add(topic, "topic_expression", "*")
    for enabled in ("discovery_protection", "liveliness_protection", "read_access_control", "write_access_control"):
        _add(topic, f"enable_{enabled}", "true")
    for protected in ("metadata", "data"):
        _add(topic, f"{protected}_protection_kind", "ENCRYPT")
    return _text(root)


def _document(content: str) -> ElementTree.Element:
    root = ElementTree.Element("dds")
    _add(root, content)
    return root


def _add_domains(rule: ElementTree.Element) -> None:
    every = _add(_add(rule, "domains"), "id_range")
    _add(every, "min", "0")
    _add(every, "max", str(LAST_DOMAIN))


def _add(parent: ElementTree.Element, tag: str, text: str | None = None) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, tag)
    child.text = text
    return child


def _text(root: ElementTree.Element) -> bytes:
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"
