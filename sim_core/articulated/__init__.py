"""Rigid-body trees: model, parameters, equations, roll-outs, Jacobians."""

from . import build
from .identifiability import identifiability
from .load import load_model
from .model import ModelError, RobotModel
from .parameters import FreeParameters
from .rollout import Dynamics

__all__ = ["Dynamics", "FreeParameters", "ModelError", "RobotModel", "build", "identifiability", "load_model"]
