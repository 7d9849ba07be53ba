"""Forget launch configurations."""

from ..action import Action
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions


class ResetLaunchConfigurations(Action):
    """Unsets all launch configurations, then sets the given ones.

    The given values are evaluated before anything is unset.
    """

    def __init__(self, launch_configurations=None, **kwargs):
        super().__init__(**kwargs)
        self.__configurations = [
            (normalize_to_list_of_substitutions(name), normalize_to_list_of_substitutions(value))
            for name, value in (launch_configurations or {}).items()
        ]

    def execute(self, context):
        values = {
            perform_substitutions(context, name): perform_substitutions(context, value)
            for name, value in self.__configurations
        }
        context.launch_configurations.clear()
        context.launch_configurations.update(values)
