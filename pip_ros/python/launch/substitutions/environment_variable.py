"""The value of an environment variable."""

from ..substitution import Substitution
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions
from .substitution_failure import SubstitutionFailure


class EnvironmentVariable(Substitution):
    """The variable as the launch sees it now, or `default_value`."""

    def __init__(self, name, *, default_value=None):
        self.__name = normalize_to_list_of_substitutions(name)
        self.__default_value = None if default_value is None else normalize_to_list_of_substitutions(default_value)

    @property
    def name(self):
        return self.__name

    @property
    def default_value(self):
        return self.__default_value

    def describe(self):
        return f"EnvVar({' + '.join(s.describe() for s in self.__name)})"

    def perform(self, context):
        name = perform_substitutions(context, self.__name)
        if name in context.environment:
            return context.environment[name]
        if self.__default_value is None:
            raise SubstitutionFailure(f"environment variable '{name}' does not exist")
        return perform_substitutions(context, self.__default_value)
