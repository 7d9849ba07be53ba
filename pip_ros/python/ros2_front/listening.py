"""A topic that is listened to, as soon as somebody publishes it."""

from .errors import FrontError, UsageError, choices
from .graph import STILL, complain
from .kinds import load
from .qos import for_subscription


def await_publisher(graph, topic, seconds=None):
    """Wait until a topic has a publisher, with a sentence if that is not at once.

    Args:
        topic: full name. seconds: to wait at most; None: for ever.

    Returns:
        Whether one came.
    """

    def published():
        return graph.node.count_publishers(topic) > 0

    graph.settle(published)
    if published():
        graph.spin(STILL)  # whoever else publishes it
        return True
    topics = graph.topics()
    if topic in topics:
        complain(f"nobody publishes {topic} yet; waiting for a publisher (Ctrl-C ends it)")
    else:
        complain(f"topic {topic} is not there yet; waiting for it (Ctrl-C ends it); {graph.remedy(topic, topics)}")
    if not graph.until(published, seconds):
        return False
    graph.spin(STILL)
    return True


def message_type(graph, topic, given=None):
    """The class of a published topic's messages.

    Args:
        topic: full name. given: its type's name, if somebody said it.

    Raises:
        FrontError: it carries more than one type, or another one.
        UsageError: the type is not installed.
    """
    types = graph.topics()[topic]
    if given is None and len(types) > 1:
        raise FrontError(f"topic '{topic}' carries {' and '.join(types)}; name the one you mean")
    kind = load(given or types[0], "msg")
    if given and not any(_same(given, name) for name in types):
        raise FrontError(f"topic '{topic}' carries {' and '.join(types)}, not {given}")
    return kind


def _same(given, name):
    return given == name or given.count("/") == 1 and given == name.replace("/msg/", "/")


def subscribe(graph, kind, topic, callback, options, **more):
    """A subscription that hears the publishers there are; `options` may ask for another quality of service."""
    publishers = graph.node.get_publishers_info_by_topic(topic)
    return graph.node.create_subscription(kind, topic, callback, for_subscription(options, publishers), **more)


def condition(expression):
    """What a Python expression says about a message `m`, as a function; None: always true.

    Raises:
        UsageError: it is no expression.
    """
    if expression is None:
        return lambda message: True
    try:
        code = compile(expression, "<filter>", "eval")
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"--filter: '{expression}' is no expression of Python: {error}") from None

    def holds(message):
        try:
            return bool(eval(code, {"m": message}))
        except AttributeError as error:
            fields = message.get_fields_and_field_types()
            raise UsageError(f"--filter: {error}; {choices(str(error.name), fields)}") from None
        except Exception as error:
            raise UsageError(f"--filter: '{expression}' cannot be told of a message: {error}") from None

    return holds
