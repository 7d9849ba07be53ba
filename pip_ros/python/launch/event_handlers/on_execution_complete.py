"""React to the completion of an action."""

from ..action import Action
from ..events.execution_complete import ExecutionComplete
from .on_action_event_base import OnActionEventBase


class OnExecutionComplete(OnActionEventBase):
    def __init__(self, *, target_action=None, on_completion, **kwargs):
        super().__init__(
            action_matcher=target_action,
            on_event=on_completion,
            target_event_cls=ExecutionComplete,
            target_action_cls=Action,
            **kwargs,
        )
