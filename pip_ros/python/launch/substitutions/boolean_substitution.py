"""Logic over text; the result is 'true' or 'false'."""

from ..condition import InvalidConditionExpressionError
from ..substitution import Substitution
from ..utilities import normalize_to_list_of_substitutions
from .substitution_failure import SubstitutionFailure


def _truth(context, expression):
    from ..conditions.evaluate_condition_expression import evaluate_condition_expression

    try:
        return evaluate_condition_expression(context, expression)
    except InvalidConditionExpressionError as error:
        raise SubstitutionFailure(str(error)) from error


class _BooleanSubstitution(Substitution):
    """Combines operands by `_combine`, a function of an iterable of bool."""

    def __init__(self, *operands):
        self._operands = [normalize_to_list_of_substitutions(o) for o in operands]

    def describe(self):
        operands = (" + ".join(s.describe() for s in o) for o in self._operands)
        return f"{type(self).__name__}({', '.join(operands)})"

    def perform(self, context):
        return str(self._combine(_truth(context, o) for o in self._operands)).lower()


class NotSubstitution(_BooleanSubstitution):
    _combine = staticmethod(lambda truths: not next(iter(truths)))

    def __init__(self, value):
        super().__init__(value)


class AndSubstitution(_BooleanSubstitution):
    _combine = staticmethod(all)

    def __init__(self, left, right):
        super().__init__(left, right)


class OrSubstitution(_BooleanSubstitution):
    _combine = staticmethod(any)

    def __init__(self, left, right):
        super().__init__(left, right)


class AnySubstitution(_BooleanSubstitution):
    _combine = staticmethod(any)


class AllSubstitution(_BooleanSubstitution):
    _combine = staticmethod(all)
