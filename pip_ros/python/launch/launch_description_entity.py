"""What a launch description consists of."""


class LaunchDescriptionEntity:
    """Base class of launch descriptions and actions: can be visited and described."""

    def visit(self, context):
        """Do the entity's work; return entities to visit next, or None."""
        return None

    def describe(self):
        return repr(self)

    def get_asyncio_future(self):
        """Return the future that keeps the launch alive on behalf of this entity, or None."""
        return None

    def describe_sub_entities(self):
        """Return entities that are visited whenever this one is."""
        return []

    def describe_conditional_sub_entities(self):
        """Return pairs (reason, entities) that may be visited later."""
        return []
