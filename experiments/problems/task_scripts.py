"""How a practised operator does each rehearsed task, as scripts of `scripted_operator`.

SCRIPTS["canisters"](operator)                   # a generator
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.problems.scripted_operator import AHEAD, Script, ScriptedOperator, Waiting
from sim_core.telepresence.clutch import Pose

__all__ = ["SCRIPTS"]

#: from the robot's middle to what it works on, where the arm is at ease [m]
WITHIN_REACH = 0.68
#: from where a hand comes to what it grasps (3,), and how high it lifts it [m]. Near the body an arm is folded, and its guard holds it:
#: what may be grasped from above is
FROM_BEFORE, FROM_ABOVE, LIFT = (-0.13, 0.0, 0.0), (0.0, 0.0, 0.15), 0.09
#: from a rock's middle to where a level hand is while its camera, which sits 6 cm below and 12 cm behind, looks at the rock's face (3,) [m]
FACING = (-0.16, 0.0, 0.06)


def press_lever(me: ScriptedOperator) -> Waiting:
    """Drive up to the lever, close the gripper, come from above and press down."""

    def knob() -> np.ndarray:
        return me.see("switch/knob").position

    yield from me.drive(lambda: (knob()[0] - WITHIN_REACH, 0.0, 0.0))
    yield from me.close(1.0)
    start = knob()
    yield from me.reach(lambda: Pose(start + (-0.06, 0.0, 0.10), AHEAD), near=0.03)
    yield from me.reach(lambda: Pose(start + (0.005, 0.0, 0.07), AHEAD))
    yield from me.reach(lambda: Pose(start + (0.005, 0.0, -0.14), AHEAD), patience=8.0)
    yield from me.reach(lambda: Pose(start + (-0.10, 0.0, -0.10), AHEAD), near=0.03, patience=4.0)


def _grasp(me: ScriptedOperator, place: Callable[[], np.ndarray], way: tuple[float, float, float]) -> Waiting:
    """Come from where `way` leads to, seen from the place, with an open gripper, and close it."""
    yield from me.close(0.0, 0.5)
    yield from me.reach(lambda: Pose(place() + way, AHEAD), near=0.02)
    at = place()
    yield from me.reach(lambda: Pose(at, AHEAD), near=0.008)
    yield from me.close(1.0)


def _let_go(me: ScriptedOperator) -> Waiting:
    """Open the gripper, and lift it off."""
    yield from me.close(0.0, 1.0)
    at = me.effector.position
    yield from me.reach(lambda: Pose(at + FROM_ABOVE, AHEAD), near=0.03)


def find_heavier(me: ScriptedOperator) -> Waiting:
    """Lift either canister, feel what it weighs, and put the heavier one onto the mark."""
    names, weights = ("canister_right", "canister_left"), {}

    def lift(name: str) -> Waiting:
        yield from _grasp(me, lambda: me.see(name).position + (0.0, 0.0, 0.015), FROM_ABOVE)
        at = me.effector.position
        yield from me.reach(lambda: Pose(at + (0.0, 0.0, LIFT), AHEAD), near=0.02)

    def put_at(name: str, place: np.ndarray) -> Waiting:
        # The canister hangs in the gripper as it was taken: the hand is led by where the canister is.
        def led(over: float) -> Callable[[], Pose]:
            return lambda: Pose(me.effector.position + place + (0.0, 0.0, over) - me.see(name).position, AHEAD)

        yield from me.reach(led(LIFT), near=0.012)
        yield from me.reach(led(-0.002), near=0.006, patience=8.0)
        yield from _let_go(me)

    for name in names:
        stood = me.see(name).position.copy()
        yield from lift(name)
        felt = []
        end = me.now + 1.0
        while me.now < end:
            felt.append(me.seen.force[0])
            yield
        weights[name] = float(np.median(felt))
        if name == names[1] and weights[name] > weights[names[0]]:
            break
        yield from put_at(name, stood)
    heavier = max(weights, key=lambda name: weights[name])
    if heavier != names[1]:
        yield from lift(heavier)
    mark = me.see("mark").position
    yield from put_at(heavier, np.array([mark[0], mark[1], stood[2]]))  # as high as it stood


def drive_through(me: ScriptedOperator) -> Waiting:
    """Line up before the passage, then drive straight on, keeping to its middle."""

    def middle() -> np.ndarray:
        return 0.5 * (me.see("rock_right").position + me.see("rock_left").position)

    def askew() -> float:
        between = me.see("rock_left").position - me.see("rock_right").position
        return float(np.arctan2(-between[0], between[1]))

    yield from me.drive(lambda: (0.0, middle()[1], askew()), near=0.015)
    yield from me.drive(lambda: (max(middle()[0] + 1.2, 0.0), middle()[1], askew()), near=0.05)


def set_drill(me: ScriptedOperator) -> Waiting:
    """Take the drill by its handle, lift it, and set its bit on the bolt."""
    yield from _grasp(me, lambda: me.see("drill/handle").position, FROM_BEFORE)
    at = me.effector.position
    yield from me.reach(lambda: Pose(at + (0.0, 0.0, 0.12), AHEAD), near=0.03)

    def led(back: float) -> Callable[[], Pose]:
        def goal() -> Pose:
            tool, bolt = me.see("drill"), me.see("bolt")
            missing = bolt.position - (back, 0.0, 0.0) - me.see("drill/bit").position
            return Pose(me.effector.position + missing, tool.rotation.T @ me.effector.rotation)

        return goal

    yield from me.reach(led(0.06), near=0.01, turned=0.08)
    yield from me.reach(led(0.0), near=0.004, turned=0.08, patience=10.0)
    yield from me.wait(2.0)


def find_rough(me: ScriptedOperator) -> Waiting:
    """Look at each rock's texture, take the roughest, and put it into the box."""
    roughness: dict[str, float] = {}
    for name in ("stone_right", "stone_middle", "stone_left"):
        yield from me.reach(lambda name=name: Pose(me.see(name).position + FACING, AHEAD), near=0.008, turned=0.08)
        roughness[name] = yield from me.ask("texture_scan")
    chosen = max(roughness, key=lambda name: roughness[name] if np.isfinite(roughness[name]) else 0.0)
    yield from _grasp(me, lambda: me.see(chosen).position + (0.0, 0.0, 0.02), FROM_ABOVE)
    at = me.effector.position
    yield from me.reach(lambda: Pose(at + (0.0, 0.0, 0.14), AHEAD), near=0.02)
    box = me.see("bin").position
    yield from me.reach(lambda: Pose(box + (0.0, 0.0, 0.21), AHEAD), near=0.02)
    yield from me.reach(lambda: Pose(box + (0.0, 0.0, 0.085), AHEAD), near=0.012, patience=8.0)
    yield from _let_go(me)


SCRIPTS: dict[str, Script] = {
    "switch": press_lever,
    "canisters": find_heavier,
    "passage": drive_through,
    "drill": set_drill,
    "rocks": find_rough,
}
