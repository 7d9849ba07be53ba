"""Change environment variables for what is visited later in the same scope."""

import os

from ..action import Action
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions
from ..utilities.type_utils import normalize_typed_substitution, perform_typed_substitution


class SetEnvironmentVariable(Action):
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
        context.environment[perform_substitutions(context, self.__name)] = perform_substitutions(context, self.__value)


class UnsetEnvironmentVariable(Action):
    """Remove a variable, if it is set."""

    def __init__(self, name, **kwargs):
        super().__init__(**kwargs)
        self.__name = normalize_to_list_of_substitutions(name)

    @property
    def name(self):
        return self.__name

    def execute(self, context):
        context.environment.pop(perform_substitutions(context, self.__name), None)


class AppendEnvironmentVariable(Action):
    """Add to a list-like variable, behind what it holds or, with `prepend`, in front."""

    def __init__(self, name, value, prepend=False, separator=os.pathsep, **kwargs):
        super().__init__(**kwargs)
        self.__name = normalize_to_list_of_substitutions(name)
        self.__value = normalize_to_list_of_substitutions(value)
        self.__prepend = normalize_typed_substitution(prepend, bool)
        self.__separator = normalize_to_list_of_substitutions(separator)

    @property
    def name(self):
        return self.__name

    @property
    def value(self):
        return self.__value

    @property
    def separator(self):
        return self.__separator

    def execute(self, context):
        name = perform_substitutions(context, self.__name)
        parts = [perform_substitutions(context, self.__value)]
        if name in context.environment:
            if perform_typed_substitution(context, self.__prepend, bool):
                parts.append(context.environment[name])
            else:
                parts.insert(0, context.environment[name])
        context.environment[name] = perform_substitutions(context, self.__separator).join(parts)
