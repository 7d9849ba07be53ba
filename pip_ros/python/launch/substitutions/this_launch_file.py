"""Where the launch file is that is being visited."""

from ..substitution import Substitution
from .substitution_failure import SubstitutionFailure


class _LaunchFileLocal(Substitution):
    """A value that IncludeLaunchDescription sets while it visits a file."""

    def __init__(self):
        pass

    def perform(self, context):
        value = context.get_locals_as_dict().get(self._local_name)
        if value is None:
            raise SubstitutionFailure(f"{type(self).__name__} used outside of a launch file")
        return value


class ThisLaunchFile(_LaunchFileLocal):
    """The path of the launch file."""

    _local_name = "current_launch_file_path"


class ThisLaunchFileDir(_LaunchFileLocal):
    """The directory of the launch file."""

    _local_name = "current_launch_file_directory"
