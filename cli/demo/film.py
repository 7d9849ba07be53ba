"""A film of two runs side by side, on one clock, above what was measured of both; and a strip of stills.

Every run is drawn by MuJoCo in a process of its own (`drawing.py`): the drawing library has to be chosen before MuJoCo is imported,
and a missing or broken one may end the process. EGL is asked first, then OSMesa; without either there are no pictures.
"""

from __future__ import annotations

import functools
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cli.demo.drawing import HEIGHT, WIDTH
from reporting.figures import PALETTE, figure

__all__ = ["RATE", "Film", "Pictures", "Take", "draw"]

BACK_ENDS = ("egl", "osmesa")
TIMEOUT = 180.0  # [s] for one back end
RATE = 20.0  # frames per second
BELOW = 150  # height of what was measured [pixels]
STILLS, STILL = 6, 240  # in a row of the strip, and their size [pixels]
COLOURS = (PALETTE[1], PALETTE[0])
INK = (30, 34, 40)


@dataclass(frozen=True)
class Take:
    """One run.

    Attributes:
        title: what stands above it. q: joint positions (F, nq). trace: points that the moving one leaves behind (F, 3) [m]; may be
            empty. measure (F,): of the film's `measure`; nan where the run was over.
    """

    title: str
    q: np.ndarray
    trace: np.ndarray
    measure: np.ndarray


@dataclass(frozen=True)
class Film:
    """What is to be drawn.

    Attributes:
        robot: name in config/robots, or the path of its folder.
        view: the camera's azimuth and elevation [deg]; it steps back until all of both takes is in the frame.
        t: times of the frames (F,) [s]. takes: left and right.
        measure: what `Take.measure` is, with its unit in brackets.
        change: when the robot changes [s]; inf: never. changed: what is written beside it from then on.
        path: points of the reference (P, 3) [m]; may be empty.
        ball: position in `ball_body`'s frame (3,) [m], or empty; drawn from `change` on. ball_radius: [m].
    """

    robot: str
    view: tuple[float, float]
    t: np.ndarray
    takes: tuple[Take, Take]
    measure: str
    change: float = np.inf
    changed: str = ""
    path: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    ball: np.ndarray = field(default_factory=lambda: np.zeros(0))
    ball_body: str = ""
    ball_radius: float = 0.05


@dataclass(frozen=True)
class Pictures:
    """Contents of film.webp and strip.png."""

    film: bytes
    strip: bytes


def draw(film: Film, folder: Path) -> Pictures | str:
    """Draw film.webp and strip.png into `folder`; returns them, or a sentence why there are none."""
    said = ""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".film-") as work:
        for k, take in enumerate(film.takes):
            other = film.takes[1 - k]
            job = {name: value for name, value in asdict(film).items() if name != "takes"}
            np.savez(Path(work) / f"{k}.npz", **job, q=take.q, trace=take.trace, other=other.q)
        for name in BACK_ENDS:
            said = _rendered(name, Path(work), len(film.takes))
            if not said:
                shape = (len(film.t), HEIGHT, WIDTH, 3)
                frames = [
                    np.memmap(Path(work) / f"{k}.raw", np.uint8, "r", shape=shape) for k in range(len(film.takes))
                ]
                return _written(film, frames, Path(folder))
    return f"No picture: neither EGL nor OSMesa can draw here ({said}). Debian: apt-get install libegl1 libegl-mesa0."


def _rendered(back_end: str, work: Path, takes: int) -> str:
    """Have each take drawn into a raw file, all at once; what went wrong, or ""."""
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "cli.demo.drawing", str(work / f"{k}.npz"), str(work / f"{k}.raw")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "MUJOCO_GL": back_end},
        )
        for k in range(takes)
    ]
    said = ""
    try:
        for child in children:
            error = child.communicate(timeout=TIMEOUT)[1]
            if child.returncode:
                said = f"{back_end}: {(error.strip().splitlines() or ['failed'])[-1][:200]}"
    except subprocess.TimeoutExpired:
        said = f"{back_end} took more than {TIMEOUT:.0f} s"
    finally:
        for child in children:
            child.kill()
            child.wait()
    return said


