"""The command `launch [PACKAGE] FILE [name:=value ...] [--show-args]`."""

import argparse
import difflib
import os
import sys

import launch
from launch.actions import IncludeLaunchDescription, RegisterEventHandler
from launch.event_handlers import OnProcessExit, OnShutdown
from launch.launch_description_sources import AnyLaunchDescriptionSource

from .files import find_launch_file

# Launch configurations that launch itself understands without a declaration.
WELL_KNOWN = ("emulate_tty", "launch-prefix", "launch-prefix-filter", "log_level", "sigkill_timeout", "sigterm_timeout")

EXIT_USAGE = 2
#: the launch service's own reasons to end; all others are a launch file's
ORDINARY = ("idle", "SIGTERM", "SIGQUIT", "LaunchService.shutdown() called")


class UsageError(Exception):
    """The command line is wrong; the message says how."""


def main(argv):
    """Run the command.

    Args:
        argv: words after the command's name.

    Returns:
        0: the launch ran, whatever its processes returned; also after Ctrl-C.
        1: the launch itself failed, or ended itself for want of something it needs. 2: wrong usage, said in one line.
    """
    try:
        return _run(argv)
    except UsageError as error:
        print(f"launch: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:  # before anything was started
        return 0
    except SystemExit as error:  # --help
        return error.code or 0


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(message)


def _parser():
    parser = _Parser(
        prog="launch",
        description="Run a launch file.",
        allow_abbrev=False,
        usage="launch [PACKAGE] FILE [name:=value ...] [options]",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[PACKAGE] FILE [name:=value ...]",
        help=(
            "a launch file: a path, a name in the launch folder of package refit, or a package "
            "and a name; then its arguments (of duplicates the last one counts)"
        ),
    )
    parser.add_argument(
        "-s", "--show-args", "--show-arguments", action="store_true", help="show the arguments of the launch file"
    )
    parser.add_argument("-d", "--debug", action="store_true", help="log what launch does")
    parser.add_argument("-n", "--noninteractive", action="store_true", help="run as if no terminal was attached")
    parser.add_argument(
        "-a",
        "--show-all-subprocesses-output",
        action="store_true",
        help="show the output of all processes on the screen",
    )
    return parser


def _run(argv):
    options = _parser().parse_intermixed_args(argv)
    names = [word for word in options.words if ":=" not in word]
    if not names:
        raise UsageError("no launch file given; usage: launch [PACKAGE] FILE [name:=value ...]")
    given = _parse_arguments([word for word in options.words if ":=" in word])
    try:
        path = find_launch_file(names)
    except LookupError as error:
        raise UsageError(str(error.args[0])) from error
    include = IncludeLaunchDescription(AnyLaunchDescriptionSource(path), launch_arguments=list(given.items()))
    if options.show_all_subprocesses_output:
        os.environ["OVERRIDE_LAUNCH_PROCESS_OUTPUT"] = "both"
    service = launch.LaunchService(
        argv=[f"{name}:={value}" for name, value in given.items()],
        debug=options.debug,
        noninteractive=options.noninteractive or not sys.stdin.isatty(),
    )
    try:
        # Errors of the launch file itself show with their traceback: its author needs it.
        declared = include.launch_description_source.get_launch_description(service.context).get_launch_arguments()
    except FileNotFoundError as error:
        raise UsageError(str(error)) from error
    if options.show_args:
        print(describe_arguments(declared))
        return 0
    _check_arguments(given, declared, path)
    ending = _Ending()
    service.include_launch_description(launch.LaunchDescription([*ending.handlers(), include]))
    return service.run() or ending.exit_code


class _Ending:
    """Why a launch ended itself: said in a sentence, and an exit code of 1 unless what it needed ended well.

    Attributes:
        exit_code: 0 or 1.
    """

    def __init__(self):
        self.exit_code = 0
        self._last = None  # exit code of the process that ended last
        self._told = False  # what a shutdown ends asks for a shutdown once more

    def handlers(self):
        """To put before everything else into the launch description."""
        return [
            RegisterEventHandler(OnProcessExit(on_exit=self._exited)),
            RegisterEventHandler(OnShutdown(on_shutdown=self._shut_down)),
        ]

    def _exited(self, event, context):
        self._last = event.returncode

    def _shut_down(self, event, context):
        told, self._told = self._told, True
        if told or event.due_to_sigint or event.reason in ORDINARY or self._last == 0:
            return
        self.exit_code = 1
        print(f"launch: ended, because {event.reason}", file=sys.stderr, flush=True)


def _parse_arguments(words):
    given = {}
    for word in words:
        name, _, value = word.partition(":=")
        if not name or not value:
            raise UsageError(f"malformed launch argument '{word}', expected format '<name>:=<value>'")
        given[name] = value
    return given


def _check_arguments(given, declared, path):
    """Refuse what cannot be right before anything is started."""
    by_name = {argument.name: argument for argument in declared}
    file_name = os.path.basename(path)
    for name, value in given.items():
        if name not in by_name and name not in WELL_KNOWN:
            near = difflib.get_close_matches(name, by_name, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"it knows: {', '.join(by_name) or 'none'}"
            raise UsageError(f"{file_name} has no argument '{name}'; {hint}")
        choices = by_name[name].choices if name in by_name else None
        if choices is not None and value not in choices:
            raise UsageError(
                f"argument '{name}' of {file_name}: '{value}' is not valid, valid options are: {', '.join(choices)}"
            )
    for argument in declared:
        if argument.default_value is None and argument.name not in given and not argument._conditionally_included:
            raise UsageError(
                f"{file_name} needs argument '{argument.name}' ({argument.description}): {argument.name}:=<value>"
            )


def describe_arguments(declared):
    """Return the text of --show-args, as `ros2 launch` prints it."""
    lines = ["Arguments (pass arguments as '<name>:=<value>'):"]
    for argument in declared:
        star = "*" if argument._conditionally_included else ""
        lines += ["", f"    '{argument.name}':{star}", f"        {argument.description}"]
        if argument.default_value is not None:
            lines.append(f"        (default: {argument.describe_default()})")
    if not declared:
        lines += ["", "  No arguments."]
    if any(argument._conditionally_included for argument in declared):
        lines += ["", "* argument(s) which are only used if specific conditions occur"]
    return "\n".join(lines)
