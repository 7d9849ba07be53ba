"""When a graph is ready: every node active, and everybody connected to whom they listen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from lifecycle_msgs.msg import State

from scripting.client import LIFECYCLE_STATES, GraphClient

__all__ = ["wait_until_active", "wait_until_connected"]

SETTLE = 0.5  # [s]: the client knows the servers, an answer is lost until they know the client, which nothing tells


def wait_until_active(
    client: GraphClient, names: Sequence[str], timeout: float, dead: Callable[[], Sequence[str]] = list
) -> None:
    """Until all these lifecycle nodes are active.

    Args:
        dead: names of those that have ended and will not come.

    Raises:
        GraphError: one is not; the text names it and its state.
    """
    deadline, missing = time.monotonic() + timeout, list(names)
    while missing:
        found = client.lifecycle_state(missing[0])
        if found == State.PRIMARY_STATE_ACTIVE:
            missing.pop(0)
            continue
        if gone := [name for name in missing if name in dead()]:
            raise client.error(f"the robot cannot get ready: {', '.join(gone)} ended")
        if time.monotonic() > deadline:
            states = {name: client.lifecycle_state(name) for name in missing}
            waiting = ", ".join(
                f"{name} is {'not there' if state is None else LIFECYCLE_STATES.get(state, 'between two states')}"
                for name, state in states.items()
            )
            raise client.error(f"the robot is not ready after {timeout:g} s: {waiting}")
        client.until(lambda: False, 0.05, f"while waiting for {missing[0]}")


def wait_until_connected(
    client: GraphClient, readers: Mapping[str, int], timeout: float, writers: Sequence[str] = ()
) -> None:
    """Until each topic has so many readers, and one writer: active is not yet connected, and what is said before discovery
    is complete is lost.

    Args:
        readers: topic -> number. writers: topics that somebody has to write to.

    Raises:
        GraphError: a topic has fewer; the text names it.
    """
    node = client.node

    def lacking() -> list[str]:
        read = {topic: node.count_subscribers(topic) for topic in readers}
        return [
            *(
                f"{topic} has {count} of {readers[topic]} readers"
                for topic, count in read.items()
                if count < readers[topic]
            ),
            *(f"nobody writes to {topic}" for topic in writers if not node.count_publishers(topic)),
        ]

    if not client.until(lambda: not lacking(), timeout, "while its nodes found each other"):
        raise client.error(f"the nodes did not find each other within {timeout:g} s: {', '.join(lacking())}")
    time.sleep(SETTLE)
