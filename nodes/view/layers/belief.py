"""What an exam believes, painted on the body: light where little is expected of a place, dark where much, and balls where it was tried."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodes.framework.geometry_messages import points_of
from nodes.view.stage.layer import Keep, Layer, Want
from nodes.view.stage.points import draw_points
from nodes.view.stage.stage import Stage

__all__ = ["BeliefLayer"]

#: colours of no and of the best expected quality
LOW, HIGH = np.array([222.0, 235.0, 247.0]), np.array([8.0, 48.0, 107.0])
FAILED = np.array([200.0, 60.0, 40.0])
#: [m] by which the paint and a trial stand out of the skin, which a camera's cloud may draw as well
PAINT, RAISED = np.array([0.0, 0.0, 0.006]), np.array([0.0, 0.0, 0.014])


class BeliefLayer(Layer):
    """See the module's docstring."""

    wants = (Want("auscultation/belief", "refit_interfaces/msg/AuscultationBelief", keep=Keep.FACTS),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        stage.root("belief", "where to listen")
        with stage.tab("Exam"):
            self._text = stage.gui.add_markdown("No exam has begun.")

    def take(self, topic: str, message: Any, time: float) -> None:
        points = points_of(message.points)
        mean = np.asarray(message.mean, float)
        there = np.isfinite(points).all(axis=1)
        frame, name = message.header.frame_id, f"/belief/{message.structure}"
        draw_points(self.stage, f"{name}/expected", frame, points[there] + PAINT, _colours(mean[there]), 0.009)
        tried, scores = np.asarray(message.tried, int), np.asarray(message.scores, float)
        known = there[tried] if len(tried) else np.zeros(0, bool)
        raised = points[tried[known]] + RAISED  # the body lies
        colours = np.where(np.isnan(scores[known])[:, None], FAILED, _colours(np.nan_to_num(scores[known])))
        draw_points(self.stage, f"{name}/tried", frame, raised, colours.astype(np.uint8), 0.016)
        self._text.content = _told(message, scores)


def _colours(quality: np.ndarray) -> np.ndarray:
    share = np.clip(quality, 0.0, 1.0)[:, None]
    return (LOW + share * (HIGH - LOW)).astype(np.uint8)


def _told(message: Any, scores: np.ndarray) -> str:
    """The same in words."""
    heard = scores[np.isfinite(scores)]
    best = f"the best {heard.max():.2f}" if len(heard) else "none with a recording"
    lines = [
        f"**{message.structure}, {message.side}**: listening for *{message.region}*.",
        f"{len(scores)} trials, {best}; {len(scores) - len(heard)} failed.",
    ]
    if len(message.theta) == 3:
        x, y, scale = message.theta
        lines.append(
            f"Landmarks seem to be off by {1e3 * x:.0f}, {1e3 * y:.0f} mm; the sound is {scale:.2f} times as good."
        )
    return "\n\n".join(lines)
