"""A node that is started again is asked for each transition once, however often the launch hears of the one before."""

import pytest

pytest.importorskip("launch_ros")

from launch import LaunchContext
from launch_ros.actions import LifecycleNode
from launch_ros.events.lifecycle import StateTransition
from lifecycle_msgs.msg import TransitionEvent

from nodes.framework.respawning import _led


def test_a_transition_that_is_told_twice_is_answered_once():
    """On a busy machine the node's own report comes after the launch has told the transition in its place."""
    node = LifecycleNode(package="refit", executable="teleop", name="teleop", namespace="")
    context = LaunchContext()
    for action in _led(node):
        context.register_event_handler(action.event_handler)
    told = TransitionEvent()
    told.start_state.label, told.goal_state.label = "configuring", "inactive"
    event, asked = StateTransition(action=node, msg=told), 0
    for _ in range(2):
        for handler in [h for h in context._event_handlers if h.matches(event)]:
            asked += len(handler.handle(event, context))
    assert asked == 1
