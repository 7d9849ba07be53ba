"""Reading bags as arrays, whole or cut off.

bag = BagReader("runs/demo/bag")
if bag.truncated: print(bag.truncated)
joints = bag.joint_states()                 # t, names, q, v, effort
t, force = bag.array("wrench", "wrench.force.z")
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from mcap.records import Channel, Footer, McapRecord, Message, Schema
from mcap.stream_reader import StreamReader
from rosbags.interfaces import ConnectionExtRosbag2, Qos
from rosbags.rosbag2 import Reader
from rosbags.rosbag2.metadata import parse_qos
from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

__all__ = ["BagError", "BagReader", "JointSeries"]

JOINT_STATE, STRING = "sensor_msgs/msg/JointState", "std_msgs/msg/String"
#: the longest text of a library's error that a sentence quotes
QUOTED = 200


class BagError(ValueError):
    """A bag cannot serve as asked; the text says what is missing and what is there."""


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever a library raises at damaged bytes leaves as BagError.

    rosbags, mcap, SQLite and the decompressors do so with errors of two dozen kinds (AssertionError, TypeError,
    OverflowError, MemoryError, ...). No list of them is complete, and only their code runs in here.
    """
    try:
        yield
    except BagError:
        raise
    except Exception as error:
        raise BagError(
            f"'{path}' is damaged ({_quoted(error)}); record again, or name its .mcap file alone: "
            "what comes before the damage can still be read."
        ) from error


