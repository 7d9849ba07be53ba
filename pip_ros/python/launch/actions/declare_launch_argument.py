"""An argument of a launch description."""

from ..action import Action
from ..logging import get_logger
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions


class DeclareLaunchArgument(Action):
    """Declares the launch configuration `name` as an argument.

    Args:
        name: plain text.
        default_value: substitutions; without it the argument is required.
        description: plain text for --show-args.
        choices: valid values; anything else raises RuntimeError that lists them.
    """

    def __init__(self, name, *, default_value=None, description=None, choices=None, **kwargs):
        super().__init__(**kwargs)
        if choices is not None and len(choices) == 0:
            raise RuntimeError("Provided choices arg is empty. Use None to ignore the choice list.")
        if choices is not None and isinstance(default_value, str) and default_value not in choices:
            raise RuntimeError(f'Provided default_value "{default_value}" is not in provided choices "{choices}".')
        self.__name = name
        self.__default_value = None if default_value is None else normalize_to_list_of_substitutions(default_value)
        self.__choices = choices
        if description is None:
            self.__description = "no description given" if choices is None else f"One of: {choices}"
        else:
            self.__description = description
            if choices is not None:
                stop = "" if description.endswith(".") else "."
                self.__description += f"{stop} Valid choices are: {choices}"
        self._conditionally_included = False

    @property
    def name(self):
        return self.__name

    @property
    def default_value(self):
        return self.__default_value

    @property
    def description(self):
        return self.__description

    @property
    def choices(self):
        return self.__choices

    def describe_default(self):
        """Return the default as --show-args prints it, or None."""
        if self.__default_value is None:
            return None
        return " + ".join(sub.describe() for sub in self.__default_value)

    def execute(self, context):
        if self.name not in context.launch_configurations:
            if self.default_value is None:
                get_logger(__name__).error(
                    f'Required launch argument "{self.name}" (description: "{self.description}") was not provided'
                )
                raise RuntimeError(f'Required launch argument "{self.name}" was not provided.')
            context.launch_configurations[self.name] = perform_substitutions(context, self.default_value)
        value = context.launch_configurations[self.name]
        if self.choices is not None and value not in self.choices:
            raise RuntimeError(
                f'Argument "{self.name}" provided value "{value}" is not valid. Valid options are: {self.choices}'
            )
