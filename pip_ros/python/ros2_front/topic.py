"""`ros2 topic`: list, info, type, find; what listens and speaks is in modules of its own."""

from . import topic_echo, topic_pub, topic_rates
from .errors import FrontError
from .graph import joined


def add_verbs(group):
    """Add the verbs of this group."""
    verb = group.verb("list", list_topics, "list the topics there are", "ros2 topic list -t")
    verb.add_argument("-t", "--show-types", action="store_true", help="show each topic's type as well")
    verb.add_argument("-c", "--count-topics", "--count", action="store_true", help="show how many there are, no names")
    verb.add_argument(
        "-a", "--include-hidden-topics", "--all", action="store_true", help="also those whose name has a part with '_'"
    )
    verb.add_argument("-v", "--verbose", action="store_true", help="show how many publish and subscribe")

    verb = group.verb("info", info, "tell who publishes and subscribes a topic", "ros2 topic info -v /joint_states")
    verb.add_argument("topic", help="its name, as /joint_states")
    verb.add_argument("-v", "--verbose", action="store_true", help="name the nodes, with their quality of service")

    verb = group.verb("type", show_type, "show a topic's type", "ros2 topic type /joint_states")
    verb.add_argument("topic", help="its name, as /joint_states")

    verb = group.verb("find", find, "list the topics of a type", "ros2 topic find sensor_msgs/msg/JointState")
    verb.add_argument("type", help="as sensor_msgs/msg/JointState")
    verb.add_argument("-c", "--count-topics", action="store_true", help="show how many there are, no names")
    verb.add_argument("-a", "--include-hidden-topics", action="store_true", help="also hidden ones")

    topic_echo.add_verb(group)
    topic_pub.add_verb(group)
    topic_rates.add_verbs(group)


def list_topics(options):
    """`ros2 topic list`."""
    with joined(options) as graph:
        graph.settle()
        topics = graph.topics(hidden=options.include_hidden_topics)
        numbers = {
            name: (graph.node.count_publishers(name), graph.node.count_subscribers(name))
            for name in (topics if options.verbose else ())
        }
    if options.count_topics:
        print(len(topics))
    elif options.verbose:
        for title, which, who in (("Published", 0, "publisher"), ("Subscribed", 1, "subscriber")):
            print(f"{title} topics:")
            for name, types in topics.items():
                if number := numbers[name][which]:
                    print(f" * {name} [{', '.join(types)}] {number} {who}{'s' if number > 1 else ''}")
            print()
    else:
        for name, types in topics.items():
            print(f"{name} [{', '.join(types)}]" if options.show_types else name)


def info(options):
    """`ros2 topic info`."""
    with joined(options) as graph:
        name, types = _present(graph, options.topic)
        print(f"Type: {types[0] if len(types) == 1 else types}")
        for title, who in (
            ("Publisher count", graph.node.get_publishers_info_by_topic(name)),
            ("Subscription count", graph.node.get_subscriptions_info_by_topic(name)),
        ):
            print(f"\n{title}: {len(who)}\n" if options.verbose else f"{title}: {len(who)}")
            for endpoint in who if options.verbose else ():
                print(f"{endpoint}\n")


def show_type(options):
    """`ros2 topic type`."""
    with joined(options) as graph:
        print(*_present(graph, options.topic)[1], sep="\n")


def find(options):
    """`ros2 topic find`."""
    with joined(options) as graph:
        graph.settle()
        found = [
            name for name, types in graph.topics(hidden=options.include_hidden_topics).items() if options.type in types
        ]
    print(len(found)) if options.count_topics else print(*found, sep="\n", end="\n" if found else "")


def _present(graph, topic):
    """(full name, [type]) of a topic that is there."""
    name = graph.resolve(topic)
    graph.settle()
    topics = graph.topics()
    if name not in topics:
        raise FrontError(f"topic '{name}' is not there; {graph.remedy(name, topics)}")
    return name, topics[name]
