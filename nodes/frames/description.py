"""A robot's description as messages: URDF for the tools of ROS, and the MJCF it is made from for our own."""

from __future__ import annotations

import os
from pathlib import Path

import mujoco
from std_msgs.msg import String

from sim_core.plant.robot_urdf import robot_urdf

__all__ = ["description_messages"]


def description_messages(mjcf: str) -> tuple[String, String]:
    """(URDF, MJCF) of a robot, for `robot_description` and `robot_description_mjcf`. Its meshes are written into the user's cache."""
    cache = os.environ.get("REFIT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "refit"
    return String(data=robot_urdf(_compiled(mjcf), Path(cache) / "meshes")), String(data=mjcf)


def _compiled(mjcf: str) -> mujoco.MjModel:
    """The model with tiny textures: drawing them takes a hundred times as long as all the rest, and URDF has none."""
    spec = mujoco.MjSpec.from_string(mjcf)
    for texture in spec.textures:
        if texture.builtin != mujoco.mjtBuiltin.mjBUILTIN_NONE:
            texture.width = 1
            texture.height = 6 if texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX else 1
    model = spec.compile()
    if "inertia_as_written/" in mjcf:
        # Only such a model needs the multibody package, and CasADi with it.
        from sim_core.multibody.model import as_written

        as_written.restore(model)
    return model
