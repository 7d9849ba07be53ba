"""Test what launch files start, with pytest.

The part of ROS 2 Jazzy's `launch_pytest` that this project uses; see
docs/launch.md. The pytest plugin is `launch_pytest.plugin`.
"""

from . import actions, tools
from .fixture import fixture

__all__ = ["actions", "fixture", "tools"]
