"""Messages of the link: what is written is read back, and whatever else comes is refused in one sentence."""

import dataclasses
import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.telepresence import protocol, protocol_robot
from nodes.telepresence.protocol import (
    Adjust,
    Button,
    Hand,
    Hello,
    Offer,
    Ping,
    Place,
    Pong,
    Release,
    Sample,
    Take,
    parse,
    write,
)
from nodes.telepresence.protocol_robot import (
    STATES,
    Answer,
    Joints,
    Limits,
    LinkNumbers,
    Operator,
    Refused,
    Status,
    SupervisorWords,
    Texture,
    Welcome,
    parse_robot,
)
from nodes.telepresence.strict_json import SchemaError

HALF = math.sqrt(0.5)
PLACE = Place((0.1, 1.5, -0.3), (0.0, HALF, 0.0, HALF))
HAND = Hand((0.2, 1.1, -0.4), (0.0, 0.0, 0.0, 1.0), clutch=True, trigger=0.25)
SAMPLE = Sample(7, 1234.5, PLACE, HAND, None, (0.5, 0.0, -1.0), tuple(0.05 * i for i in range(20)))
HELLO = Hello(1, "secret", "0123456789abcdef", "Ada", "operator", "openxr")
FROM_CLIENT = [
    HELLO,
    SAMPLE,
    Sample(0, -1e14, None, None, HAND, (0.0, 0.0, 0.0), None),
    Button(3, 1.0, "stop", True),
    Button(4, 1.0, "speak", False),
    Adjust(5, 1.0, "head_yaw", -0.7),
    Adjust(6, 1.0, "eye_distance", 0.063),
    Ping(1, 2.0),
    Pong(1, 2.0),
    Take(),
    Release(),
    Offer("v=0\r\na=x\r\n"),
]
STATUS = Status(
    12.0, "teleop", 0, "", "s1", (True, False), ("track", "hold"), ("", "out of reach"), (PLACE, PLACE), (PLACE, PLACE),
    (1.0, None), (0.0, 1.0), 0.25, (0.1, 0.0, 0.0), SupervisorWords("RUNNING", 0, "all is well"),
    LinkNumbers(12.0, 0.01, None, 20.0, {"samples": 90.0, "left_eye": 500.0}), Joints(("base_x", "head_yaw"), (0.1, -0.2)),
)  # fmt: skip
FROM_ROBOT = [
    Welcome(1, "s1", "watcher", "avatar", "Avatar", ("left_eye", "right_eye"), Limits()),
    Refused("occupied", "Ada drives."),
    STATUS,
    Ping(1, 2.0),
    Pong(1, 2.0),
    Answer("v=0\r\n"),
    Operator("Ada"),
    Operator(None),
    Texture(0.3, 210.0, None),
    Texture(0.3, 210.0, (0.0, -1.0, 1.0)),
]


def same(a, b):
    """Equal but for the rounding of a quaternion's norm."""
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == pytest.approx(b, abs=1e-12) if isinstance(a, float) else a == b


@pytest.mark.parametrize("message", FROM_CLIENT, ids=lambda m: m.type)
def test_what_a_client_writes_is_read(message):
    assert same(parse(write(message)), message)
    assert same(parse(write(message).encode()), message)


@pytest.mark.parametrize("message", FROM_ROBOT, ids=lambda m: m.type)
def test_what_the_robot_writes_is_read(message):
    assert same(parse_robot(write(message)), message)


def test_every_message_is_tried():
    assert {m.type for m in FROM_CLIENT} == set(protocol._PARSERS)
    assert {m.type for m in FROM_ROBOT} == set(protocol_robot._PARSERS)


def test_states_are_those_of_the_message():
    status = pytest.importorskip("refit_interfaces.msg").TeleopStatus
    assert [getattr(status, f"STATE_{name.upper()}") for name in STATES] == list(range(len(STATES)))


