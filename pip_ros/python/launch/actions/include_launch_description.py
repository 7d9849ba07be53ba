"""Include another launch description."""

import os

from ..action import Action
from ..launch_description_source import LaunchDescriptionSource
from ..launch_description_sources.any_launch_description_source import AnyLaunchDescriptionSource
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions
from .opaque_function import OpaqueFunction
from .set_launch_configuration import SetLaunchConfiguration

_FILE_LOCALS = ("current_launch_file_path", "current_launch_file_directory")


class IncludeLaunchDescription(Action):
    """Sets the arguments as launch configurations and visits the description.

    As in the real package the configurations stay set after the include, and
    the included file sees all configurations of its includer; a scoped
    GroupAction around the include limits both.

    Args:
        launch_description_source: a source, or the path of a launch file.
        launch_arguments: pairs (name, value), such as {...}.items().
    """

    def __init__(self, launch_description_source, *, launch_arguments=None, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(launch_description_source, LaunchDescriptionSource):
            launch_description_source = AnyLaunchDescriptionSource(launch_description_source)
        self.__source = launch_description_source
        arguments = launch_arguments or ()
        self.__arguments = tuple(arguments.items() if hasattr(arguments, "items") else arguments)

    @property
    def launch_description_source(self):
        return self.__source

    @property
    def launch_arguments(self):
        return self.__arguments

    def describe(self):
        return f"IncludeLaunchDescription({self.__source.location})"

    def get_sub_entities(self):
        description = self.__source.try_get_launch_description_without_context()
        return [] if description is None else [description]

    def _try_get_arguments_names_without_context(self):
        """Return the names of the arguments given here, as far as they are plain text."""
        from ..launch_context import LaunchContext

        try:
            return self._argument_names(LaunchContext())
        except RuntimeError:
            return []

    def _argument_names(self, context):
        return [
            perform_substitutions(context, normalize_to_list_of_substitutions(name)) for name, _ in self.__arguments
        ]

    def execute(self, context):
        """Return what to visit.

        Raises:
            RuntimeError: an argument that the description requires is not given.
        """
        description = self.__source.get_launch_description(context)
        previous = {name: value for name, value in context.get_locals_as_dict().items() if name in _FILE_LOCALS}
        path = os.path.abspath(self.__source.location)
        context.extend_locals(
            {"current_launch_file_path": path, "current_launch_file_directory": os.path.dirname(path)}
        )
        self._check_required_arguments(description, context)

        def restore(context):
            context._remove_locals(_FILE_LOCALS)
            context.extend_locals(previous)

        return [
            *(SetLaunchConfiguration(name, value) for name, value in self.__arguments),
            description,
            OpaqueFunction(function=restore),
        ]

    def _check_required_arguments(self, description, context):
        given = self._argument_names(context)
        declared = description.get_launch_arguments_with_include_launch_description_actions()
        for argument, includes in declared:
            if argument._conditionally_included or argument.default_value is not None:
                continue
            names = given + [
                name for include in includes or [] for name in include._try_get_arguments_names_without_context()
            ]
            if argument.name not in names:
                raise RuntimeError(
                    f"Included launch description missing required argument '{argument.name}' "
                    f"(description: '{argument.description}'), given: [{', '.join(names)}]"
                )
