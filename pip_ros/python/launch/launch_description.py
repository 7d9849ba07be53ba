"""A list of entities that can be launched or included."""

from .launch_description_entity import LaunchDescriptionEntity
from .logging import get_logger


class LaunchDescription(LaunchDescriptionEntity):
    """Entities to visit in order, among them declarations of arguments."""

    def __init__(self, initial_entities=None, *, deprecated_reason=None):
        self.__entities = list(initial_entities or [])
        self.__deprecated_reason = deprecated_reason

    @property
    def entities(self):
        return self.__entities

    @property
    def deprecated(self):
        return self.__deprecated_reason is not None

    @property
    def deprecated_reason(self):
        return self.__deprecated_reason

    def add_entity(self, entity):
        self.__entities.append(entity)

    def add_action(self, action):
        self.add_entity(action)

    def visit(self, context):
        if self.deprecated:
            path = context.get_locals_as_dict().get("current_launch_file_path", "launch description")
            get_logger().warning(f"{path} is deprecated: {self.deprecated_reason}")
        return self.__entities

    def describe_sub_entities(self):
        return self.__entities

    def get_launch_arguments(self, conditional_inclusion=False):
        """Return the declarations of arguments, also those in groups and included files."""
        return [
            argument
            for argument, _ in self.get_launch_arguments_with_include_launch_description_actions(conditional_inclusion)
        ]

    def get_launch_arguments_with_include_launch_description_actions(self, conditional_inclusion=False):
        """Return pairs (declaration, the include actions that lead to it, or None).

        The first declaration of a name counts. What only shows itself at run
        time (an OpaqueFunction's result, say) is not found.
        """
        from .actions.declare_launch_argument import DeclareLaunchArgument
        from .actions.include_launch_description import IncludeLaunchDescription
        from .actions.reset_launch_configurations import ResetLaunchConfigurations

        found = {}

        def search(entities, conditional, includes):
            for entity in entities:
                if isinstance(entity, ResetLaunchConfigurations):
                    return  # arguments declared after it cannot be set from outside
                if isinstance(entity, DeclareLaunchArgument) and entity.name not in found:
                    entity._conditionally_included = conditional or entity.condition is not None
                    found[entity.name] = (entity, includes or None)
                nested = includes + [entity] if isinstance(entity, IncludeLaunchDescription) else includes
                search(entity.describe_sub_entities(), conditional, nested)
                for _, sub_entities in entity.describe_conditional_sub_entities():
                    search(sub_entities, True, nested)

        search(self.__entities, conditional_inclusion, [])
        return list(found.values())
