"""What happens to a process, and what it is asked to do."""

from .process_event import (
    ProcessExited,
    ProcessIO,
    ProcessStarted,
    ProcessStderr,
    ProcessStdin,
    ProcessStdout,
    RunningProcessEvent,
)
from .process_matchers import matches_executable, matches_name, matches_pid
from .process_targeted_event import ProcessTargetedEvent, ShutdownProcess, SignalProcess

__all__ = [
    "ProcessExited",
    "ProcessIO",
    "ProcessStarted",
    "ProcessStderr",
    "ProcessStdin",
    "ProcessStdout",
    "ProcessTargetedEvent",
    "RunningProcessEvent",
    "ShutdownProcess",
    "SignalProcess",
    "matches_executable",
    "matches_name",
    "matches_pid",
]
