"""Execute an action if, or unless, text says true."""

from ..condition import Condition
from ..utilities import normalize_to_list_of_substitutions
from .evaluate_condition_expression import evaluate_condition_expression


class IfCondition(Condition):
    """True for true/1, false for false/0, whatever the case of the letters."""

    def __init__(self, predicate_expression):
        self.__expression = normalize_to_list_of_substitutions(predicate_expression)
        super().__init__(predicate=lambda context: evaluate_condition_expression(context, self.__expression))

    def describe(self):
        return f"{type(self).__name__}({' + '.join(s.describe() for s in self.__expression)})"


class UnlessCondition(IfCondition):
    """The opposite of IfCondition."""

    def evaluate(self, context):
        return not super().evaluate(context)
