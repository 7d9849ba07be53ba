"""Launch ROS 2 nodes.

The part of ROS 2 Jazzy's `launch_ros` that this project uses; see docs/launch.md.
"""

from . import actions, descriptions, event_handlers, events, parameter_descriptions, substitutions, utilities

__all__ = [
    "actions",
    "descriptions",
    "event_handlers",
    "events",
    "parameter_descriptions",
    "substitutions",
    "utilities",
]