def changed(message, path, value):
    """A message's object with one value replaced, or added."""
    document = json.loads(write(message))
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("message", "path", "value", "said"),
    [
        (SAMPLE, ("seq",), -1, "'seq' of a message of type 'sample': expected a whole number from 0"),
        (SAMPLE, ("seq",), 1.5, "a whole number"),
        (SAMPLE, ("seq",), True, "a whole number"),
        (SAMPLE, ("seq",), 2**53, "a whole number"),
        (SAMPLE, ("t",), 1e16, "'t' of a message"),
        (SAMPLE, ("t",), "1", "expected a number"),
        (SAMPLE, ("t",), None, "expected a number"),
        (SAMPLE, ("stick",), [0, 0, 1.01], "a list of 3 numbers from -1 to 1"),
        (SAMPLE, ("stick",), [0, 0], "a list of 3 numbers"),
        (SAMPLE, ("stick",), {"0": 0}, "a list of 3 numbers"),
        (SAMPLE, ("glove",), [0.0] * 19, "a list of 20 numbers"),
        (SAMPLE, ("glove",), [7.0] * 20, "a list of 20 numbers"),
        (SAMPLE, ("right", "trigger"), 1.001, "'trigger' of the right hand of a sample: expected a number from 0 to 1"),
        (SAMPLE, ("right", "clutch"), 1, "true or false"),
        (SAMPLE, ("right", "p"), [0, 0, 101], "'p' of the right hand"),
        (SAMPLE, ("head", "q"), [0, 0, 0, 0], "a quaternion of norm 1, found norm 0"),
        (SAMPLE, ("head", "q"), [0.9, 0.9, 0, 0], "a quaternion of norm 1"),
        (SAMPLE, ("head", "r"), 1, "found also \"r\""),
        (SAMPLE, ("head",), [], "expected an object"),
        (SAMPLE, ("sequence",), 1, "found also \"sequence\""),
        (SAMPLE, ("type",), "eval", "expected one of hello, sample"),
        (SAMPLE, ("type",), ["sample"], "expected one of hello, sample"),
        (HELLO, ("nonce",), "0123456789abcde", "a printable text of 16 to 16"),
        (HELLO, ("nonce",), "0123456789abcdeg", "hexadecimal"),
        (HELLO, ("name",), "", "a printable text of 1 to 40"),
        (HELLO, ("name",), "Ada\x1b[2J", "a printable text"),
        (HELLO, ("name",), "\ud800", "a printable text"),
        (HELLO, ("name",), "A" * 41, "a printable text"),
        (HELLO, ("role",), "admin", "expected one of operator, watcher"),
        (HELLO, ("axes",), "blender", "expected one of openxr, unity"),
        (Button(3, 1.0, "stop", True), ("name",), "arm", "expected one of stop, resume"),
        (Button(3, 1.0, "stop", True), ("value",), "true", "true or false"),
        (Adjust(3, 1.0, "head_yaw", 0.1), ("name",), "head_pitch", "expected one of head_yaw, eye_distance"),
        (Adjust(3, 1.0, "head_yaw", 0.1), ("value",), 3.2, "from -3.14159 to 3.14159"),
        (Adjust(3, 1.0, "eye_distance", 0.06), ("value",), 63.0, "from 0.05 to 0.08"),
        (Adjust(3, 1.0, "eye_distance", 0.06), ("value",), None, "number"),
        (Offer("v=0"), ("sdp",), "v=0\x00", "a printable text"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(message, path, value, said):
    with pytest.raises(SchemaError) as caught:
        parse(changed(message, path, value))
    text = str(caught.value)
    assert (
        said in text and text.endswith(".") and "\n" not in text and len(text) < 400 and caught.value.code == "schema"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expected one JSON object"),
        ("null", "Expected one JSON object, found null"),
        ("[]", "Expected one JSON object"),
        ("{}", "Expected the key 'type'"),
        (b"\xff\xfe{}", "Expected one JSON object"),
        (b"\x80\x81", "Expected one JSON object"),
        ('{"type":"take"', "Expected one JSON object"),
        ('{"type":"take","type":"release"}', 'found "type" twice'),
        ('{"type":"ping","id":1,"t":NaN}', "found NaN"),
        ('{"type":"ping","id":1,"t":Infinity}', "found Infinity"),
        ('{"type":"ping","id":1,"t":1e999}', "expected a number"),
        ('{"type":"ping","id":' + "1" * 6000 + ',"t":0}', "Expected one JSON object"),
        ('{"type":"ping","id":' + "1" * 40 + ',"t":0}', "a whole number"),
        ('{"type":"take","x":' + "[" * 9 + "]" * 9 + "}", "Expected at most 8 objects"),
        ("[" * 16000, "Expected"),
        ('{"a":' * 3000, "Expected"),
        ("[" * 8000 + "]" * 8000, "Expected at most 8 objects"),
        ("x" * 16385, "Expected a message of at most 16384 bytes, found 16385"),
        ("ä" * 10000, "Expected a message of at most 16384 bytes, found 20000"),
    ],
)
def test_what_is_no_message_is_refused(text, said):
    with pytest.raises(SchemaError, match="^Expected|^'"):
        parse(text)
    with pytest.raises(SchemaError) as caught:
        parse(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(("version", "remedy"), [(0, "reload it"), (2, "update it")])
def test_another_version_is_told_from_nonsense_whatever_else_it_says(version, remedy):
    with pytest.raises(SchemaError, match=remedy) as caught:
        parse(json.dumps({"type": "hello", "version": version, "who": "an old page"}))
    assert caught.value.code == "version"


def test_a_quaternion_is_normalised():
    read = parse(changed(SAMPLE, ("head", "q"), [0.0, 0.0, 0.0, 0.97]))
    assert read.head.q == (0.0, 0.0, 0.0, 1.0)


def test_what_is_not_finite_is_written_as_null():
    status = dataclasses.replace(STATUS, force=(math.nan, math.inf), precision=math.nan)
    read = parse_robot(write(status))
    assert read.force == (None, None) and read.precision is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(data):
    with pytest.raises(SchemaError):
        parse(data)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["type", "seq", "t", "id", "name", "value", "x"]), json_values, max_size=6))
def test_any_object_is_refused_or_read(document):
    try:
        read = parse(json.dumps(document))
    except SchemaError as error:
        assert "\n" not in str(error) and len(str(error)) < 600
    else:
        assert read.type == document["type"]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(FROM_CLIENT), st.data())
def test_a_message_with_one_value_of_another_kind(message, data):
    """Whatever a field becomes, it is refused, or it is a value that the field may have and comes back the same."""
    document = json.loads(write(message))
    key = data.draw(st.sampled_from(sorted(document)))
    document[key] = data.draw(json_values)
    try:
        read = parse(json.dumps(document))
    except SchemaError:
        return
    assert same(parse(write(read)), read)


def test_flipped_bytes_never_do_anything_but_refuse():
    random.seed(1)
    text = write(SAMPLE).encode()
    refused = 0
    for _ in range(2000):
        broken = bytearray(text)
        for _ in range(random.randint(1, 4)):
            broken[random.randrange(len(broken))] = random.randrange(256)
        try:
            read = parse(bytes(broken))
        except SchemaError:
            refused += 1
        else:
            assert isinstance(read, Sample) and all(math.isfinite(x) for x in (read.t, *read.stick))
    assert refused > 1000
