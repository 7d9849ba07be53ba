"""Neural scalars: any named quantity of the equations corrected or replaced by a small network."""

from sim_core.augmentation.augment import (
    AugmentationError,
    attached,
    attaching,
    augment,
    detach,
    networks_of,
    open_parameters,
    tap_names,
    weight_slice,
    with_weights,
)
from sim_core.augmentation.blueprint import Blueprint
from sim_core.augmentation.blueprint_file import BlueprintFileError, load_blueprints, save_blueprints, save_parameters
from sim_core.augmentation.network import Network
from sim_core.augmentation.training import Fit, Stage, fit
from sim_core.augmentation.trajectory_error import TrajectoryError

__all__ = [
    "AugmentationError",
    "Blueprint",
    "BlueprintFileError",
    "Fit",
    "Network",
    "Stage",
    "TrajectoryError",
    "attached",
    "attaching",
    "augment",
    "detach",
    "fit",
    "load_blueprints",
    "networks_of",
    "open_parameters",
    "save_blueprints",
    "save_parameters",
    "tap_names",
    "weight_slice",
    "with_weights",
]
