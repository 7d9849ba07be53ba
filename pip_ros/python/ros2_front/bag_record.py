"""`ros2 bag record`: topics into a bag, as long as nobody ends it."""

import os
import re
import time

from . import kinds, qos
from .errors import FrontError, UsageError
from .graph import complain, joined

#: [s] between looks for new topics
LOOK = 0.5


def add_verb(group):
    """Add the verb to its group."""
    verb = group.verb(
        "record",
        record,
        "record topics in a bag until Ctrl-C; the node recorder (record:=true) records a robot's run with its description",
        "ros2 bag record -o runs/mine /joint_states /wrench",
    )
    verb.add_argument(
        "topics", nargs="*", help="their names, as /joint_states; one that is not there yet is waited for"
    )
    verb.add_argument("-a", "--all", action="store_true", help="all topics, also those that come later")
    verb.add_argument("-e", "--regex", metavar="PATTERN", help="all topics in whose name it is found")
    verb.add_argument("-x", "--exclude-regex", metavar="PATTERN", help="but not those")
    verb.add_argument("--include-hidden-topics", action="store_true", help="also hidden ones")
    verb.add_argument("-o", "--output", metavar="FOLDER", help="of the bag (rosbag2_DATE); it must not exist")


def record(options):
    """`ros2 bag record`."""
    from recording.bag_writer import BagWriter

    wanted = _choice(options)
    folder = options.output or time.strftime("rosbag2_%Y_%m_%d-%H_%M_%S")
    if os.path.exists(folder):
        raise UsageError(f"'{folder}' exists; choose another folder with -o")
    with joined(options) as graph:
        named = [graph.resolve(topic) for topic in options.topics]
        graph.settle()
        if missing := [topic for topic in named if topic not in graph.topics()]:
            complain(f"not there yet, and waited for: {', '.join(missing)}")
        with BagWriter(folder) as bag:
            print(f"recording in {folder} (Ctrl-C ends it)", flush=True)
            try:
                _record(graph, bag, lambda topic: topic in named or wanted(topic), options)
            except OSError as error:
                raise FrontError(f"the bag cannot be written: {error}") from None
            finally:
                print(f"recorded {sum(bag.counts.values())} messages of {len(bag.counts)} topics", flush=True)


def _choice(options):
    """Whether a topic is wanted that is not named, as a function of its name."""
    from rclpy.topic_or_service_is_hidden import topic_or_service_is_hidden

    if not (options.topics or options.all or options.regex):
        raise UsageError("nothing to record: name topics, or give --all or --regex")
    try:
        pattern = re.compile(options.regex) if options.regex else None
        excluded = re.compile(options.exclude_regex) if options.exclude_regex else None
    except re.error as error:
        raise UsageError(f"'{error.pattern}' is no regular expression: {error}") from None

    def wanted(topic):
        if (
            excluded
            and excluded.search(topic)
            or topic_or_service_is_hidden(topic)
            and not options.include_hidden_topics
        ):
            return False
        return options.all or pattern is not None and bool(pattern.search(topic))

    return wanted


def _record(graph, bag, wanted, options):
    """Subscribe what is wanted as it appears, and write what comes; ends by KeyboardInterrupt alone."""
    seen, due = set(), 0.0
    while True:
        if time.monotonic() >= due:
            due = time.monotonic() + LOOK
            for topic, types in graph.topics().items():
                if topic not in seen and wanted(topic) and graph.node.count_publishers(topic):
                    seen.add(topic)
                    _begin(graph, bag, topic, types, options)
        graph.spin_once()
        bag.flush_if_due()


def _begin(graph, bag, topic, types, options):
    publishers = graph.node.get_publishers_info_by_topic(topic)
    try:
        if len(types) > 1:
            raise UsageError(f"it carries {' and '.join(types)}")
        kind = kinds.load(types[0], "msg")
        bag.add_topic(topic, types[0], tuple(qos.stored(info.qos_profile) for info in publishers))
    except (UsageError, KeyError) as error:
        complain(f"{topic} is left out: {error.args[0]}")
        return
    graph.node.create_subscription(
        kind,
        topic,
        lambda data: bag.write(topic, time.time_ns(), data),
        qos.for_subscription(options, publishers),
        raw=True,
    )
    print(f"Subscribed to topic '{topic}'", flush=True)
