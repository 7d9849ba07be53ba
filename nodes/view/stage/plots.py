"""Curves over time in the panel, all drawn alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import viser

__all__ = ["Plot", "curve"]

HEIGHT = 230  # [px]
#: parts of its range by which the vertical axis may be larger than the data before it is made smaller again
SLACK = 2.5


def curve(label: str, colour: str, width: float = 1.0) -> dict[str, Any]:
    """A curve: its name in the legend, CSS colour, and width [px]."""
    return {"label": label, "stroke": colour, "width": width, "points": {"show": False}}


class Plot:
    """Curves over time. The page shows it from the first data on.

    Args:
        gui: viser's. container: tab or folder in which it stands.
        curves: from `curve`. label: of the vertical axis, with the unit.
        bands: areas between two curves, as uPlot has them.
    """

    def __init__(
        self, gui: viser.GuiApi, container: Any, curves: Sequence[dict[str, Any]], label: str = "", bands: Any = None
    ) -> None:
        self._gui, self._curves, self._label, self._bands = gui, tuple(curves), label, bands
        self._drawn: Any = None
        self._range = (math.nan, math.nan)
        self._span = (math.nan, math.nan)  # of time
        with container:
            self._place = gui.add_folder("over time")

    def draw(self, t: np.ndarray, *values: np.ndarray, label: str | None = None) -> None:
        """Show other data.

        Args:
            t: (N,) ascending [s]. values: (N,) of each curve; NaN where there is none.
            label: of the vertical axis from now on; None: the one before.
        """
        data = tuple(np.ascontiguousarray(each, float) for each in (t, *values))
        relabelled = label is not None and label != self._label
        self._label = self._label if label is None else label
        if len(t) < 2 or not any(np.isfinite(each).any() for each in data[1:]):
            return
        # The page scales an axis once, and not by data that begin with a gap: so both ranges are said.
        rescaled = self._stretch(data[0]) | self._rescale(data[1:], relabelled)
        if self._drawn is None:
            with self._place:
                self._drawn = self._gui.add_uplot(
                    data,
                    ({"label": "t [s]"}, *self._curves),  # type: ignore[arg-type]
                    scales=self._scales(),
                    axes=self._axes(),
                    bands=self._bands,
                    height=HEIGHT,
                )
            return
        if rescaled:
            self._drawn.scales = self._scales()
        if relabelled:
            self._drawn.axes = self._axes()
        self._drawn.data = data

    def _stretch(self, t: np.ndarray) -> bool:
        begin, end = float(t[0]), float(t[-1])
        room = max(2.0, 0.25 * (end - begin))
        if self._span[0] <= begin < self._span[0] + room and end <= self._span[1] <= end + 2 * room:
            return False
        self._span = (math.floor(begin), math.ceil(end + room))
        return True

    def _rescale(self, values: Sequence[np.ndarray], anew: bool) -> bool:
        finite = np.concatenate([each[np.isfinite(each)] for each in values])
        low, high = float(finite.min()), float(finite.max())
        span = max(high - low, 1e-3 * max(abs(low), abs(high), 1e-6))
        inside = self._range[0] <= low and high <= self._range[1]
        if inside and not anew and self._range[1] - self._range[0] <= SLACK * span:
            return False
        # What is never negative gets an axis that begins at zero.
        bottom = 0.0 if low >= 0.0 and low < span else low - 0.15 * span
        self._range = (bottom, high + 0.3 * span)
        return True

    def _scales(self) -> Any:
        return {"x": {"time": False, "range": self._span}, "y": {"range": self._range}}

    def _axes(self) -> Any:
        return ({"label": "time [s]", "size": 34, "labelSize": 18}, {"label": self._label, "size": 58, "labelSize": 18})
