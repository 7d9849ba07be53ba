"""The content of a text file."""

from ..substitution import Substitution
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions
from .substitution_failure import SubstitutionFailure


class FileContent(Substitution):
    def __init__(self, path):
        self.__path = normalize_to_list_of_substitutions(path)

    @property
    def path(self):
        return self.__path

    def describe(self):
        return f"FileContent({' + '.join(s.describe() for s in self.__path)})"

    def perform(self, context):
        path = perform_substitutions(context, self.__path)
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except OSError as error:
            raise SubstitutionFailure(f"cannot read '{path}': {error}") from error
