"""The tracking error over time: with refitted parameters, with the nominal ones, and that of an earlier run."""

from __future__ import annotations

import html
from collections import deque
from typing import Any

import numpy as np

from nodes.view.stage.layer import Keep, Layer, Want
from nodes.view.stage.plots import Plot, curve
from nodes.view.stage.stage import Stage
from recording import BagError, BagReader

__all__ = ["TrackingLayer"]

#: points of the course, and refreshes of the page between two of the plot
POINTS, EVERY = 900, 6
#: [points] over which the present error is averaged
RECENT = 24
NOMINAL = 0  # refit_interfaces/ControllerStatus.PARAMETERS_NOMINAL
STOPPED = (0, 3)  # STATE_IDLE, STATE_STOPPED
SOURCES = {0: "nominal", 1: "refitted", 2: "last good refit"}


class TrackingLayer(Layer):
    """See the module's docstring."""

    wants = (Want("controller/status", "refit_interfaces/msg/ControllerStatus", Keep.COURSE),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._points: deque[tuple[float, float, bool]] = deque(maxlen=POINTS)  # stamp, error, with refit
        self._turns = 0
        self._changed = False
        self._origin = 0.0  # stamp at which control began
        # An arm's error is a distance; a cart-pole's is a number.
        is_arm = stage.robot is not None and bool(stage.robot.tool)
        self._scale, unit = (1e3, "mm") if is_arm else (1.0, "1")
        self._unit = "" if unit == "1" else f" {unit}"
        self._before = _reference(stage.reference) if stage.reference else None
        with stage.tab("Motion"):
            self._said = stage.gui.add_html("")
        self._plot = Plot(
            stage.gui,
            stage.tab("Motion"),
            (
                curve("refitted", "#0072b2", 2),
                curve("nominal", "#d55e00", 2),
                *((curve("earlier run", "#6b7280", 1.5),) if self._before is not None else ()),
            ),
            f"tracking error [{unit}]",
        )

    def take(self, topic: str, message: Any, time: float) -> None:
        self._origin = time - float(message.cycles) * float(message.period)
        if message.state in STOPPED:
            self._points.append((time, np.nan, True))
        else:
            self._points.append((time, float(message.tracking_error), message.parameters_source != NOMINAL))
        self._last = message
        self._changed = True

    def refresh(self) -> None:
        self._turns += 1
        if not self._changed or self._turns % EVERY:
            return
        self._changed = False
        t, error, refitted = np.array(self._points, float).T
        recent = error[-RECENT:]
        now = self._scale * float(np.sqrt(np.nanmean(recent**2))) if np.isfinite(recent).any() else float("nan")
        self._said.content = _words(
            self._last, f"{now:.3g}{self._unit}" if np.isfinite(now) else "none: it does not move"
        )
        t = t - self.stage.elapsed_from(t[0])
        curves = [np.where(refitted > 0, error, np.nan), np.where(refitted > 0, np.nan, error)]
        if self._before is not None:
            before, its_error = self._before
            before = before + self._origin - self.stage.elapsed_from(self._origin)
            order = np.argsort(x := np.concatenate([t, before]), kind="stable")
            nothing = np.full(len(before), np.nan)
            curves = [np.concatenate([each, nothing])[order] for each in curves]
            curves.append(np.concatenate([np.full(len(t), np.nan), its_error])[order])
            t = x[order]
        self._plot.draw(t, *(self._scale * each for each in curves))

    def forget(self) -> None:
        self._points.clear()
        self._changed = False


def _reference(path: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Time since control began [s] and tracking error of an earlier run's bag; None: it cannot be read."""
    try:
        status = [message for _, message in BagReader(path).messages("controller/status")][::4]
    except BagError:
        return None
    if not status:
        return None
    t = np.array([m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in status])
    begin = t[0] - float(status[0].cycles) * float(status[0].period)
    return t - begin, np.array([m.tracking_error if m.state not in STOPPED else np.nan for m in status], float)


def _words(status: Any, error: str) -> str:
    source = SOURCES.get(int(status.parameters_source), "unknown")
    rows = (
        ("tracking error", error),
        ("parameters", f"{source}, revision {status.parameters_revision}"),
        ("solve time", f"{1e3 * status.solve_time:.2f} ms of {1e3 * status.period:.0f} ms"),
        ("deadlines missed", f"{status.deadline_misses} of {status.cycles} cycles"),
        ("controller", status.message or "follows its path"),
    )
    body = "".join(
        f'<tr><td style="color:#6b7280;padding-right:10px">{name}</td><td>{html.escape(text)}</td></tr>'
        for name, text in rows
    )
    return f'<table style="font-size:13px;margin:6px 12px">{body}</table>'
