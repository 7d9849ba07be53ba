"""Robots that somebody brings: from a model file to a folder that everything else takes, with what the file does not say derived."""

from sim_core.adoption.adopt import adopted, is_model_file
from sim_core.adoption.errors import AdoptionError

__all__ = ["AdoptionError", "adopted", "is_model_file"]
