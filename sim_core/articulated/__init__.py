"""Rigid-body trees: model, parameters, equations, roll-outs, Jacobians."""

from . import build
from .model import ModelError, RobotModel, load_model

__all__ = ["ModelError", "RobotModel", "build", "load_model"]
