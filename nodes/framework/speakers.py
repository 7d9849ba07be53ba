"""Who speaks on topics that are one node's alone.

Messages do not tell who sent them, so that a stranger who publishes on such a topic makes all of it doubtful.
"""

from __future__ import annotations

__all__ = ["SUPERVISOR", "impostor", "second_clock"]

SUPERVISOR = "supervisor"
#: what the middleware calls a node of which it has discovered a publisher, but not yet the name
NAMELESS = "_NODE_NAME_UNKNOWN_"


def impostor(node, topic: str) -> str | None:
    """Why what comes on a topic of the supervisor's must not be believed, or ""; None: not known yet, ask again."""
    here = node.get_namespace()
    publishers = node.get_publishers_info_by_topic(topic)
    if any(publisher.node_name == NAMELESS for publisher in publishers):
        return None
    for publisher in publishers:
        if (publisher.node_name, publisher.node_namespace) != (SUPERVISOR, here):
            return f"{_name(publisher)} publishes {topic}, which is the supervisor's alone: end that node"
    if len(publishers) > 1:
        return f"{len(publishers)} nodes call themselves the supervisor of this robot: end all but one"
    return ""


def second_clock(node) -> str | None:
    """Why the simulated time must not be believed, or ""; None: not known yet, ask again."""
    publishers = node.get_publishers_info_by_topic("/clock")
    if any(publisher.node_name == NAMELESS for publisher in publishers):
        return None
    if len(publishers) < 2:
        return ""
    names = " and ".join(sorted(_name(publisher) for publisher in publishers))
    return f"{names} publish the clock, which is the simulator's alone: end all but that one"


def _name(publisher) -> str:
    return f"{publisher.node_namespace.rstrip('/')}/{publisher.node_name}"
