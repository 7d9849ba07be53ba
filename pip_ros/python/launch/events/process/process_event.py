"""Something happened to a running process."""

from ...event import Event


class RunningProcessEvent(Event):
    """Carries the action that runs the process and the process's details."""

    name = "launch.events.process.RunningProcessEvent"

    def __init__(self, *, action, name, cmd, cwd, env, pid):
        self.__action = action
        self.__process_name = name
        self.__cmd = cmd
        self.__cwd = cwd
        self.__env = env
        self.__pid = pid

    @property
    def action(self):
        return self.__action

    @property
    def execute_process_action(self):
        return self.__action

    @property
    def process_name(self):
        return self.__process_name

    @property
    def cmd(self):
        return self.__cmd

    @property
    def cwd(self):
        return self.__cwd

    @property
    def env(self):
        return self.__env

    @property
    def pid(self):
        return self.__pid


class ProcessStarted(RunningProcessEvent):
    name = "launch.events.process.ProcessStarted"


class ProcessExited(RunningProcessEvent):
    """The process is gone; `returncode` is -N after signal N."""

    name = "launch.events.process.ProcessExited"

    def __init__(self, *, returncode, **kwargs):
        super().__init__(**kwargs)
        self.__returncode = returncode

    @property
    def returncode(self):
        return self.__returncode


class ProcessIO(RunningProcessEvent):
    """Bytes `text` on file descriptor `fd` (0, 1 or 2)."""

    name = "launch.events.process.ProcessIO"

    def __init__(self, *, text, fd, **kwargs):
        super().__init__(**kwargs)
        self.__text = text
        self.__fd = fd

    @property
    def text(self):
        return self.__text

    @property
    def fd(self):
        return self.__fd

    @property
    def from_stdin(self):
        return self.__fd == 0

    @property
    def from_stdout(self):
        return self.__fd == 1

    @property
    def from_stderr(self):
        return self.__fd == 2


class ProcessStdin(ProcessIO):
    name = "launch.events.process.ProcessStdin"

    def __init__(self, *, text, **kwargs):
        super().__init__(text=text, fd=0, **kwargs)


class ProcessStdout(ProcessIO):
    name = "launch.events.process.ProcessStdout"

    def __init__(self, *, text, **kwargs):
        super().__init__(text=text, fd=1, **kwargs)


class ProcessStderr(ProcessIO):
    name = "launch.events.process.ProcessStderr"

    def __init__(self, *, text, **kwargs):
        super().__init__(text=text, fd=2, **kwargs)
