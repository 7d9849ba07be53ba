"""Definitions of ROS message types, for bags that must explain themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

__all__ = ["typestore"]

_REPOSITORY = Path(__file__).resolve().parents[1]


@cache
def _store() -> Typestore:
    return get_typestore(Stores.ROS2_JAZZY)


def typestore(*names: str) -> Typestore:
    """The Jazzy type store, with each of `names` ("package/msg/Type") and all it contains in it.

    Types outside the standard packages are read from their .msg files: in the share folders of
    AMENT_PREFIX_PATH, and of this project's own interfaces beside the sources.

    Raises:
        KeyError: no definition found; the text says where it was looked for.
    """
    store = _store()
    for name in names:
        _require(store, name)
    return store


def _require(store: Typestore, name: str) -> None:
    if name in store.types:
        return
    path = _definition(name)
    parsed = get_types_from_msg(path.read_text(), name)
    for fields in parsed.values():
        for _, (kind, argument) in fields[1]:
            _require_field(store, kind, argument, parsed)
    store.register(parsed)


def _require_field(store: Typestore, kind: int, argument: Any, parsed: Mapping[str, Any]) -> None:
    # rosbags describes a field as (kind, argument): 2 is a message by name, 3 and 4 are arrays of
    # an inner description.
    if int(kind) == 2 and argument not in parsed:
        _require(store, argument)
    elif int(kind) in (3, 4):
        inner_kind, inner_argument = argument[0]
        _require_field(store, inner_kind, inner_argument, parsed)


def _definition(name: str) -> Path:
    package, _, kind = name.partition("/msg/")
    places = [
        Path(prefix) / "share" / package / "msg"
        for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
        if prefix
    ]
    if package == "refit_interfaces":
        places.append(_REPOSITORY / "interfaces" / "msg")
    for place in places:
        if (place / f"{kind}.msg").is_file():
            return place / f"{kind}.msg"
    raise KeyError(
        f"No definition of message type '{name}'; looked for {kind}.msg in "
        f"{', '.join(map(str, places)) or 'no place: AMENT_PREFIX_PATH is empty'}."
    )
