"""`ros2 topic echo`: the messages of a topic as text."""

import argparse
import time

from . import listening, qos, text
from .command import positive
from .errors import EXIT_FAILED, UsageError
from .graph import complain, joined


def add_verb(group):
    """Add the verb to its group."""
    verb = group.verb(
        "echo",
        echo,
        "print the messages of a topic",
        "ros2 topic echo --once /joint_states\n  ros2 topic echo --csv --field wrench.force /wrench",
    )
    verb.add_argument("topic", help="its name, as /joint_states")
    verb.add_argument("type", nargs="?", help="its type, if it has several")
    verb.add_argument("--once", action="store_true", help="print one message, then end")
    verb.add_argument(
        "--timeout", type=positive, metavar="SECONDS", help="end after so long; exit code 1 if nothing came"
    )
    verb.add_argument("--field", metavar="PATH", help="one field alone, as pose.position.x or name[0]")
    verb.add_argument("--filter", metavar="EXPRESSION", help="only messages m of which this holds, as 'm.data > 3'")
    verb.add_argument("--csv", action="store_true", help="all values of a message on one line, separated by commas")
    verb.add_argument("--flow-style", action="store_true", help="lists in brackets")
    verb.add_argument("--no-arr", action="store_true", help="of lists their type and length alone")
    verb.add_argument("--no-str", action="store_true", help="of texts their length alone")
    verb.add_argument("-f", "--full-length", action="store_true", help="long lists and texts in full")
    verb.add_argument(
        "-l", "--truncate-length", type=_length, default=text.LIMIT, metavar="N", help=f"shorten beyond ({text.LIMIT})"
    )
    verb.add_argument("--raw", action="store_true", help="the bytes as they came")
    verb.add_argument("--include-message-info", action="store_true", help="when each was sent and received")
    verb.add_argument("--no-lost-messages", action="store_true", help="do not tell of lost messages")
    qos.add_options(verb)


def echo(options):
    """`ros2 topic echo`."""
    if options.raw and (options.csv or options.field or options.filter):
        raise UsageError("--raw shows bytes: it goes without --csv, --field and --filter")
    holds = listening.condition(options.filter)
    end = None if options.timeout is None else time.monotonic() + options.timeout
    shown = 0

    def show(message, info):
        nonlocal shown
        if shown and options.once or not options.raw and not holds(message):
            return
        part = text.pick(message, options.field) if options.field else message
        shown += 1
        if options.include_message_info:
            print(text.to_yaml({name: value for name, value in sorted(info.items()) if value is not None}), end="")
        print(_shown(part, options), end="" if options.csv else "---\n", flush=True)

    with joined(options) as graph:
        topic = graph.resolve(options.topic)
        if listening.await_publisher(graph, topic, options.timeout):
            kind = listening.message_type(graph, topic, options.type)
            if options.field:
                text.check(kind, options.field)
            listening.subscribe(graph, kind, topic, show, options, raw=options.raw, event_callbacks=_events(options))
            graph.until(lambda: options.once and shown, None if end is None else max(0.0, end - time.monotonic()))
    if not shown:
        complain(f"nothing came on {topic} within {options.timeout:g} s")
        return EXIT_FAILED
    return 0


def _shown(part, options):
    limit = None if options.full_length else options.truncate_length
    if options.raw:
        return f"{part!r}\n"
    if options.csv:
        return f"{text.to_csv(part, limit, not options.no_arr, not options.no_str)}\n"
    return text.to_yaml(part, limit, not options.no_arr, not options.no_str, options.flow_style)


def _events(options):
    from rclpy.event_handler import SubscriptionEventCallbacks

    def lost(event):
        complain(f"{event.total_count_change} messages were lost, {event.total_count} so far")

    return SubscriptionEventCallbacks(message_lost=None if options.no_lost_messages else lost)


def _length(word):
    if not word.isdigit():
        raise argparse.ArgumentTypeError(f"expected a whole number that is not negative, found {word}")
    return int(word)
