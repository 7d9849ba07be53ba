"""Begin and end scopes of launch configurations and of the environment."""

from ..action import Action


class PushLaunchConfigurations(Action):
    """Begin a scope of launch configurations."""

    def execute(self, context):
        context._push_launch_configurations()


class PopLaunchConfigurations(Action):
    """End it: configurations are again what they were."""

    def execute(self, context):
        context._pop_launch_configurations()


class PushEnvironment(Action):
    """Begin a scope of environment variables."""

    def execute(self, context):
        context._push_environment()


class PopEnvironment(Action):
    """End it: variables are again what they were."""

    def execute(self, context):
        context._pop_environment()


class ResetEnvironment(Action):
    """Make the environment what it was when the launch began."""

    def execute(self, context):
        context._reset_environment()
