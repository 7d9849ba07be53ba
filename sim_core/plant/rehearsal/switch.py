"""A lever on a post, to be pressed down: the robot has to drive up to it first."""

from __future__ import annotations

import numpy as np

from sim_core.plant.rehearsal.shapes import body, box, cylinder, document
from sim_core.plant.rehearsal.task import Step, Task
from sim_core.plant.scene import Entity

__all__ = ["switch"]

#: [m] of the lever, and [rad] up and down of level where it begins and where it has switched
LENGTH, UP, SWITCHED = 0.09, 0.6, -0.45
#: [N m] with which it resists
FRICTION = 0.3


def switch(seed: int) -> Task:
    """The lever is 1 m and more ahead, a little to the right, at the height of the chest."""
    rng = np.random.default_rng([seed, 4])
    place = np.array([rng.uniform(1.02, 1.16), rng.uniform(-0.40, -0.15), rng.uniform(0.98, 1.10)])
    # The hinge's position is measured from where the lever begins; positive turns its free end, towards the robot, down.
    joint = f'<joint name="lever" type="hinge" axis="0 -1 0" range="0 {UP + 0.6:g}" frictionloss="{FRICTION}" solimpfriction="0.99 0.9999 0.001" damping="0.05" armature="0.005"/>'
    end = (-LENGTH * np.cos(UP), 0.0, LENGTH * np.sin(UP))
    bar = f'<geom type="capsule" size="0.012" fromto="0 0 0 {end[0]:.5f} 0 {end[2]:.5f}" mass="0.05" rgba="0.85 0.15 0.1 1"/>'
    knob = body("knob", end, '<geom type="sphere" size="0.02" mass="0.02" rgba="0.85 0.15 0.1 1"/>')
    lever = body("lever", (-0.03, 0.0, 0.0), joint, bar, knob)
    post = cylinder(0.03, 0.5 * place[2] - 0.1, (0.05, 0, -0.5 * place[2] - 0.05), "0.3 0.3 0.32 1")
    content = document(box((0.03, 0.09, 0.12), (0.02, 0, 0), "0.9 0.75 0.2 1"), post, lever)
    return Task(
        "switch",
        "a lever is pressed down",
        (Entity("switch", content, "world", tuple(place.tolist()), spawned=False),),
        ("switch/knob",),
        (Step("Press the lever down.", lambda view: view.joint("switch/lever") >= UP - SWITCHED, 0.1),),
    )
