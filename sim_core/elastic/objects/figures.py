"""Five soft objects like those of the published experiments, as finite elements: sloth, vest, lamb, shoe, bird.

The source poked a stuffed sloth's face, a vest, a leg of lamb, a shoe and a stuffed bird (Zhu, PhD thesis, section 4.3.2). These stand for
them: shapes on a table, seen from above, with moduli of 5 to 100 kPa that go with colour, though not the same way in all of them. Vest and
shoe have a stiff skin over a soft inside, which takes a poke far around, and so no single coupling fits them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim_core.elastic.objects.soft_object import SoftObject, camera_offset, rounded_tip
from sim_core.elastic.truth.solid import SoftSolid

__all__ = ["FIGURES", "figure"]

#: width of cells at fineness 1 [m], and layers below the surface
CELL, LAYERS = 0.0065, 8
Field = Callable[..., np.ndarray]


@dataclass(frozen=True, eq=False)
class Design:
    """A figure before it is divided into cells. Coordinates u, v go from -1 to 1 along length and width.

    Attributes:
        size: length and width [m]. height: (u, v) -> [m]. parts: (weight of u, v, 0 to 1; modulus [kPa]; colour), later ones over earlier
            ones. base: modulus [kPa] and colour elsewhere. depth: (u, v, w) -> factor of the modulus, w from 0 below to 1 on the surface.
        limits: of pokes, and of other probes [N].
    """

    size: tuple[float, float]
    height: Field
    base: tuple[float, tuple[float, float, float]]
    parts: tuple[tuple[Field, float, tuple[float, float, float]], ...]
    depth: Field
    limits: tuple[float, float]


def _spot(u0: float, v0: float, ru: float, rv: float, edge: float = 0.25) -> Field:
    """An ellipse with a soft edge."""
    return lambda u, v: 1.0 / (1.0 + np.exp((np.hypot((u - u0) / ru, (v - v0) / rv) - 1.0) / (0.25 * edge)))


def _band(at: float, half: float, axis: int = 1, edge: float = 0.03) -> Field:
    """A strip across u (axis 0) or along it (axis 1)."""
    return lambda u, v: 1.0 / (1.0 + np.exp((np.abs((u, v)[axis] - at) - half) / edge))


def _dome(low: float, high: float, sharp: float = 4.0) -> Field:
    return lambda u, v: low + (high - low) * np.exp(-1.2 * np.hypot(u, v) ** sharp)


def _even(u: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.ones_like(u)


def _skin(factor: float, core: float = 1.0, at: float = 0.8) -> Field:
    """A skin stiffer than what is below by `factor`."""
    return lambda u, v, w: np.where(w > at, factor, core) * np.ones_like(u)


def _designs(rng: np.random.Generator | None) -> dict[str, Design]:
    def j(value: float, share: float = 0.12) -> float:
        return value if rng is None else value * float(rng.uniform(1.0 - share, 1.0 + share))

    black, brown, cream = (0.08, 0.07, 0.07), (0.45, 0.32, 0.22), (0.86, 0.78, 0.64)
    orange, grey, white, red = (0.93, 0.42, 0.1), (0.55, 0.56, 0.58), (0.95, 0.94, 0.9), (0.68, 0.2, 0.18)
    blue, navy, yellow = (0.25, 0.48, 0.78), (0.12, 0.16, 0.32), (0.95, 0.75, 0.15)
    bone = j(0.35)
    return {
        "sloth": Design(
            (j(0.2), j(0.18)),
            _dome(0.02, j(0.075)),
            (j(35.0), brown),
            (
                (_spot(0.0, 0.0, 0.62, 0.66), j(24.0), cream),
                (_spot(0.08, j(0.32), 0.24, 0.18), j(55.0), brown),
                (_spot(0.08, -j(0.32), 0.24, 0.18), j(55.0), brown),
                (_spot(-j(0.22), 0.0, 0.15, 0.18), j(100.0), black),
            ),
            _even,
            (4.0, 8.0),
        ),
        "vest": Design(
            (j(0.25), j(0.2)),
            lambda u, v: 0.03 + 0.003 * np.sin(7.0 * u) * np.cos(5.0 * v),
            (j(12.0), orange),
            (
                (_band(0.0, 0.1), j(24.0), grey),
                (_spot(j(0.45), 0.5, 0.3, 0.25), j(8.0), navy),
                (_spot(-0.5, -j(0.5), 0.28, 0.25), j(20.0), white),
            ),
            _skin(4.0, 0.8),
            (5.0, 14.0),
        ),
        "lamb": Design(
            (j(0.24), j(0.12)),
            lambda u, v: (0.02 + 0.045 * np.exp(-(((u + 0.25) / 0.75) ** 2))) * (1.0 - 0.45 * v**2),
            (j(32.0), red),
            (
                (_spot(-j(0.35), 0.35, 0.35, 0.35), j(13.0), cream),
                (_spot(0.05, -j(0.4), 0.3, 0.3), j(15.0), cream),
                (_spot(0.95, 0.0, j(0.3), 0.5), j(90.0), white),
            ),
            lambda u, v, w: np.where((np.abs(v) < bone) & (w < 0.4), 3.0, 1.0),
            (4.0, 8.0),
        ),
        "shoe": Design(
            (j(0.25), j(0.1)),
            lambda u, v: (0.045 + 0.03 / (1.0 + np.exp(6.0 * (u - 0.1)))) * (1.0 - 0.25 * v**2),
            (j(16.0), blue),
            (
                (_spot(0.9, 0.0, j(0.4), 1.2), j(45.0), white),
                (_spot(-0.95, 0.0, j(0.32), 1.2), j(32.0), navy),
                (_spot(0.1, 0.0, j(0.35), 0.4), j(8.0), grey),
            ),
            _skin(3.0, 0.6),
            (5.0, 14.0),
        ),
        "bird": Design(
            (j(0.18), j(0.15)),
            _dome(0.02, j(0.08), 3.0),
            (j(18.0), blue),
            (
                (_spot(0.0, 0.62, 0.6, 0.22), j(38.0), navy),
                (_spot(0.0, -0.62, 0.6, 0.22), j(38.0), navy),
                (_spot(-0.1, 0.0, j(0.3), 0.3), j(14.0), white),
                (_spot(j(0.58), 0.0, 0.2, 0.2), j(90.0), yellow),
            ),
            _even,
            (3.0, 6.0),
        ),
    }


#: names of the five
FIGURES = ("sloth", "vest", "lamb", "shoe", "bird")


def figure(name: str, seed: int = 0, fineness: float = 1.0) -> SoftObject:
    """One of FIGURES, with its solid.

    Args:
        seed: 0 as designed; others vary sizes, places and moduli of parts by up to 12 %. The camera is off another way for each.
        fineness: of the cells; 0.5 doubles their width.

    Raises:
        ValueError: there is none of that name, or fineness is not within 0.3 to 2.
    """
    if name not in FIGURES:
        raise ValueError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    if not 0.3 <= fineness <= 2.0:
        raise ValueError(f"fineness of a figure is within 0.3 to 2, not {fineness}")
    rng = np.random.default_rng([FIGURES.index(name), seed])
    design = _designs(None if seed == 0 else rng)[name]
    cells = [max(4, round(s * fineness / CELL)) for s in design.size]
    layers = max(4, round(LAYERS * min(1.0, fineness)))
    u, v = (np.linspace(-1.0, 1.0, n + 1) for n in cells)
    u, v = np.meshgrid(u, v, indexing="ij")
    height = design.height(u, v)
    w = np.linspace(0.0, 1.0, layers + 1)
    flat = np.stack([0.5 * design.size[0] * u, 0.5 * design.size[1] * v], -1)
    nodes = np.concatenate([np.repeat(flat[:, :, None], layers + 1, 2), (height[:, :, None] * w)[..., None]], axis=3)
    middle = [0.25 * (a[1:, 1:] + a[1:, :-1] + a[:-1, 1:] + a[:-1, :-1]) for a in (u, v)]
    young = (
        1e3
        * _mixed(design, *middle)[0][:, :, None]
        * np.stack([design.depth(*middle, np.full_like(middle[0], (k + 0.5) / layers)) for k in range(layers)], -1)
    )
    solid = SoftSolid(nodes, np.clip(young, 5e3, 1e5), 0.3, name, _mixed(design, u, v)[1].reshape(-1, 3))
    camera = camera_offset(rng, solid.vertices.mean(0))
    limit, probe_limit = design.limits
    return SoftObject(name, "figure", solid, camera, limit, probe_limit, tip=rounded_tip())


def _mixed(design: Design, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Modulus [kPa] and colour of the parts at places."""
    log, colour = np.full_like(u, np.log(design.base[0])), np.tile(design.base[1], (*u.shape, 1))
    for weight, modulus, paint in design.parts:
        share = weight(u, v)
        log = (1.0 - share) * log + share * np.log(modulus)
        colour = (1.0 - share[..., None]) * colour + share[..., None] * np.array(paint)
    return np.exp(log), colour
