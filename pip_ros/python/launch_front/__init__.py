"""What `ros2 launch` is with a ROS distribution: start a launch file, or show its arguments."""

from .command import main

__all__ = ["main"]
