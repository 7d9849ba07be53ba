"""The film: a camera that the robot fills, two takes on one clock, and a sentence where nothing can draw."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cli.demo import film as module
from cli.demo.drawing import HEIGHT, MARGIN, WIDTH, fitted
from cli.demo.film import BELOW, STILL, STILLS, Film, Take, draw

F = 12


def film(**changes):
    """A cart-pole that swings in one take and hangs in the other."""
    t = np.arange(F) / module.RATE
    swings = np.stack([np.zeros(F), np.pi + 0.2 * np.arange(F)], axis=1)
    hangs = np.stack([np.zeros(F), np.full(F, np.pi)], axis=1)
    none = np.zeros((0, 3))
    takes = Take("hangs", hangs, none, np.linspace(0, 4, F)), Take("swings", swings, none, np.linspace(0, 1, F))
    return Film("cartpole", (90.0, -5.0), t, takes, "tracking error [mm]", **{"change": 0.3, **changes})


def projected(points, at, distance, azimuth, elevation, fovy):
    """Where points lie in the frame of a camera at `distance` from `at`: -1 to 1 in both directions."""
    a, e = np.radians([azimuth, elevation])
    forward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    seen = points - (at - distance * forward)
    depth = seen @ forward
    assert (depth > 0).all()
    return seen @ np.stack([right, np.cross(right, forward)], axis=1) / (depth * np.tan(np.radians(fovy) / 2))[:, None]


@pytest.mark.parametrize("view", [(145.0, -12.0), (90.0, -5.0), (10.0, 40.0), (-60.0, -89.0)])
def test_a_camera_is_filled_by_what_it_looks_at(view):
    points = np.random.default_rng(0).normal(size=(200, 3)) * [1.0, 0.3, 2.0] + [5.0, -1.0, 0.7]
    at, distance = fitted(points, *view, 45.0)
    place = projected(points, at, distance, *view, 45.0)
    assert np.abs(place).max() <= 1.0 + 1e-9
    # One edge is touched but for the margin, however deep the points lie.
    nearer = projected(points, at, distance / MARGIN * 0.97, *view, 45.0)
    assert np.abs(nearer).max() > 1.0


@pytest.mark.process
def test_a_film_is_drawn_or_its_absence_explained(tmp_path: Path):
    pictures = draw(film(), tmp_path)
    if isinstance(pictures, str):
        assert pictures.startswith("No picture")
        return
    assert {path.name for path in tmp_path.iterdir()} == {"film.webp", "strip.png"}
    moving = Image.open(io.BytesIO(pictures.film))
    assert moving.format == "WEBP" and moving.size == (2 * WIDTH, HEIGHT + BELOW) and moving.n_frames == F
    assert Image.open(io.BytesIO(pictures.strip)).size == (STILLS * STILL, 2 * STILL)
    seen = []
    for k in (0, F - 1):
        moving.seek(k)
        seen.append(np.asarray(moving.convert("L"), float))
    middle = slice(HEIGHT // 4, 3 * HEIGHT // 4)
    still, moved = (np.abs(seen[1] - seen[0])[middle, side].mean() for side in (slice(0, WIDTH), slice(WIDTH, None)))
    assert moved > 1.0 > still  # the right take swings, the left one hangs
    below = np.abs(seen[1] - seen[0])[HEIGHT:]
    assert (below.max(axis=0) > 100).any()  # the line of the present moment


@pytest.mark.process
def test_where_nothing_can_draw_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BACK_ENDS", ("no such library",))
    said = draw(film(), tmp_path)
    assert said.startswith("No picture: neither EGL nor OSMesa can draw here (no such library: ")
    assert not list(tmp_path.iterdir())


def test_what_is_written_in_a_frame_belongs_to_its_moment():
    shown = film(changed="2 kg in the hand")
    blank = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    before, after = (np.asarray(module._labelled(shown, shown.takes[0], blank, k, 0)) for k in (0, F - 1))
    second = slice(36, 54)
    assert (before[second] == 255).all() and (after[second] < 255).any()
    lost = Take("lost", shown.takes[0].q, shown.takes[0].trace, np.full(F, np.nan))
    assert (np.asarray(module._labelled(shown, lost, blank, 0, 0))[HEIGHT - 30 :] == 255).all()
