"""Between the messages of a poke and what `sim_core.elastic` computes with."""

from __future__ import annotations

import numpy as np
from refit_interfaces.action import PokeObject
from refit_interfaces.msg import PokeMeta, PokeSample

from nodes.control.arm_messages import WORLD
from nodes.framework.geometry_messages import wrench_message
from nodes.framework.messages import set_stamp
from sim_core.elastic.poke_motion import PokeLog, PokeMotion, PokeOrder, PokeOutcome, PokePhase

__all__ = ["DEEPEST", "FORCES", "SPEEDS", "meta_message", "order_of", "result_of", "sample_message", "told_phase"]

#: least and most of a poke: force limit [N], speed [m/s], displacement at which it turns back [m]
FORCES, SPEEDS, DEEPEST = (0.1, 15.0), (0.0002, 0.01), (0.001, 0.06)
#: speed of a goal that names none, as published [m/s]
SPEED = 0.002

_TOLD = {
    PokePhase.REACH: PokeMeta.APPROACH,
    PokePhase.TRANSIT: PokeMeta.APPROACH,
    PokePhase.TARE: PokeMeta.APPROACH,
    PokePhase.PRESS: PokeMeta.PRESS,
    PokePhase.RETRACT: PokeMeta.RETRACT,
    PokePhase.CHECK: PokeMeta.RETRACT,
    PokePhase.AWAY: PokeMeta.RETRACT,
    PokePhase.ENDED: PokeMeta.ENDED,
}


def told_phase(phase: PokePhase) -> int:
    """As PokeMeta says it."""
    return _TOLD[phase]


def order_of(goal: PokeObject.Goal, probe: str, force_limit: float, deepest: float) -> PokeOrder:
    """What a goal asks for.

    Args:
        probe: that the arm holds. force_limit [N], deepest [m]: of a goal that names none.

    Raises:
        ValueError: it cannot be done; the sentence says what was expected and what was found.
    """
    if goal.probe not in ("", probe):
        raise ValueError(f"expected the probe that the arm holds, '{probe}', or '', found '{goal.probe}': exchange it")
    given = (
        ("force_limit", goal.force_limit or force_limit, FORCES, "N"),
        ("speed", goal.speed or SPEED, SPEEDS, "m/s"),
        ("deepest", goal.deepest or deepest, DEEPEST, "m"),
    )
    for name, value, (low, high), unit in given:
        if not low <= value <= high:
            raise ValueError(f"{name}: expected {low:g} to {high:g} {unit}, or 0 for the node's own, found {value:g}")
    point = np.array([goal.point.x, goal.point.y, goal.point.z])
    normal = np.array([goal.normal.x, goal.normal.y, goal.normal.z])
    numbers = {name: float(value) for name, value, _, _ in given}
    return PokeOrder(point, normal, roll=float(goal.roll), **numbers)


def meta_message(motion: PokeMotion, number: int, told: int, stamp: float, probe: str, name: str) -> PokeMeta:
    """What a poke is and how far it is, at a stamp [s]; `name` is the object's."""
    order = motion.order
    message = PokeMeta(
        object=name,
        poke=number,
        probe=probe,
        roll=float(order.roll),
        speed=float(order.speed),
        force_limit=float(order.force_limit),
        phase=told,
    )
    message.point.x, message.point.y, message.point.z = (float(x) for x in order.point)
    message.normal.x, message.normal.y, message.normal.z = (float(x) for x in order.normal)
    set_stamp(message.header.stamp, stamp)
    message.header.frame_id = WORLD
    return message


def sample_message(log: PokeLog, k: int, number: int) -> PokeSample:
    """Row k of a poke's log."""
    message = PokeSample(
        poke=number,
        displacement=float(log.displacement[k]),
        force=float(log.force[k]),
        wrench=wrench_message(log.wrench[k][:3], log.wrench[k][3:]),
    )
    set_stamp(message.header.stamp, log.stamp[k])
    message.header.frame_id = WORLD
    return message


def result_of(outcome: PokeOutcome, why: str, motion: PokeMotion | None, number: int) -> PokeObject.Result:
    """The result of a goal; `motion` is None where nothing moved."""
    result = PokeObject.Result(
        outcome=getattr(PokeObject.Result, outcome.name), message=f"{outcome.value.capitalize()}: {why.rstrip('.')}."
    )
    if motion is None:
        result.drift = float("nan")
        return result
    log = motion.log
    result.poke, result.peak, result.drift = number, float(motion.peak), float(log.drift)
    result.displacement, result.force = log.displacement, log.force
    result.wrench = [wrench_message(row[:3], row[3:]) for row in log.wrench]
    return result
