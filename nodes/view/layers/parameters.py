"""What was learnt: every estimate with its 95 % interval, one of them over time, and the payload in the robot's hand."""

from __future__ import annotations

import html
import math
from collections import deque
from typing import Any

import numpy as np

from nodes.view.stage.layer import Keep, Layer, Want
from nodes.view.stage.plots import Plot, curve
from nodes.view.stage.stage import Stage

__all__ = ["ParametersLayer", "in_words"]

#: sets of which the course is drawn
SETS = 600
COLOUR, INK, PALE = (200, 40, 30), "#c8281e", "#e8a8a3"
#: [kg/m^3] of the ball that stands for a payload whose shape nobody knows
DENSITY = 4000.0
PAYLOAD = ".payload.mass"
#: (time, {name: (value, lower, upper)})
Course = deque[tuple[float, dict[str, tuple[float, float, float]]]]


class ParametersLayer(Layer):
    """See the module's docstring."""

    wants = (Want("refit/parameters", "refit_interfaces/msg/ParameterSet", Keep.FACTS),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._course: Course = deque(maxlen=SETS)
        self._names: tuple[str, ...] = ()
        self._units: dict[str, str] = {}
        self._refused = 0
        self._changed = False
        self._body, self._com = "", np.zeros(3)
        self._ball: Any = None
        self._label: Any = None
        stage.root("payload", "learnt payload")
        self._root = stage.scene.add_frame("/payload/it", show_axes=False, visible=False)
        with stage.tab("Learnt"):
            self._said = stage.gui.add_html(_line("Nothing has been learnt yet."))
            self._choice = stage.gui.add_dropdown("over time", ("-",))
        self._plot = Plot(
            stage.gui,
            stage.tab("Learnt"),
            (curve("estimate", INK, 2), curve("95 %, low", PALE), curve("95 %, high", PALE)),
            bands=({"series": (3, 2), "fill": "rgba(200,40,30,0.14)"},),
        )
        with stage.tab("Learnt"):
            self._table = stage.gui.add_html("")
        self._choice.on_update(lambda _: self._mark())

    def _mark(self) -> None:
        self._changed = True

    def take(self, topic: str, message: Any, time: float) -> None:
        self._changed = True
        if not message.accepted:
            self._refused += 1
            self._said.content = _line(f"Not taken over at {self.stage.elapsed(time):.1f} s: {message.message}")
            return
        values = {p.name: (float(p.value), float(p.lower), float(p.upper)) for p in message.parameters if p.free}
        self._units |= {p.name: p.unit for p in message.parameters}
        self._course.append((time, values))
        _loss, *doubts = message.message.split("; ")  # what the model leaves over, or what the refit holds
        self._said.content = _line(
            f"Revision {message.revision} at {self.stage.elapsed(time):.1f} s, fitted to "
            f"{message.window_end - message.window_start:.2f} s of motion; {self._refused} proposals were not taken over."
        ) + "".join(map(_doubt, doubts))
        self._table.content = _table([p for p in message.parameters if p.free])
        if set(values) - set(self._names):
            self._offer(values)
        self._hold(values)

    def _offer(self, values: dict[str, tuple[float, float, float]]) -> None:
        before, first = self._choice.value, not self._names
        # The payload before the whole hand, of which it is a part.
        self._names = tuple(
            sorted({*self._names, *values}, key=lambda name: (".payload." not in name, "mass" not in name))
        )
        self._choice.options = self._names
        self._choice.value = self._names[0] if first or before not in self._names else before

    def _hold(self, values: dict[str, tuple[float, float, float]]) -> None:
        """Draw the payload as a ball of its mass at its centre."""
        name = next((name for name in values if name.endswith(PAYLOAD)), "")
        mass, low, high = values.get(name, (0.0, 0.0, 0.0))
        # An interval that holds zero says that there is none.
        self._root.visible = shown = bool(name) and low > 0.0 and math.isfinite(mass)
        if not shown:
            return
        self._body = name.removesuffix(PAYLOAD)
        com = [values.get(f"{self._body}.payload.com.{axis}", (0.0,))[0] for axis in "xyz"]
        self._com = np.array(com) if np.isfinite(com).all() else np.zeros(3)
        radius = (3.0 * mass / (4.0 * math.pi * DENSITY)) ** (1.0 / 3.0)
        if self._ball is None:
            self._ball = self.stage.scene.add_icosphere("/payload/it/ball", 1.0, COLOUR, opacity=0.75)
            self._label = self.stage.scene.add_label("/payload/it/label", "", anchor="bottom-center")
        self._ball.scale = radius
        self._label.text = f"{in_words(mass, low, high)} kg"
        self._label.position = (0.0, 0.0, 1.3 * radius)

    def refresh(self) -> None:
        if self._root.visible and (X := self.stage.frames.pose(self._body)) is not None:
            self._root.position = tuple(X[:3, :3] @ self._com + X[:3, 3])
        if not self._changed:
            return
        self._changed = False
        name = self._choice.value
        rows = [(self.stage.elapsed(t), *values[name]) for t, values in self._course if name in values]
        if rows:
            self._plot.draw(*np.array(rows, float).T, label=f"{name} [{self._units.get(name) or '1'}]")

    def forget(self) -> None:
        self._course.clear()
        self._refused = 0
        self._hold({})
        self._changed = True


def _line(text: str, colour: str = "#374151") -> str:
    return f'<div style="font-size:13px;margin:6px 12px;color:{colour}">{html.escape(text)}</div>'


def _doubt(text: str) -> str:
    return _line(f"{text[:1].upper()}{text[1:]}.", "#b45309")


def in_words(value: float, low: float, high: float) -> str:
    """A value with its interval, to two digits of the interval's width: "2.001 (1.998 to 2.004)"."""
    width = high - low
    if not (math.isfinite(width) and width > 0.0):
        return f"{value:.4g}"
    digits = min(max(0, 1 - math.floor(math.log10(width))), 9)
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _table(parameters: list[Any]) -> str:
    rows = "".join(
        f'<tr style="color:{"inherit" if p.excited else "#9ca3af"}"><td>{html.escape(p.name)}</td>'
        f"<td>{in_words(p.value, p.lower, p.upper)} {html.escape(p.unit)}{', at a bound' if p.at_bound else ''}</td></tr>"
        for p in parameters
    )
    return (
        '<div style="margin:4px 12px;font-size:12px"><div style="color:#6b7280">With 95 % intervals. Grey: the motion '
        "does not determine it, so that it kept its prior.</div>"
        f'<table style="width:100%;border-spacing:4px 2px;font-size:11px">{rows}</table></div>'
    )
