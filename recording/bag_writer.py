"""Writing rosbag2 bags in MCAP that survive a SIGKILL up to their last chunk.

    with BagWriter("runs/demo/bag") as bag:
        bag.add_topic("/joint_states", "sensor_msgs/msg/JointState")
        bag.write("/joint_states", stamp_ns, cdr_bytes)

`ros2 bag play` accepts the result. A bag killed in the middle lacks MCAP's index at the end, but every
chunk written so far is complete on disk: `BagReader` reads it, `ros2 bag reindex` repairs it.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import yaml
from rosbags.interfaces import Connection, ConnectionExtRosbag2, Qos
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.rosbag2.metadata import dump_qos_v9
from rosbags.rosbag2.storage_mcap import McapWriter

from config.whole_file import whole_file
from recording.message_types import typestore

__all__ = ["BagWriter"]

VERSION: Final = 9  # of rosbag2's metadata, as Jazzy writes it
#: libyaml where PyYAML has it: 8 ms in place of 25 for twenty topics, and that with every chunk
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
#: [s] a bag's second chunk is not closed earlier after its first: each costs a metadata.yaml
_YOUNGEST: Final = 0.05


class BagWriter:
    """One bag. Not thread-safe: write from one thread.

    Args:
        path: the bag's directory; must not exist.
        flush_period: a chunk is closed and handed to the operating system with the first message, then as soon as the bag
            has become twice as old, and at least this often [s] while messages arrive; what a SIGKILL or a full disk can cost, and of
            a young bag never more than half. Of the last messages before a silence that holds only if `flush_if_due` is
            called during it.
        custom_data: text kept in metadata.yaml.

    Raises:
        FileExistsError: `path` exists; a bag is never overwritten.
        OSError: it cannot be written.
    """

    def __init__(
        self, path: str | Path, *, flush_period: float = 1.0, custom_data: dict[str, str] | None = None
    ) -> None:
        self.path = Path(path)
        if self.path.exists():
            raise FileExistsError(f"Bag '{self.path}' exists already; choose another directory.")
        self._writer = Writer(self.path, version=VERSION, storage_plugin=StoragePlugin.MCAP)
        for key, value in (custom_data or {}).items():
            self._writer.set_custom_data(key, value)
        self._connections: dict[str, Connection] = {}
        self._flush_period = flush_period
        self._began: float | None = None  # when the first message was written
        self._flush_due = time.monotonic()  # the first message at once: then the disk has shown that it can be written
        self.bytes_written = 0
        self._writer.open()
        self._closed = False
        self._write_metadata()

    @property
    def counts(self) -> dict[str, int]:
        """Messages written so far by topic."""
        return {topic: self._writer.counts[c.id] for topic, c in self._connections.items()}

    def add_topic(self, topic: str, message_type: str, qos: tuple[Qos, ...] = ()) -> None:
        """Declare a topic; a second time is a no-op.

        Args:
            topic: fully qualified name.
            message_type: "package/msg/Type".
            qos: profiles the publishers offer, so that playback can offer the same.

        Raises:
            KeyError: the type's definition is nowhere to be found.
            ValueError: the topic is there with another type.
        """
        known = self._connections.get(topic)
        if known is not None:
            if known.msgtype != message_type:
                raise ValueError(f"Topic '{topic}' is recorded as {known.msgtype}, not as {message_type}.")
            return
        self._connections[topic] = self._writer.add_connection(
            topic, message_type, typestore=typestore(message_type), offered_qos_profiles=list(qos)
        )

    def write(self, topic: str, stamp: int, cdr: bytes) -> None:
        """Append one serialised message.

        Args:
            topic: declared before.
            stamp: time of reception [ns].
            cdr: as received, encapsulation header included.

        Raises:
            OSError: the disk is full or gone. What was flushed before stays readable.
        """
        self._writer.write(self._connections[topic], stamp, cdr)
        self.bytes_written += len(cdr)
        self.flush_if_due()

    def write_message(self, topic: str, stamp: int, message: Any) -> None:
        """Append one message given as a rosbags object (see `message_types.typestore`)."""
        self.write(topic, stamp, bytes(typestore().serialize_cdr(message, message.__msgtype__)))

    def flush_if_due(self) -> None:
        """Flush if there is something to flush, and the last time is `flush_period` ago."""
        if time.monotonic() >= self._flush_due and self._storage().chunk.bio.tell():
            self.flush()

    def flush(self) -> None:
        """Close the chunk at hand and give it to the operating system."""
        storage = self._storage()
        if storage.chunk.bio.tell():
            storage.close_chunk()
        storage.bio.flush()
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        self._flush_due = now + min(self._flush_period, max(now - self._began, _YOUNGEST))
        self._write_metadata()

    def _storage(self) -> McapWriter:
        """The file that rosbags writes to; there is one while the bag is open."""
        storage = self._writer.storage
        assert isinstance(storage, McapWriter)
        return storage

    def _write_metadata(self) -> None:
        """metadata.yaml as of now, so that a killed bag still has one. Replaced in one step."""
        writer = self._writer
        counts = dict(writer.counts)
        start = writer.min_timestamp if sum(counts.values()) else 0
        duration = max(0, writer.max_timestamp - start)
        span = {
            "starting_time": {"nanoseconds_since_epoch": start},
            "duration": {"nanoseconds": duration},
            "message_count": sum(counts.values()),
        }
        name = self._storage().path.name
        document = {
            "rosbag2_bagfile_information": {
                "version": VERSION,
                "storage_identifier": "mcap",
                "relative_file_paths": [name],
                **span,
                "topics_with_message_count": [
                    {
                        "topic_metadata": {
                            "name": c.topic,
                            "type": c.msgtype,
                            "serialization_format": "cdr",
                            "offered_qos_profiles": dump_qos_v9(_offered(c)),
                            "type_description_hash": c.digest,
                        },
                        "message_count": counts[c.id],
                    }
                    for c in writer.connections
                ],
                "compression_format": "",
                "compression_mode": "",
                "files": [{"path": name, **span}],
                "custom_data": writer.custom_data or None,
                "ros_distro": "rosbags",
            }
        }
        with whole_file(writer.metapath) as partial:
            partial.write_text(yaml.dump(document, Dumper=_DUMPER, sort_keys=False))

    def close(self) -> None:
        """Write the index and the final metadata; the bag is complete. A second call is a no-op."""
        if not self._closed:
            self._closed = True
            self._writer.close()

    def abort(self) -> None:
        """Leave the bag as it is, without an index (after a disk error)."""
        if not self._closed:
            self._closed = True
            try:
                self._writer.abort()
            except OSError:  # closing flushes; on a full disk that fails again
                pass

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an OSError there is no use in writing an index; any other error leaves a good bag.
        self.abort() if isinstance(error, OSError) else self.close()


def _offered(connection: Connection) -> list[Qos]:
    """The profiles that a topic's publishers offer."""
    assert isinstance(connection.ext, ConnectionExtRosbag2)
    return connection.ext.offered_qos_profiles
