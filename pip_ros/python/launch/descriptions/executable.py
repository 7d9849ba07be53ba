"""A command with its name, directory and environment."""

import itertools
import os
import re
import shlex

from ..substitutions.launch_configuration import LaunchConfiguration
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions

_counter = itertools.count(1)


class Executable:
    """A command line whose parts may be substitutions.

    Args:
        cmd: one item per word of the command; an item may be a list, whose texts are joined.
        prefix: words put in front, split like a shell does; default is the launch
            configuration 'launch-prefix', which 'launch-prefix-filter' (a regular
            expression over the executable's name) restricts.
        name: name in the output, default the executable's file name.
        cwd: working directory.
        env: the whole environment, name to value; default is the launch's own.
        additional_env: added to the environment.
    """

    def __init__(self, *, cmd, prefix=None, name=None, cwd=None, env=None, additional_env=None, arguments=None):
        self.__cmd = [normalize_to_list_of_substitutions(word) for word in cmd]
        self.__cmd += [normalize_to_list_of_substitutions(word) for word in arguments or []]
        self.__prefix = normalize_to_list_of_substitutions(
            LaunchConfiguration("launch-prefix", default="") if prefix is None else prefix
        )
        self.__prefix_filter = (
            normalize_to_list_of_substitutions(LaunchConfiguration("launch-prefix-filter", default=""))
            if prefix is None
            else None
        )
        self.__name = None if name is None else normalize_to_list_of_substitutions(name)
        self.__cwd = None if cwd is None else normalize_to_list_of_substitutions(cwd)
        self.__env = _normalize_environment(env)
        self.__additional_env = _normalize_environment(additional_env)
        self.__final_cmd = self.__final_name = self.__final_cwd = self.__final_env = None

    @property
    def name(self):
        return self.__name if self.__final_name is None else self.__final_name

    @property
    def prefix(self):
        return self.__prefix

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
    def additional_env(self):
        return self.__additional_env

    @property
    def final_name(self):
        return self.__final_name

    @property
    def final_cmd(self):
        return self.__final_cmd

    @property
    def final_cwd(self):
        return self.__final_cwd

    @property
    def final_env(self):
        return self.__final_env

    def prepare(self, context, action):
        """Perform all substitutions; the name gets a number that is unique in this process."""
        cmd = [perform_substitutions(context, word) for word in self.__cmd]
        name = os.path.basename(cmd[0]) if self.__name is None else perform_substitutions(context, self.__name)
        prefix = shlex.split(perform_substitutions(context, self.__prefix))
        if prefix and self.__prefix_filter is not None:
            pattern = perform_substitutions(context, self.__prefix_filter)
            if pattern and not re.match(pattern, os.path.basename(cmd[0])):
                prefix = []
        self.__final_cmd = prefix + cmd
        self.__final_name = f"{name}-{next(_counter)}"
        self.__final_cwd = None if self.__cwd is None else perform_substitutions(context, self.__cwd)
        self.__final_env = (
            dict(context.environment) if self.__env is None else _perform_environment(context, self.__env)
        )
        self.__final_env.update(_perform_environment(context, self.__additional_env or []))


def _normalize_environment(environment):
    if environment is None:
        return None
    return [
        (normalize_to_list_of_substitutions(name), normalize_to_list_of_substitutions(value))
        for name, value in environment.items()
    ]


def _perform_environment(context, environment):
    return {perform_substitutions(context, name): perform_substitutions(context, value) for name, value in environment}
