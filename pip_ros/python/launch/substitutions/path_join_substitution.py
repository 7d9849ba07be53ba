"""Joined parts of a path."""

import os

from ..substitution import Substitution
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions


class PathJoinSubstitution(Substitution):
    """os.path.join over the parts; a part may itself be a list, whose texts are concatenated."""

    def __init__(self, substitutions):
        self.__parts = [normalize_to_list_of_substitutions(part) for part in substitutions]

    @property
    def substitutions(self):
        return self.__parts

    def describe(self):
        parts = (" + ".join(s.describe() for s in part) for part in self.__parts)
        return f"PathJoinSubstitution({', '.join(parts)})"

    def perform(self, context):
        return os.path.join(*(perform_substitutions(context, part) for part in self.__parts))
