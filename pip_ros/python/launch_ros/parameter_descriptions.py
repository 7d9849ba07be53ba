"""A parameter value with its type, a named parameter, a parameter file."""

import re
from pathlib import Path

import yaml
from launch.substitutions import SubstitutionFailure
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions
from launch.utilities.type_utils import normalize_typed_substitution, perform_typed_substitution

from .utilities.temporary_files import write_temporary_file


class ParameterValue:
    """A value, or a substitution and the type that its text is converted to.

    Args:
        value: a value, a substitution, or a list with substitutions.
        value_type: int, float, bool, str, List[...] of these, or None for YAML's rules.
    """

    def __init__(self, value, *, value_type=None):
        self.__value = normalize_typed_substitution(value, value_type)
        self.__value_type = value_type

    @property
    def value(self):
        return self.__value

    @property
    def value_type(self):
        return self.__value_type

    def evaluate(self, context):
        """Return the value; ValueError if the text does not denote one of the type."""
        return perform_typed_substitution(context, self.__value, self.__value_type)


class Parameter:
    """A parameter by name, given to a node as `-p name:=value`."""

    def __init__(self, name, value, *, value_type=None):
        self.__name = normalize_to_list_of_substitutions(name)
        self.__value = ParameterValue(value, value_type=value_type)

    @property
    def name(self):
        return self.__name

    @property
    def value(self):
        return self.__value.value

    @property
    def value_type(self):
        return self.__value.value_type

    def evaluate(self, context):
        """Return the pair (name, value)."""
        return perform_substitutions(context, self.__name), self.__value.evaluate(context)


class ParameterFile:
    """A YAML file of parameters.

    Args:
        param_file: path, may contain substitutions.
        allow_substs: replace $(var NAME), $(env NAME [DEFAULT]), $(find-pkg-share NAME) and
            $(find-pkg-prefix NAME) in the file's text.
    """

    def __init__(self, param_file, *, allow_substs=False):
        self.__param_file = normalize_to_list_of_substitutions(param_file)
        self.__allow_substs = normalize_typed_substitution(allow_substs, bool)

    @property
    def param_file(self):
        return self.__param_file

    @property
    def allow_substs(self):
        return self.__allow_substs

    def evaluate(self, context):
        """Return the path of the file to give to the node."""
        path = Path(perform_substitutions(context, self.__param_file))
        if not perform_typed_substitution(context, self.__allow_substs, bool):
            return path
        try:
            # Through YAML, so that substitutions in comments are not performed.
            text = yaml.safe_dump(yaml.safe_load(path.read_text()))
        except yaml.YAMLError as error:
            raise SubstitutionFailure(f"{path} is not valid YAML: {error}") from error
        return Path(write_temporary_file(substitute_text(text, context)))


def substitute_text(text, context):
    """Return text with every $(...) replaced; innermost first."""
    from launch.substitutions import EnvironmentVariable, LaunchConfiguration

    from .substitutions import FindPackagePrefix, FindPackageShare

    def environment(name, default=None):
        return EnvironmentVariable(name, default_value=default)

    kinds = {
        "var": LaunchConfiguration,
        "env": environment,
        "find-pkg-share": FindPackageShare,
        "find-pkg-prefix": FindPackagePrefix,
    }

    def replace(match):
        kind, *words = match[1].split()
        if kind not in kinds:
            raise SubstitutionFailure(f"$({match[1]}): expected one of {', '.join(kinds)}")
        return kinds[kind](*(word.strip("'\"") for word in words)).perform(context)

    count = 1
    while count:
        text, count = re.subn(r"\$\(([^()]+)\)", replace, text)
    return text
