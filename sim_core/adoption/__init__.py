"""Robots that somebody brings: from a model file to a folder that everything else takes, with what the file does not say derived."""

from sim_core.adoption.adopt import AdoptionError, adopted, is_model_file

__all__ = ["AdoptionError", "adopted", "is_model_file"]
