"""A swimmer in MuJoCo's media, and networks that may learn what a medium does to it."""

from __future__ import annotations

import mujoco
import numpy as np

from sim_core.augmentation import Blueprint, Network
from sim_core.inference.data.trajectories import Trajectories
from sim_core.multibody import load_model

__all__ = ["MEDIA", "ROBOT", "VARIANTS", "in_vacuum", "recorded"]

ROBOT = "swimmer3"
MEDIA = {  # density [kg/m^3], viscosity [Pa s]: the source's Tab. 4.3
    "water at 5 °C": (1000.0, 0.001518),
    "water at 25 °C": (997.0, 0.00089),
    "air at 25 °C": (1.184, 0.00001849),
}
WAVES, FASTEST, SLOWEST = 4, 3.0, 0.5  # random controls are sums of so many sines between these frequencies [Hz]
BEND = 0.5  # hinges start at rest within this angle [rad]

JOINTS = ("x", "y", "heading", "hinge1", "hinge2")
# Units of what networks read and say: speeds and forces that the motors of 0.5 mN m on links of 0.1 m can cause.
SPEED, RATE, TURN, TORQUE, FORCE = 0.1, 5.0, 3.0, 5e-4, 5e-3
# Units of place [m] and of angles [rad] where a network reads all of q: chosen on six other sets of swims (seeds 1 to 6). In
# units of 0.1 m and 1 rad it takes the place for a cause of drag and bends too soon beyond the angles it saw: error after
# step 200 on seen and other swims 0.46 and 1.67; with 10 m 0.25 and 0.75; with 10 m and 2 rad 0.24 and 0.42.
FAR, BENT = 10.0, 2.0


def in_vacuum():
    """RobotModel of the swimmer without a medium."""
    return load_model(ROBOT, fluid=False)


def recorded(medium: str, count: int, steps: int, seed) -> Trajectories:
    """`count` swims from rest under random controls in MuJoCo, each of its own seed: more of them begin with the same."""
    m = in_vacuum().mj_model
    m.opt.density, m.opt.viscosity = MEDIA[medium]
    data, dt = mujoco.MjData(m), m.opt.timestep
    X, U = [], []
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        u = random_controls(rng, 900, dt, m.nu)[:steps]
        mujoco.mj_resetData(m, data)
        data.qpos[3:] = rng.uniform(-BEND, BEND, m.nq - 3)
        x = [np.r_[data.qpos, data.qvel]]
        for control in u:
            data.ctrl = control
            mujoco.mj_step(m, data)
            x.append(np.r_[data.qpos, data.qvel])
        X.append(x)
        U.append(u)
    return Trajectories(dt, np.array(X), np.array(U))


def random_controls(rng, steps, dt, nu):
    """Sums of sines of random amplitude, frequency and phase, (steps, nu), that reach 0.5 to 1 of full control."""
    t = dt * np.arange(steps)[:, None, None]
    frequency = rng.uniform(SLOWEST, FASTEST, (WAVES, nu))
    u = (
        rng.uniform(0, 1, (WAVES, nu)) * np.sin(2 * np.pi * frequency * t + rng.uniform(0, 2 * np.pi, (WAVES, nu)))
    ).sum(1)
    return u / np.abs(u).max(axis=0) * rng.uniform(0.5, 1.0, nu)


def _on_joints():
    """As published: psi(q, qd) on the force of every coordinate, those of the root in the world's axes included."""
    return Blueprint(
        "drag",
        tuple(f"{j}.passive_torque" for j in JOINTS),
        tuple(f"{j}.{kind}" for kind in ("position", "velocity") for j in JOINTS),
        Network((32, 32), "tanh"),
        input_scale=[FAR, FAR, BENT, BENT, BENT, SPEED, SPEED, TURN, RATE, RATE],
        output_scale=[FORCE, FORCE, TORQUE, TORQUE, TORQUE],
    )


def _in_the_head():
    """The same force, read and said in the head's own axes: where the swimmer is and heads for has no influence."""
    return Blueprint(
        "drag",
        (
            "body.head.wrench.fx",
            "body.head.wrench.fy",
            "body.head.wrench.tz",
            "hinge1.passive_torque",
            "hinge2.passive_torque",
        ),
        (
            "body.head.velocity.vx",
            "body.head.velocity.vy",
            "body.head.velocity.wz",
            "hinge1.position",
            "hinge2.position",
            "hinge1.velocity",
            "hinge2.velocity",
        ),
        Network((32, 32), "tanh"),
        input_scale=[SPEED, SPEED, TURN, 1, 1, RATE, RATE],
        output_scale=[FORCE, FORCE, TORQUE, TORQUE, TORQUE],
    )


def _on_each_body():
    """One network for all bodies: the force on a body from that body's velocity, both in its own axes."""
    return Blueprint(
        "drag",
        tuple(f"body.*.wrench.{f}" for f in ("fx", "fy", "tz")),
        tuple(f"body.*.velocity.{f}" for f in ("vx", "vy", "wz")),
        Network((16, 16), "tanh"),
        input_scale=[SPEED, SPEED, TURN],
        output_scale=[FORCE, FORCE, TORQUE],
    )


VARIANTS = {"on each body": _on_each_body, "in the head's axes": _in_the_head, "on the joints": _on_joints}
