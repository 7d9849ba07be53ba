"""A bag named on the command line."""

import os

from .errors import FrontError, UsageError


def open_bag(path):
    """A `recording.BagReader`.

    Args:
        path: of the bag's folder, of its .mcap file, or of a run's folder with a bag in it.

    Raises:
        UsageError: there is nothing. FrontError: it cannot be read.
    """
    from recording import BagError, BagReader

    if not os.path.exists(path):
        raise UsageError(f"there is no bag '{path}'")
    inner = os.path.join(path, "bag")
    try:
        return BagReader(inner if os.path.isdir(inner) else path)
    except BagError as error:
        raise FrontError(str(error)) from None
