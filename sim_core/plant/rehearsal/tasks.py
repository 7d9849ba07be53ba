"""Every task by its name; `sim_core/telepresence/competition.py` says what each is worth."""

from __future__ import annotations

from collections.abc import Callable

from sim_core.plant.errors import PlantError
from sim_core.plant.rehearsal.canisters import canisters
from sim_core.plant.rehearsal.drill import drill
from sim_core.plant.rehearsal.passage import passage
from sim_core.plant.rehearsal.rehearsal import Rehearsal
from sim_core.plant.rehearsal.rocks import rocks
from sim_core.plant.rehearsal.switch import switch
from sim_core.plant.rehearsal.task import Task

__all__ = ["TASKS", "rehearse"]

#: name -> the task of a seed
TASKS: dict[str, Callable[[int], Task]] = {
    "switch": switch,
    "canisters": canisters,
    "passage": passage,
    "drill": drill,
    "rocks": rocks,
}


def rehearse(name: str, seed: int = 0) -> Rehearsal:
    """A task, set up.

    Raises:
        PlantError: there is none of that name.
    """
    if name not in TASKS:
        raise PlantError(f"There is no task '{name}' to rehearse; there are {', '.join(TASKS)}.")
    return Rehearsal(TASKS[name](seed))
