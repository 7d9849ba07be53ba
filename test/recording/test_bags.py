"""Bags written, cut off, damaged and read again."""

import os
import signal
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("rosbags")

from rosbags.highlevel import AnyReader
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

from recording import BagError, BagReader, BagWriter, load_profile, profile_names
from recording.message_types import typestore

ROOT = Path(__file__).resolve().parents[2]
JOINT_STATE = "sensor_msgs/msg/JointState"
STRING = "std_msgs/msg/String"


def joint_state(t, names=("a", "b"), q=None, v=None, effort=None):
    """A rosbags JointState; arrays default to functions of t."""
    T = typestore().types
    nanoseconds = round(t * 1e9)
    header = T["std_msgs/msg/Header"](T["builtin_interfaces/msg/Time"](nanoseconds // 10**9, nanoseconds % 10**9), "")
    fill = [np.array([np.sin(t), 2 * t]) if x is None else np.array(x, float) for x in (q, v, effort)]
    return T[JOINT_STATE](header, list(names), *fill)


def write_bag(path, n=1000, close=True, **options):
    bag = BagWriter(path, **options)
    bag.add_topic("/joint_states", JOINT_STATE)
    bag.add_topic("/run_info", STRING)
    bag.write_message("/run_info", 1, typestore().types[STRING]('{"robot": "toy", "seed": 7}'))
    for k in range(n):
        bag.write_message("/joint_states", 10 + 2_000_000 * k, joint_state(0.002 * k))
    if close:
        bag.close()
    else:
        bag.flush()
    return bag


def test_what_is_written_is_read(tmp_path):
    write_bag(tmp_path / "bag", custom_data={"note": "hello"})
    bag = BagReader(tmp_path / "bag")
    assert bag.truncated == ""
    assert {k: v.count for k, v in bag.topics.items()} == {"/joint_states": 1000, "/run_info": 1}
    joints = bag.joint_states()
    t = 0.002 * np.arange(1000)
    np.testing.assert_allclose(joints.t, t, atol=1e-12)
    np.testing.assert_allclose(joints.received, 1e-8 + t, atol=1e-12)
    np.testing.assert_allclose(joints.q, np.stack([np.sin(t), 2 * t], axis=1), atol=1e-15)
    assert joints.names == ("a", "b") and len(joints.time_jumps()) == 0
    assert bag.run_info()["seed"] == 7
    np.testing.assert_allclose(bag.joint_states(joints=["b", "a"]).q, joints.q[:, ::-1])
    times, names = bag.array("joint_states", "name")
    assert names.shape == (1000, 2) and times[-1] == pytest.approx(1.998)


def test_the_description_of_old_bags_and_new_ones_is_mjcf(tmp_path):
    """Old bags hold it as robot_description; new ones hold URDF there, beside the MJCF."""
    text = typestore().types[STRING]
    for name, topics in (
        ("old", {"/robot_description": "<mujoco/>"}),
        ("new", {"/robot_description": "<robot/>", "/robot_description_mjcf": "<mujoco/>"}),
    ):
        with BagWriter(tmp_path / name) as bag:
            for topic, data in topics.items():
                bag.add_topic(topic, STRING)
                bag.write_message(topic, 1, text(data))
        assert BagReader(tmp_path / name).robot_description() == "<mujoco/>"


def test_others_read_it_too(tmp_path):
    """rosbags' own reader, and the metadata that rosbag2 looks at."""
    write_bag(tmp_path / "bag")
    with AnyReader([tmp_path / "bag"]) as reader:
        assert reader.message_count == 1001
        assert reader.duration == 2_000_000 * 999 + 9 + 1
    info = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert (info["version"], info["storage_identifier"], info["relative_file_paths"]) == (9, "mcap", ["bag.mcap"])
    assert info["message_count"] == 1001
    # What is written while recording has the same keys as what rosbags writes at the end.
    write_bag(tmp_path / "open", close=False)
    early = yaml.safe_load((tmp_path / "open" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert early.keys() == info.keys() and early["message_count"] == 1001
    topic, same = early["topics_with_message_count"][0], info["topics_with_message_count"][0]
    assert topic == same


def test_own_interfaces_explain_themselves(tmp_path):
    store = typestore("refit_interfaces/msg/JointCommand")
    T = store.types
    header = T["std_msgs/msg/Header"](T["builtin_interfaces/msg/Time"](3, 500), "")
    command = T["refit_interfaces/msg/JointCommand"](
        header, 2, ["a"], np.array([1.5]), np.array([0.1]), np.array([]), np.array([4.0, 5.0]), "mpc", 11
    )
    with BagWriter(tmp_path / "bag") as bag:
        bag.add_topic("/left/joint_command", "refit_interfaces/msg/JointCommand")
        bag.write_message("/left/joint_command", 5, command)
    ((_, message),) = BagReader(tmp_path / "bag").messages("joint_command")  # found in its namespace
    assert message.parameters_revision == 11 and list(message.gain) == [4.0, 5.0]
    with pytest.raises(KeyError, match="no_such_interfaces/msg/Thing"):
        typestore("no_such_interfaces/msg/Thing")


def test_cut_off_anywhere_is_readable_or_one_sentence(tmp_path):
    write_bag(tmp_path / "bag", n=300, flush_period=0.0)  # a chunk per message
    whole = (tmp_path / "bag" / "bag.mcap").read_bytes()
    counts = []
    for size in np.linspace(0, len(whole) - 40, 30, dtype=int):
        cut = tmp_path / f"cut{size}.mcap"
        cut.write_bytes(whole[:size])
        try:
            bag = BagReader(cut)
        except BagError as error:
            assert "readable" in str(error)
            assert size < 2000
            continue
        joints = sum(1 for _ in bag.messages("joint_states")) if bag.has("joint_states") else 0
        assert joints == bag.topics["/joint_states"].count
        assert bag.truncated.endswith("up to its last complete chunk.")
        counts.append(joints)
    assert counts == sorted(counts) and counts[-1] == 300 and counts[0] < 20


def test_a_bag_tells_its_span_and_what_was_offered(tmp_path):
    """What playing it again needs, also of a bag without its index."""
    forever = QosTime(9223372036, 854775807)
    latched = Qos(
        QosHistory.KEEP_LAST, 7, QosReliability.RELIABLE, QosDurability.TRANSIENT_LOCAL, forever, forever,
        QosLiveliness.AUTOMATIC, forever, False,
    )  # fmt: skip
    bag = BagWriter(tmp_path / "bag")
    bag.add_topic("/run_info", STRING, (latched,))
    bag.add_topic("/joint_states", JOINT_STATE)
    bag.write_message("/run_info", 5, typestore().types[STRING]("{}"))
    bag.write_message("/joint_states", 2_000_000_005, joint_state(0.0))
    bag.flush()
    cut_off = BagReader(tmp_path / "bag" / "bag.mcap")
    bag.close()
    whole = BagReader(tmp_path / "bag")
    assert cut_off.truncated and not whole.truncated
    for reader in (cut_off, whole):
        assert reader.span == (5, 2_000_000_005)
        assert reader.offered("run_info") == (latched,) and reader.offered("/joint_states") == ()


def test_sigkill_costs_at_most_the_last_chunk(tmp_path):
    code = textwrap.dedent(f"""
        import sys, time
        sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]
        from test_bags import *
        bag = BagWriter({str(tmp_path / "bag")!r}, flush_period=0.1)
        bag.add_topic("/joint_states", JOINT_STATE)
        for k in range(10**6):
            bag.write_message("/joint_states", k, joint_state(0.002 * k))
            print(k, flush=True)
            time.sleep(0.001)
    """)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    written, _stamps = -1, []
    for line in process.stdout:
        written = int(line)
        if written == 400:
            os.kill(process.pid, signal.SIGKILL)
    process.wait()
    bag = BagReader(tmp_path / "bag")
    assert "was cut off: recovered" in bag.truncated
    joints = bag.joint_states()
    np.testing.assert_allclose(joints.t, 0.002 * np.arange(len(joints.t)), atol=1e-12)
    assert written - len(joints.t) < 150  # 0.1 s at 1 kHz, and the sleep's slack


def test_the_first_message_is_on_the_disk_at_once(tmp_path):
    bag = BagWriter(tmp_path / "bag", flush_period=60.0)
    bag.add_topic("/joint_states", JOINT_STATE)
    for k in range(3):
        bag.write_message("/joint_states", k, joint_state(0.002 * k))
    assert BagReader(tmp_path / "bag").topics["/joint_states"].count == 1  # what a SIGKILL leaves now
    bag.close()
    assert BagReader(tmp_path / "bag").topics["/joint_states"].count == 3


def test_a_young_bag_never_misses_more_than_half(tmp_path, monkeypatch):
    """A recording that is killed, or whose disk is full, a moment after its begin holds what came first."""
    clock = [100.0]
    monkeypatch.setattr("recording.bag_writer.time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    flushes, flush = [], BagWriter.flush
    monkeypatch.setattr(BagWriter, "flush", lambda self: (flushes.append(clock[0]), flush(self)))
    bag = BagWriter(tmp_path / "bag", flush_period=0.8)
    bag.add_topic("/joint_states", JOINT_STATE)
    for k in range(400):
        clock[0] = 103.0 + 0.01 * k  # it waits for its first message
        bag.write_message("/joint_states", k, joint_state(0.0))
        if k in (3, 7, 15, 30, 60, 77, 130, 300, 399):
            on_disk = BagReader(tmp_path / "bag").topics["/joint_states"].count
            assert k + 1 - on_disk <= min(80, max(5, k / 2 + 1)), k
    assert (
        len(flushes) == 9
    )  # at its begin, after 0.05, 0.1, 0.2, 0.4 and 0.8 s, and then every 0.8 s: no chunk too many
    bag.close()


def test_damage_inside_ends_the_recovery_there(tmp_path):
    write_bag(tmp_path / "bag", n=300, flush_period=0.0)
    data = bytearray((tmp_path / "bag" / "bag.mcap").read_bytes()[:-200])
    middle = len(data) // 2
    data[middle : middle + 64] = b"\xff" * 64
    (tmp_path / "damaged.mcap").write_bytes(data)
    bag = BagReader(tmp_path / "damaged.mcap")
    assert bag.truncated and 50 < bag.topics["/joint_states"].count < 300


def test_what_is_missing_is_named(tmp_path):
    write_bag(tmp_path / "bag", n=3)
    bag = BagReader(tmp_path / "bag")
    with pytest.raises(BagError, match=r"lacks wrench, clock; recorded: /joint_states \(3\), /run_info \(1\)"):
        bag.require("joint_states", "wrench", "clock")
    with pytest.raises(BagError, match="Did you mean '/joint_states'"):
        bag.resolve("joint_state")
    with pytest.raises(BagError, match="no field 'torque'"):
        bag.array("joint_states", "torque")
    with pytest.raises(BagError, match="Joint c is missing in message 0 of '/joint_states', which names a, b"):
        bag.joint_states(joints=["a", "c"])
    with pytest.raises(BagError, match="No bag at"):
        BagReader(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.mcap").write_text("not a bag at all, but long enough to be read as one")
    for name in ("empty", "text.mcap"):
        with pytest.raises(BagError, match="readable"):
            BagReader(tmp_path / name)
    with BagWriter(tmp_path / "two") as two:
        for side in ("left", "right"):
            two.add_topic(f"/{side}/joint_states", JOINT_STATE)
    with pytest.raises(BagError, match="2 times: /left/joint_states, /right/joint_states"):
        BagReader(tmp_path / "two").resolve("joint_states")
    with pytest.raises(BagError, match="lacks joint_states"):
        BagReader(tmp_path / "two").require("joint_states")


def test_odd_joint_states_are_kept_or_named(tmp_path):
    with BagWriter(tmp_path / "bag") as bag:
        bag.add_topic("/joint_states", JOINT_STATE)
        for k, (t, options) in enumerate(
            [
                (0.0, {}),
                (0.1, dict(names=("b", "a"), q=[1, 2])),
                (0.2, dict(q=[np.nan, 1])),
                (0.2, {}),
                (0.05, dict(effort=[])),
            ]
        ):
            bag.write_message("/joint_states", k, joint_state(t, **options))
    joints = BagReader(tmp_path / "bag").joint_states()
    np.testing.assert_array_equal(joints.q[1], [2, 1])  # by name, not by place
    assert np.isnan(joints.q[2, 0]) and np.isnan(joints.effort[4]).all()
    np.testing.assert_array_equal(joints.time_jumps(), [4])
    with BagWriter(tmp_path / "short") as bag:
        bag.add_topic("/joint_states", JOINT_STATE)
        bag.write_message("/joint_states", 0, joint_state(0.0))
        bag.write_message("/joint_states", 1, joint_state(0.1, names=("a",), q=[0], v=[0], effort=[0]))
    with pytest.raises(BagError, match="Joint b is missing in message 1"):
        BagReader(tmp_path / "short").joint_states()
    with BagWriter(tmp_path / "garbled") as bag:
        bag.add_topic("/joint_states", JOINT_STATE)
        bag.write("/joint_states", 0, b"\x00\x01\x00\x00\x05")
    with pytest.raises(BagError, match="Message 0 of '/joint_states' cannot be decoded"):
        BagReader(tmp_path / "garbled").joint_states()


def test_writer_refuses_to_overwrite_and_survives_a_full_disk(tmp_path, monkeypatch):
    write_bag(tmp_path / "bag", n=1)
    with pytest.raises(FileExistsError, match="exists already"):
        BagWriter(tmp_path / "bag")
    bag = write_bag(tmp_path / "full", n=100, close=False)
    with pytest.raises(ValueError, match="recorded as sensor_msgs"):
        bag.add_topic("/joint_states", STRING)

    def no_space(data):
        raise OSError(28, "No space left on device")

    bag.write_message("/joint_states", 10**9, joint_state(1.0))
    monkeypatch.setattr(bag._writer.storage, "bio", _Failing(bag._writer.storage.bio, no_space))
    with pytest.raises(OSError, match="No space left"):
        bag.flush()
    bag.abort()
    assert BagReader(tmp_path / "full").topics["/joint_states"].count == 100


class _Failing:
    """A file that no longer takes anything."""

    def __init__(self, file, write):
        self._file, self.write = file, write

    def __getattr__(self, name):
        return getattr(self._file, name)


def test_profiles_know_their_topics():
    assert set(profile_names()) == {"full", "control", "exam", "search", "dig", "poke", "scan", "identify", "calibrate"}
    for name in profile_names():
        for topic in load_profile(name).topics.values():
            typestore(topic.message_type)
    assert {"joint_states", "robot_description"} <= set(load_profile("identify").topics)
    with pytest.raises(KeyError, match="there are full, exam, search, dig, poke, scan, control, identify"):
        load_profile("all")


@pytest.mark.parametrize("namespace", ["", "/left"])
def test_a_name_in_nested_namespaces_means_the_outermost(tmp_path, namespace):
    with BagWriter(tmp_path / "bag") as bag:
        for name in (f"{namespace}/sim_plant/joint_states", f"{namespace}/joint_states"):
            bag.add_topic(name, JOINT_STATE)
    assert BagReader(tmp_path / "bag").resolve("joint_states") == f"{namespace}/joint_states"
