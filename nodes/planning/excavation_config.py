"""Parameters of the node `excavation`."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.framework.config import setting
from sim_core.excavation.shipped_policies import POLICIES

__all__ = ["ExcavationConfig"]


@dataclass(frozen=True)
class ExcavationConfig:
    """Parameters of `excavation`."""

    policy: str = setting("rs7", choices=POLICIES, description="what chooses the motions")
    longest: int = setting(100, "motions", (1, 1000), "after which the bucket is lifted wherever it is")
    patience: float = setting(
        30.0, "s", (1.0, 600.0), "without a word of the arm's after which a trial ends, wall time", read_only=True
    )
    picture_patience: float = setting(
        10.0, "s", (0.1, 120.0), "in which a picture has to come, wall time", read_only=True
    )
    directory: str = setting("runs/excavation", description="where checkpoints go, a folder a trial", read_only=True)
    seed: int = setting(0, "", (0, 2**31 - 1), "of the policy, where a goal gives none")
