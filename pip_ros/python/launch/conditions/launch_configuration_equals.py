"""Compare a launch configuration with text; prefer IfCondition(EqualsSubstitution(...))."""

from ..condition import Condition
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions


class LaunchConfigurationEquals(Condition):
    """True if the configuration has this value; None stands for 'is not set'."""

    def __init__(self, launch_configuration_name, expected_value):
        self.__name = launch_configuration_name
        self.__expected = None if expected_value is None else normalize_to_list_of_substitutions(expected_value)
        super().__init__(predicate=self._is_equal)

    def _is_equal(self, context):
        expected = None if self.__expected is None else perform_substitutions(context, self.__expected)
        return context.launch_configurations.get(self.__name) == expected


class LaunchConfigurationNotEquals(LaunchConfigurationEquals):
    """The opposite of LaunchConfigurationEquals."""

    def evaluate(self, context):
        return not super().evaluate(context)
