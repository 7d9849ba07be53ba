"""`python -m cli.main COMMAND ...`: finds the command, runs it, turns its ending into an exit code.

Exit codes: 0 ran, 1 a check failed, 2 wrong usage or unusable input, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys

#: commands that run robots: Ctrl-C is how a person ends them, no failure
ENDED_BY_HAND = ("demo", "launch", "ros2", "view")

EXIT_INTERRUPTED = 130

if __name__ == "__main__":
    # Ctrl-C during the slow imports below is as quiet as it is later. The script `refit` starts this
    # with SIGINT blocked, because Python itself answers it with a traceback. A launch ends with 0, and so does ros2.
    EARLY_EXIT = 0 if sys.argv[1:2] in (["launch"], ["ros2"]) else EXIT_INTERRUPTED
    signal.signal(signal.SIGINT, lambda *_: os._exit(EARLY_EXIT))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])

import difflib
import importlib
import importlib.util
from collections.abc import Callable, Sequence

import typer
from typer.main import get_command

from cli.errors import CommandError
from config.tiers import MissingTierError
from reporting.checks import EXIT_OK, EXIT_USAGE

#: command -> module and function, whose signature and docstring are its options and help, or typer application
COMMANDS = {
    "demo": ("cli.demo.command", "demo"),
    "experiment": ("cli.experiment", "experiment"),
    "bench": ("cli.bench", "bench"),
    "identify": ("cli.identify", "identify"),
    "train": ("cli.train", "train"),
    "calibrate": ("cli.calibrate", "app"),
    "localize": ("cli.localize", "localize"),
    "exam": ("cli.exam", "exam"),
    "robot": ("cli.robot", "app"),
    "security": ("cli.security", "app"),
    "view": ("cli.view", "view"),
    "docs": ("cli.docs", "docs"),
}
#: commands that read their words themselves: (words) -> exit code
PLAIN_COMMANDS = {
    "launch": ("cli.launch", "launch"),
    "ros2": ("cli.ros2", "ros2"),
    "doctor": ("cli.doctor", "main"),
    "emulate": ("cli.emulate", "emulate"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command named by the first word of `argv`. Returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = words[0] if words else ""
    try:
        if name in PLAIN_COMMANDS:
            return _function(name, *PLAIN_COMMANDS[name])(words[1:])
        if name in COMMANDS:
            return _run(name, _function(name, *COMMANDS[name]), words[1:])
        known = [*COMMANDS, *PLAIN_COMMANDS]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"commands: {', '.join(sorted(known))}."
        raise CommandError(f"no command '{name}'; {hint}")
    except CommandError as error:
        print(f"refit {name}: {error}", file=sys.stderr)
        return error.exit_code
    except MissingTierError as error:
        print(f"refit {name}: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print(f"refit {name}: interrupted.", file=sys.stderr)
        return EXIT_OK if name in ENDED_BY_HAND else EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe went away
        sys.stderr.close()
        return EXIT_OK


def _function(name: str, module: str, function: str) -> Callable[..., object]:
    if importlib.util.find_spec(module) is None:
        raise CommandError(f"this copy of refit does not contain the command (module {module} is absent).")
    return getattr(importlib.import_module(module), function)


def _run(name: str, function: Callable[..., object] | typer.Typer, words: list[str]) -> int:
    """Run a function as a typer command; its return value, if it is a number, is the exit code."""
    app = function
    if not isinstance(app, typer.Typer):
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(name=name)(function)
    try:
        outcome = get_command(app).main(words, prog_name=f"refit {name}", standalone_mode=False)
    except typer.Exit as ending:
        return ending.exit_code
    except typer.Abort as ending:  # how typer passes Ctrl-C on
        raise KeyboardInterrupt from ending
    except typer.TyperException as error:  # wrong options
        raise CommandError(f"{error.format_message()} (refit {name} --help)") from error
    if outcome == EXIT_INTERRUPTED:  # likewise
        raise KeyboardInterrupt
    return outcome if isinstance(outcome, int) else EXIT_OK


if __name__ == "__main__":
    if EARLY_EXIT:  # a launch has handlers of its own while processes run
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
