"""What `ros2` is with a ROS distribution: the running graph, its types and its packages, by words on a command line.

Importing this loads neither rclpy nor any message: a group of verbs is loaded when it is named.
"""

from .command import main

__all__ = ["main"]
