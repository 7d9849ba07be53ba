"""Which launch file is meant."""

import os

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

DEFAULT_PACKAGE = "refit"
SUFFIX = ".launch.py"


def find_launch_file(names):
    """Return the path of a launch file.

    Args:
        names: [path], [name in package refit] or [package, name]; names may omit '.launch.py'.

    Raises:
        LookupError: there is none; the message lists those there are.
    """
    if len(names) > 2:
        raise LookupError(f"expected a launch file and arguments '<name>:=<value>', found '{' '.join(names)}'")
    if len(names) == 1 and os.path.isfile(names[0]):
        return names[0]
    # A file may have a package's name, as the script refit in its folder has.
    if os.path.isfile(names[0]) and (os.sep in names[0] or _launch_directory(names[0]) is None):
        raise LookupError(f"malformed launch argument '{names[1]}', expected format '<name>:=<value>'")
    package, name = names if len(names) == 2 else (DEFAULT_PACKAGE, names[0])
    directory = _launch_directory(package)
    if directory is None and len(names) == 2:
        raise LookupError(
            f"package '{package}' not found; searched the prefixes in "
            f"AMENT_PREFIX_PATH: {os.environ.get('AMENT_PREFIX_PATH') or 'empty'}"
        )
    present = {} if directory is None else _launch_files(directory)
    for candidate in (name, name + SUFFIX):
        if candidate in present:
            return present[candidate]
    raise LookupError(f"no launch file '{name}'; package {package} has: {', '.join(sorted(present)) or 'none'}")


def _launch_directory(package):
    try:
        return get_package_share_directory(package)
    except (PackageNotFoundError, OSError):  # OSError: no AMENT_PREFIX_PATH
        # Not installed: the folder one is in may be the package's source.
        return os.getcwd() if package == DEFAULT_PACKAGE else None


def _launch_files(directory):
    """Return {file name: path} of the launch files in the folder launch."""
    folder = os.path.join(directory, "launch")
    if not os.path.isdir(folder):
        return {}
    return {
        name: os.path.join(folder, name)
        for name in os.listdir(folder)
        if name.endswith(("launch.py", "launch.xml", "launch.yaml"))
    }