def _quoted(error: Exception) -> str:
    """An error of a library on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}..."


@dataclasses.dataclass(frozen=True)
class JointSeries:
    """Joint states over time.

    Attributes:
        t: stamps [s], shape (T,), as recorded: not sorted, repeated stamps kept.
        received: time of reception by the recorder [s], shape (T,).
        names: joint names, length n.
        q, v, effort: shape (T, n) [rad or m], [rad/s or m/s], [N m or N]; NaN where a message
            lacked the field.
    """

    t: np.ndarray
    received: np.ndarray
    names: tuple[str, ...]
    q: np.ndarray
    v: np.ndarray
    effort: np.ndarray

    def time_jumps(self) -> np.ndarray:
        """Indices k where t[k] < t[k-1]: resets of the simulation."""
        return np.flatnonzero(np.diff(self.t) < 0.0) + 1


@dataclasses.dataclass(frozen=True)
class _Topic:
    message_type: str
    count: int


class BagReader:
    """A rosbag2 bag: its directory, or a bare .mcap file.

    Attributes:
        topics: fully qualified name -> (message_type, count).
        truncated: "" for a complete bag, else one sentence saying what was recovered.
        span: times of reception of the first and the last message [ns]; (0, 0) if there is none.

    Raises:
        BagError: nothing there, no bag, or nothing readable in it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser()
        if not self.path.exists():
            raise BagError(f"No bag at '{self.path}'.")
        self.truncated = ""
        try:
            self._source: _Source = _CompleteBag(self.path)
        except _NotComplete as reason:
            with _reading(self.path):
                recovered = _Recovered(self.path, str(reason))
            self._source, self.truncated = recovered, recovered.sentence
        self.topics = self._source.topics
        self.span = self._source.span
        self._store: Typestore | None = None

    # ---- topics ----------------------------------------------------------------------------
    def resolve(self, topic: str) -> str:
        """Full name of a topic given in full or relative ("joint_states").

        Of one name in nested namespaces the outermost is meant: the robot's, rather than that of the plant behind it.

        Raises:
            BagError: not recorded, or recorded in several namespaces of one depth.
        """
        if topic in self.topics:
            return topic
        found = [name for name in self.topics if name.endswith("/" + topic.lstrip("/"))]
        found = [name for name in found if name.count("/") == min(n.count("/") for n in found)]
        if len(found) == 1:
            return found[0]
        if found:
            raise BagError(
                f"'{topic}' is in '{self.path}' {len(found)} times: {', '.join(found)}; name the one you mean."
            )
        near = difflib.get_close_matches("/" + topic.lstrip("/"), self.topics, 1)
        raise BagError(
            f"Topic '{topic}' is not in '{self.path}'. "
            + (f"Did you mean '{near[0]}'? " if near else "")
            + f"Recorded: {', '.join(sorted(self.topics)) or 'nothing'}."
        )

    def has(self, topic: str) -> bool:
        """Whether `topic` was recorded with at least one message."""
        try:
            return self.topics[self.resolve(topic)].count > 0
        except BagError:
            return False

    def require(self, *topics: str) -> None:
        """All of `topics` must be there with messages.

        Raises:
            BagError: names every one that is missing or empty.
        """
        missing = [topic for topic in topics if not self.has(topic)]
        if missing:
            raise BagError(
                f"'{self.path}' lacks {', '.join(missing)}; recorded: "
                f"{', '.join(f'{k} ({v.count})' for k, v in sorted(self.topics.items()))}."
            )

    def offered(self, topic: str) -> tuple[Qos, ...]:
        """The qualities of service that a topic's publishers offered, as far as the bag says.

        Raises:
            BagError: the topic is missing, or what it says of them is damaged.
        """
        name = self.resolve(topic)
        with _reading(self.path):
            return self._source.offered(name)

    # ---- messages --------------------------------------------------------------------------
    def raw(self, *topics: str) -> Iterator[tuple[str, int, bytes]]:
        """(full topic, time of reception [ns], CDR bytes) in recorded order; all topics if none.

        Raises:
            BagError: a topic is missing, or the bag is damaged.
        """
        names = {self.resolve(topic) for topic in topics} if topics else set(self.topics)
        with _reading(self.path):
            yield from self._source.messages(names)

    def messages(self, topic: str) -> Iterator[tuple[int, Any]]:
        """(time of reception [ns], message) of one topic, in recorded order.

        Raises:
            BagError: the topic is missing, or a message cannot be decoded.
        """
        name = self.resolve(topic)
        for index, (_, stamp, data) in enumerate(self.raw(name)):
            yield stamp, self.decode(name, data, f"Message {index}")

    def decode(self, topic: str, data: bytes, which: str = "A message") -> Any:
        """The message of which `raw` has given the bytes.

        Args:
            topic: full name. which: of its messages, for the error's text.

        Raises:
            BagError: it cannot be decoded.
        """
        if self._store is None:
            with _reading(self.path):
                self._store = self._types()
        kind = self.topics[topic].message_type
        try:
            return self._store.deserialize_cdr(data, kind)
        except Exception as error:
            raise BagError(f"{which} of '{topic}' cannot be decoded as {kind}: {_quoted(error)}") from error

    def _types(self) -> Typestore:
        """Jazzy's types, and those the bag brings itself."""
        store = get_typestore(Stores.ROS2_JAZZY)
        for name, definition, is_idl in self._source.definitions():
            if name not in store.types and definition:
                parsed = get_types_from_idl(definition) if is_idl else get_types_from_msg(definition, name)
                store.register({k: v for k, v in parsed.items() if k not in store.types})
        return store

    def array(self, topic: str, field: str) -> tuple[np.ndarray, np.ndarray]:
        """One field over time.

        Args:
            topic: full or relative name.
            field: path such as "wrench.force.z" or "position"; equal lengths stack to (T, n).

        Returns:
            stamps [s] from the header (time of reception without one), and values.
        """
        times, values = [], []
        for received, message in self.messages(topic):
            try:
                value = message
                for part in field.split("."):
                    value = getattr(value, part)
            except AttributeError as error:
                raise BagError(f"'{topic}' has no field '{field}': {error}.") from error
            times.append(_stamp(message, received))
            values.append(value)
        try:
            return np.array(times), np.array(values)
        except ValueError as error:
            raise BagError(f"'{field}' of '{topic}' changes its length along the bag.") from error

    def joint_states(self, topic: str = "joint_states", joints: Sequence[str] | None = None) -> JointSeries:
        """All joint states as arrays.

        Args:
            topic: full or relative name.
            joints: names in the order wanted; None: the order of the first message.

        Raises:
            BagError: topic missing, empty or of another type, a joint missing in some message.
        """
        name = self._of_type(topic, JOINT_STATE)
        times: list[float] = []
        received: list[float] = []
        rows: tuple[list[np.ndarray], ...] = ([], [], [])
        seen: list[str] = []
        order = np.zeros(0, dtype=int)
        wanted = joints
        for stamp, message in self.messages(name):
            if wanted is None:
                wanted = tuple(message.name)
            if not times or list(message.name) != seen:
                seen = list(message.name)
                missing = [j for j in wanted if j not in seen]
                if missing:
                    raise BagError(
                        f"Joint {', '.join(missing)} is missing in message {len(times)} "
                        f"of '{name}', which names {', '.join(seen) or 'none'}."
                    )
                order = np.array([seen.index(j) for j in wanted], dtype=int)
            times.append(_stamp(message, stamp))
            received.append(stamp * 1e-9)
            for row, field in zip(rows, (message.position, message.velocity, message.effort), strict=True):
                row.append(field[order] if len(field) == len(seen) else np.full(len(wanted), np.nan))
        if not times or wanted is None:
            raise BagError(f"'{name}' in '{self.path}' holds no messages.")
        q, v, effort = (np.array(row) for row in rows)
        return JointSeries(np.array(times), np.array(received), tuple(wanted), q, v, effort)

    # ---- what the recorder stored beside the data --------------------------------------------
    def run_info(self) -> dict:
        """The run's description as the recorder stored it (see docs/bags.md).

        Raises:
            BagError: not in the bag, or not a JSON object.
        """
        text = self._last_text("run_info")
        try:
            info = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BagError(f"run_info in '{self.path}' is not JSON: {_quoted(error)}.") from error
        if not isinstance(info, dict):
            raise BagError(
                f"run_info in '{self.path}' is a JSON {type(info).__name__}, expected an object with 'robot' and "
                "'model_hash'; record with the recorder of this project, or convert the bag as docs/bags.md says."
            )
        return info

    def robot_description(self) -> str:
        """MJCF text of the nominal robot; in bags from before its topic was named so, that of robot_description.

        Raises:
            BagError: not in the bag.
        """
        return self._last_text("robot_description_mjcf" if self.has("robot_description_mjcf") else "robot_description")

    def _last_text(self, topic: str) -> str:
        self.require(topic)
        topic, text = self._of_type(topic, STRING), ""
        for _, message in self.messages(topic):
            text = message.data
        return text

    def _of_type(self, topic: str, kind: str) -> str:
        """Full name of a topic that has to carry messages of a type."""
        name = self.resolve(topic)
        if (found := self.topics[name].message_type) != kind:
            raise BagError(f"'{name}' in '{self.path}' holds messages of {found}, expected {kind}.")
        return name


