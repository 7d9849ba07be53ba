"""What can go wrong with a plant, as values that carry a sentence."""

from __future__ import annotations

__all__ = ["EntityError", "PlantError"]


class PlantError(ValueError):
    """The plant cannot be built or changed as asked; the text says what was expected."""


class EntityError(PlantError):
    """An entity cannot be spawned, found, moved or deleted.

    `kind` is one of "not_found", "not_unique", "invalid_name", "format", "parse", "pose",
    "unsupported".
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
