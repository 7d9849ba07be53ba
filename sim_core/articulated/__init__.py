"""Rigid-body trees: model, parameters, equations, roll-outs, Jacobians."""

from . import build
from .identifiability import identifiability
from .model import ModelError, RobotModel, load_model
from .parameters import FreeParameters
from .rollout import Dynamics

__all__ = ["Dynamics", "FreeParameters", "ModelError", "RobotModel", "build", "identifiability", "load_model"]
