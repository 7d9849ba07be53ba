"""Run a process, report what happens to it, and end it at shutdown."""

import asyncio
import codecs
import io
import os
import signal

from .. import logging
from ..action import Action
from ..child_process import ChildProcess
from ..conditions.evaluate_condition_expression import evaluate_condition_expression
from ..event_handler import EventHandler
from ..event_handlers.on_process_exit import OnProcessExit
from ..event_handlers.on_process_io import OnProcessIO
from ..event_handlers.on_shutdown import OnShutdown
from ..events.process import ProcessExited, ProcessStarted, ProcessStderr, ProcessStdout, ShutdownProcess, SignalProcess
from ..substitutions.launch_configuration import LaunchConfiguration
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions
from ..utilities.type_utils import normalize_typed_substitution, perform_typed_substitution
from .opaque_function import OpaqueFunction


class ExecuteLocal(Action):
    """Runs an executable on this machine.

    Args:
        process_description: the Executable.
        shell: hand the command to a shell.
        sigterm_timeout, sigkill_timeout: seconds from SIGINT to SIGTERM and from
            there to SIGKILL; defaults are the launch configurations of these names, else 5.
        emulate_tty: let the process believe that it writes to a terminal; the launch
            configuration 'emulate_tty' overrides it.
        output: 'screen', 'log', 'both', 'own_log', 'full' or a dict, see
            logging.get_output_loggers; $OVERRIDE_LAUNCH_PROCESS_OUTPUT overrides it.
        output_format: str.format pattern with `line` and `this` (the action).
        cached_output: keep the output for get_stdout() and get_stderr().
        log_cmd: log the command.
        on_exit: entities, or callable(event, context) -> entities, for when it ends.
        respawn: start it again when it ends before the launch does.
        respawn_delay: seconds before that.
        respawn_max_retries: how often; negative: for ever.
    """

    def __init__(
        self,
        *,
        process_description,
        shell=False,
        sigterm_timeout=LaunchConfiguration("sigterm_timeout", default=5),
        sigkill_timeout=LaunchConfiguration("sigkill_timeout", default=5),
        emulate_tty=False,
        output="log",
        output_format="[{this.process_description.final_name}] {line}",
        cached_output=False,
        log_cmd=False,
        on_exit=None,
        respawn=False,
        respawn_delay=None,
        respawn_max_retries=-1,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.__process_description = process_description
        self.__shell = shell
        self.__sigterm_timeout = normalize_to_list_of_substitutions(sigterm_timeout)
        self.__sigkill_timeout = normalize_to_list_of_substitutions(sigkill_timeout)
        self.__emulate_tty = emulate_tty
        output = os.environ.get("OVERRIDE_LAUNCH_PROCESS_OUTPUT", output)
        self.__output = output if isinstance(output, dict) else normalize_to_list_of_substitutions(output)
        self.__output_format = output_format
        self.__cached_output = cached_output
        self.__log_cmd = log_cmd
        self.__on_exit = on_exit
        self.__respawn = normalize_typed_substitution(respawn, bool)
        self.__respawn_delay = respawn_delay
        self.__respawn_max_retries = respawn_max_retries
        self.__details = None
        self.__child = None
        self.__completed = None
        self.__stopping = None
        self.__streams = {}
        self.__logger = None

    # -- what is known about the process -------------------------------------

    @property
    def process_description(self):
        return self.__process_description

    @property
    def shell(self):
        return self.__shell

    @property
    def emulate_tty(self):
        return self.__emulate_tty

    @property
    def sigterm_timeout(self):
        return self.__sigterm_timeout

    @property
    def sigkill_timeout(self):
        return self.__sigkill_timeout

    @property
    def output(self):
        return self.__output

    @property
    def process_details(self):
        """Dict of action, name, cmd, cwd, env and, once started, pid; None before."""
        return self.__details

    @property
    def return_code(self):
        """Exit status of the last process, -N after signal N, None while it runs."""
        return None if self.__child is None else self.__child.returncode

    def get_stdout(self):
        """Return all standard output so far; needs cached_output=True."""
        return self.__get_cached(1)

    def get_stderr(self):
        """Return all error output so far; needs cached_output=True."""
        return self.__get_cached(2)

    def __get_cached(self, fd):
        if not self.__cached_output:
            raise RuntimeError(
                "cached output must be true to be able to get stdout or stderr,"
                f" proc '{self.__process_description.name}'"
            )
        return self.__streams[fd].cache.getvalue() if self.__streams else ""

    def get_sub_entities(self):
        return self.__on_exit if isinstance(self.__on_exit, list) else []

    def get_asyncio_future(self):
        return self.__completed

    # -- start ---------------------------------------------------------------

    def prepare(self, context):
        """Perform all substitutions."""
        self.__process_description.prepare(context, self)
        description = self.__process_description
        self.__details = {
            "action": self,
            "name": description.final_name,
            "cmd": description.final_cmd,
            "cwd": description.final_cwd,
            "env": description.final_env,
        }
        self.__respawn = perform_typed_substitution(context, self.__respawn, bool)
        if "emulate_tty" in context.launch_configurations:
            self.__emulate_tty = evaluate_condition_expression(context, [LaunchConfiguration("emulate_tty")])

    def execute(self, context):
        if self.__completed is not None:
            raise RuntimeError(f"ExecuteLocal action '{self.__details['name']}': executed more than once")
        self.prepare(context)
        if context.is_shutdown:
            return None
        name = self.__details["name"]
        self.__logger = logging.get_logger(name)
        output = self.__output if isinstance(self.__output, dict) else perform_substitutions(context, self.__output)
        for fd, logger in enumerate(logging.get_output_loggers(name, output), start=1):
            self.__streams[fd] = _Lines(
                lambda line, logger=logger: logger.info(self.__output_format.format(line=line, this=self)),
                self.__cached_output,
            )
        for handler in self.__event_handlers():
            context.register_event_handler(handler)
        self.__completed = context.asyncio_loop.create_future()
        self.__stopping = context.asyncio_loop.create_future()
        context.add_completion_future(context.asyncio_loop.create_task(self.__run(context)))
        return None

    def __event_handlers(self):
        # Later ones are asked first: the output is complete when on_exit is visited.
        yield EventHandler(
            matcher=lambda event: isinstance(event, ShutdownProcess) and event.process_matcher(self),
            entities=OpaqueFunction(function=self._shutdown_process),
        )
        yield EventHandler(
            matcher=lambda event: isinstance(event, SignalProcess) and event.process_matcher(self),
            entities=OpaqueFunction(function=self.__on_signal_process),
        )
        yield OnProcessIO(target_action=self, on_stdout=self.__on_output, on_stderr=self.__on_output)
        yield OnShutdown(
            on_shutdown=lambda event, context: self._shutdown_process(context, to_group=event.due_to_sigint)
        )
        if self.__on_exit is not None:
            yield OnProcessExit(target_action=self, on_exit=self.__on_exit)
        yield OnProcessExit(target_action=self, on_exit=self.__on_process_exit)

    async def __run(self, context):
        """Run the process, again if it is to be respawned."""
        try:
            retries = 0
            while not self.__stopping.done():
                started = await self.__run_once(context)
                if not (started and self.__respawn) or context.is_shutdown:
                    break
                if 0 <= self.__respawn_max_retries <= retries:
                    break
                retries += 1
                if self.__respawn_delay:
                    await asyncio.wait([self.__stopping], timeout=self.__respawn_delay)
        finally:
            self.__completed.set_result(None)

    async def __run_once(self, context):
        """Run the process to its end; return False if it could not be started."""
        cmd, cwd = self.__details["cmd"], self.__details["cwd"]
        if self.__log_cmd:
            self.__logger.info(f"process details: cmd='{_to_line(cmd)}', cwd='{cwd}'")
        try:
            self.__child = ChildProcess(
                " ".join(cmd) if self.__shell else cmd,
                cwd=cwd,
                env=self.__details["env"],
                shell=self.__shell,
                emulate_tty=self.__emulate_tty,
                on_output=lambda fd, data: context.emit_event_sync(
                    (ProcessStdout if fd == 1 else ProcessStderr)(text=data, **self.__details)
                ),
            )
        except (OSError, ValueError) as error:
            self.__logger.error(f"exception occurred while executing process '{_to_line(cmd)}': {error}")
            return False
        child = self.__child
        self.__details = {**self.__details, "pid": child.pid}
        self.__logger.info(f"process started with pid [{child.pid}]")
        context.emit_event_sync(ProcessStarted(**self.__details))
        await child.wait()
        await child.finish_output()
        context.emit_event_sync(ProcessExited(returncode=child.returncode, **self.__details))
        await child.finish_group()
        return True

    # -- output --------------------------------------------------------------

    def __on_output(self, event):
        self.__streams[event.fd].write(event.text)

    def __on_process_exit(self, event, context):
        # Said here and not when the process ends, so that it follows the last output.
        for stream in self.__streams.values():
            stream.flush()
        if event.returncode == 0:
            self.__logger.info(f"process has finished cleanly [pid {event.pid}]")
        else:
            self.__logger.error(
                f"process has died [pid {event.pid}, exit code {event.returncode}, cmd '{_to_line(event.cmd)}']."
            )

    # -- end -----------------------------------------------------------------

    def _shutdown_process(self, context, *, to_group=False):
        """Begin to end the process: SIGINT, then SIGTERM, then SIGKILL.

        Args:
            to_group: send SIGINT to the process's children too, as a terminal does.
        """
        if self.__stopping is None or self.__stopping.done():
            return
        self.__stopping.set_result(None)
        if self.__child is not None and self.__child.is_running:
            context.add_completion_future(context.asyncio_loop.create_task(self.__escalate(context, to_group)))

    async def __escalate(self, context, to_group):
        steps = (
            (signal.SIGINT, perform_substitutions(context, self.__sigterm_timeout)),
            (signal.SIGTERM, perform_substitutions(context, self.__sigkill_timeout)),
            (signal.SIGKILL, None),
        )
        previous = None
        for signum, timeout in steps:
            if previous is not None:
                self.__logger.error(
                    f"process[{self.__details['name']}] failed to terminate '{previous[1]}' "
                    f"seconds after receiving '{previous[0].name}', "
                    f"escalating to '{signum.name}'"
                )
            self.__send_signal(signum, to_group=to_group and signum is signal.SIGINT)
            if timeout is None or await self.__child.wait(float(timeout)):
                return
            previous = signum, timeout

    def __on_signal_process(self, context):
        if self.__child is None:
            raise RuntimeError("Signal event received before execution.")
        self.__send_signal(context.locals.event.signal)

    def __send_signal(self, signum, *, to_group=False):
        if not self.__child.is_running:
            return
        self.__logger.info(f"sending signal '{signum.name}' to process[{self.__details['name']}]")
        self.__child.send_signal(signum, to_group=to_group or signum is signal.SIGKILL)

    def _kill(self):
        """Kill the process and its children without further ado."""
        if self.__stopping is not None and not self.__stopping.done():
            self.__stopping.set_result(None)
        if self.__child is not None:
            self.__child.send_signal(signal.SIGKILL, to_group=True)


def _to_line(cmd):
    return " ".join(word for word in cmd if word.strip())


class _Lines:
    """Cuts the bytes of one stream into lines, and keeps the text on request."""

    def __init__(self, on_line, cached):
        self._on_line = on_line
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self.cache = io.StringIO() if cached else None

    def write(self, data):
        text = self._decoder.decode(data)
        if self.cache is not None:
            self.cache.write(text)
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._on_line(line)

    def flush(self):
        """Pass on a last line without line end."""
        if self._rest:
            self._on_line(self._rest)
        self._rest = ""
