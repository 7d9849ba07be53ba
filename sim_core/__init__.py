"""Algorithms. Imports neither ROS nor a device."""
