"""Write config/robots/avatar/avatar.xml: `python -m sim_core.plant.avatar`."""

from __future__ import annotations

from pathlib import Path

from config.whole_file import whole_file
from sim_core.plant.avatar.builder import NAME, build

__all__ = ["document"]

HEADER = """<!-- The bimanual avatar, as `python -m sim_core.plant.avatar` writes it. Change sim_core/plant/avatar and write it anew:
  a test compares the two. Sources of its numbers are named there; the arms are config/robots/panda. -->
"""


def document() -> str:
    """The model's text."""
    spec = build()
    spec.compile()
    return HEADER + spec.to_xml()


if __name__ == "__main__":
    with whole_file(Path(__file__).resolve().parents[3] / "config" / "robots" / NAME / f"{NAME}.xml") as file:
        file.write_text(document())
