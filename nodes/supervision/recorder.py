"""The recorder node: a bag of everything a profile names, with what is needed to understand it.

    recorder --ros-args -p profile:=identify -p bag:=runs/today/bag

What has arrived is taken from all readers at once, 50 times a second; one thread writes.
Page: docs/nodes/recorder.md.
"""

from __future__ import annotations

import json
import queue
import shutil
import threading
import time
from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from std_msgs.msg import String

from nodes.framework.config import setting
from nodes.framework.diagnostics import ERROR
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.messages import message_class
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import LATCHED, PROFILES
from nodes.framework.run_info import ParameterSurvey, base_run_info
from nodes.supervision.loss_counter import LossCounter
from nodes.supervision.silence import Silence
from recording.bag_writer import BagWriter
from recording.profiles import load_profile, profile_names

__all__ = ["Recorder", "RecorderConfig", "main"]

# Time between two takes [s]. The readers keep 1000 messages each, so a topic of 1 kHz may be left alone 50 times longer.
TAKE_PERIOD = 0.02
# Without a message of any stream that has publishers, after which it is said [s].
SILENCE_LIMIT = 5.0


@dataclass(frozen=True)
class RecorderConfig:
    """Parameters of the recorder node."""

    profile: str = setting(
        "control", "", None, "which topics: recording/profiles.yaml lists them", choices=profile_names(), read_only=True
    )
    extra_topics: tuple[str, ...] = setting((), "", None, "topics recorded besides the profile's", read_only=True)
    bag: str = setting(
        "", "", None, "directory of the bag; empty: runs/bag-<time>; if it exists, a number is appended", read_only=True
    )
    flush_period: float = setting(
        0.5,
        "s",
        (0.05, 60.0),
        "a SIGKILL costs at most this and 0.2 s, unless the machine is overloaded",
        read_only=True,
    )
    discovery_period: float = setting(
        0.25, "s", (0.05, 10.0), "how often new topics and nodes are looked for", read_only=True
    )
    queue_size: int = setting(
        20000, "messages", (100, 1000000), "waiting for the disk; more are dropped and counted", read_only=True
    )
    min_free_space: float = setting(
        200.0, "MB", (0.0, 1.0e6), "recording ends in good order when the disk has less", read_only=True
    )


