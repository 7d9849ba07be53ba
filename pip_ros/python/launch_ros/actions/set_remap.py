"""Remap names for all nodes visited later in the same scope."""

from launch.action import Action
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions


class SetRemap(Action):
    def __init__(self, src, dst, **kwargs):
        super().__init__(**kwargs)
        self.__src = normalize_to_list_of_substitutions(src)
        self.__dst = normalize_to_list_of_substitutions(dst)

    @property
    def src(self):
        return self.__src

    @property
    def dst(self):
        return self.__dst

    def execute(self, context):
        rule = (perform_substitutions(context, self.__src), perform_substitutions(context, self.__dst))
        context.launch_configurations["ros_remaps"] = [*context.launch_configurations.get("ros_remaps", []), rule]
