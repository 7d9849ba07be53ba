"""A Python file that defines `generate_launch_description()`."""

import os
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

from ..launch_description_source import LaunchDescriptionSource


class InvalidPythonLaunchFileError(Exception):
    """The file is not a Python launch file."""


def load_python_launch_file_as_module(python_launch_file_path):
    """Execute the file as a module of its own and return it."""
    if not os.path.isfile(python_launch_file_path):
        raise FileNotFoundError(f"launch file '{python_launch_file_path}' does not exist")
    loader = SourceFileLoader("python_launch_file", str(python_launch_file_path))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def get_launch_description_from_python_launch_file(python_launch_file_path):
    """Return what the file's generate_launch_description() returns."""
    module = load_python_launch_file_as_module(python_launch_file_path)
    if not hasattr(module, "generate_launch_description"):
        raise InvalidPythonLaunchFileError(
            f"launch file at '{python_launch_file_path}' does not contain the required "
            "function 'generate_launch_description()'"
        )
    return module.generate_launch_description()


class PythonLaunchDescriptionSource(LaunchDescriptionSource):
    """Includes a Python launch file by path."""

    def __init__(self, launch_file_path):
        super().__init__(None, launch_file_path, "interpreted python launch file")

    def _get_launch_description(self, location):
        return get_launch_description_from_python_launch_file(location)
