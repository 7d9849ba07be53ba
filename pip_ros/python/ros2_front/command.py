"""The words after `ros2`: which group of verbs, which verb, its options."""

import argparse
import importlib
import os
import signal
import sys

from .errors import FrontError, UsageError, choices

#: group -> what its verbs are about; the module of the same name has `add_verbs(group)`
GROUPS = {
    "action": "actions: who offers them, send goals",
    "bag": "recorded bags: what is in one, play it, record one",
    "interface": "types of messages, services and actions",
    "lifecycle": "nodes with states, and their transitions",
    "node": "the nodes of the graph, and what each says and hears",
    "param": "parameters of running nodes",
    "pkg": "installed packages and their programs",
    "service": "services: who offers them, call one",
    "topic": "topics: who publishes them, look at one, measure it, publish on it",
}
#: words that take everything after them as it is; the module of the same name has `main(words)`
WHOLE = {
    "run": "run a program of a package: ros2 run PACKAGE PROGRAM [argument ...]",
    "launch": "run a launch file: ros2 launch [PACKAGE] FILE [name:=value ...]",
}
#: words of a distribution that are not here, and what is
ELSEWHERE = {
    "daemon": "there is no daemon: each command looks at the graph for itself (--spin-time SECONDS)",
    "doctor": "use ./refit doctor",
    "wtf": "use ./refit doctor",
    "security": "use ./refit security",
    "component": "nodes are processes of their own; start one with ros2 run",
    "multicast": "./refit doctor tells what the middleware hears",
    "test": "launch tests run with pytest",
}

DESCRIPTION = """Look at a running ROS graph and take part in it.

These are the words of ROS's own command, for an environment without a ROS distribution. Every verb answers --help.
ROS_DOMAIN_ID chooses the graph; ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET opens it to other machines."""


def main(words):
    """Run the command.

    Args:
        words: those after `ros2`.

    Returns:
        0: it ran, or Ctrl-C ended it. 1: what was asked for is not there or was refused. 2: wrong usage; both said in one line.
    """
    words = list(words)
    name = " ".join(["ros2", *[word for word in words[:2] if not word.startswith("-")]])
    try:
        with _told_to_end():
            return _run(words) or 0
    except FrontError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # the reader of a pipe went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as error:  # --help
        return error.code or 0


class _told_to_end:
    """SIGTERM is Ctrl-C: what is open is closed."""

    def __enter__(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        self._before = signal.signal(signal.SIGTERM, interrupt)

    def __exit__(self, *_):
        signal.signal(signal.SIGTERM, self._before)


class Parser(argparse.ArgumentParser):
    """One whose errors are sentences with exit code 2."""

    def __init__(self, **options):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message):
        raise UsageError(f"{message} ({self.prog} --help)")


class Group:
    """Collects the verbs of one group.

    Args:
        name: of the group.
    """

    def __init__(self, name):
        self.parser = Parser(prog=f"ros2 {name}", description=f"{GROUPS[name]}.")
        self._verbs = self.parser.add_subparsers(metavar="VERB", parser_class=Parser)

    def verb(self, name, function, text, example, graph=True):
        """Add a verb and return its parser.

        Args:
            function: called with the options; its result is the exit code.
            text: what it does, a sentence without its stop. example: a command line that works.
            graph: whether it joins the graph, and takes the options for that.
        """
        parser = self._verbs.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=f"example:\n  {example}"
        )
        parser.set_defaults(function=function)
        if graph:
            parser.add_argument(
                "--spin-time",
                type=nonnegative,
                metavar="SECONDS",
                help="how long to look for what is in the graph; by default until nothing new appears",
            )
            parser.add_argument("-s", "--use-sim-time", action="store_true", help="time is that of /clock")
            parser.add_argument("--no-daemon", action="store_true", help="taken for ros2cli's sake: there is no daemon")
        return parser

    def run(self, words):
        """Run the verb that the words name; without words, tell which there are."""
        if not words:
            self.parser.print_help()
            return 0
        options = self.parse(words)
        return options.function(options)

    def parse(self, words):
        """The options of a verb and its words.

        Raises:
            UsageError: there is no such verb, or it does not take such words.
        """
        known = self._verbs.choices
        if words[0] in known:  # by itself, because only so values may stand behind options
            return known[words[0]].parse_intermixed_args(words[1:])
        if words[0].startswith("-"):
            return self.parser.parse_args(words)
        raise UsageError(f"no verb '{words[0]}'; {choices(words[0], known)} ({self.parser.prog} --help)")


def group_of(name):
    """A `Group` with its verbs; `name` is one of `GROUPS`."""
    group = Group(name)
    importlib.import_module(f".{name}", __package__).add_verbs(group)
    return group


def _run(words):
    name = words[0] if words else "--help"
    if name in ("-h", "--help"):
        print(_usage())
        return 0
    if name in WHOLE:
        return importlib.import_module(f".{name}", __package__).main(words[1:])
    if name in GROUPS:
        return group_of(name).run(words[1:])
    if name in ELSEWHERE:
        raise UsageError(f"not here; {ELSEWHERE[name]}")
    raise UsageError(f"no command '{name}'; {choices(name, [*GROUPS, *WHOLE])} (ros2 --help)")


def _usage():
    rows = sorted({**GROUPS, **WHOLE}.items())
    return "\n".join(
        ["usage: ros2 COMMAND VERB [options]", "", DESCRIPTION, "", *(f"  {name:10} {text}" for name, text in rows)]
    )


def nonnegative(text):
    """A number that is not negative, as an option's value."""
    value = _number(text)
    if value < 0.0:
        raise argparse.ArgumentTypeError(f"expected a number that is not negative, found {text}")
    return value


def positive(text):
    """A number above zero, as an option's value."""
    value = _number(text)
    if value <= 0.0:
        raise argparse.ArgumentTypeError(f"expected a number above zero, found {text}")
    return value


def count(text):
    """A whole number above zero, as an option's value."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above zero, found {text}")
    return int(text)


def _number(text):
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number, found {text}")
    return value
