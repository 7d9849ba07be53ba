"""A service asked from within a callback, of a node that may not be there."""

from __future__ import annotations

import threading

__all__ = ["ask"]

# Passes over a service's names, and how long each is looked for in one [s]; a machine that is busy discovers slowly.
LOOKS, LOOK = 6, 0.5
# [s] within which a node has answered.
ANSWER_TIMEOUT = 10.0


def ask(node, kind, target: str, names: tuple[str, ...], request, group):
    """The response of the first of a node's services `<target>/<name>` that is there; blocks.

    Args:
        group: reentrant callback group of a node with several executor threads, of which one stays free.

    Raises:
        ConnectionError: none of them is there, or it does not answer.
    """
    clients = [node.create_client(kind, f"{target}/{name}", callback_group=group) for name in names]
    try:
        ready = next((client for client in clients * LOOKS if client.wait_for_service(LOOK)), None)
        if ready is None:
            raise ConnectionError(f"has no service {' or '.join(names)}; is it running?")
        answered, future = threading.Event(), ready.call_async(request)
        future.add_done_callback(lambda future: answered.set())
        if not answered.wait(ANSWER_TIMEOUT):
            raise ConnectionError(f"gave no answer within {ANSWER_TIMEOUT:g} s")
        return future.result()
    finally:
        for client in clients:
            node.destroy_client(client)
