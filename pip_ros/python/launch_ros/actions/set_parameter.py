"""Set parameters of all nodes visited later in the same scope."""

import os

from launch.action import Action
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions

from ..utilities.parameters import evaluate_parameters, normalize_parameters


def _append(context, item):
    # A new list each time: the scope's outer list must not change.
    context.launch_configurations["global_params"] = [*context.launch_configurations.get("global_params", []), item]


class SetParameter(Action):
    """Sets one parameter; a node's own `parameters` come later and win."""

    def __init__(self, name, value, **kwargs):
        super().__init__(**kwargs)
        self.__parameters = normalize_parameters([{name: value}])

    def execute(self, context):
        for item in evaluate_parameters(context, self.__parameters)[0].items():
            _append(context, item)


class SetUseSimTime(SetParameter):
    """Sets use_sim_time."""

    def __init__(self, value, **kwargs):
        super().__init__("use_sim_time", value, **kwargs)


class SetParametersFromFile(Action):
    """Gives a YAML file to all nodes.

    Args:
        node_name: unused here; the file's own keys decide which node takes what.
    """

    def __init__(self, filename, node_name=None, **kwargs):
        super().__init__(**kwargs)
        self.__filename = normalize_to_list_of_substitutions(filename)
        self.__node_name = node_name

    def execute(self, context):
        filename = perform_substitutions(context, self.__filename)
        if not os.path.isfile(filename):
            raise FileNotFoundError(f"SetParametersFromFile: '{filename}' does not exist")
        _append(context, filename)
