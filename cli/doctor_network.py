"""The doctor's look at the network: who can reach a graph of this machine, and whether keys could guard it.

Uses the standard library alone and runs on Python 3.9, as `cli/doctor.py` has to.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from cli.findings import ESSENTIAL, NOTE, OK, WARNING, Finding, in_environment
from cli.udp_sockets import udp_addresses
from config.network import PEERS, RANGE, enclose, is_enclosed
from nodes.framework.security import middleware_lacks

__all__ = ["network", "security"]

_PARTICIPANT = """
import sys
import rclpy
from rclpy.node import Node
rclpy.init()
node = Node("refit_doctor_sockets")
print("up", flush=True)
sys.stdin.read()
"""


def network() -> Iterator[Finding]:
    """Where a participant's sockets really are, compared with what was asked for."""
    if not in_environment():
        return
    environment = dict(os.environ)
    enclose(environment)
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _PARTICIPANT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as participant:
        assert participant.stdin is not None and participant.stdout is not None
        up = b"up\n" in participant.stdout  # after what the middleware may have to say about its profile
        addresses = sorted(udp_addresses(participant.pid)) if up else []
        participant.stdin.close()
    if not up:
        yield Finding(
            "network",
            ESSENTIAL,
            "no participant could be made, so that nobody can say who would reach it",
            "See rclpy, above.",
        )
    elif not is_enclosed(environment):
        yield Finding(
            "network",
            NOTE,
            f"open on purpose ({RANGE}={environment[RANGE]}): other machines find the graph",
            f"Unset {RANGE} and {PEERS} to keep it on this machine.",
        )
    elif all(address.startswith("127.") for address in addresses):
        yield Finding(
            "network", OK, f"a graph stays on this machine: sockets on {', '.join(addresses) or 'no address'}"
        )
    else:
        yield Finding(
            "network",
            WARNING,
            f"a graph should stay on this machine, but its sockets are on {', '.join(addresses)}",
            "Unset FASTRTPS_DEFAULT_PROFILES_FILE and RMW_IMPLEMENTATION, or let a firewall close UDP from 7400 on.",
        )


def security() -> Iterator[Finding]:
    """Whether the middleware was built with security, by a trial."""
    if not in_environment():
        return
    why = middleware_lacks()
    if why:
        yield Finding(
            "security",
            NOTE,
            f"secure:=true cannot be used: {why}",
            "For a graph with keys source a ROS 2 Jazzy distribution, whose Fast DDS has security.",
        )
    else:
        yield Finding("security", OK, "keys can guard a graph: refit security create, secure:=true")
