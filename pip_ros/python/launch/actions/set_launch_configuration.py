"""Set and unset launch configurations."""

from ..action import Action
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions


class SetLaunchConfiguration(Action):
    def __init__(self, name, value, **kwargs):
        super().__init__(**kwargs)
        self.__name = normalize_to_list_of_substitutions(name)
        self.__value = normalize_to_list_of_substitutions(value)

    @property
    def name(self):
        return self.__name

    @property
    def value(self):
        return self.__value

    def execute(self, context):
        context.launch_configurations[perform_substitutions(context, self.__name)] = perform_substitutions(
            context, self.__value
        )


class UnsetLaunchConfiguration(Action):
    def __init__(self, name, **kwargs):
        super().__init__(**kwargs)
        self.__name = normalize_to_list_of_substitutions(name)

    @property
    def name(self):
        return self.__name

    def execute(self, context):
        context.launch_configurations.pop(perform_substitutions(context, self.__name), None)
