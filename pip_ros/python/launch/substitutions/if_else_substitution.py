"""One of two texts."""

from ..substitution import Substitution
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions
from .boolean_substitution import _truth
from .substitution_failure import SubstitutionFailure


class IfElseSubstitution(Substitution):
    """`if_value` if the condition says true, else `else_value`."""

    def __init__(self, condition, if_value="", else_value=""):
        self.__condition = normalize_to_list_of_substitutions(condition)
        self.__if_value = normalize_to_list_of_substitutions(if_value)
        self.__else_value = normalize_to_list_of_substitutions(else_value)
        if not self.__if_value and not self.__else_value:
            raise SubstitutionFailure("IfElseSubstitution: one of if_value and else_value is needed")

    def describe(self):
        parts = (
            " + ".join(s.describe() for s in part) for part in (self.__condition, self.__if_value, self.__else_value)
        )
        return f"IfElseSubstitution({', '.join(parts)})"

    def perform(self, context):
        chosen = self.__if_value if _truth(context, self.__condition) else self.__else_value
        return perform_substitutions(context, chosen)
