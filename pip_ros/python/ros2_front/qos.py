"""Quality of service: as asked for, and for the rest so that it meets those who are there already."""

import copy

from .errors import UsageError, choices
from .graph import complain

#: samples that are held for a reader that falls behind
DEPTH = 100

_SHARED = ("system_default", "best_available")


def add_options(parser):
    """Let a verb take the options --qos-..."""
    add = parser.add_argument_group(
        "quality of service", "without these it adapts to the publishers and subscriptions there are"
    ).add_argument
    add(
        "--qos-profile", metavar="NAME", help="a named profile to begin with, as sensor_data, services_default, default"
    )
    add("--qos-depth", type=int, metavar="N", help=f"samples that are kept ({DEPTH})")
    add("--qos-history", choices=("keep_last", "keep_all", "system_default"))
    add("--qos-reliability", choices=("reliable", "best_effort", *_SHARED))
    add("--qos-durability", choices=("volatile", "transient_local", *_SHARED))
    add("--qos-liveliness", choices=("automatic", "manual_by_topic", *_SHARED))
    add("--qos-liveliness-lease-duration-seconds", type=float, metavar="SECONDS")


def for_subscription(options, publishers):
    """The profile with which all of some publishers are heard, if one can.

    Args:
        options: with the words of `add_options`, if the verb has them. publishers: rclpy's TopicEndpointInfo of each.
    """
    from rclpy.qos import DurabilityPolicy, ReliabilityPolicy

    offered = [info.qos_profile for info in publishers]
    reliable = [profile.reliability == ReliabilityPolicy.RELIABLE for profile in offered]
    latched = [profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for profile in offered]
    if any(reliable) and not all(reliable) and not getattr(options, "qos_reliability", None):
        complain("some publishers are reliable and some are not; best effort hears all of them")
    if any(latched) and not all(latched) and not getattr(options, "qos_durability", None):
        complain("some publishers are transient local and some are not; volatile hears all of them")
    return _profile(options, bool(offered) and all(reliable), bool(offered) and all(latched), DEPTH)


def for_publisher(options, subscriptions):
    """The profile that all of some subscriptions can hear: reliable, and transient local where one asks for that."""
    from rclpy.qos import DurabilityPolicy

    latched = any(info.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for info in subscriptions)
    return _profile(options, True, latched, DEPTH)


def _profile(options, reliable, latched, depth):
    """A profile from what is asked for and, where nothing is, from what was found."""
    from rclpy.duration import Duration
    from rclpy.qos import (
        DurabilityPolicy,
        HistoryPolicy,
        LivelinessPolicy,
        QoSPresetProfiles,
        QoSProfile,
        ReliabilityPolicy,
    )

    def asked(name):
        return getattr(options, f"qos_{name}", None)

    if (name := asked("profile")) is not None:
        if name not in QoSPresetProfiles.short_keys():
            raise UsageError(f"--qos-profile: no profile '{name}'; {choices(name, QoSPresetProfiles.short_keys())}")
        profile = copy.copy(QoSPresetProfiles.get_from_short_key(name))
    else:
        profile = QoSProfile(
            history=HistoryPolicy.KEEP_LAST,
            depth=depth,
            reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        )
    for name, policy in (
        ("history", HistoryPolicy),
        ("reliability", ReliabilityPolicy),
        ("durability", DurabilityPolicy),
        ("liveliness", LivelinessPolicy),
    ):
        if asked(name) is not None:
            setattr(profile, name, policy.get_from_short_key(asked(name)))
    if asked("depth") is not None:
        if asked("depth") < 0:
            raise UsageError(f"--qos-depth: expected a number that is not negative, found {asked('depth')}")
        profile.depth = asked("depth")
    lease = asked("liveliness_lease_duration_seconds")
    if lease is not None:
        if lease < 0:
            raise UsageError(f"--qos-liveliness-lease-duration-seconds: expected one not negative, found {lease:g}")
        profile.liveliness_lease_duration = Duration(seconds=lease)
    return profile


def stored(profile):
    """A profile as a bag keeps it, for `ros2 bag play` to offer the same."""
    from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
    from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

    forever = QosTime(9223372036, 854775807)
    reliable = profile.reliability == ReliabilityPolicy.RELIABLE
    latched = profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    return Qos(
        QosHistory.KEEP_LAST,
        profile.depth or (1 if latched else DEPTH),  # which the middleware does not tell of others
        QosReliability.RELIABLE if reliable else QosReliability.BEST_EFFORT,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        forever,
        forever,
        QosLiveliness.AUTOMATIC,
        forever,
        False,
    )
