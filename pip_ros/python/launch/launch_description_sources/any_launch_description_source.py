"""A launch file of any kind; the only kind known here is Python."""

from ..launch_description_source import LaunchDescriptionSource
from .python_launch_description_source import get_launch_description_from_python_launch_file


def get_launch_description_from_any_launch_file(launch_file_path):
    """Return the launch description of a Python launch file.

    Raises:
        RuntimeError: an XML or YAML launch file, which needs the real package.
    """
    if str(launch_file_path).endswith((".xml", ".yaml", ".yml")):
        raise RuntimeError(
            f"'{launch_file_path}': XML and YAML launch files need a ROS 2 distribution; "
            "only Python launch files are supported here"
        )
    return get_launch_description_from_python_launch_file(launch_file_path)


class AnyLaunchDescriptionSource(LaunchDescriptionSource):
    """Includes a launch file by path."""

    def __init__(self, launch_file_path):
        super().__init__(None, launch_file_path, "launch file")

    def _get_launch_description(self, location):
        return get_launch_description_from_any_launch_file(location)
