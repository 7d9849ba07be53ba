"""Lead lifecycle nodes through transitions."""

from launch.action import Action
from launch.actions import EmitEvent, OpaqueFunction
from launch.event_handler import EventHandler
from launch.logging import get_logger
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions

from ..event_handlers import OnStateTransition
from ..events.lifecycle import ChangeState, StateTransition
from ..events.matchers import matches_node_name
from ..utilities.lifecycle_states import TRANSITION_TARGETS


class LifecycleTransition(Action):
    """Makes each node go through the transitions, one after the other.

    The nodes do not wait for each other; a node whose error processing starts
    makes no further transition.

    Args:
        lifecycle_node_names: full names.
        transition_ids: Transition.TRANSITION_CONFIGURE and so on, or substitutions.
    """

    def __init__(self, *, lifecycle_node_names, transition_ids, **kwargs):
        super().__init__(**kwargs)
        if not lifecycle_node_names:
            raise ValueError("No lifecycle_node_names provided.")
        if not transition_ids:
            raise ValueError("No transition_ids provided.")
        self.__names = [normalize_to_list_of_substitutions(n) for n in lifecycle_node_names]
        self.__transition_ids = [
            normalize_to_list_of_substitutions(str(t) if isinstance(t, int) else t) for t in transition_ids
        ]
        self.__logger = get_logger(__name__)

    def execute(self, context):
        transitions = [self.__to_id(context, t) for t in self.__transition_ids]
        return [
            entity
            for name in self.__names
            for entity in self.__lead(context, perform_substitutions(context, name), transitions)
        ]

    @staticmethod
    def __to_id(context, transition):
        text = perform_substitutions(context, transition)
        if not text.isdigit() or int(text) not in TRANSITION_TARGETS:
            raise ValueError(
                f"expected the number of a lifecycle transition, one of {sorted(TRANSITION_TARGETS)}, found {text!r}"
            )
        return int(text)

    def __lead(self, context, name, transitions):
        """Register what the node's reports cause; return the first request."""
        is_node = matches_node_name(name)
        requests = [EmitEvent(event=ChangeState(lifecycle_node_matcher=is_node, transition_id=t)) for t in transitions]
        handlers = []

        def stop(context, reason=None):
            if reason is not None:
                self.__logger.info(f"Stopping transitions for {name} because '{reason}'")
            for handler in handlers:
                if handler in context._event_handlers:
                    context.unregister_event_handler(handler)

        def reached(transition):
            target = TRANSITION_TARGETS[transition]
            return lambda event: (
                is_node(event.action)
                and event.start_state == target.start_state
                and event.goal_state == target.goal_state
            )

        last = OpaqueFunction(function=stop)
        for transition, answer in zip(transitions, [*requests[1:], last]):
            handlers.append(OnStateTransition(matcher=reached(transition), entities=[answer], handle_once=True))
        handlers.append(
            EventHandler(
                matcher=lambda event: (
                    isinstance(event, StateTransition)
                    and is_node(event.action)
                    and event.goal_state == "errorprocessing"
                ),
                entities=OpaqueFunction(function=stop, args=["error occured during transitions"]),
                handle_once=True,
            )
        )
        for handler in handlers:
            context.register_event_handler(handler)
        return [requests[0]]
