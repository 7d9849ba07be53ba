"""A ROS domain of one's own, for a graph that nobody else of this machine shall hear.

with own_domain() as domain: ...
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Iterator

__all__ = ["given_or_own_domain", "own_domain"]

#: [TCP port] that stands for ROS domain 0, as in ROS's own domain_coordinator, by which tests keep apart
PORT = 32768


@contextlib.contextmanager
def own_domain() -> Iterator[int]:
    """The number of a ROS domain that nobody else of this machine uses who asks in the same way, until the end.

    Raises:
        RuntimeError: there is none.
    """
    for domain in random.SystemRandom().sample(range(20, 101), 81):  # low ones are used by hand
        with socket.socket() as claim:
            try:
                claim.bind(("", PORT + domain))
            except OSError:
                continue
            yield domain
            return
    raise RuntimeError("every ROS domain from 20 to 100 is in use on this machine: end what is left of earlier graphs")


@contextlib.contextmanager
def given_or_own_domain() -> Iterator[int]:
    """ROS_DOMAIN_ID where a person gave one, else a domain of one's own.

    Raises:
        RuntimeError: as `own_domain`. ValueError: ROS_DOMAIN_ID is no number.
    """
    given = os.environ.get("ROS_DOMAIN_ID")
    if given is not None:
        yield int(given)
        return
    with own_domain() as domain:
        yield domain
