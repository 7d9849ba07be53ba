"""A value of context.locals, by an expression such as `event.reason`."""

from ..substitution import Substitution
from .substitution_failure import SubstitutionFailure


class LocalSubstitution(Substitution):
    def __init__(self, expression, *, description=None):
        self.__expression = expression
        self.__description = description

    @property
    def expression(self):
        return self.__expression

    def describe(self):
        return f"LocalVar('{self.__description or self.__expression}')"

    def perform(self, context):
        try:
            return str(eval(f"context.locals.{self.__expression}", {}, {"context": context}))
        except (AttributeError, KeyError) as error:
            raise SubstitutionFailure(f"local expression '{self.__expression}': {error}") from error
