"""Call a function when visited."""

from ..action import Action


class OpaqueFunction(Action):
    """Calls function(context, *args, **kwargs), which may return entities to visit."""

    def __init__(self, *, function, args=None, kwargs=None, **left_over_kwargs):
        super().__init__(**left_over_kwargs)
        if not callable(function):
            raise TypeError(f"OpaqueFunction: expected a function, found {function!r}")
        self.__function = function
        self.__args = list(args or [])
        self.__kwargs = dict(kwargs or {})

    def execute(self, context):
        return self.__function(context, *self.__args, **self.__kwargs)
