"""`ros2 run`: a program of a package, in place of this one."""

import argparse
import os
import shlex

from . import pkg
from .command import Parser
from .errors import FrontError, UsageError, choices


def main(words):
    """Run the program that the words name; returns only if it cannot be started.

    Raises:
        UsageError: there is no such package or program. FrontError: it cannot be started.
    """
    parser = Parser(
        prog="ros2 run",
        description="Run a program of a package.",
        epilog="example:\n  ros2 run refit view --ros-args -p port:=8080",
    )
    parser.add_argument("--prefix", help="a command before the program's own, as 'gdb --args'")
    parser.add_argument("package", help="its name (ros2 pkg list)")
    parser.add_argument("executable", help="the program (ros2 pkg executables PACKAGE)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="everything after it is for the program")
    options = parser.parse_args(words)
    known = {os.path.basename(path): path for path in pkg.executables(options.package)}
    if options.executable not in known:
        raise UsageError(
            f"package '{options.package}' has no program '{options.executable}'; {choices(options.executable, known)}"
        )
    command = [*shlex.split(options.prefix or ""), known[options.executable], *options.arguments]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise FrontError(f"'{command[0]}' cannot be started: {error}") from None
