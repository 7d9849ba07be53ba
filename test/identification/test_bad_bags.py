"""Bags that nobody can use: `refit identify` says why in one line with exit code 2, soon and without a traceback."""

import json
import re
import shutil
import time

import numpy as np
import pytest

pytest.importorskip("rosbags")

from mcap.records import Channel, Message, Schema
from mcap.stream_reader import StreamReader
from mcap.writer import Writer as McapWriter
from rosbags.rosbag2 import StoragePlugin, Writer

from cli.main import main
from recording import BagError, BagReader, BagWriter
from recording.message_types import typestore
from sim_core.multibody import load_model

#: what a refusal may cost, with the model to load [s of CPU]
REFUSAL = 10.0
JOINT_STATE, STRING = "sensor_msgs/msg/JointState", "std_msgs/msg/String"
SAMPLES = 120


@pytest.fixture(scope="module")
def model():
    return load_model("cartpole")


def messages(model, info=None, description=None, stamps=None, **fields):
    """(topic, type, time of reception [ns], message) of a short run; fields replace arrays (samples, 2) of joint states."""
    types = typestore(JOINT_STATE, STRING).types
    t = model.timestep * np.arange(SAMPLES)
    arrays = {
        "position": np.stack([np.sin(5.0 * t), np.cos(3.0 * t)], axis=1),
        "velocity": np.stack([5.0 * np.cos(5.0 * t), -3.0 * np.sin(3.0 * t)], axis=1),
        "effort": np.stack([np.sin(11.0 * t), 0.0 * t], axis=1),
    } | fields
    info = {"robot": model.name, "model_hash": model.hash} if info is None else info
    for topic, text in (
        ("/robot_description", model.xml if description is None else description),
        ("/run_info", info if isinstance(info, str) else json.dumps(info)),
    ):
        yield topic, STRING, 0, types[STRING](data=text)
    for k, stamp in enumerate(t if stamps is None else stamps):
        nanoseconds = round(float(stamp) * 1e9)
        when = types["builtin_interfaces/msg/Time"](sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
        header = types["std_msgs/msg/Header"](stamp=when, frame_id="")
        row = {name: array[k] for name, array in arrays.items()}
        yield (
            "/joint_states",
            JOINT_STATE,
            round(1e9 * model.timestep * k),
            types[JOINT_STATE](header, list(model.joint_names), **row),
        )


def write(path, model, **changes):
    """A bag of several chunks."""
    with BagWriter(path, flush_period=0.0) as bag:
        for topic, kind, received, message in messages(model, **changes):
            bag.add_topic(topic, kind)
            bag.write_message(topic, received, message)
    return path


def file_of(path):
    return next(path.glob("*.mcap"))


def changed(path, model, change):
    """A good bag whose file is not what it was: change(bytes) -> bytes."""
    file = file_of(write(path, model))
    file.write_bytes(change(file.read_bytes()))
    return path


def with_checksums(path, model):
    """A good bag as other writers leave it: every chunk with the checksum of its content."""
    file = file_of(write(path, model))
    copy = file.with_suffix(".copy")
    with file.open("rb") as source, copy.open("wb") as target:
        writer = McapWriter(target, chunk_size=2000)
        writer.start("ros2")
        schemas, channels = {}, {}
        for record in StreamReader(source).records:
            if isinstance(record, Schema) and record.id not in schemas:
                schemas[record.id] = writer.register_schema(record.name, record.encoding, record.data)
            elif isinstance(record, Channel) and record.id not in channels:
                channels[record.id] = writer.register_channel(
                    record.topic, record.message_encoding, schemas[record.schema_id], record.metadata
                )
            elif isinstance(record, Message):
                writer.add_message(
                    channels[record.channel_id], record.log_time, record.data, record.publish_time, record.sequence
                )
        writer.finish()
    copy.replace(file)
    return path


def with_wrong_checksum(path, model):
    """One bit of one position has changed."""
    file = file_of(with_checksums(path, model))
    content = bytearray(file.read_bytes())
    content[content.index(np.float64(np.sin(5.0 * model.timestep * 60)).tobytes())] ^= 1
    file.write_bytes(content)
    return path


def with_sqlite(path, model):
    """rosbag2's other storage."""
    store, connections = typestore(JOINT_STATE, STRING), {}
    with Writer(path, version=9, storage_plugin=StoragePlugin.SQLITE3) as bag:
        for topic, kind, received, message in messages(model):
            if topic not in connections:
                connections[topic] = bag.add_connection(topic, kind, typestore=store)
            bag.write(connections[topic], received, bytes(store.serialize_cdr(message, kind)))
    return path


def with_damaged_sqlite(path, model):
    file = next(with_sqlite(path, model).glob("*.db3"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 8192] = b"\xff" * 8192
    file.write_bytes(content)
    return path


def empty(path):
    with BagWriter(path):
        return path


def without_metadata(path):
    path.mkdir()
    (path / "notes.txt").write_text("no bag")
    return path


def spoilt(value):
    """Positions with one number in them that no robot has."""
    q = np.random.default_rng(0).standard_normal((SAMPLES, 2))
    q[60, 1] = value
    return q


def magic_alone(content):
    return content[:8]


def cut_inside(content):
    """A stretch in the middle is missing, the index at the end is there."""
    return content[: len(content) // 2] + content[len(content) // 2 + 100 :]


def overwritten(content):
    middle = len(content) // 2
    return content[:middle] + b"\xff" * 3000 + content[middle + 3000 :]


BAD = {
    "eight magic bytes": (lambda p, m: changed(p, m, magic_alone), "holds no readable message"),
    "eight magic bytes alone": (lambda p, m: file_of(changed(p, m, magic_alone)), "holds no readable message"),
    "nothing in the file": (lambda p, m: changed(p, m, lambda content: b""), "holds no readable message"),
    "a piece cut out": (lambda p, m: changed(p, m, cut_inside), "is damaged|was cut off"),
    "a piece overwritten": (lambda p, m: changed(p, m, overwritten), "is damaged|was cut off"),
    "a chunk cut off": (lambda p, m: changed(p, m, lambda c: c[: len(c) // 2]), "was cut off.*--allow-truncated"),
    "a wrong checksum": (with_wrong_checksum, r"is damaged \(Chunk checksum mismatch"),
    "a damaged database": (with_damaged_sqlite, "is damaged|is no readable bag"),
    "no messages": (lambda p, m: empty(p), "lacks joint_states, robot_description, run_info"),
    "no metadata": (lambda p, m: without_metadata(p), "is no readable bag: Expected metadata file"),
    "metadata of another kind": (
        lambda p, m: (write(p, m) / "metadata.yaml").write_text("[1, 2]") and shutil.move(file_of(p), p / "x") and p,
        "is no readable bag",
    ),
    "zero stamps": (lambda p, m: write(p, m, stamps=np.zeros(SAMPLES)), "time stands still: 120 joint states have 1 "),
    "positions that never change": (
        lambda p, m: write(p, m, position=np.zeros((SAMPLES, 2))),
        "no joint moves: all 120 positions of slider, hinge are the same",
    ),
    "a position of 1e300": (
        lambda p, m: write(p, m, position=spoilt(1e300)),
        r"position of hinge is 1e\+300 at .* expected at most 1e\+06",
    ),
    "a position that is no number": (
        lambda p, m: write(p, m, position=spoilt(np.nan)),
        "position of hinge is not finite",
    ),
    "an infinite velocity": (
        lambda p, m: write(p, m, velocity=spoilt(np.inf)),
        "velocity of hinge is not finite",
    ),
    "run_info a list": (lambda p, m: write(p, m, info=["robot", "cartpole"]), "is a JSON list, expected an object"),
    "run_info a number": (lambda p, m: write(p, m, info="7"), "is a JSON int, expected an object"),
    "run_info no JSON": (lambda p, m: write(p, m, info="{robot: x}"), "is not JSON"),
    "run_info far too deep": (lambda p, m: write(p, m, info="[" * 100000), "is not JSON"),
    "run_info without a robot": (lambda p, m: write(p, m, info={"model_hash": m.hash}), "run_info has no 'robot'"),
    "run_info without a hash": (lambda p, m: write(p, m, info={"robot": m.name}), "run_info has no 'model_hash'"),
    "run_info with a number for a robot": (
        lambda p, m: write(p, m, info={"robot": 5, "model_hash": m.hash}),
        "run_info says robot 5, expected text",
    ),
    "run_info with a list of parameters": (
        lambda p, m: write(p, m, info={"robot": m.name, "model_hash": m.hash, "parameters": []}),
        "run_info says parameters \\[\\], expected an object",
    ),
    "an unknown robot": (
        lambda p, m: write(p, m, info={"robot": "nobody", "model_hash": m.hash}),
        "run_info says robot 'nobody', robot_description is of 'cartpole'",
    ),
    "another version of the robot": (
        lambda p, m: write(p, m, info={"robot": m.name, "model_hash": "0" * 64}),
        "run_info says 000000000000",
    ),
    "a description that is a name": (lambda p, m: write(p, m, description="panda"), "begins with 'panda', expected"),
    "a description that is no model": (lambda p, m: write(p, m, description="<mujoco>"), "is no usable model"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_bag_is_refused_in_one_line(case, model, tmp_path, capsys):
    make, message = BAD[case]
    path = make(tmp_path / "bag", model)
    began = time.process_time()
    for options in ([], ["--method", "svgd", "--particles", "4", "--iterations", "2"]):
        assert main(["identify", str(path), "--out", str(tmp_path / "out"), *options]) == 2
        out, err = capsys.readouterr()
        assert re.search(message, err), err
        assert err.count("\n") == 1 and "Traceback" not in out + err
    assert time.process_time() - began < REFUSAL
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("make", [write, with_checksums, with_sqlite])
def test_the_same_bag_undamaged_is_read(make, model, tmp_path):
    """Or the refusals above would say nothing."""
    bag = BagReader(make(tmp_path / "bag", model))
    assert bag.truncated == "" and bag.joint_states().q.shape == (SAMPLES, 2)
    assert bag.run_info()["robot"] == bag.robot_description().split('model="')[1].split('"')[0] == "cartpole"


def test_what_comes_before_the_damage_can_be_read_from_the_file_alone(model, tmp_path):
    bag = BagReader(file_of(with_wrong_checksum(tmp_path / "bag", model)))
    assert "was cut off" in bag.truncated and 10 < len(bag.joint_states().t) < 61


def read_everything(path):
    bag = BagReader(path)
    bag.joint_states()
    bag.run_info()
    bag.robot_description()
    bag.array("joint_states", "position")


def test_damage_anywhere_raises_nothing_but_bag_errors(model, tmp_path):
    """At 200 places: a bit changed, bytes overwritten, or a piece cut out; through the bag's index and without."""
    folder, rng = write(tmp_path / "bag", model, stamps=0.01 * np.arange(25)), np.random.default_rng(20)
    file = file_of(folder)
    whole, refused = file.read_bytes(), 0
    for k in range(200):
        content, at = bytearray(whole), int(rng.integers(len(whole)))
        match k % 4:
            case 0:
                content[at] ^= 1 << int(rng.integers(8))
            case 1:
                content[at : at + 8] = rng.bytes(8)
            case 2:
                del content[at : at + int(rng.integers(1, 200))]
            case _:
                content[at : at + 4] = b"\xff\xff\xff\xff"
        file.write_bytes(content)
        try:
            read_everything((folder, file)[k // 4 % 2])
        except BagError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 50


def test_damaged_metadata_raises_nothing_but_bag_errors(model, tmp_path):
    folder, rng = write(tmp_path / "bag", model, stamps=0.01 * np.arange(25)), np.random.default_rng(21)
    metadata = folder / "metadata.yaml"
    whole = metadata.read_bytes()
    for _ in range(60):
        content, at = bytearray(whole), int(rng.integers(len(whole)))
        content[at : at + int(rng.integers(1, 6))] = rng.bytes(3)
        metadata.write_bytes(content)
        try:
            read_everything(folder)
        except BagError as error:
            assert "\n" not in str(error)
