"""Built message types are the written ones, and those of other packages are theirs to the last field."""

import importlib
import re
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "refit_interfaces": ROOT / "interfaces",
    "tf2_msgs": ROOT / "pip_ros/interfaces/tf2_msgs",
    **{
        name: ROOT / "pip_ros/interfaces" / name
        for name in ("simulation_interfaces", "control_msgs", "audio_common_msgs", "realsense2_camera_msgs")
    },
}
FILES = [
    (package, path)
    for package, folder in PACKAGES.items()
    for kind in ("msg", "srv", "action")
    for path in sorted((folder / kind).glob(f"*.{kind}"))
]
PARTS = {"msg": [""], "srv": ["Request", "Response"], "action": ["Goal", "Result", "Feedback"]}


def definition(text):
    """(fields, constants) of one block: {name: type} in order, {name: value}."""
    fields, constants = {}, {}
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        constant = re.match(r"(\w+)\s+([A-Z][A-Z0-9_]*)\s*=\s*(\S+)", line)
        if constant:
            constants[constant.group(2)] = int(constant.group(3))
        else:
            fields[words[1]] = words[0]
    return fields, constants


@pytest.mark.parametrize(("package", "path"), FILES, ids=lambda value: getattr(value, "name", value))
def test_built_type_is_the_written_one(package, path):
    kind = path.suffix[1:]
    built = getattr(importlib.import_module(f"{package}.{kind}"), path.stem)
    for part, text in zip(PARTS[kind], path.read_text().split("---"), strict=True):
        fields, constants = definition(text)
        message = getattr(built, part) if part else built
        found = message.get_fields_and_field_types()
        found.pop("structure_needs_at_least_one_member", None)
        assert list(found) == list(fields), f"{path.name} {part}: order of fields"
        for name, written in fields.items():
            base, brackets = re.fullmatch(r"([\w/]+)((?:\[.*\])?)", written).groups()
            base = {"float64": "double", "float32": "float", "bool": "boolean"}.get(base, base)
            if base[0].isupper():
                base = f"{package}/{base}"
            assert found[name] == (f"sequence<{base}>" if brackets == "[]" else base + brackets)
        for name, value in constants.items():
            assert getattr(message, name) == value


def test_every_definition_is_built():
    for package, folder in PACKAGES.items():
        listed = set(re.findall(r'"((?:msg|srv|action)/\w+\.\w+)"', (folder / "CMakeLists.txt").read_text()))
        written = {str(path.relative_to(folder)) for name, path in FILES if name == package}
        assert listed == written, package


@pytest.mark.parametrize("package", PACKAGES)
def test_dependencies_are_declared_in_both_files(package):
    folder = PACKAGES[package]
    cmake = (folder / "CMakeLists.txt").read_text()
    declared = {element.text for element in xml.parse(folder / "package.xml").getroot().findall("depend")}
    found = set(re.findall(r"find_package\((\w+) REQUIRED\)", cmake)) - {"ament_cmake", "rosidl_default_generators"}
    used = {other for path in folder.glob("*/*.*") for other in re.findall(r"^(\w+)/\w+", path.read_text(), re.M)}
    assert declared == found
    used -= {package}  # types of its own
    assert used <= declared, f"{package} uses {used - declared} undeclared"


def test_a_message_travels(domain):
    """Both halves of a custom type, sequences and constants included, through the middleware."""
    import time

    import rclpy
    from refit_interfaces.msg import Parameter, ParameterSet

    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    node = rclpy.create_node("interfaces_test", context=context)
    executor = rclpy.executors.SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        heard = []
        publisher = node.create_publisher(ParameterSet, "sets", 1)
        node.create_subscription(ParameterSet, "sets", heard.append, 1)
        sent = ParameterSet(
            robot="panda",
            revision=7,
            source=ParameterSet.SOURCE_REFIT,
            vector=[1.0, 2.5],
            parameters=[Parameter(name="hand.mass", unit="kg", value=2.0)],
        )
        deadline = time.monotonic() + 60
        while not heard and time.monotonic() < deadline:
            publisher.publish(sent)
            executor.spin_once(timeout_sec=0.05)
        assert heard and heard[0] == sent
    finally:
        node.destroy_node()
        rclpy.shutdown(context=context)
