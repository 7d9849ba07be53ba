"""End the launch."""

from ..events.process import ProcessExited
from ..events.shutdown import Shutdown as ShutdownEvent
from ..logging import get_logger
from .emit_event import EmitEvent


class Shutdown(EmitEvent):
    """Emits the Shutdown event; as `on_exit=` of a process it makes that process required."""

    def __init__(self, *, reason="reason not given", **kwargs):
        super().__init__(event=ShutdownEvent(reason=reason), **kwargs)

    def execute(self, context):
        event = context.get_locals_as_dict().get("event")
        if isinstance(event, ProcessExited):
            get_logger().info(f"process[{event.process_name}] was required: shutting down launched system")
        super().execute(context)
