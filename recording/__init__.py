"""Bags: rosbag2 recordings in MCAP, written and read without a ROS installation."""

from recording.bag_reader import BagError, BagReader, JointSeries
from recording.bag_writer import BagWriter
from recording.profiles import Profile, load_profile, profile_names

__all__ = ["BagError", "BagReader", "BagWriter", "JointSeries", "Profile", "load_profile",
           "profile_names"]
