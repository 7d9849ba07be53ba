"""Bags: rosbag2 recordings in MCAP, written and read without a ROS installation, and CSV tables that can take their place."""

from recording.bag_reader import BagError, BagReader, JointSeries
from recording.bag_writer import BagWriter
from recording.csv_recording import CsvRecording, open_recording
from recording.profiles import Profile, load_profile, profile_names

__all__ = [
    "BagError",
    "BagReader",
    "BagWriter",
    "CsvRecording",
    "JointSeries",
    "Profile",
    "load_profile",
    "open_recording",
    "profile_names",
]