def _stamp(message: Any, received: int) -> float:
    header = getattr(message, "header", None)
    if header is None:
        return received * 1e-9
    return header.stamp.sec + header.stamp.nanosec * 1e-9


class _Source(Protocol):
    """A bag's file or files, however they are read."""

    topics: dict[str, _Topic]
    span: tuple[int, int]

    def offered(self, topic: str) -> tuple[Qos, ...]:
        """Qualities of service of a topic's publishers."""
        ...

    def messages(self, names: set[str]) -> Iterator[tuple[str, int, bytes]]:
        """(full topic, time of reception [ns], CDR bytes) of some topics, in recorded order."""
        ...

    def definitions(self) -> Iterator[tuple[str, str, bool]]:
        """(type, its definition, whether that is IDL) of every type that the bag describes."""
        ...


class _NotComplete(Exception):
    """rosbags cannot read the bag; the text says why."""


class _CompleteBag:
    """A bag with its index, read through rosbags (MCAP or SQLite)."""

    def __init__(self, path: Path) -> None:
        if path.is_file():
            raise _NotComplete("bare file")
        try:
            with Reader(path) as reader:
                self._connections = list(reader.connections)
                self.span = (reader.start_time, reader.end_time - 1) if reader.message_count else (0, 0)
            counts: Counter = Counter()
            for c in self._connections:
                counts[c.topic] += c.msgcount
        except Exception as error:  # see `_reading`
            raise _NotComplete(_quoted(error)) from error
        self.topics = {c.topic: _Topic(c.msgtype, counts[c.topic]) for c in self._connections}
        self._path = path

    def offered(self, topic: str) -> tuple[Qos, ...]:
        extensions = [c.ext for c in self._connections if c.topic == topic]
        return tuple(q for ext in extensions if isinstance(ext, ConnectionExtRosbag2) for q in ext.offered_qos_profiles)

    def messages(self, names: set[str]) -> Iterator[tuple[str, int, bytes]]:
        with Reader(self._path) as reader:
            chosen = [c for c in reader.connections if c.topic in names]
            for connection, stamp, data in reader.messages(connections=chosen) if chosen else ():
                yield connection.topic, stamp, data

    def definitions(self) -> Iterator[tuple[str, str, bool]]:
        for c in self._connections:
            yield c.msgtype, c.msgdef.data, c.msgdef.format.name == "IDL"


