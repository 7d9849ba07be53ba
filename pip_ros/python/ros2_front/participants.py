"""How many programs of this machine take part in a domain: what discovery has to find before it is complete.

The middleware tells whom it has found, and not whom it is still to find, which takes it up to three seconds: endpoints are
announced anew once a second. But every participant has the port that the DDS standard (DDSI-RTPS 9.6.1) gives it.
"""

import os

#: ports of a domain begin at 7400 + 250 * domain; participant i takes discovery messages at 10 + 2 i beyond that
_FIRST, _PER_DOMAIN, _DISCOVERY, _PER_PARTICIPANT = 7400, 250, 10, 2
#: on which every participant of ROS tells its nodes, and one that nodes of ROS publish
_TOPIC, _OF_NODES = "ros_discovery_info", "/parameter_events"
#: what the middleware calls a node whose name it has not discovered yet
NAMELESS = "_NODE_NAME_UNKNOWN_"


def on_this_machine(table="/proc/net/udp"):
    """The number of participants of the environment's domain, this process's own included; 0: it cannot be told."""
    domain = os.environ.get("ROS_DOMAIN_ID") or "0"
    if not domain.isdigit():
        return 0
    first = _FIRST + _PER_DOMAIN * int(domain)
    ports = {port - first - _DISCOVERY for port in _bound(table)}
    return sum(0 <= port < _PER_DOMAIN - _DISCOVERY and port % _PER_PARTICIPANT == 0 for port in ports)


def may_be_elsewhere():
    """Whether the environment's graph is open to other machines, whose participants nobody can count."""
    return os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET") == "SUBNET"


def discovered(node):
    """The number of participants of ROS that a node's middleware knows with all they have, its own included.

    What they say and what they hear come on different ways, and their nodes' names come last.
    """
    saying = node.get_publishers_info_by_topic(_TOPIC, no_mangle=True)
    hearing = node.get_subscriptions_info_by_topic(_TOPIC, no_mangle=True)
    nameless = {_of(info) for info in node.get_publishers_info_by_topic(_OF_NODES) if info.node_name == NAMELESS}
    return len(({_of(info) for info in saying} & {_of(info) for info in hearing}) - nameless)


def _of(info):
    """The participant that an endpoint is of: the first bytes of its identity."""
    return tuple(info.endpoint_gid[:12])


def _bound(table):
    """Ports that UDP sockets of this machine are bound to."""
    try:
        with open(table, encoding="ascii") as lines:
            next(lines)
            return [int(line.split()[1].rpartition(":")[2], 16) for line in lines]
    except (OSError, StopIteration):  # no Linux, or hidden
        return []
