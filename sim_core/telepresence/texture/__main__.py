"""Learn the surfaces that are known, and write data/telepresence/surfaces.json: `python -m sim_core.telepresence.texture`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from config.whole_file import whole_file
from sim_core.telepresence.texture.recognition import FEATURES, features
from sim_core.telepresence.texture.scans import random_scan
from sim_core.telepresence.texture.spectrum import texture_of_map
from sim_core.telepresence.texture.surfaces import KINDS, texture_surface

__all__ = ["SEEDS", "document", "sample"]

#: surfaces of each kind that are learnt from; experiments judge by others
SEEDS = range(24)


def sample(name: str, seed: int) -> list[float]:
    """Features of one scan of a surface of this kind (5,), to six decimals."""
    scan = random_scan(texture_surface(name, seed), np.random.default_rng([seed, KINDS.index(name), 29]))
    return [round(float(value), 6) for value in features(texture_of_map(scan.measured))]


def document() -> str:
    """The file's text."""
    rows = {name: [sample(name, seed) for seed in SEEDS] for name in KINDS}
    return json.dumps({"features": FEATURES, "samples": rows}, indent=1) + "\n"


if __name__ == "__main__":
    with whole_file(Path(__file__).resolve().parents[3] / "data" / "telepresence" / "surfaces.json") as file:
        file.write_text(document())
