"""Where files that are no modules lie: in the source tree, else where the package installed them."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["shared_folder"]

_SOURCE_TREE = Path(__file__).resolve().parents[1]


def shared_folder(name: str) -> Path:
    """A folder such as "data/ibm-double-pendulum": below the source tree, else below share/refit of an installed package.

    Raises:
        FileNotFoundError: neither is there; the text says what to do.
    """
    prefixes = [prefix for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if prefix]
    for place in (_SOURCE_TREE, *(Path(prefix) / "share" / "refit" for prefix in prefixes)):
        if (place / name).is_dir():
            return place / name
    raise FileNotFoundError(
        f"Expected the folder {name} in {_SOURCE_TREE} or in share/refit below AMENT_PREFIX_PATH, found neither; "
        "source the workspace's setup file."
    )
