"""Values as YAML: what is printed is read back, for every type there is, and what is wrong is told in one line."""

import array
import importlib
import math
import random

import numpy as np
import pytest
from geometry_msgs.msg import PointStamped, Pose, PoseWithCovariance
from ros2_front import kinds, text, values
from ros2_front.errors import UsageError
from rosidl_parser.definition import (
    AbstractNestedType,
    AbstractString,
    AbstractWString,
    Array,
    BasicType,
    BoundedSequence,
    NamespacedType,
)
from sensor_msgs.msg import Image, JointState
from shape_msgs.msg import SolidPrimitive
from std_msgs.msg import Byte, Float32, Int8, String, UInt8MultiArray


def all_messages():
    """Every message there is, those of services and actions included."""
    for package, names in sorted(kinds.interfaces().items()):
        for name in names:
            group, _, kind = name.partition("/")
            whole = getattr(importlib.import_module(f"{package}.{group}"), kind)
            if group == "msg":
                yield f"{package}/{name}", whole
            parts = {"srv": ("Request", "Response"), "action": ("Goal", "Result", "Feedback")}.get(group, ())
            for part in parts:
                yield f"{package}/{name}.{part}", getattr(whole, part)


MESSAGES = dict(all_messages())


def random_basic(kind, chance):
    if kind == "boolean":
        return chance.random() < 0.5
    if kind == "octet":
        return bytes([chance.randrange(256)])
    if kind == "float":
        return float(np.float32(chance.choice([chance.gauss(0, 1e3), 1e-30, -0.0])))
    if kind == "double":
        return chance.choice([chance.gauss(0, 1e3), 1e-300, math.inf, -math.inf, 1e22])
    bits = int(kind.lstrip("uint"))
    low, high = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return chance.choice([low, high, chance.randint(low, high)])


def random_value(slot, chance, depth):
    if isinstance(slot, AbstractNestedType):
        size = slot.size if isinstance(slot, Array) else 0 if depth > 4 else chance.randint(0, 3)
        if isinstance(slot, BoundedSequence):
            size = min(size, slot.maximum_size)
        return [random_value(slot.value_type, chance, depth) for _ in range(size)]
    if isinstance(slot, NamespacedType):
        return random_message(values.message_class(slot), chance, depth + 1)
    if isinstance(slot, AbstractString | AbstractWString):
        found = chance.choice(
            ["", "null", "yes", "1", "1e3", "a: b # c", "two\nlines", "ä 'quoted' \"x\"", "- x", " x "]
        )
        return found[: slot.maximum_size] if slot.has_maximum_size() else found
    assert isinstance(slot, BasicType)
    return random_basic(slot.typename, chance)


def random_message(kind, chance, depth=0):
    message = kind()
    for name, slot in zip(message.get_fields_and_field_types(), message.SLOT_TYPES, strict=True):
        setattr(message, name, random_value(slot, chance, depth))
    return message


def same(a, b):
    """Equality that takes the sequences of generated messages for what they hold."""
    if hasattr(a, "SLOT_TYPES"):
        return type(a) is type(b) and all(same(getattr(a, n), getattr(b, n)) for n in a.get_fields_and_field_types())
    if isinstance(a, list | tuple | array.array | np.ndarray):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


@pytest.mark.parametrize("name", MESSAGES)
def test_what_is_printed_is_read_back(name):
    chance = random.Random(name)
    for flow in (False, True):
        before = random_message(MESSAGES[name], chance)
        after = MESSAGES[name]()
        assert values.fill(after, values.parse(text.to_yaml(before, flow=flow))) == []
        assert same(before, after), f"{before}\n{after}"


def test_there_are_many_types():
    assert len(MESSAGES) > 250 and "sensor_msgs/msg/JointState" in MESSAGES
    assert "refit_interfaces/action/Refit.Goal" in MESSAGES and "std_srvs/srv/SetBool.Response" in MESSAGES
    assert not [name for name in MESSAGES if "_Request" in name or "_Feedback" in name]


