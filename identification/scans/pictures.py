"""Pictures of a scanner in its scene: returns by how often light was turned, how a search came to its end, a board's staircase."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reporting import PALETTE, figure
from sim_core.lidar.parameters import SENSOR
from sim_core.lidar.scan import Lidar
from sim_core.lidar.search import Found

__all__ = ["draw_plan", "film_of_search", "staircase"]

WALLS = "#8a8f98"
#: shown each [ms], and at the end
FRAME, LAST = 350, 1500
#: pictures of a film at most
FRAMES = 12


def draw_plan(
    axis: Any,
    lidar: Lidar,
    values: Mapping[str, float],
    title: str,
    ranges: np.ndarray | None = None,
    legend: bool = True,
) -> None:
    """From above: bodies, returns by how many surfaces the light met before, and the scan (beams,) [m] from the believed pose."""
    at = lidar.values | dict(values)
    for body in lidar.scene.bodies:
        pose = [at[f"{body.name}.{q}"] for q in ("x", "y", "z", "roll", "pitch", "yaw")]
        segments = body.mesh.moved(pose).corners[:, [0, 1, 2, 0], :2]
        axis.plot(*np.concatenate([[*line, [np.nan, np.nan]] for line in segments]).T, color=WALLS, lw=1.4, zorder=1)
    back = lidar.returns(values)
    x, y, yaw = (at[f"{SENSOR}.{q}"] for q in ("x", "y", "yaw"))
    angle = lidar.settings.angles[back["beam"]] + yaw
    east, north = x + back["path"] * np.cos(angle), y + back["path"] * np.sin(angle)
    for depth in range(int(back["depth"].max(initial=-1)) + 1):
        some = back["depth"] == depth
        said = f"{depth} surface{'' if depth == 1 else 's'} before"
        axis.plot(east[some], north[some], ".", ms=2.0, color=PALETTE[depth % len(PALETTE)], label=said)
    if ranges is not None:
        point = lidar.points(ranges, values)
        axis.plot(point[:, 0], point[:, 1], "+", ms=3.5, color="#222222", alpha=0.5, zorder=3, label="measured")
    axis.plot(x, y, "o", color="black", ms=4)
    axis.plot([x, x + 0.12 * np.cos(yaw)], [y, y + 0.12 * np.sin(yaw)], color="black", lw=1.5)
    axis.set(title=title, xlabel="x [m]", ylabel="y [m]", aspect="equal")
    if legend:
        axis.legend(markerscale=2, fontsize=6, loc="lower left")


def film_of_search(lidar: Lidar, names: Sequence[str], found: Found, ranges: np.ndarray) -> bytes:
    """How a search came to its end, as the contents of an animated picture: the plan, and the cost, step after step.

    Raises:
        ValueError: nothing was fitted.
    """
    from PIL import Image

    if found.fit is None:
        raise ValueError("there is no film of a search that fitted nothing")
    path, trace = found.fit.path, found.fit.trace
    shown = np.unique(np.linspace(0, len(path) - 1, min(FRAMES, len(path))).round().astype(int))
    fig, axes = figure(1, 2, size=(8.6, 3.6))
    axes[1].semilogy(trace, color=WALLS)
    (now,) = axes[1].semilogy(shown[:1], trace[shown[:1]], "o", color=PALETTE[1])
    axes[1].set(title="cost, a stage after the other", xlabel="step")
    frames = []
    for k in shown:
        axes[0].clear()
        draw_plan(axes[0], lidar, dict(zip(names, path[k])), f"step {k} of {len(path) - 1}", ranges, legend=False)
        axes[0].set(xlim=_limits(lidar, 0), ylim=_limits(lidar, 1))
        now.set_data([k], [trace[k]])
        buffer = io.BytesIO()
        fig.savefig(buffer, format="png", dpi=90)
        fig.set_layout_engine("none")  # everything stays where the first picture has it, which takes half the time
        frames.append(Image.open(io.BytesIO(buffer.getvalue())).convert("RGB"))
    out = io.BytesIO()
    lasts = [FRAME] * (len(frames) - 1) + [LAST]
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:], duration=lasts, loop=0, quality=70, method=2)
    return out.getvalue()


def staircase(
    axis: Any, lidar: Lidar, measured: np.ndarray, before: Mapping[str, float], after: Mapping[str, float]
) -> None:
    """Ranges across a board (beams,) [m]: measured, and simulated with the old and the new values of parameters."""
    old, new = lidar.scan(before).range, lidar.scan(after).range
    degrees = np.degrees(lidar.settings.angles)
    seen = np.isfinite(new) & np.isfinite(measured)
    flat = np.cos(lidar.settings.angles)  # of a board across the sensor's x
    for ranges, style, said in (
        (measured, ".", "measured"),
        (old, "--", "simulated before"),
        (new, "-", "simulated after"),
    ):
        axis.plot(degrees[seen], 1e3 * (ranges * flat)[seen], style, ms=3, lw=1.2, label=said)
    axis.set(xlabel="angle [deg]", ylabel="distance ahead [mm]", title="Dark squares read closer")
    axis.legend(fontsize=7)


def _limits(lidar: Lidar, axis: int) -> tuple[float, float]:
    """Of all bodies, where they stand by their own poses, and as much again for images in mirrors."""
    points = np.concatenate([body.mesh.moved(body.pose).vertices[:, axis] for body in lidar.scene.bodies])
    low, high = float(points.min()), float(points.max())
    return low - 0.5 * (high - low), high + 0.5 * (high - low)
