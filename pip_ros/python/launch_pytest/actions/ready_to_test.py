"""Say when the tests may start."""

from launch.action import Action


class ReadyToTest(Action):
    """When visited, the tests start; without it they do once everything has been visited."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.__callbacks = []
        self.__visited = False

    def _add_callback(self, callback):
        self.__callbacks.append(callback)
        if self.__visited:
            callback()

    def execute(self, context):
        self.__visited = True
        for callback in self.__callbacks:
            callback()
