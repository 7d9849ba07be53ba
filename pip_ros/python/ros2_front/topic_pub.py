"""`ros2 topic pub`: messages from values that are written as YAML."""

import time

from . import kinds, qos, values
from .command import count, nonnegative, positive
from .errors import EXIT_FAILED, FrontError
from .graph import complain, joined

#: [s] in which every subscription has to have acknowledged the last message
ACKNOWLEDGED = 2.0


def add_verb(group):
    """Add the verb to its group."""
    verb = group.verb(
        "pub",
        publish,
        "publish messages on a topic",
        "ros2 topic pub --once /cmd_vel geometry_msgs/msg/Twist '{linear: {x: 0.2}}'\n"
        "  ros2 topic pub -r 10 /point geometry_msgs/msg/PointStamped '{header: auto, point: {z: 1.0}}'",
    )
    verb.add_argument("topic", help="its name, as /cmd_vel")
    verb.add_argument("type", help="of its messages, as geometry_msgs/msg/Twist")
    verb.add_argument(
        "values",
        nargs="?",
        default="{}",
        help="fields as YAML; those left out keep their defaults. A header may be 'auto' and a time 'now'",
    )
    often = verb.add_mutually_exclusive_group()
    often.add_argument("-1", "--once", action="store_true", help="one message, then end")
    often.add_argument("-t", "--times", type=count, metavar="N", help="so many messages, then end")
    verb.add_argument("-r", "--rate", type=positive, default=1.0, metavar="HZ", help="messages a second (1)")
    verb.add_argument("-p", "--print", type=int, default=1, metavar="N", help="print every Nth message (1), 0: none")
    verb.add_argument(
        "-w",
        "--wait-matching-subscriptions",
        type=int,
        metavar="N",
        help="wait for so many subscriptions; by default for 1 with --once and --times, else for none",
    )
    verb.add_argument("--max-wait-time-secs", type=positive, metavar="SECONDS", help="of that wait (no limit)")
    verb.add_argument(
        "--keep-alive", type=nonnegative, default=0.1, metavar="SECONDS", help="stay so long after the last one (0.1)"
    )
    verb.add_argument("-n", "--node-name", default="", help="name of the publishing node")
    qos.add_options(verb)


def publish(options):
    """`ros2 topic pub`."""
    kind = kinds.load(options.type, "msg")
    message = kind()
    stamps = values.fill(message, values.parse(options.values))
    times = 1 if options.once else options.times
    awaited = options.wait_matching_subscriptions
    if awaited is None:
        awaited = 1 if times else 0
    with joined(options, options.node_name) as graph:
        topic = graph.resolve(options.topic)
        graph.settle()
        _check_type(graph, topic, values.type_name(kind))
        publisher = _publisher(graph, kind, topic, options)
        if publisher.get_subscription_count() < awaited:
            complain(f"waiting for {awaited} matching subscription{'s' if awaited > 1 else ''} of {topic} ...")
            if not graph.until(lambda: publisher.get_subscription_count() >= awaited, options.max_wait_time_secs):
                complain(f"only {publisher.get_subscription_count()} came within {options.max_wait_time_secs:g} s")
                return EXIT_FAILED
        print("publisher: beginning loop", flush=True)
        _publish(graph, publisher, message, stamps, times, options)
        _acknowledged(publisher)
        graph.spin(options.keep_alive)
    return 0


def _check_type(graph, topic, kind):
    types = graph.topics().get(topic, [kind])
    if kind not in types:
        raise FrontError(f"topic '{topic}' carries {' and '.join(types)}, not {kind}")


def _publisher(graph, kind, topic, options):
    profile = qos.for_publisher(options, graph.node.get_subscriptions_info_by_topic(topic))
    try:
        return graph.node.create_publisher(kind, topic, profile)
    except Exception as error:  # of rcl, as where keys do not allow it
        raise FrontError(f"'{topic}' cannot be published: {' '.join(str(error).split())}") from error


def _publish(graph, publisher, message, stamps, times, options):
    number, due = 0, time.monotonic()
    while times is None or number < times:
        for stamp in stamps:
            stamp.sec, stamp.nanosec = graph.node.get_clock().now().seconds_nanoseconds()
        number += 1
        if options.print and number % options.print == 0:
            print(f"publishing #{number}: {message!r}\n", flush=True)
        publisher.publish(message)
        due = max(due + 1.0 / options.rate, time.monotonic())
        if number != times:
            graph.spin(due - time.monotonic())


def _acknowledged(publisher):
    from rclpy.duration import Duration

    publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGED))
