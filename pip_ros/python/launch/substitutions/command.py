"""The output of a command."""

import os
import shlex
import subprocess

from ..logging import get_logger
from ..substitution import Substitution
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions
from .substitution_failure import SubstitutionFailure


class Command(Substitution):
    """Standard output of a command, which is split like a shell does.

    on_stderr: what output on stderr means: 'fail' (default), 'ignore', 'warn' or
    'capture', which appends it.
    """

    def __init__(self, command, *, on_stderr="fail"):
        self.__command = normalize_to_list_of_substitutions(command)
        self.__on_stderr = normalize_to_list_of_substitutions(on_stderr)

    @property
    def command(self):
        return self.__command

    def describe(self):
        return f"Command({' + '.join(s.describe() for s in self.__command)})"

    def perform(self, context):
        command = perform_substitutions(context, self.__command)
        on_stderr = perform_substitutions(context, self.__on_stderr)
        if on_stderr not in ("fail", "ignore", "warn", "capture"):
            raise SubstitutionFailure(f"on_stderr='{on_stderr}': expected 'fail', 'ignore', 'warn' or 'capture'")
        try:
            done = subprocess.run(
                shlex.split(command),
                env=dict(os.environ),
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if on_stderr == "capture" else subprocess.PIPE,
            )
        except OSError as error:
            raise SubstitutionFailure(f"command '{command}' cannot be run: {error}") from error
        if done.returncode != 0:
            raise SubstitutionFailure(
                f"executed command failed. Command: {command}\nCaptured stderr output: {done.stderr or done.stdout}"
            )
        if done.stderr and on_stderr == "fail":
            raise SubstitutionFailure(
                f"executed command showed stderr output. Command: {command}\nCaptured stderr output:\n{done.stderr}"
            )
        if done.stderr and on_stderr == "warn":
            get_logger().warning(f"command '{command}' showed stderr output:\n{done.stderr}")
        return done.stdout
