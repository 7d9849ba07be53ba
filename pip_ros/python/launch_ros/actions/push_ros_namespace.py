"""Put nodes into a namespace."""

from launch.action import Action
from launch.substitutions import SubstitutionFailure
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions

from ..utilities import make_namespace_absolute, prefix_namespace


class PushROSNamespace(Action):
    """Nodes visited later in the same scope are in `namespace`, within what was pushed before."""

    def __init__(self, namespace, **kwargs):
        super().__init__(**kwargs)
        self.__namespace = normalize_to_list_of_substitutions(namespace)

    @property
    def namespace(self):
        return self.__namespace

    def execute(self, context):
        from rclpy.validate_namespace import validate_namespace

        pushed = perform_substitutions(context, self.__namespace)
        previous = context.launch_configurations.get("ros_namespace")
        namespace = make_namespace_absolute(prefix_namespace(previous, pushed))
        try:
            validate_namespace(namespace)
        except Exception as error:
            raise SubstitutionFailure(
                f"The resulting namespace is invalid: [previous_namespace='{previous}', "
                f"pushed_namespace='{pushed}']: {error}"
            ) from error
        context.launch_configurations["ros_namespace"] = namespace


PushRosNamespace = PushROSNamespace
