"""Recording profiles: named lists of topics (profiles.yaml)."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import yaml

__all__ = ["Profile", "load_profile", "profile_names"]

_FILE = Path(__file__).with_name("profiles.yaml")


@dataclasses.dataclass(frozen=True)
class Profile:
    """A name, a sentence, and relative topic names with the QoS profile to subscribe with.

    Every bag also holds `run_info`, which the recorder writes itself.
    """

    name: str
    description: str
    topics: dict[str, str]


@cache
def _profiles() -> dict[str, Profile]:
    document = yaml.safe_load(_FILE.read_text())
    return {name: Profile(name, entry["description"], dict(entry["topics"]))
            for name, entry in document.items()}


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
