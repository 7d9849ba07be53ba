"""Rigid-body trees: model, parameters, equations, roll-outs, Jacobians."""

from sim_core.multibody.model import build
from sim_core.multibody.model.compile_model import ModelError
from sim_core.multibody.model.identifiability import identifiability
from sim_core.multibody.model.load import load_model
from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.model.parameters import FreeParameters
from sim_core.multibody.model.physical_check import PhysicalCheck
from sim_core.multibody.rollout.rollout import Dynamics

__all__ = [
    "Dynamics",
    "FreeParameters",
    "ModelError",
    "PhysicalCheck",
    "RobotModel",
    "build",
    "identifiability",
    "load_model",
]
