"""Which machines a ROS graph reaches: this one alone, unless the network is opened on purpose.

    network.enclose(os.environ)         # in every process, before its first rclpy.init
    network.enclose(os.environ, images=True)        # where it publishes images or point clouds

The one switch is ROS_AUTOMATIC_DISCOVERY_RANGE. Unset or LOCALHOST, it means: sockets on 127.0.0.1 and nowhere else, and
nobody from outside gets in. With SUBNET the graph is found by other machines, as ROS describes it. ROS's own LOCALHOST
does less: its sockets are open on all addresses, and ROS_STATIC_PEERS, set here or on another machine, lets that machine
in. So Fast DDS is told by a profile, `config/this_machine.xml`, and ROS to leave it at that (SYSTEM_DEFAULT, under which
it ignores peers as well).

`python -m config.network` prints the same as lines for a shell, which `.refit/env.sh` evaluates.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from config.share import shared_folder

__all__ = ["changes", "enclose", "is_enclosed"]

RANGE, PEERS = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_STATIC_PEERS"
ONLY = "ROS_LOCALHOST_ONLY"  # deprecated by ROS, still stronger than both
PROFILES = "FASTRTPS_DEFAULT_PROFILES_FILE"
MIDDLEWARE = "RMW_IMPLEMENTATION"

_PROFILE, _PROFILE_FOR_IMAGES = "this_machine.xml", "this_machine_images.xml"
_FAST_DDS = ("", "rmw_fastrtps_cpp", "rmw_fastrtps_dynamic_cpp")  # the first: Jazzy's default is Fast DDS


def is_enclosed(environment: Mapping[str, str]) -> bool:
    """Whether an environment asks for a graph on this machine alone."""
    reach = environment.get(RANGE, "")
    return (
        reach in ("", "LOCALHOST")
        or environment.get(ONLY) == "1"
        or (reach == "SYSTEM_DEFAULT" and _is_ours(environment.get(PROFILES, "")))
    )


def changes(environment: Mapping[str, str], images: bool = False) -> dict[str, str | None]:
    """What has to change in an environment before a participant is made in it.

    Another middleware than Fast DDS, or somebody's own profile for Fast DDS, keeps what it says about sockets; ROS's
    range LOCALHOST is all that it gets.

    Args:
        images: the process sends messages of megabytes and gets a segment of shared memory that holds them.

    Returns:
        {variable: its value, None to remove it}, of those that have to change alone; empty if nothing has to.

    Raises:
        FileNotFoundError: the profile is not where it was installed.
    """
    given = environment.get(PROFILES, "")
    wanted: dict[str, str | None]
    if not is_enclosed(environment):
        wanted = {PROFILES: None} if _is_ours(given) else {}
    elif environment.get(MIDDLEWARE, "") in _FAST_DDS and (not given or _is_ours(given)):
        profile = str(shared_folder("config") / (_PROFILE_FOR_IMAGES if images else _PROFILE))
        wanted = {RANGE: "SYSTEM_DEFAULT", PROFILES: profile, PEERS: None, ONLY: None}
    else:
        wanted = {RANGE: "LOCALHOST", PEERS: None}
    return {name: value for name, value in wanted.items() if environment.get(name) != value}


def enclose(environment: MutableMapping[str, str], images: bool = False) -> None:
    """Make the `changes` in an environment; says on stderr if peers that somebody named are ignored."""
    for name, value in _told(environment, images).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value


def _told(environment: Mapping[str, str], images: bool = False) -> dict[str, str | None]:
    wanted = changes(environment, images)
    if PEERS in wanted and environment.get(PEERS):
        print(
            f"refit: {PEERS}={environment[PEERS]} is ignored, because the graph stays on this machine; "
            f"set {RANGE}=SUBNET to open it to the network.",
            file=sys.stderr,
        )
    return wanted


def _is_ours(profile: str) -> bool:
    return Path(profile).name in (_PROFILE, _PROFILE_FOR_IMAGES)


def main() -> int:
    """Print the changes as lines for a POSIX shell."""
    for name, value in _told(os.environ).items():
        print(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
