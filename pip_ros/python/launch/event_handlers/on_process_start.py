"""React to the start of a process."""

from ..events.process import ProcessStarted
from .on_action_event_base import OnActionEventBase


class OnProcessStart(OnActionEventBase):
    def __init__(self, *, target_action=None, on_start, **kwargs):
        from ..actions.execute_local import ExecuteLocal

        super().__init__(
            action_matcher=target_action,
            on_event=on_start,
            target_event_cls=ProcessStarted,
            target_action_cls=ExecuteLocal,
            **kwargs,
        )
