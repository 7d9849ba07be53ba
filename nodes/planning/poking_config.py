"""Parameters of the node `poking`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identification.elastic.model_choice import POINT_MODELS
from nodes.framework.config import setting
from sim_core.elastic.cautious import CAUTION, CLEARANCE
from sim_core.elastic.exploration import CHOICES, ExplorationSettings
from sim_core.elastic.surface_builder import SurfaceOptions

__all__ = ["PokingConfig"]


@dataclass(frozen=True)
class PokingConfig:
    """Parameters of `poking`."""

    base_frame: str = setting("world", description="frame of the arm's base, in which points are told", read_only=True)
    scan_patience: float = setting(10.0, "s", (0.1, 120.0), "in which a cloud has to come, wall time", read_only=True)
    cameras: int = setting(1, "", (1, 16), "that look at the object, each with a frame of its own", read_only=True)
    object_low: tuple[float, ...] = setting(
        (0.3, -0.25, 0.01), "m", (-5.0, 5.0), "lowest corner of the box that the object is in", read_only=True
    )
    object_high: tuple[float, ...] = setting(
        (0.8, 0.25, 0.4), "m", (-5.0, 5.0), "highest corner of that box", read_only=True
    )
    voxel: float = setting(
        0.003, "m", (5e-4, 0.05), "side of the cubes in which a surface's points are averaged", read_only=True
    )
    neighbours: int = setting(
        100, "", (3, 500), "points by whose plane a normal is found, and a camera's noise is settled", read_only=True
    )
    least_outward: float = setting(
        0.9, "", (0.0, 1.0), "share of normals that must point outward, or the surface is refused", read_only=True
    )
    most_holes: float = setting(
        0.3,
        "",
        (0.0, 1.0),
        "share of the outline that may be without points, or the surface is refused",
        read_only=True,
    )
    model: str = setting("process", choices=POINT_MODELS, description="what is learnt from pokes", read_only=True)
    coupling: float = setting(
        0.01, "m", (1e-4, 1.0), "distance at which a place moves half as far as its neighbour that is pressed in"
    )
    caution: float = setting(
        CAUTION,
        "",
        (0.0, 5.0),
        "standard deviations of the force that packing adds, with half the coupling, so that a ball meets no more than the limit; 0: neither",
    )
    clearance: float = setting(
        CLEARANCE, "m", (0.0, 0.02), "by which packing leaves a ball higher than the limit allows"
    )
    choice: str = setting("variance", choices=CHOICES, description="how the next place is chosen")
    pokes: int = setting(10, "", (1, 500), "of an exploration, where a goal gives none")
    spacing: float = setting(0.02, "m", (2e-3, 0.2), "between places that may be poked", read_only=True)
    steepest: float = setting(
        50.0, "deg", (1.0, 180.0), "that a place's normal may differ from where the arm comes from", read_only=True
    )
    upward: tuple[float, ...] = setting(
        (0.0, 0.0, 1.0), "", (-1.0, 1.0), "where the arm comes from, in the base frame", read_only=True
    )
    margin: float = setting(
        0.02,
        "m",
        (0.0, 0.2),
        "from the surface's border within which nothing is poked, about half of it",
        read_only=True,
    )
    depth: float = setting(0.003, "m", (1e-4, 0.1), "displacement at which the model's sureness counts", read_only=True)
    samples: int = setting(
        20, "", (2, 100), "pairs of displacement and force that are learnt of a poke", read_only=True
    )
    probe: str = setting("", description="that the arm holds; empty: the arm's own", read_only=True)
    force_limit: float = setting(0.0, "N", (0.0, 50.0), "at which a poke ends; 0: the arm's own")
    speed: float = setting(0.0, "m/s", (0.0, 0.01), "of the probe while it presses; 0: the arm's own")
    deepest: float = setting(0.0, "m", (0.0, 0.1), "at which a poke ends whatever the force; 0: the arm's own")
    patience: float = setting(
        30.0,
        "s",
        (1.0, 600.0),
        "without a word of the arm's after which an exploration ends, wall time",
        read_only=True,
    )
    directory: str = setting(
        "runs/poking", description="where surfaces and checkpoints go, a folder a surface", read_only=True
    )
    report: bool = setting(True, description="write a page with pictures at an exploration's end", read_only=True)
    seed: int = setting(0, "", (0, 2**31 - 1), "decides what chance decides", read_only=True)

    def __post_init__(self) -> None:
        low, high = self.object_low, self.object_high
        if len(low) != 3 or len(high) != 3 or not np.all(np.less(low, high)):
            raise ValueError(
                f"object_low, object_high: expected three numbers each, the first below the second, found {low}, {high}"
            )
        if len(self.upward) != 3 or not np.linalg.norm(self.upward) > 1e-6:
            raise ValueError(f"upward: expected a direction of three numbers, found {self.upward}")

    def surface(self) -> SurfaceOptions:
        """How a surface is built."""
        return SurfaceOptions(voxel=self.voxel, neighbours=self.neighbours)

    def exploration(self, choice: str = "") -> ExplorationSettings:
        """What an exploration may do; `choice`: "" is the parameter's."""
        x, y, z = self.upward
        return ExplorationSettings(
            choice=choice or self.choice,
            spacing=self.spacing,
            steepest=float(np.deg2rad(self.steepest)),
            upward=(x, y, z),
            margin=self.margin,
            depth=self.depth,
            seed=self.seed,
        )
