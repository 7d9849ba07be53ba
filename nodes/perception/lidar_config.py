"""Parameters of the node `lidar`."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.framework.config import setting
from sim_core.lidar.search import FOLLOWING, SearchOptions

__all__ = ["LidarConfig"]


@dataclass(frozen=True)
class LidarConfig:
    """Parameters of `lidar`."""

    scene: str = setting(
        "",
        description="file with what the scanner stands in: docs/lidar.md; empty: set_scene names one",
        read_only=True,
    )
    values_file: str = setting(
        "", description="file with values of its parameters, as a calibration keeps them", read_only=True
    )
    frame_id: str = setting("world", description="frame of the scene", read_only=True)
    broadcast: bool = setting(
        False, description="tell by /tf where the scanner's frame is; only where nobody else does", read_only=True
    )
    beams: int = setting(682, "beams", (0, 100_000), "of a scan that is used; 0: of the first one", read_only=True)
    place: float = setting(0.2, "m", (1e-4, 10.0), "how far from a guess is looked")
    turn: float = setting(0.4, "rad", (1e-4, 3.15), "likewise of angles")
    starts: int = setting(8, "", (1, 1000), "of a fit, within that")
    track_place: float = setting(
        FOLLOWING.place, "m", (1e-4, 10.0), "how far a body has moved between two scans at most"
    )
    track_turn: float = setting(FOLLOWING.turn, "rad", (1e-4, 3.15), "likewise of angles")
    track_starts: int = setting(FOLLOWING.starts, "", (1, 1000), "of a fit while a body is followed")
    huber: float = setting(0.1, "m", (1e-4, 10.0), "error of a range from which on it counts by its size")
    tolerance: float = setting(0.05, "m", (1e-4, 10.0), "a beam agrees that is nearer to what is expected")
    agreement: float = setting(0.6, "", (0.0, 1.0), "least share of beams that have to agree")
    patience: float = setting(5.0, "s", (0.1, 600.0), "in which a scan has to come, wall time")
    calibrated: tuple[str, ...] = setting(
        ("diode.a", "diode.b", "diode.c"), description="parameters that a calibration learns unless its goal names some"
    )
    calibration_scans: int = setting(20, "scans", (1, 1000), "that a calibration averages over unless its goal says")
    directory: str = setting(
        "runs/lidar", description="where a calibration's values and goals' pages go", read_only=True
    )
    threads: int = setting(1, "", (1, 64), "of the CPU; their number changes no result", read_only=True)

    def search(self, following: bool = False) -> SearchOptions:
        """How poses are looked for.

        Args:
            following: near the pose of the scan before.
        """
        return SearchOptions(
            place=self.track_place if following else self.place,
            turn=self.track_turn if following else self.turn,
            starts=self.track_starts if following else self.starts,
            huber=self.huber,
            tolerance=self.tolerance,
            agreement=self.agreement,
            softness=FOLLOWING.softness if following else SearchOptions.softness,
        )
