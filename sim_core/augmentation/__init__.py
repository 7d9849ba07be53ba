"""Neural scalars: any named quantity of the equations corrected or replaced by a small network."""

from .augment import AugmentationError, attached, augment, detach, tap_names, weight_slice
from .blueprint import Blueprint
from .blueprint_file import BlueprintFileError, load_blueprints, save_blueprints
from .network import Network

__all__ = [
    "AugmentationError", "Blueprint", "BlueprintFileError", "Network", "attached", "augment", "detach", "load_blueprints",
    "save_blueprints", "tap_names", "weight_slice",
]
