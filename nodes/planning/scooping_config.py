"""Parameters of the node `scooping`."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.framework.config import setting
from sim_core.scooping.planning.shipped_beliefs import POLICIES

__all__ = ["ScoopingConfig"]


@dataclass(frozen=True)
class ScoopingConfig:
    """Parameters of `scooping`."""

    robot: str = setting(
        "ur5e_scoop", description="model in config/robots, before which the tray stands", read_only=True
    )
    base_frame: str = setting("world", description="frame of the arm's base, in which places are told", read_only=True)
    policy: str = setting("codega", choices=tuple(POLICIES), description="what is believed of scoops")
    gamma: float = setting(2.0, "", (0.0, 10.0), "standard deviations that count for a scoop's worth")
    budget: int = setting(20, "", (1, 200), "scoops at most")
    patience: float = setting(
        30.0, "s", (1.0, 600.0), "without a word of the arm's after which a search ends, wall time", read_only=True
    )
    picture_patience: float = setting(
        10.0, "s", (0.1, 120.0), "in which a picture has to come, wall time", read_only=True
    )
    directory: str = setting("runs/scooping", description="where checkpoints go, a folder a search", read_only=True)
    seed: int = setting(0, "", (0, 2**31 - 1), "decides between scoops of equal worth", read_only=True)
