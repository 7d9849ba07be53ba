"""What may lie before a simulated robot that scoops or digs, by name.

Grains are as large as a simulation that keeps up with the robot allows: what is finer in a kitchen or a quarry is stood for by coarser
ones; blocks are those of `sim_core/excavation`. Numbers are choices; grain sizes of gravel and paper balls are those of Zhu, PhD thesis
(University of Illinois 2023), section 6.4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sim_core.multibody import load_model
from sim_core.plant.errors import PlantError
from sim_core.plant.grains_at_tool import GrainsAtTool
from sim_core.plant.granular_pile import GranularPile, PileSite
from sim_core.plant.granular_tray import GranularTray, TrayFill
from sim_core.scooping.arm.tray import Tray

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BLOCKS", "FILLS", "filled_tray"]

#: fill of the box before a robot that digs
BLOCKS = "blocks"

FILLS: Mapping[str, TrayFill] = {
    # balls, which roll; coarser than pebbles are
    "pebbles": TrayFill(count=4000, size=(0.013, 0.016), friction=0.4, rolling=0.1, colour=(150, 143, 132)),
    # broken stones that lock into each other
    "gravel": TrayFill(
        count=1000, size=(0.02, 0.03), shape="rock", friction=0.7, rolling=0.05, stiffness=1e5, colour=(190, 187, 180)
    ),
    # sticky, and fine as far as that goes
    "damp sand": TrayFill(
        count=5000, size=(0.012, 0.014), friction=0.6, rolling=0.3, adhesion=0.15, steep=0.6, colour=(176, 150, 108)
    ),
    # light and large
    "paper balls": TrayFill(
        count=120, size=(0.04, 0.06), density=90.0, friction=0.6, rolling=0.3, stiffness=2e4, colour=(240, 239, 236)
    ),
    # next to nothing, of which no scoop brings enough
    "crumbs": TrayFill(count=60, size=(0.009, 0.011), relief="level", colour=(168, 142, 104)),
}


def filled_tray(name: str, robot: str, step: float, seed: int = 0) -> GrainsAtTool:
    """What lies before a robot, at rest.

    Args:
        name: a key of `FILLS`, or `BLOCKS`. robot: whose model says where it lies. step: of the plant's physics [s].
        seed: of shapes and places.

    Raises:
        PlantError: there is no such fill, or the robot has no place for it.
    """
    if name not in (*FILLS, BLOCKS):
        raise PlantError(f"tray: expected one of {', '.join((*FILLS, BLOCKS))}, found '{name}'.")
    model = load_model(robot)
    try:
        site = PileSite.of(model) if name == BLOCKS else Tray.of(model)
    except ValueError as error:
        raise PlantError(f"There is no place for {name} before this robot: {error}.") from None
    if isinstance(site, PileSite):
        return GranularPile(site, seed, step=step)
    return GranularTray(replace(FILLS[name], seed=seed), site, step)
