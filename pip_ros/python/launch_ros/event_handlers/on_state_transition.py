"""React to state changes of lifecycle nodes."""

from launch.event_handler import EventHandler

from ..events.lifecycle import StateTransition


class OnStateTransition(EventHandler):
    """Visits entities when a transition matches everything that is given.

    Args:
        target_lifecycle_node: the action, None for all.
        start_state, goal_state: labels such as 'configuring' and 'inactive'.
        transition: a label; Jazzy's rcl leaves it empty in its reports, so match the states.
        matcher: predicate over events, instead of all the former.
    """

    def __init__(
        self,
        *,
        entities,
        target_lifecycle_node=None,
        transition=None,
        start_state=None,
        goal_state=None,
        matcher=None,
        **kwargs,
    ):
        given = (target_lifecycle_node, transition, start_state, goal_state)
        if matcher is not None and any(value is not None for value in given):
            raise TypeError("OnStateTransition: give a matcher, or what to match, not both")

        def matches(event):
            if not isinstance(event, StateTransition):
                return False
            if matcher is not None:
                return matcher(event)
            found = (event.action, event.transition, event.start_state, event.goal_state)
            return all(value is None or value == actual for value, actual in zip(given, found))

        super().__init__(matcher=matches, entities=entities, **kwargs)
