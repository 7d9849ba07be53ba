"""The one error of this room."""

__all__ = ["AdoptionError"]


class AdoptionError(ValueError):
    """A robot that cannot be taken over; one sentence names the file, what was expected and what was found."""
