"""Parameter files written for nodes; they are removed when the launch process ends."""

import atexit
import os
import tempfile

_paths = []


def write_temporary_file(text):
    """Write text to a new file and return its path."""
    with tempfile.NamedTemporaryFile("w", prefix="launch_params_", delete=False) as file:
        file.write(text)
    if not _paths:
        atexit.register(_remove_all)
    _paths.append(file.name)
    return file.name


def _remove_all():
    for path in _paths:
        try:
            os.unlink(path)
        except OSError:
            pass