class _Recovered:
    """An MCAP file without its index, read from the front up to the last whole record."""

    def __init__(self, path: Path, reason: str) -> None:
        self._files = [path] if path.is_file() else sorted(path.glob("*.mcap"))
        if not self._files:
            raise BagError(f"'{path}' is no readable bag: {reason}")
        self._schemas: dict[int, Schema] = {}
        counts: Counter = Counter()
        kinds: dict[str, str] = {}
        self._offered: dict[str, tuple[Qos, ...]] = {}
        first, last, complete = None, 0, True
        for file in self._files:
            records = self._scan(file)
            for record in records:
                if isinstance(record, Message):
                    counts[self._channels[record.channel_id].topic] += 1
                    first = record.log_time if first is None else min(first, record.log_time)
                    last = max(last, record.log_time)
                elif isinstance(record, Channel):
                    kinds[record.topic] = self._schemas[record.schema_id].name
                    self._offered[record.topic] = tuple(parse_qos(record.metadata.get("offered_qos_profiles", "")))
            complete &= self._ended
        if not kinds:
            raise BagError(
                f"'{path}' holds no readable message ({reason.rstrip('.')}). A recording that ends before its first chunk "
                "is on the disk leaves such a bag; there is nothing to recover."
            )
        self.topics = {topic: _Topic(kind, counts[topic]) for topic, kind in kinds.items()}
        self.span = (0, 0) if first is None else (first, last)
        seconds = (self.span[1] - self.span[0]) * 1e-9
        self.sentence = (
            ""
            if complete
            else (
                f"'{path}' was cut off: recovered {sum(counts.values())} messages over "
                f"{seconds:.1f} s, up to its last complete chunk."
            )
        )

    def _scan(self, file: Path) -> Iterator[McapRecord]:
        """Records of one file; ends quietly where the file was cut off."""
        self._channels: dict[int, Channel] = {}
        self._ended = False
        with file.open("rb") as stream:
            # No record is longer than its file: a damaged length must not ask for gigabytes.
            limit = file.stat().st_size
            records = iter(StreamReader(stream, validate_crcs=True, record_size_limit=limit).records)
            while True:
                try:
                    record = next(records)
                except Exception:  # the end, or damaged from here on; see `_reading`
                    return
                if isinstance(record, Schema):
                    self._schemas[record.id] = record
                elif isinstance(record, Channel):
                    self._channels[record.id] = record
                elif isinstance(record, Footer):
                    self._ended = True
                yield record

    def offered(self, topic: str) -> tuple[Qos, ...]:
        return self._offered[topic]

    def messages(self, names: set[str]) -> Iterator[tuple[str, int, bytes]]:
        for file in self._files:
            for record in self._scan(file):
                if isinstance(record, Message):
                    topic = self._channels[record.channel_id].topic
                    if topic in names:
                        yield topic, record.log_time, record.data

    def definitions(self) -> Iterator[tuple[str, str, bool]]:
        for schema in self._schemas.values():
            yield schema.name, schema.data.decode(), schema.encoding != "ros2msg"
