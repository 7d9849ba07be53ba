"""Neural scalars: any named quantity of the equations corrected or replaced by a small network."""

from .augment import AugmentationError, attached, augment, detach, tap_names, weight_slice, with_weights
from .blueprint import Blueprint
from .blueprint_file import BlueprintFileError, load_blueprints, save_blueprints, save_parameters
from .network import Network
from .training import Fit, Stage, fit
from .trajectory_error import TrajectoryError

__all__ = [
    "AugmentationError", "Blueprint", "BlueprintFileError", "Fit", "Network", "Stage", "TrajectoryError", "attached",
    "augment", "detach", "fit", "load_blueprints", "save_blueprints", "save_parameters", "tap_names", "weight_slice", "with_weights",
]
