"""Terrains as tasks of meta-learning: crops and numbers of the scoops, volumes in cm^3, materials as characteristics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from sim_core.meta.tasks import Task
from sim_core.scooping.bed.actions import Actions
from sim_core.scooping.bed.rendering import Picture
from sim_core.scooping.learning.crops import CUBIC_CENTIMETRES, crops, halved
from sim_core.scooping.learning.dataset import TerrainRecord

__all__ = ["VOLUME_SCALE", "scoop_inputs", "tasks_of"]

#: mean volume of the published offline data [cm^3], by which models divide
VOLUME_SCALE = 31.3


def tasks_of(records: Sequence[TerrainRecord], size: int, places: bool = False) -> list[Task]:
    """One task for each terrain.

    Args:
        size: of the crops [px]; that of the records, or half of it. places: each scoop's place (2,) [m] is told after its numbers.

    Raises:
        ValueError: another size.
    """
    tasks = []
    for record in records:
        seen = record.crops
        if seen.shape[-1] == 2 * size:
            seen = halved(seen)
        if seen.shape[-1] != size:
            raise ValueError(f"expected crops of {size} or {2 * size} pixels, found {seen.shape[-1]}")
        told = [record.actions.numbers, *([record.actions.place] if places else [])]
        values = CUBIC_CENTIMETRES * record.volumes
        tasks.append(
            Task(
                record.name,
                record.materials,
                (torch.from_numpy(seen), *(torch.from_numpy(each.astype(np.float32)) for each in told)),
                torch.from_numpy(values.astype(np.float32)),
            )
        )
    return tasks


def scoop_inputs(picture: Picture, actions: Actions, size: int, shared: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Views and numbers of actions on a picture, as models take them.

    Args:
        shared: how many consecutive actions have the same place and yaw, and so the same view.
    """
    return crops(picture, actions[::shared], size), actions.numbers.astype(np.float32)