def _written(film: Film, frames: list[np.ndarray], folder: Path) -> Pictures:
    below, at = _measured(film)

    def composed(k: int) -> Image.Image:
        page = Image.new("RGB", (2 * WIDTH, HEIGHT + BELOW), "white")
        for side, take in enumerate(film.takes):
            page.paste(_labelled(film, take, frames[side][k], k, side), (side * WIDTH, 0))
        page.paste(below, (0, HEIGHT))
        pen, x = ImageDraw.Draw(page), at(float(film.t[k]))
        pen.line([(WIDTH, 0), (WIDTH, HEIGHT)], fill="white", width=4)
        pen.line([(x, HEIGHT + 6), (x, HEIGHT + BELOW - 26)], fill=INK, width=2)
        return page

    buffer = io.BytesIO()
    lasts = round(1000 * float(np.median(np.diff(film.t))))
    _Frames(composed, len(film.t)).save(buffer, "WEBP", save_all=True, duration=lasts, loop=0, quality=60, method=2)
    stills = np.linspace(0, len(film.t) - 1, STILLS + 1).round().astype(int)[1:]
    strip = Image.new("RGB", (STILLS * STILL, len(film.takes) * STILL), "white")
    for side, take in enumerate(film.takes):
        for column, k in enumerate(stills):
            still = _labelled(film, take, frames[side][k], int(k), side)
            strip.paste(still.resize((STILL, STILL), Image.Resampling.LANCZOS), (column * STILL, side * STILL))
    shown = io.BytesIO()
    strip.save(shown, "PNG", optimize=True)
    pictures = Pictures(buffer.getvalue(), shown.getvalue())
    (folder / "film.webp").write_bytes(pictures.film)
    (folder / "strip.png").write_bytes(pictures.strip)
    return pictures


class _Frames(Image.Image):
    """Pictures that are made when the encoder comes to them: all of a film at once would fill half a gigabyte."""

    def __init__(self, composed: Callable[[int], Image.Image], count: int) -> None:
        super().__init__()
        self.composed, self.n_frames = composed, count
        self.seek(0)

    def seek(self, frame: int) -> None:
        shown = self.composed(frame)
        self.im, self._mode, self._size = shown.im, shown.mode, shown.size


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _labelled(film: Film, take: Take, frame: np.ndarray, k: int, side: int) -> Image.Image:
    page = Image.fromarray(frame)
    pen = ImageDraw.Draw(page)
    pen.text((14, 10), take.title, fill=COLOURS[side], font=_font(20))
    pen.text((WIDTH - 14, 12), f"{film.t[k]:.1f} s", fill=INK, font=_font(16), anchor="ra")
    if film.changed and film.t[k] >= film.change:
        pen.text((14, 36), film.changed, fill=INK, font=_font(16))
    if np.isfinite(take.measure[k]):
        what, _, unit = film.measure.partition(" [")
        said = f"{what} {take.measure[k]:.2g} {unit.rstrip(']')}".rstrip()
        pen.text((14, HEIGHT - 30), said, fill=COLOURS[side], font=_font(18))
    return page


def _measured(film: Film) -> tuple[Image.Image, Callable[[float], float]]:
    """Both measures over time, as wide as the film, and the place of a time [s] in it [pixels]."""
    dpi = 100
    fig, axis = figure(size=(2 * WIDTH / dpi, BELOW / dpi))
    fig.set_dpi(dpi)
    for take, colour in zip(film.takes, COLOURS):
        axis.plot(film.t, take.measure, color=colour, label=take.title)
    if np.isfinite(film.change):
        axis.axvline(film.change, color="0.5", linestyle=":")
    axis.set_xlim(film.t[0], film.t[-1])
    axis.set_ylim(bottom=min(0.0, float(np.nanmin([take.measure for take in film.takes]))))
    axis.set_ylabel(film.measure.partition(" [")[2].rstrip("]") or film.measure)
    axis.set_xlabel("time [s]")
    axis.legend(loc="upper left")
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=dpi)
    page = Image.open(buffer).convert("RGB").resize((2 * WIDTH, BELOW))
    left, right = axis.transData.transform([(film.t[0], 0.0), (film.t[-1], 0.0)])[:, 0] * 2 * WIDTH / fig.bbox.width
    return page, lambda t: left + (right - left) * (t - film.t[0]) / (film.t[-1] - film.t[0])
