"""Objects for tests: coloured ellipsoids of some categories, whose stiffness follows from colour and category, pressed at random points."""

import numpy as np

from sim_core.elastic.poke import Poke
from sim_core.elastic.surface import Surface


def ball(category, number, points=400):
    """An ellipsoid and its law: k1, k3 at each point, and where force begins."""
    rng = np.random.default_rng([category, number, 7])
    of_category = np.random.default_rng([category, 8])
    soft, hard, tint = of_category.uniform(150, 300), of_category.uniform(500, 900), of_category.random(3)
    axes = of_category.uniform(0.6, 1.0, 3) * rng.uniform(0.08, 0.14)
    u = rng.normal(size=(points, 3))
    u /= np.linalg.norm(u, axis=1)[:, None]
    normals = u / axes
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    share = 0.5 + 0.5 * np.sin(3 * u @ of_category.normal(size=3))
    colours = np.clip(tint * (0.3 + 0.7 * share[:, None]), 0, 1)
    surface = Surface(u * axes, colours, normals)
    return surface, soft + (hard - soft) * share, rng.uniform(-0.003, 0.003)


def poked(surface, stiffness, onset, count, seed, noise=0.05):
    rng = np.random.default_rng(seed)
    pokes = []
    for k in rng.choice(len(surface), count, replace=False):
        deepest = onset + 6.0 / stiffness[k]
        d = np.linspace(onset - 0.001, deepest, 8)
        force = stiffness[k] * np.maximum(d - onset, 0.0) + noise * rng.normal(size=8)
        pokes.append(Poke(surface.features[k], d, force))
    return pokes
