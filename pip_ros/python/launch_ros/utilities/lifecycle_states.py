"""Which states a lifecycle transition passes through."""

from typing import NamedTuple

from lifecycle_msgs.msg import Transition


class Target(NamedTuple):
    """Labels of the state during a successful transition and of the one after it."""

    start_state: str
    goal_state: str


TRANSITION_TARGETS = {
    Transition.TRANSITION_CONFIGURE: Target("configuring", "inactive"),
    Transition.TRANSITION_CLEANUP: Target("cleaningup", "unconfigured"),
    Transition.TRANSITION_ACTIVATE: Target("activating", "active"),
    Transition.TRANSITION_DEACTIVATE: Target("deactivating", "inactive"),
    Transition.TRANSITION_UNCONFIGURED_SHUTDOWN: Target("shuttingdown", "finalized"),
    Transition.TRANSITION_INACTIVE_SHUTDOWN: Target("shuttingdown", "finalized"),
    Transition.TRANSITION_ACTIVE_SHUTDOWN: Target("shuttingdown", "finalized"),
}
