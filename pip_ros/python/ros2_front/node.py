"""`ros2 node`: the nodes of the graph."""

from collections import Counter

from .graph import complain, joined


def add_verbs(group):
    """Add the verbs of this group."""
    verb = group.verb("list", list_nodes, "list the nodes there are", "ros2 node list")
    verb.add_argument("-a", "--all", action="store_true", help="also those whose name begins with '_'")
    verb.add_argument("-c", "--count-nodes", action="store_true", help="show how many there are, no names")

    verb = group.verb("info", info, "tell what a node says, hears and offers", "ros2 node info /supervisor")
    verb.add_argument("node", help="its full name, as /supervisor")
    verb.add_argument("--include-hidden", action="store_true", help="also hidden topics and services")


def list_nodes(options):
    """`ros2 node list`."""
    with joined(options) as graph:
        graph.settle()
        names = graph.nodes(hidden=options.all)
    if options.count_nodes:
        print(len(names))
        return
    for name in names:
        print(name)
    if twice := sorted(name for name, number in Counter(names).items() if number > 1):
        complain(f"WARNING: several nodes have one name: {', '.join(twice)}")


def info(options):
    """`ros2 node info`."""
    from rclpy.action.graph import get_action_client_names_and_types_by_node, get_action_server_names_and_types_by_node

    with joined(options) as graph:
        full = graph.find_node(options.node)
        graph.settle()
        space, _, name = full.rpartition("/")
        node, who = graph.node, (name, space or "/")
        print(full)
        for title, found in (
            ("Subscribers", node.get_subscriber_names_and_types_by_node(*who)),
            ("Publishers", node.get_publisher_names_and_types_by_node(*who)),
            ("Service Servers", node.get_service_names_and_types_by_node(*who)),
            ("Service Clients", node.get_client_names_and_types_by_node(*who)),
            ("Action Servers", get_action_server_names_and_types_by_node(node, *who)),
            ("Action Clients", get_action_client_names_and_types_by_node(node, *who)),
        ):
            print(f"  {title}:")
            for topic, types in sorted(found):
                if options.include_hidden or "/_" not in topic:
                    print(f"    {topic}: {', '.join(types)}")
