"""The value of a launch argument or configuration."""

from ..substitution import Substitution
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions
from .substitution_failure import SubstitutionFailure


class LaunchConfiguration(Substitution):
    """The value of the named configuration, or of `default` (any value, or substitutions)."""

    def __init__(self, variable_name, *, default=None):
        self.__variable_name = normalize_to_list_of_substitutions(variable_name)
        self.__default = None
        if default is not None:
            try:
                self.__default = normalize_to_list_of_substitutions(default)
            except TypeError:
                self.__default = normalize_to_list_of_substitutions(str(default))

    @property
    def variable_name(self):
        return self.__variable_name

    def describe(self):
        return f"LaunchConfig({' + '.join(s.describe() for s in self.__variable_name)})"

    def perform(self, context):
        name = perform_substitutions(context, self.__variable_name)
        if name in context.launch_configurations:
            return context.launch_configurations[name]
        if self.__default is None:
            raise SubstitutionFailure(f"launch configuration '{name}' does not exist")
        return perform_substitutions(context, self.__default)
