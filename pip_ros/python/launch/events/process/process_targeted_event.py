"""Some processes are asked to do something."""

import signal

from ...event import Event


class ProcessTargetedEvent(Event):
    """Addresses the processes whose action satisfies `process_matcher`."""

    name = "launch.events.process.ProcessTargetedEvent"

    def __init__(self, *, process_matcher):
        self.__process_matcher = process_matcher

    @property
    def process_matcher(self):
        return self.__process_matcher


class ShutdownProcess(ProcessTargetedEvent):
    """Stop: SIGINT, then SIGTERM, then SIGKILL."""

    name = "launch.events.process.ShutdownProcess"


class SignalProcess(ProcessTargetedEvent):
    """Send one signal, given by number, enumeration or name ('SIGUSR1')."""

    name = "launch.events.process.SignalProcess"

    def __init__(self, *, signal_number, process_matcher):
        super().__init__(process_matcher=process_matcher)
        self.__signal = (
            signal.Signals[signal_number] if isinstance(signal_number, str) else signal.Signals(signal_number)
        )

    @property
    def signal(self):
        return self.__signal

    @property
    def signal_name(self):
        return self.__signal.name
