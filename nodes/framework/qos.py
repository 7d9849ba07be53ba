"""The quality-of-service profiles of the house, by what a message means.

Publisher and subscriber of a topic use the same name, so they always match.
"""

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

__all__ = ["CLOCK", "COMMAND", "GLANCE", "LATCHED", "LEDGER", "PROFILES", "SENSOR", "SENSORS", "STATE"]


def _profile(reliability, depth, durability=DurabilityPolicy.VOLATILE) -> QoSProfile:
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=reliability, durability=durability)


# Streams whose next sample replaces a lost one (wrench, images, scans): never wait for a resend.
SENSOR = _profile(ReliabilityPolicy.BEST_EFFORT, 10)

# The same of many sensors that share a topic: what all of them say at once has to find room.
SENSORS = _profile(ReliabilityPolicy.BEST_EFFORT, 100)

# Streams whose every sample counts (joint states, status): the refit and the bag need them
# without gaps, and 500 samples of history bridge a second of a stalled reader at 500 Hz.
STATE = _profile(ReliabilityPolicy.RELIABLE, 500)

# Commands: they must arrive, but only the newest one matters, an older one is never caught up on.
COMMAND = _profile(ReliabilityPolicy.RELIABLE, 1)

# Facts that late joiners need too (robot description, parameters in force, run information).
LATCHED = _profile(ReliabilityPolicy.RELIABLE, 1, DurabilityPolicy.TRANSIENT_LOCAL)

# Facts of which every single one counts, for late joiners too (parameter sets, supervisor states):
# the last 50 of them, in order.
LEDGER = _profile(ReliabilityPolicy.RELIABLE, 50, DurabilityPolicy.TRANSIENT_LOCAL)

# Simulated time: only the present time is of use; rclpy's own clock readers ask for the same.
CLOCK = _profile(ReliabilityPolicy.BEST_EFFORT, 1)

# A look now and then at a stream of anybody's: it is met whatever it offers, and only the newest sample is kept.
GLANCE = _profile(ReliabilityPolicy.BEST_EFFORT, 1)

PROFILES = {
    "SENSOR": SENSOR,
    "SENSORS": SENSORS,
    "STATE": STATE,
    "COMMAND": COMMAND,
    "LATCHED": LATCHED,
    "LEDGER": LEDGER,
    "CLOCK": CLOCK,
}
