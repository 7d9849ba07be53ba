"""Rigid-body trees: model, parameters, equations, roll-outs, Jacobians."""

from . import build
from .identifiability import identifiability
from .model import ModelError, RobotModel, load_model
from .parameters import FreeParameters

__all__ = ["FreeParameters", "ModelError", "RobotModel", "build", "identifiability", "load_model"]
