"""Recording profiles: named lists of topics (profiles.yaml)."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import yaml

__all__ = ["Profile", "TopicType", "load_profile", "profile_names"]

_FILE = Path(__file__).with_name("profiles.yaml")


@dataclasses.dataclass(frozen=True)
class TopicType:
    """A topic's message type and the name of its quality of service (nodes/framework/qos.py)."""

    message_type: str
    qos: str


@dataclasses.dataclass(frozen=True)
class Profile:
    """A name, a sentence, and topics by relative name. Every bag also holds `run_info`, which the
    recorder writes itself."""

    name: str
    description: str
    topics: dict[str, TopicType]


@cache
def _profiles() -> dict[str, Profile]:
    document = yaml.safe_load(_FILE.read_text())
    types = {name: TopicType(*pair) for name, pair in document["topics"].items()}
    return {
        name: Profile(name, entry["description"], {t: types[t] for t in entry["topics"]})
        for name, entry in document["profiles"].items()
    }


def profile_names() -> tuple[str, ...]:
    """Names of all profiles."""
    return tuple(_profiles())


def load_profile(name: str) -> Profile:
    """A profile by name.

    Raises:
        KeyError: unknown; the text lists those there are.
    """
    if name not in _profiles():
        raise KeyError(f"No recording profile '{name}'; there are {', '.join(_profiles())}.")
    return _profiles()[name]
