"""Tasks for tests: lines y = offset + slope x + noise of groups, seen together with how the group looks and with what means nothing."""

import numpy as np
import torch

from sim_core.meta.model import Extractor, dense
from sim_core.meta.tasks import Task

LOOKS, NUISANCE = 3, 12


class LineExtractor(Extractor):
    """Views: looks and nuisance (b, 15). Numbers: x (n, 1); a place after it is not looked at."""

    def __init__(self, width=32):
        super().__init__()
        self.width = width
        self.view = dense(LOOKS + NUISANCE, 64, 63)
        self.head = dense(64, 64, width)

    def encode(self, views):
        return torch.relu(self.view(views))

    def features(self, encoded, *numbers):
        return self.head(torch.cat([encoded, numbers[0]], 1))

    def describe(self):
        return {"network": "line", "width": self.width}


def lines(groups, per_group, rows, seed, noise=1.0):
    """Tasks of some groups; each group has a look, an offset and a slope that nothing tells from the look."""
    rng, tasks = np.random.default_rng(seed), []
    for group in groups:
        of_group = np.random.default_rng([group, 5])
        look, offset, slope = of_group.uniform(-1, 1, LOOKS), of_group.normal(), of_group.normal()
        for k in range(per_group):
            x = rng.uniform(-1, 1, (rows, 1))
            views = np.column_stack([look + 0.1 * rng.normal(size=(rows, LOOKS)), rng.normal(size=(rows, NUISANCE))])
            values = offset + slope * x[:, 0] + noise * rng.normal(size=rows)
            tasks.append(Task(f"{group}-{k}", (f"group {group}",), (views, x), values))
    return tasks


def in_patches(tasks, seed, near=0.3, height=2.0):
    """The tasks at places (n, 2) in a unit square; what lies within `near` of a task's own centre is higher, which nothing else tells."""
    rng, placed = np.random.default_rng(seed), []
    for task in tasks:
        places = rng.uniform(size=(len(task), 2))
        higher = np.linalg.norm(places - rng.uniform(0.2, 0.8, 2), axis=1) < near
        values = task.values + height * torch.from_numpy(higher.astype(np.float32))
        placed.append(Task(task.name, task.characteristics, (*task.inputs, places), values))
    return placed
