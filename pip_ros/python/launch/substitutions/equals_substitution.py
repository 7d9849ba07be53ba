"""Comparison of two values; the result is 'true' or 'false'."""

import math

from ..substitution import Substitution
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions


def _is_boolean(text):
    return text.lower() in ("true", "false", "1", "0")


def _number(text):
    try:
        return float(text)
    except ValueError:
        return None


class EqualsSubstitution(Substitution):
    """Equality of text, of booleans (true = 1, any case) and of numbers (relative 1e-9)."""

    def __init__(self, left, right):
        self.__left = self.__normalize(left)
        self.__right = self.__normalize(right)

    @staticmethod
    def __normalize(value):
        if isinstance(value, bool):
            value = str(value).lower()
        elif value is None or isinstance(value, (int, float)):
            value = str(value)
        return normalize_to_list_of_substitutions(value)

    def describe(self):
        left, right = (" + ".join(s.describe() for s in side) for side in (self.__left, self.__right))
        return f"{type(self).__name__}({left} {right})"

    def _is_equal(self, context):
        left = perform_substitutions(context, self.__left)
        right = perform_substitutions(context, self.__right)
        if left == right:
            return True
        if _is_boolean(left) and _is_boolean(right):
            return (left.lower() in ("true", "1")) == (right.lower() in ("true", "1"))
        x, y = _number(left), _number(right)
        return x is not None and y is not None and math.isclose(x, y)

    def perform(self, context):
        return str(self._is_equal(context)).lower()


class NotEqualsSubstitution(EqualsSubstitution):
    """The opposite of EqualsSubstitution."""

    def perform(self, context):
        return str(not self._is_equal(context)).lower()
