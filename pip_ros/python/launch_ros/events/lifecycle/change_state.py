"""Lifecycle nodes are asked to change their state."""

from launch.event import Event
from lifecycle_msgs.msg import State, Transition


def _constants(message, *prefixes):
    return {
        getattr(message, name): name
        for name in dir(message)
        if name.startswith(prefixes) and isinstance(getattr(message, name), int)
    }


class ChangeState(Event):
    """Asks the nodes whose action satisfies the matcher to make a transition.

    Args:
        transition_id: Transition.TRANSITION_CONFIGURE and so on.
    """

    name = "launch_ros.events.lifecycle.ChangeState"
    valid_transitions = {
        id_: name
        for id_, name in _constants(Transition, "TRANSITION_").items()
        if not name.startswith(("TRANSITION_ON_", "TRANSITION_CALLBACK_"))
    }
    valid_states = _constants(State, "PRIMARY_STATE_", "TRANSITION_STATE_")

    def __init__(self, *, lifecycle_node_matcher, transition_id):
        if transition_id not in self.valid_transitions:
            valid = ", ".join(f"{name}: {id_}" for id_, name in self.valid_transitions.items())
            raise ValueError(f"given transition_id of '{transition_id}', expected one of {{{valid}}}")
        self.__lifecycle_node_matcher = lifecycle_node_matcher
        self.__transition_id = transition_id

    @property
    def lifecycle_node_matcher(self):
        return self.__lifecycle_node_matcher

    @property
    def transition_id(self):
        return self.__transition_id
