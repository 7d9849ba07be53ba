"""Handlers of ROS events."""

from .on_state_transition import OnStateTransition

__all__ = ["OnStateTransition"]
