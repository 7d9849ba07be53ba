"""Which states a lifecycle transition passes through."""

from typing import NamedTuple

from lifecycle_msgs.msg import Transition


class Target(NamedTuple):
    """Labels of the state before a transition, during it and, if it succeeds, after it."""

    origin: str
    start_state: str
    goal_state: str


TRANSITION_TARGETS = {
    Transition.TRANSITION_CONFIGURE: Target("unconfigured", "configuring", "inactive"),
    Transition.TRANSITION_CLEANUP: Target("inactive", "cleaningup", "unconfigured"),
    Transition.TRANSITION_ACTIVATE: Target("inactive", "activating", "active"),
    Transition.TRANSITION_DEACTIVATE: Target("active", "deactivating", "inactive"),
    Transition.TRANSITION_UNCONFIGURED_SHUTDOWN: Target("unconfigured", "shuttingdown", "finalized"),
    Transition.TRANSITION_INACTIVE_SHUTDOWN: Target("inactive", "shuttingdown", "finalized"),
    Transition.TRANSITION_ACTIVE_SHUTDOWN: Target("active", "shuttingdown", "finalized"),
}