@pytest.mark.parametrize(
    "kind, given, told",
    [
        (String, "{dat: x}", "dat: std_msgs/msg/String has no such field; did you mean 'data'?"),
        (String, "{data: 5}", "data: expected text (string), found 5; put it in quotes: '5'"),
        (String, "{data: yes}", "data: expected text (string), found true"),
        (String, "[1]", "the values have to be fields, as '{field: value}'; found a list of 1"),
        (String, "{data: [", "the values are no YAML"),
        (Float32, "{data: abc}", "data: expected a number (float), found 'abc'"),
        (Float32, "{data: 1.0e+40}", "data: expected a number that float can hold, found 1e+40"),
        (Float32, "{data: true}", "data: expected a number (float), found true"),
        (Int8, "{data: 128}", "data: expected a whole number from -128 to 127 (int8), found 128"),
        (Int8, "{data: 1.5}", "data: expected a whole number (int8), found 1.5"),
        (Byte, "{data: 256}", "data: expected a byte, a number from 0 to 255 or one character, found 256"),
        (JointState, "{position: 3}", "position: expected a list (double[]), found 3"),
        (JointState, "{name: [a, 3]}", "name[1]: expected text (string), found 3; put it in quotes: '3'"),
        (PoseWithCovariance, "{covariance: [1, 2]}", "covariance: expected a list of 36 (double[36]), found a list of 2"),
        (PoseWithCovariance, "{pose: {position: {w: 1}}}", "pose.position.w: geometry_msgs/msg/Point has no such field"),
        (PoseWithCovariance, "{pose: 1}", "pose: expected fields of geometry_msgs/msg/Pose, found 1"),
        (Pose, "{position: }", "position: expected fields of geometry_msgs/msg/Point, found nothing"),
        (SolidPrimitive, "{dimensions: [1, 2, 3, 4]}", "dimensions: expected a list of at most 3 (double[<=3]), found a list"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_one_line(kind, given, told):
    with pytest.raises(UsageError) as error:
        values.fill(kind(), values.parse(given))
    assert str(error.value).startswith(told) and "\n" not in str(error.value) and error.value.exit_code == 2


def test_numbers_that_yaml_takes_for_text():
    message = Float32()
    values.fill(message, values.parse("{data: 1e-3}"))
    assert message.data == pytest.approx(1e-3)


def test_now_is_filled_in_later():
    message = PointStamped()
    stamps = values.fill(message, values.parse("{header: auto, point: {x: 1}}"))
    assert stamps == [message.header.stamp] and stamps[0] is message.header.stamp and message.point.x == 1.0
    message = PointStamped()
    assert values.fill(message, values.parse("{header: {stamp: now, frame_id: a}}"))[0] is message.header.stamp


def test_yaml_is_that_of_ros():
    message = JointState(name=["a"], position=[0.5])
    message.header.frame_id = "base"
    assert text.to_yaml(message) == (
        "header:\n  stamp:\n    sec: 0\n    nanosec: 0\n  frame_id: base\n"
        "name:\n- a\nposition:\n- 0.5\nvelocity: []\neffort: []\n"
    )
    assert text.to_csv(message) == "0,0,base,a,0.5"


def test_long_values_are_shortened_unless_all_is_asked_for():
    image = Image(data=array.array("B", range(200)), encoding="x" * 200)
    shown = values.parse(text.to_yaml(image, limit=128))
    assert len(shown["data"]) == 129 and shown["data"][-1] == "..." and shown["encoding"] == "x" * 128 + "..."
    assert len(values.parse(text.to_yaml(image))["data"]) == 200
    shown = values.parse(text.to_yaml(image, arrays=False, strings=False))
    assert shown["data"] == "<sequence type: uint8, length: 200>" and shown["encoding"] == "<string length: <200>>"
    assert "covariance: '<array type: double[36]>'" in text.to_yaml(PoseWithCovariance(), arrays=False)


def test_fields():
    message = PoseWithCovariance()
    message.pose.position.y = 2.0
    message.covariance[7] = 3.0
    assert text.pick(message, "pose.position.y") == 2.0
    assert text.to_yaml(text.pick(message, "covariance[7]")) == "3.0\n"
    assert text.pick(JointState(name=["a", "b"]), "name[-1]") == "b"
    assert text.to_yaml(text.pick(UInt8MultiArray(data=[1, 2]), "data")) == "- 1\n- 2\n"
    for path in ("pose.position.y", "covariance[7]"):
        text.check(PoseWithCovariance, path)
    for path, told in (
        ("pose.positon", "did you mean 'position'?"),
        ("pose[0]", "is no list"),
        ("pose..x", "is not the name of a field"),
        ("covariance.x", "has no field 'x'"),
    ):
        with pytest.raises(UsageError, match=told.replace("?", r"\?")):
            text.check(PoseWithCovariance, path)
    with pytest.raises(UsageError, match="it has 36"):
        text.pick(message, "covariance[36]")