class Recorder(RefitNode):
    """Subscribes to what it finds, writes on a thread of its own, counts what was lost."""

    name = "recorder"
    Config = RecorderConfig
    own_loop = True

    _recording = False
    _writer: BagWriter | None = None
    _thread: threading.Thread | None = None
    _survey: ParameterSurvey | None = None
    _periodic: tuple = ()

    # ---- lifecycle -------------------------------------------------------------------------
    def configure(self) -> None:
        profile = load_profile(self.config.profile)
        # Full name -> what is known before the publisher is seen; None: the type comes with it.
        self._wanted = {
            self.resolve_topic_name(topic): known
            for topic, known in {**dict.fromkeys(self.config.extra_topics), **profile.topics}.items()
        }
        self._info_topic = self.resolve_topic_name("run_info")
        self._own_topics = {self._info_topic, self.resolve_topic_name("diagnostics"), "/rosout"}
        self._pub_run_info = self.create_publisher(String, "run_info", LATCHED)
        self._queue: queue.SimpleQueue = queue.SimpleQueue()  # of batches: lists of (topic, stamp, data)
        self._queued = self._handled = 0  # messages put by the executor's thread, and got by the writer's
        self._readers: dict[str, tuple] = {}  # topic -> (subscription, its QoS)
        self._types: dict[str, tuple] = {}  # topic -> (type, QoS as the bag stores it)
        self._recording = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="bag writer", daemon=True)
        self._thread.start()

    def activate(self) -> None:
        path = _free_path(
            Path(self.config.bag).expanduser()
            if self.config.bag
            else Path("runs") / time.strftime("bag-%Y%m%dT%H%M%SZ", time.gmtime())
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        self._check_space(path.parent)
        self._writer = BagWriter(path, flush_period=self.config.flush_period)
        self._counters: dict[str, LossCounter] = {}
        self._dropped: Counter = Counter()  # for a full queue, and of topics that are no longer counted
        self._uncounted: set[str] = set()
        self._lost_before = 0
        self._publishers: dict[str, int] = {}  # of each topic
        self._silence = Silence(SILENCE_LIMIT)
        self._held: list[tuple] = []  # received since the last take began, see `_take`
        self._info = base_run_info(self.config.profile) | {"not_run": 0.0}
        self._info_changed = True
        self._failure = ""
        self.diagnostics.stand(None)
        self.diagnostics.set("bag", str(path))
        self._recording = True
        self._survey = ParameterSurvey(self, self._on_parameters)
        self._periodic = tuple(
            self.create_timer(period, callback, clock=self.steady_clock)
            for period, callback in ((TAKE_PERIOD, self._take), (self.config.discovery_period, self._discover))
        )
        self._discover()
        self.get_logger().info(f"Recording '{self.config.profile}' into {path}.")

    def was_not_run(self, seconds: float) -> None:
        if self._recording:
            self._info["not_run"] = round(seconds, 1)
            self._info_changed = True

    def stop(self) -> None:
        """Complete the bag: everything that has arrived by now is written, then the index."""
        if not self._recording:
            return
        self._take()
        self._settle_losses()
        for reader, _ in self._readers.values():
            self.destroy_subscription(reader)
        self._readers.clear()
        for timer in self._periodic:
            self.destroy_timer(timer)
        if self._survey is not None:
            self._survey.close()
        self._periodic, self._survey = (), None
        done = threading.Event()
        self._queue.put(done)
        if not done.wait(5.0):
            self.get_logger().error(
                f"The bag {self._writer.path} could not be completed within 5 s; it is readable up to its last chunk."
            )

    def cleanup(self) -> None:
        self._closing = True
        if self._thread is not None:
            self._thread.join(2.0)
            self._thread = None
            self.destroy_publisher(self._pub_run_info)

    # ---- discovery -------------------------------------------------------------------------
    def _discover(self) -> None:
        """Subscribe to what is wanted, weaken what a publisher cannot offer, look for new nodes."""
        if self._survey is None:
            return  # this turn of the timer was due before `stop` took it away
        present = dict(self.get_topic_names_and_types())
        for topic, known in self._wanted.items():
            if topic == self._info_topic:
                continue
            publishers = self.get_publishers_info_by_topic(topic) if topic in present else []
            if publishers:
                qos = _compatible([p.qos_profile for p in publishers])
                kind = present[topic][0]
            elif known is not None:
                qos, kind = _compatible([PROFILES[known.qos]]), known.message_type
            else:
                continue
            if topic in self._readers and not _asks_too_much(self._readers[topic][1], qos):
                continue
            self._subscribe(topic, kind, qos)
        self._count_losses()
        self._survey.look()
        if self._info_changed:
            self._info_changed = False
            self._enqueue([self._say_run_info()])

    def _subscribe(self, topic: str, kind: str, qos: QoSProfile) -> None:
        if topic in self._readers:
            self._take()
            self.destroy_subscription(self._readers.pop(topic)[0])
        try:
            kind_class = message_class(kind)
        except (ImportError, AttributeError):
            self._fail_topic(topic, f"no Python interface {kind} here")
            return
        self._types[topic] = (kind, (_stored(qos),))
        self._readers[topic] = (
            create_polled_subscription(
                self,
                kind_class,
                topic,
                qos,
                raw=True,
                event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),  # see `_count_losses`
            ),
            qos,
        )

    def _on_parameters(self, name: str, values: dict) -> None:
        self._info["parameters"][name] = values
        if values.get("robot") and not self._info["robot"]:
            self._info["robot"] = Path(values["robot"]).stem  # of a folder anywhere its name, as the model has it
            threading.Thread(target=self._hash_model, args=(values["robot"],), daemon=True).start()
        if name.endswith("/sim_plant"):
            self._info["seed"] = values.get("seed")
        self._info_changed = True

    def _hash_model(self, robot: str) -> None:
        """Loading a model takes a second, so it has a thread of its own."""
        try:
            from sim_core.multibody import load_model

            self._info["model_hash"] = load_model(robot).hash
            self._info_changed = True
        except Exception as error:  # a robot our engine cannot load can still be recorded
            self.get_logger().warning(f"No model hash for '{robot}': {error}")

    def _say_run_info(self) -> tuple:
        """Publish what is known of the run; returns it as a message for the bag."""
        self._info["lost"], self._info["uncounted"] = self._lost(), sorted(self._uncounted)
        message = String(data=json.dumps(self._info))
        self._pub_run_info.publish(message)
        self._types[self._info_topic] = ("std_msgs/msg/String", (_stored(LATCHED),))
        return self._info_topic, time.time_ns(), serialize_message(message)

    # ---- messages --------------------------------------------------------------------------
    def _take(self) -> None:
        """Queue what has been received until now, in that order over all topics.

        One reader is emptied after the other, and what arrives meanwhile would be in the bag or not depending on
        its topic: it is held back until the next time. So the bag ends at one moment for all topics, and holds no
        command without the state that it answers.
        """
        now = time.time_ns()
        batch, self._held = self._held, []
        for topic, (reader, _) in self._readers.items():
            counter = self._counters.get(topic)
            for data, info in take(reader):
                number = info["publication_sequence_number"]
                if number is not None and counter is not None:
                    counter.see(number)
                stamp = info["received_timestamp"] or now
                (batch if stamp <= now else self._held).append((topic, stamp, data))
        batch.sort(key=itemgetter(1))
        self._enqueue(batch)

    def _enqueue(self, batch: list[tuple]) -> None:
        """Hand messages to the writer's thread; what there is no room for is dropped and counted."""
        room = self.config.queue_size - (self._queued - self._handled)
        self._dropped.update(topic for topic, _, _ in batch[max(room, 0) :])
        del batch[max(room, 0) :]
        if batch:
            self._queued += len(batch)
            self._queue.put(batch)

    def _count_losses(self) -> None:
        """Sequence numbers tell losses of topics with one publisher; several interleave theirs, and are not counted.

        The middleware would tell of those too (the event `message_lost`). But to take that event is to lock the event
        and then the reader, while a reader that finds a loss locks itself and then the event: in a recorder that had
        been stopped and went on, the two waited for each other for ever, with the interpreter in their hands
        (ros2/rmw_fastrtps, pull request 890, which Jazzy lacks).
        """
        self._take()
        self._settle_losses()
        alone = {topic for topic, publishers in self._publishers.items() if publishers == 1} - self._counters.keys()
        if alone:
            self._take()  # what publishers that are gone have left behind
            self._counters |= {topic: LossCounter() for topic in alone}

    def _settle_losses(self) -> None:
        """Let losses stand where all that was taken is of one publisher.

        The middleware knows a publisher before it hands on what that one says, and for as long as it does so: a
        topic that still has one publisher has had no other until the last take.
        """
        self._publishers = {topic: self.count_publishers(topic) for topic in self._readers}
        for topic, publishers in self._publishers.items():
            if publishers > 1:
                self._uncounted.add(topic)
                if topic in self._counters:
                    self._dropped[topic] += self._counters.pop(topic).settled
            elif topic in self._counters:
                self._counters[topic].settle()

    def _lost(self) -> dict[str, int]:
        """Messages lost so far, by topic."""
        lost = Counter(self._dropped)
        for topic, counter in list(self._counters.items()):
            lost[topic] += counter.settled
        return {topic: n for topic, n in lost.items() if n}

    # ---- the writer's thread -----------------------------------------------------------------
    def _run(self) -> None:
        while not self._closing:
            try:
                item = self._queue.get(timeout=0.1)
            except queue.Empty:
                item = None
            if isinstance(item, threading.Event):
                self._finish(item)
            elif item is not None:
                for message in item:
                    if self._recording and not self._failure:
                        self._write(*message)
                self._handled += len(item)
            if self._recording and not self._failure:
                self._flush_if_due()
            if self.diagnostics.beat_due():
                self._report()
            else:
                self.diagnostics.beat()

    def _write(self, topic: str, stamp: int, data: bytes) -> None:
        try:
            if topic not in self._writer.counts:
                self._writer.add_topic(topic, *self._types[topic])
            self._writer.write(topic, stamp, data)
            self.diagnostics.tick("messages")
        except OSError as error:
            self._fail_writing(error)
        except (KeyError, ValueError) as error:
            self._fail_topic(topic, error.args[0])

    def _flush_if_due(self) -> None:
        """What was written before a silence has to reach the disk during it."""
        try:
            self._writer.flush_if_due()
        except OSError as error:
            self._fail_writing(error)

    def _fail_writing(self, error: OSError) -> None:
        self._writer.abort()
        self._fail(
            f"Writing {self._writer.path} failed: {error.strerror or error}. Recording has "
            "ended; the bag is readable up to its last chunk."
        )

    def _fail_topic(self, topic: str, why: str) -> None:
        self.get_logger().error(f"{topic} cannot be recorded: {why}", throttle_duration_sec=10.0)
        self.diagnostics.error(f"{topic} cannot be recorded: {why}")

    def _fail(self, sentence: str) -> None:
        self._failure = sentence
        self.get_logger().error(sentence)
        self.diagnostics.stand(ERROR, sentence)
        self.diagnostics.beat(force=True)  # who records wants to know now, not with the next message

    def _report(self) -> None:
        if self._recording and not self._failure:
            self.diagnostics.set("queue", self._queued - self._handled)
            self.diagnostics.set("megabytes", self._writer.bytes_written / 1e6)
            lost = self._lost()
            total = sum(lost.values())
            self.diagnostics.set("lost", total)
            if total > self._lost_before:
                names = ", ".join(f"{n} of {topic}" for topic, n in lost.items())
                self.diagnostics.warn(f"Messages lost so far: {names}; the machine or the disk is too slow.")
            self._lost_before = total
            counts = self._writer.counts
            silent = [topic for topic in self._wanted if topic not in counts]
            self.diagnostics.set("topics", len(counts))
            self.diagnostics.set("topics_silent", ", ".join(silent) or "none")
            # Its own voice is no sign that it hears: what it says itself is left out.
            others = {topic: n for topic, n in counts.items() if topic not in self._own_topics}
            if silence := self._silence.look(time.monotonic(), others, self._publishers):
                self.get_logger().warning(silence, throttle_duration_sec=30.0)
                self.diagnostics.warn(silence)
            try:
                self._check_space(self._writer.path)
            except OSError as error:
                self._writer.close()
                self._fail(f"{error} Recording has ended; the bag is complete so far.")
        self.diagnostics.beat()

    def _finish(self, done: threading.Event) -> None:
        self._info["counts"] = dict(self._writer.counts)
        if not self._failure:
            self._write(*self._say_run_info())
        self._recording = False
        try:
            self._writer.close()
            counts, lost = self._writer.counts, sum(self._lost().values())
            self.get_logger().info(
                f"{self._writer.path}: {sum(counts.values())} messages on {len(counts)} topics, {lost} lost."
            )
        except OSError as error:
            self._fail(f"Completing {self._writer.path} failed: {error}; it is readable up to its last chunk.")
        done.set()

    def _check_space(self, path: Path) -> None:
        free = shutil.disk_usage(path).free / 1e6
        self.diagnostics.set("free_megabytes", round(free))
        if free < self.config.min_free_space:
            raise OSError(
                f"Only {free:.0f} MB are free at {path}, min_free_space is {self.config.min_free_space:g} MB."
            )


