"""React to input and output of a process."""

from ..events.process import ProcessIO
from .on_action_event_base import OnActionEventBase


class OnProcessIO(OnActionEventBase):
    """Calls on_stdin, on_stdout or on_stderr with the event."""

    def __init__(self, *, target_action=None, on_stdin=None, on_stdout=None, on_stderr=None, **kwargs):
        from ..actions.execute_local import ExecuteLocal

        callbacks = (on_stdin, on_stdout, on_stderr)

        def on_io(event, context):
            callback = callbacks[event.fd]
            return callback(event) if callback is not None else None

        super().__init__(
            action_matcher=target_action,
            on_event=on_io,
            target_event_cls=ProcessIO,
            target_action_cls=ExecuteLocal,
            **kwargs,
        )
