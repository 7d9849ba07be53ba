"""What a search for a sample believes, painted over the tray: dark where the best scoop is worth much, and balls where scoops were made."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.framework.geometry_messages import points_of
from nodes.view.stage.layer import Keep, Layer, Want
from nodes.view.stage.points import draw_points
from nodes.view.stage.stage import Stage

__all__ = ["ScoresLayer"]

#: colours of the place that is worth least and of that which is worth most
LOW, HIGH = np.array([254.0, 237.0, 222.0]), np.array([166.0, 54.0, 3.0])
FAILED = np.array([60.0, 60.0, 70.0])
#: [m] by which the paint and a scoop's mark stand out of the grains
PAINT, RAISED = np.array([0.0, 0.0, 0.01]), np.array([0.0, 0.0, 0.03])


class ScoresLayer(Layer):
    """See the module's docstring."""

    wants = (Want("scoop/scores", "refit_interfaces/msg/ScoopScores", keep=Keep.FACTS),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        stage.root("scores", "where to scoop")
        with stage.tab("Search"):
            self._text = stage.gui.add_markdown("No search has begun.")

    def take(self, topic: str, message: Any, time: float) -> None:
        points, score = points_of(message.points), np.asarray(message.score, float)
        known = np.isfinite(score)
        low, high = (score[known].min(), score[known].max()) if known.any() else (0.0, 1.0)
        share = (score[known] - low) / max(high - low, 1e-9)
        frame = message.header.frame_id
        draw_points(self.stage, "/scores/expected", frame, points[known] + PAINT, _colours(share), 0.012)
        volumes = np.asarray(message.volumes, float)
        tried = points_of(message.tried) + RAISED
        brought = np.nan_to_num(volumes / max(float(np.nanmax(volumes, initial=0.0)), 1e-9))
        colours = np.where(np.isnan(volumes)[:, None], FAILED, _colours(brought)).astype(np.uint8)
        draw_points(self.stage, "/scores/tried", frame, tried, colours, 0.02)
        self._text.content = _told(message, score[known], volumes)


def _colours(share: np.ndarray) -> np.ndarray:
    return (LOW + np.clip(share, 0.0, 1.0)[:, None] * (HIGH - LOW)).astype(np.uint8)


def _told(message: Any, score: np.ndarray, volumes: np.ndarray) -> str:
    """The same in words."""
    if not len(score):
        return "No scoop is left that could be tried."
    best = int(np.nanargmax(np.asarray(message.score, float)))
    lines = [
        f"The best scoop is expected to bring **{1e6 * message.mean[best]:.0f} ± {1e6 * message.deviation[best]:.0f} cm³**; "
        f"{len(score)} of {len(message.score)} places can be scooped."
    ]
    told = ", ".join("failed" if np.isnan(volume) else f"{1e6 * volume:.0f}" for volume in volumes)
    lines.append(f"{len(volumes)} scoops so far: {told} cm³." if len(volumes) else "No scoop was made yet.")
    return "\n\n".join(lines)
