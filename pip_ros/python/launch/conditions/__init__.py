"""Conditions for actions."""

from ..condition import InvalidConditionExpressionError
from .evaluate_condition_expression import evaluate_condition_expression
from .if_condition import IfCondition, UnlessCondition
from .launch_configuration_equals import LaunchConfigurationEquals, LaunchConfigurationNotEquals

__all__ = [
    "IfCondition",
    "InvalidConditionExpressionError",
    "LaunchConfigurationEquals",
    "LaunchConfigurationNotEquals",
    "UnlessCondition",
    "evaluate_condition_expression",
]
