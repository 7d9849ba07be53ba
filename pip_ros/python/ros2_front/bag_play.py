"""`ros2 bag play`: a recorded bag's messages, published again as they came."""

import time

from . import kinds
from .bag_file import open_bag
from .command import nonnegative, positive
from .errors import FrontError, UsageError, choices
from .graph import complain, joined

CLOCK = "/clock"
#: samples that latched and other topics keep for readers, and [s] in which readers have to have the last ones
DEPTH, ACKNOWLEDGED = 100, 2.0


def add_verb(group):
    """Add the verb to its group."""
    verb = group.verb(
        "play",
        play,
        "publish a bag's messages again",
        "ros2 bag play runs/demo/bag --rate 0.5 --clock --remap /joint_states:=/recorded/joint_states",
    )
    verb.add_argument("bag", help="its folder, its .mcap file, or the folder of a run with a bag in it")
    verb.add_argument("-r", "--rate", type=positive, default=1.0, metavar="FACTOR", help="of the speed it had (1)")
    verb.add_argument("-l", "--loop", action="store_true", help="again and again")
    verb.add_argument("--topics", nargs="+", default=[], metavar="TOPIC", help="these alone")
    verb.add_argument("--exclude-topics", nargs="+", default=[], metavar="TOPIC", help="all but these")
    verb.add_argument("-m", "--remap", nargs="+", default=[], metavar="OLD:=NEW", help="under other names")
    verb.add_argument(
        "--start-offset",
        type=nonnegative,
        default=0.0,
        metavar="SECONDS",
        help="begin so long after its beginning; of latched topics what came before is published at once",
    )
    verb.add_argument("--playback-duration", type=positive, metavar="SECONDS", help="end after so much of the bag")
    verb.add_argument("-d", "--delay", type=nonnegative, default=0.0, metavar="SECONDS", help="wait before it begins")
    verb.add_argument(
        "--clock",
        type=positive,
        nargs="?",
        const=40.0,
        metavar="HZ",
        help="publish the bag's time on /clock, so often (40); a recorded /clock is left out",
    )


def play(options):
    """`ros2 bag play`."""
    from recording import BagError

    bag = open_bag(options.bag)
    if bag.truncated:
        complain(bag.truncated)
    names = _chosen(bag, options)
    with joined(options) as graph:
        publishers = _publishers(graph, bag, names)
        clock = _Clock(graph, options) if options.clock else None
        graph.settle()
        _warn(graph, {publisher.topic_name for publisher in publishers.values()})
        graph.spin(options.delay)
        try:
            while True:
                number = _play(graph, bag, publishers, clock, options)
                print(f"played {number} messages of {len(publishers)} topics", flush=True)
                if not options.loop:
                    break
        except BagError as error:
            raise FrontError(str(error)) from None
        _acknowledged(publishers.values())


def _chosen(bag, options):
    """{recorded topic: name to publish it under}"""
    names = {_full(name) for name in options.topics} or set(bag.topics)
    excluded = {_full(name) for name in options.exclude_topics}
    renamed = {}
    for rule in options.remap:
        old, separator, new = rule.partition(":=")
        if not (old and separator and new):
            raise UsageError(f"--remap: '{rule}' is no rule, expected /old:=/new")
        renamed[_full(old)] = _full(new)
    for name in (*names, *excluded, *renamed):
        if name not in bag.topics:
            raise UsageError(f"topic '{name}' is not in '{bag.path}'; {choices(name, bag.topics)}")
    if options.clock:
        excluded.add(CLOCK)
    return {name: renamed.get(name, name) for name in sorted(names - excluded)}


def _full(name):
    return name if name.startswith("/") else f"/{name}"


def _publishers(graph, bag, names):
    """{recorded topic: publisher}, each with the quality of service that was recorded."""
    publishers = {}
    for name, published in names.items():
        try:
            kind = kinds.load(bag.topics[name].message_type, "msg")
        except UsageError as error:
            complain(f"{name} is left out: {error}")
            continue
        publishers[name] = graph.node.create_publisher(kind, graph.resolve(published), _profile(bag.offered(name)))
    if not publishers:
        raise FrontError(f"nothing of '{bag.path}' can be played")
    return publishers


def _profile(offered):
    """Reliable or latched where all recorded publishers were; reliable where the bag does not say."""
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

    reliable = all(profile.reliability.name != "BEST_EFFORT" for profile in offered)
    latched = bool(offered) and all(profile.durability.name == "TRANSIENT_LOCAL" for profile in offered)
    return QoSProfile(
        depth=max([DEPTH, *(profile.depth for profile in offered)]) if not latched else max(p.depth for p in offered),
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def _is_latched(publisher):
    from rclpy.qos import DurabilityPolicy

    return publisher.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL


def _warn(graph, topics):
    """Say which topics somebody else publishes, too: whoever hears both believes neither."""
    shared = sorted(topic for topic in topics if graph.node.count_publishers(topic) > 1)
    if shared:
        complain(f"WARNING: somebody publishes these as well: {', '.join(shared)}; --remap gives them other names")


def _play(graph, bag, publishers, clock, options):
    """Publish the bag once; the number of messages."""
    first = bag.span[0] + round(1e9 * options.start_offset)
    last = None if options.playback_duration is None else first + round(1e9 * options.playback_duration)
    begin, number = time.monotonic(), 0
    for topic, stamp, data in bag.raw(*publishers):
        if last is not None and stamp > last:
            break
        if stamp < first and not _is_latched(publishers[topic]):
            continue
        due = begin + 1e-9 * max(0, stamp - first) / options.rate
        if clock is None:
            graph.spin(due - time.monotonic())
        else:
            clock.run(due, lambda now: first + round(1e9 * (now - begin) * options.rate))
        publishers[topic].publish(data)
        number += 1
    return number


class _Clock:
    """Publishes the bag's time while the player waits."""

    def __init__(self, graph, options):
        from rosgraph_msgs.msg import Clock

        self._graph, self._period = graph, 1.0 / options.clock
        self._message = Clock()
        self._publisher = graph.node.create_publisher(Clock, CLOCK, 10)
        self._next = 0.0

    def run(self, due, bag_time):
        """Wait until a time of the machine [s]; `bag_time` makes the bag's [ns] of one."""
        while True:
            now = time.monotonic()
            if now >= self._next:
                self._next = now + self._period
                self._message.clock.sec, self._message.clock.nanosec = divmod(bag_time(min(now, due)), 10**9)
                self._publisher.publish(self._message)
            if now >= due:
                return
            self._graph.spin(min(due, self._next) - now)


def _acknowledged(publishers):
    from rclpy.duration import Duration

    for publisher in publishers:
        publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGED))
