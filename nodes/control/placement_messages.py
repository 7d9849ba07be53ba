"""Between the messages of a placement and what `sim_core.auscultation` computes with."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from refit_interfaces.action import PlaceAndRecord

from nodes.control.arm_messages import in_world
from sim_core.auscultation.placement import Outcome, Placement

__all__ = ["DURATIONS", "Order", "order_of", "result_of"]

STRUCTURES = ("heart", "lung")
#: [s] of a recording, at least and at most
DURATIONS = (0.1, 60.0)


@dataclass(frozen=True, eq=False)
class Order:
    """What a goal asks for.

    Attributes:
        point, normal: on the body and out of it (3,) [m], in the axes of the arm's base; the normal has length 1.
        duration: of the recording [s]. file: of the recording, absolute.
    """

    point: np.ndarray
    normal: np.ndarray
    duration: float
    file: str


def order_of(goal: PlaceAndRecord.Goal, duration: float, directory: str) -> Order:
    """What a goal asks for.

    Args:
        duration: of a recording whose goal names none [s]. directory: of recordings whose goal names no file.

    Raises:
        ValueError: it cannot be done; the sentence says what was expected and what was found.
    """
    in_world(goal.header.frame_id)
    point = np.array([goal.point.x, goal.point.y, goal.point.z])
    normal = np.array([goal.normal.x, goal.normal.y, goal.normal.z])
    if not np.isfinite([*point, *normal]).all():
        raise ValueError(f"expected finite numbers, found the point {point.tolist()} and the normal {normal.tolist()}")
    length = float(np.linalg.norm(normal))
    if length < 1e-6:
        raise ValueError(f"expected a normal that points out of the skin, found {normal.tolist()}")
    lasts = goal.duration or duration
    low, high = DURATIONS
    if not low <= lasts <= high:
        raise ValueError(f"expected a recording of {low:g} to {high:g} s, or 0 for {duration:g} s, found {lasts:g} s")
    if goal.structure not in ("", *STRUCTURES):
        raise ValueError(f"expected the structure {' or '.join(STRUCTURES)}, found '{goal.structure}'")
    named = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + (f"-{goal.structure}" if goal.structure else "") + ".wav"
    file = Path(goal.file) if goal.file else Path(directory) / named
    return Order(point, normal / length, lasts, str(file.expanduser().absolute()))


def result_of(outcome: Outcome, why: str, placement: Placement | None, period: float, file: str = ""):
    """The result of a goal.

    Args:
        placement: None where nothing moved. period: between two steps [s]. file: of the recording; "": there is none.
    """
    return PlaceAndRecord.Result(
        outcome=getattr(PlaceAndRecord.Result, outcome.name),
        message=f"{outcome.value.capitalize()}: {why.rstrip('.')}.",
        file=file,
        force=[] if placement is None else placement.trace,
        period=period,
    )
