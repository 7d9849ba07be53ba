"""Where an included launch description comes from."""

import os

from .logging import get_logger
from .utilities import normalize_to_list_of_substitutions, perform_substitutions


class LaunchDescriptionSource:
    """A launch file, given by a location that may contain substitutions."""

    def __init__(self, launch_description=None, location="", method="unspecified mechanism"):
        self.__launch_description = launch_description
        self.__location = normalize_to_list_of_substitutions(location)
        self.__expanded_location = None
        self.__method = method

    @property
    def method(self):
        return self.__method

    @property
    def location(self):
        """The path once known, before that a description of it."""
        if self.__expanded_location is not None:
            return self.__expanded_location
        return " + ".join(sub.describe() for sub in self.__location)

    def try_get_launch_description_without_context(self):
        """Return the launch description if its location needs no run-time values, else None."""
        if self.__launch_description is None:
            from .launch_context import LaunchContext

            try:
                location = perform_substitutions(LaunchContext(), self.__location)
            except Exception as error:
                get_logger(__name__).debug(f"{self.location} is not known yet: {error}")
                return None
            if not os.path.isfile(location):
                return None
            return self._get_launch_description(location)
        return self.__launch_description

    def get_launch_description(self, context):
        """Load and return the launch description; errors of the file propagate."""
        if self.__expanded_location is None:
            self.__expanded_location = perform_substitutions(context, self.__location)
        if self.__launch_description is None:
            self.__launch_description = self._get_launch_description(self.__expanded_location)
        return self.__launch_description

    def _get_launch_description(self, location):
        raise NotImplementedError(f"{type(self).__name__} cannot load {location}")
