"""Write a message."""

from ..action import Action
from ..logging import get_logger
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions


class LogInfo(Action):
    """Logs `msg` at level INFO as `launch.user`."""

    def __init__(self, *, msg, **kwargs):
        super().__init__(**kwargs)
        self.__msg = normalize_to_list_of_substitutions(msg)

    @property
    def msg(self):
        return self.__msg

    def execute(self, context):
        get_logger("launch.user").info(perform_substitutions(context, self.__msg))