def _free_path(path: Path) -> Path:
    """`path`, or with the first number appended under which nothing is there."""
    candidate, number = path, 1
    while candidate.exists():
        candidate, number = path.with_name(f"{path.name}_{number}"), number + 1
    return candidate


def _compatible(offered: list[QoSProfile]) -> QoSProfile:
    """The strictest profile that every publisher offers, with room for a second at 1 kHz."""
    reliable = all(q.reliability == ReliabilityPolicy.RELIABLE for q in offered)
    latched = all(q.durability == DurabilityPolicy.TRANSIENT_LOCAL for q in offered)
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=1000,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def _asks_too_much(asked: QoSProfile, offered: QoSProfile) -> bool:
    """Whether a subscription asks for more than is offered, so that the two never connect."""
    return (
        asked.reliability == ReliabilityPolicy.RELIABLE and offered.reliability == ReliabilityPolicy.BEST_EFFORT
    ) or (asked.durability == DurabilityPolicy.TRANSIENT_LOCAL and offered.durability == DurabilityPolicy.VOLATILE)


def _stored(q: QoSProfile) -> Qos:
    """A profile as the bag stores it, so that playback offers the same."""
    forever = QosTime(9223372036, 854775807)
    latched = q.durability == DurabilityPolicy.TRANSIENT_LOCAL
    return Qos(
        QosHistory.KEEP_LAST,
        1 if latched else 100,
        QosReliability.RELIABLE if q.reliability == ReliabilityPolicy.RELIABLE else QosReliability.BEST_EFFORT,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        forever,
        forever,
        QosLiveliness.AUTOMATIC,
        forever,
        False,
    )


def main(args=None) -> int:
    return spin_main(Recorder, args)
