"""The path of a program on PATH."""

import shutil

from ..substitution import Substitution
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions
from .substitution_failure import SubstitutionFailure


class FindExecutable(Substitution):
    def __init__(self, *, name):
        self.__name = normalize_to_list_of_substitutions(name)

    @property
    def name(self):
        return self.__name

    def describe(self):
        return f"FindExec({' + '.join(s.describe() for s in self.__name)})"

    def perform(self, context):
        name = perform_substitutions(context, self.__name)
        path = shutil.which(name, path=context.environment.get("PATH"))
        if path is None:
            raise SubstitutionFailure(f"executable '{name}' not found on the PATH")
        return path
