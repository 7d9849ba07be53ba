"""A robot's description as messages: URDF for the tools of ROS, and the MJCF it is made from for our own."""

from __future__ import annotations

import os
from pathlib import Path

from std_msgs.msg import String

from sim_core.plant.robot_urdf import robot_urdf
from sim_core.plant.scene import build_model

__all__ = ["MJCF_TOPIC", "URDF_TOPIC", "description_messages"]

URDF_TOPIC, MJCF_TOPIC = "robot_description", "robot_description_mjcf"


def description_messages(mjcf: str) -> tuple[String, String]:
    """(URDF, MJCF) of a robot, for `URDF_TOPIC` and `MJCF_TOPIC`. Its meshes are written into the user's cache."""
    cache = os.environ.get("REFIT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "refit"
    return String(data=robot_urdf(build_model(mjcf), Path(cache) / "meshes")), String(data=mjcf)
