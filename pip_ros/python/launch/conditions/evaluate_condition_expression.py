"""Text to truth."""

from ..condition import InvalidConditionExpressionError
from ..utilities import perform_substitutions

TRUE, FALSE = ("true", "1"), ("false", "0")


def evaluate_condition_expression(context, expression):
    """Return whether a list of substitutions says true.

    Raises:
        InvalidConditionExpressionError: it says neither true/1 nor false/0.
    """
    text = perform_substitutions(context, expression)
    word = text.strip().lower()
    if word not in TRUE + FALSE:
        raise InvalidConditionExpressionError(
            f"invalid condition expression, expected one of {TRUE + FALSE} but got '{text}'"
        )
    return word in TRUE
