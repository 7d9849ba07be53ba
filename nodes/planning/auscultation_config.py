"""Parameters of the node `auscultation`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nodes.framework.config import setting
from sim_core.planning.acquisition import ACQUISITIONS

__all__ = ["AuscultationConfig"]


@dataclass(frozen=True)
class AuscultationConfig:
    """Parameters of `auscultation`."""

    base_frame: str = setting("world", description="frame of the arm's base, in which points are told", read_only=True)
    scan_patience: float = setting(10.0, "s", (0.1, 120.0), "in which a scan has to come, wall time", read_only=True)
    head_bearing: float = setting(
        0.0, "deg", (-180.0, 180.0), "of the person's head from the base frame's x axis, anticlockwise", read_only=True
    )
    table_low: tuple[float, ...] = setting(
        (0.15, -0.35, 0.1), "m", (-5.0, 5.0), "lowest corner of the box that a lying body is in", read_only=True
    )
    table_high: tuple[float, ...] = setting(
        (0.85, 0.35, 0.6), "m", (-5.0, 5.0), "highest corner of that box", read_only=True
    )
    model: str = setting(
        "spar",
        choices=("spar", "marginal", "fixed", "zero"),
        description="what is believed of the skin",
        read_only=True,
    )
    choose: str = setting(
        "score",
        choices=("score", "belief"),
        description="which of a region's recordings is handed over: of the best score, or at the best place by all readings",
        read_only=True,
    )
    acquisition: str = setting("ei", choices=tuple(ACQUISITIONS), description="by which places are chosen")
    readings: int = setting(4, "", (1, 50), "at most in a region")
    adequate: float = setting(0.5, "", (0.0, 1.0), "score above which a region has been heard")
    duration: float = setting(10.0, "s", (5.0, 60.0), "of a recording", read_only=True)
    estimator: str = setting(
        "network", choices=("network", "trees"), description="which judges the recordings", read_only=True
    )
    directory: str = setting(
        "runs/auscultation", description="where recordings and checkpoints go, a folder an exam", read_only=True
    )
    placement_patience: float = setting(
        20.0, "s", (1.0, 600.0), "without a word of the arm's after which an exam ends, wall time", read_only=True
    )
    seed: int = setting(0, "", (0, 2**31 - 1), "decides between places of equal worth", read_only=True)

    def __post_init__(self) -> None:
        if (
            len(self.table_low) != 3
            or len(self.table_high) != 3
            or not np.all(np.less(self.table_low, self.table_high))
        ):
            raise ValueError(
                f"table_low, table_high: expected three numbers each, the first below the second, found {self.table_low}, "
                f"{self.table_high}"
            )

    @property
    def axes(self) -> np.ndarray:
        """A lying body's axes in those of the base (3, 3): to its left, to its head, upwards."""
        bearing = np.deg2rad(self.head_bearing)
        head = np.array([np.cos(bearing), np.sin(bearing), 0.0])
        return np.stack([np.cross(head, [0.0, 0.0, 1.0]), head, [0.0, 0.0, 1.0]], axis=1)
