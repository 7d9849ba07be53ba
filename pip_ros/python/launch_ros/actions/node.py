"""Run a ROS node."""

import os

from launch.actions import ExecuteProcess
from launch.logging import get_logger
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions

from ..substitutions import ExecutableInPackage
from ..utilities import (
    evaluate_parameters,
    make_namespace_absolute,
    normalize_parameters,
    normalize_remap_rules,
    prefix_namespace,
)
from ..utilities.parameters import to_parameter_file_text, to_parameter_rule
from ..utilities.temporary_files import write_temporary_file


class Node(ExecuteProcess):
    """Runs an executable with ROS arguments.

    The command reads: executable, arguments, --ros-args, ros_arguments, then node
    name, namespace, parameters and remappings. Of a parameter given twice the last
    one counts: SetParameter first, then `parameters` in order.

    Args:
        executable: name in lib/<package>, or a path or program if package is None.
        package: ROS package.
        name, namespace: of the node; a relative namespace is within that of PushROSNamespace.
        exec_name: name in the output.
        parameters: list of dicts, paths of YAML files, ParameterFile, Parameter;
            see utilities/parameters.py.
        remappings: pairs (from, to).
        ros_arguments, arguments: further words.
    """

    UNSPECIFIED_NODE_NAME = "<node_name_unspecified>"
    UNSPECIFIED_NODE_NAMESPACE = "<node_namespace_unspecified>"

    def __init__(
        self,
        *,
        executable,
        package=None,
        name=None,
        namespace=None,
        exec_name=None,
        parameters=None,
        remappings=None,
        ros_arguments=None,
        arguments=None,
        **kwargs,
    ):
        cmd = [executable if package is None else ExecutableInPackage(package=package, executable=executable)]
        cmd += list(arguments or [])
        if ros_arguments is not None:
            cmd += ["--ros-args", *ros_arguments]
        super().__init__(cmd=cmd, name=exec_name, **kwargs)
        self.__package = package
        self.__executable = executable
        self.__name = None if name is None else normalize_to_list_of_substitutions(name)
        self.__namespace = None if namespace is None else normalize_to_list_of_substitutions(namespace)
        self.__parameters = normalize_parameters(parameters or [])
        self.__remappings = normalize_remap_rules(remappings or [])
        self.__expanded_name = self.UNSPECIFIED_NODE_NAME
        self.__expanded_namespace = self.UNSPECIFIED_NODE_NAMESPACE
        self.__expanded_remappings = None
        self.__final_node_name = None

    @property
    def node_package(self):
        return self.__package

    @property
    def node_executable(self):
        return self.__executable

    @property
    def node_name(self):
        """The node's full name; known once the action is executed."""
        if self.__final_node_name is None:
            raise RuntimeError("cannot access 'node_name' before executing action")
        return self.__final_node_name

    @property
    def expanded_node_name(self):
        return self.__expanded_name

    @property
    def expanded_node_namespace(self):
        return self.__expanded_namespace

    @property
    def expanded_remapping_rules(self):
        return self.__expanded_remappings

    def is_node_name_fully_specified(self):
        return not any(part in self.node_name for part in (self.UNSPECIFIED_NODE_NAME, self.UNSPECIFIED_NODE_NAMESPACE))

    def _perform_substitutions(self, context):
        """Complete the command; once, whoever asks first."""
        if self.__final_node_name is not None:
            return
        self.__expand_name(context)
        words = ["--ros-args"]
        if self.__name is not None:
            words += ["-r", f"__node:={self.__expanded_name}"]
        if self.__expanded_namespace != self.UNSPECIFIED_NODE_NAMESPACE:
            words += ["-r", f"__ns:={self.__expanded_namespace}"]
        words += self.__parameter_arguments(context)
        self.__expanded_remappings = [
            *context.launch_configurations.get("ros_remaps", []),
            *(
                (perform_substitutions(context, source), perform_substitutions(context, target))
                for source, target in self.__remappings
            ),
        ]
        for source, target in self.__expanded_remappings:
            words += ["-r", f"{source}:={target}"]
        self.cmd.extend(normalize_to_list_of_substitutions(word) for word in words)

    def __expand_name(self, context):
        """Set the node's full name; rclpy's exceptions explain what is invalid in it."""
        from rclpy.validate_namespace import validate_namespace
        from rclpy.validate_node_name import validate_node_name

        if self.__name is not None:
            self.__expanded_name = perform_substitutions(context, self.__name).lstrip("/")
            validate_node_name(self.__expanded_name)
        own = None if self.__namespace is None else perform_substitutions(context, self.__namespace)
        base = context.launch_configurations.get("ros_namespace")
        namespace = make_namespace_absolute(prefix_namespace(base, own))
        if namespace is not None:
            validate_namespace(namespace)
            self.__expanded_namespace = namespace
        self.__final_node_name = prefix_namespace(self.__expanded_namespace, self.__expanded_name)

    def __parameter_arguments(self, context):
        words = []
        for item in [
            *context.launch_configurations.get("global_params", []),
            *evaluate_parameters(context, self.__parameters),
        ]:
            if isinstance(item, tuple):
                words += ["-p", to_parameter_rule(*item)]
            elif isinstance(item, dict):
                if item:
                    key = self.node_name if self.is_node_name_fully_specified() else "/**"
                    words += ["--params-file", write_temporary_file(to_parameter_file_text(key, item))]
            elif os.path.isfile(item):
                words += ["--params-file", os.path.abspath(item)]
            else:
                get_logger(__name__).warning(f"Parameter file path is not a file: {item}")
        return words

    def execute(self, context):
        self._perform_substitutions(context)
        result = super().execute(context)
        self.__warn_of_duplicates(context)
        return result

    def __warn_of_duplicates(self, context):
        if not self.is_node_name_fully_specified():
            return
        counts = context.get_locals_as_dict().get("ros_node_names")
        if counts is None:
            counts = {}
            context.extend_globals({"ros_node_names": counts})
        counts[self.node_name] = counts.get(self.node_name, 0) + 1
        if counts[self.node_name] > 1:
            get_logger(self.process_details["name"]).warning(
                f"there are now at least {counts[self.node_name]} nodes with the name "
                f"{self.node_name} created within this launch context"
            )
