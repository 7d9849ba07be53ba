"""`ros2 topic hz`, `bw` and `delay`: how often, how much and how late a topic's messages come."""

import math
import time
from collections import deque

from . import listening, qos
from .command import count
from .errors import FrontError
from .graph import complain, joined

#: [s] between two lines
EVERY = 1.0
#: [s] of delay beyond which the stamps are of another clock
ABSURD = 1e6


def add_verbs(group):
    """Add the verbs to their group."""
    for name, meter, window, does, example in (
        ("hz", Rate, 10000, "measure how often messages come on a topic", "ros2 topic hz -w 500 /joint_states"),
        ("bw", Bandwidth, 100, "measure how many bytes a second come on a topic", "ros2 topic bw /scan"),
        (
            "delay",
            Delay,
            10000,
            "measure how old messages are by the stamps of their headers",
            "ros2 topic delay /scan",
        ),
    ):
        verb = group.verb(name, measure, does, example)
        verb.add_argument("topic", help="its name, as /joint_states")
        verb.add_argument(
            "-w", "--window", type=count, default=window, metavar="N", help=f"of the last N messages ({window})"
        )
        if meter is Rate:
            verb.add_argument("--filter", metavar="EXPRESSION", help="only messages m of which this holds")
            verb.add_argument("--wall-time", action="store_true", help="by the wall's clock in spite of --use-sim-time")
        qos.add_options(verb)
        verb.set_defaults(meter=meter)


class Rate:
    """Time between messages."""

    def __init__(self, window):
        self._intervals = deque(maxlen=window)
        self._last = None

    def take(self, message, now):
        """A message that came at a time [s]."""
        if self._last is not None:
            if now < self._last:
                self._intervals.clear()
            else:
                self._intervals.append(now - self._last)
        self._last = now

    def line(self, now):
        """What is printed, or "" if too little came."""
        if not self._intervals:
            return ""
        total = sum(self._intervals)
        rate = len(self._intervals) / total if total > 0.0 else 0.0
        return f"average rate: {rate:.3f}\n\t{_spread(self._intervals)}"


class Bandwidth:
    """Bytes of messages as they came."""

    def __init__(self, window):
        self._sizes = deque(maxlen=window)

    def take(self, message, now):
        """The bytes of a message that came at a time [s]."""
        self._sizes.append((now, len(message)))

    def line(self, now):
        """What is printed, or "" if too little came."""
        if len(self._sizes) < 2 or now <= self._sizes[0][0]:
            return ""
        sizes = [size for _, size in self._sizes]
        rate = sum(sizes) / (now - self._sizes[0][0])
        unit, scale, digits = next(
            (row for row in (("MB", 1e6, 2), ("KB", 1e3, 2)) if rate >= row[1]),
            ("B", 1.0, 0),
        )
        mean, least, most = (
            f"{size / scale:.{digits}f} {unit}" for size in (sum(sizes) / len(sizes), min(sizes), max(sizes))
        )
        return (
            f"{rate / scale:.{digits}f} {unit}/s from {len(sizes)} messages\n"
            f"\tMessage size mean: {mean} min: {least} max: {most}"
        )


class Delay:
    """Time from the stamp of a message's header to its arrival."""

    def __init__(self, window):
        self._delays = deque(maxlen=window)
        self._told = False

    def take(self, message, now):
        """A message with a header, and the time [s] of the clock that stamps are compared with."""
        delay = now - (message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec)
        if abs(delay) > ABSURD and not self._told:
            self._told = True
            complain("the stamps are of another clock; is it simulated time (--use-sim-time), or was none set?")
        self._delays.append(delay)

    def line(self, now):
        """What is printed, or "" if too little came."""
        if not self._delays:
            return ""
        return f"average delay: {sum(self._delays) / len(self._delays):.3f}\n\t{_spread(self._delays)}"


def _spread(values):
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return f"min: {min(values):.3f}s max: {max(values):.3f}s std dev: {deviation:.5f}s window: {len(values)}"


def measure(options):
    """`ros2 topic hz`, `bw` or `delay`: a line a second until Ctrl-C."""
    meter = options.meter(options.window)
    expression = getattr(options, "filter", None)
    holds = listening.condition(expression)
    with joined(options) as graph:
        topic = graph.resolve(options.topic)
        listening.await_publisher(graph, topic)
        kind = listening.message_type(graph, topic)
        if options.meter is Delay and "header" not in kind.get_fields_and_field_types():
            raise FrontError(f"the messages of {topic} have no header, so there is no stamp to compare with")
        clock = _clock(graph, options)
        number = 0

        def take(message):
            nonlocal number
            if holds(message):
                number += 1
                meter.take(message, clock())

        raw = options.meter is not Delay and expression is None
        listening.subscribe(graph, kind, topic, take, options, raw=raw)
        print(f"Subscribed to [{topic}]", flush=True)
        seen = 0
        while True:
            graph.spin(EVERY)
            print("no new messages" if number == seen else meter.line(clock()) or "too few messages", flush=True)
            seen = number


def _clock(graph, options):
    """The present as a function [s]: simulated where asked for, else of the machine."""
    if options.meter is Delay or options.use_sim_time and not getattr(options, "wall_time", False):
        return lambda: 1e-9 * graph.node.get_clock().now().nanoseconds
    return time.monotonic
