"""Planar pushing with a friction field: the hidden world in numpy, and the engine's model of it.

The world is not the engine: rigid-body dynamics in the plane by numpy, a linear spring and damper at the tip, Coulomb
friction of every patch of the base with the field mu(x, y) times a factor per axis, four times as many patches as the
engine has points, another regularisation and a fifth of its step. MCube's recordings of the same square, where they are
at hand, take the world's place (`recorded`). The engine's model has 25 points 2 cm apart, each
pressing with the same force, one constant friction coefficient, and Hunt-Crossley and Brown-McPhee contacts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recording.mcube_pushes import PushError, find_pushes
from sim_core.inference.data.trajectories import Trajectories
from sim_core.multibody import load_model

__all__ = ["Field", "Pushes", "draw_pushes", "measured", "planar_model", "push_in_the_world", "recorded"]

SIDE, MASS, TIP_RADIUS = 0.09, 0.837, 0.00475  # MCube's rect1: a square of 90 mm in steel, a tip of 9.5 mm
G = 9.81
PERIOD = 0.01  # of the recordings [s]
POSE_NOISE = (0.5e-3, 0.5e-3, np.deg2rad(0.2))  # [m, m, rad]
FORCE_NOISE = 0.2  # of the force sensor in the tip, per axis and frame [N]
TIP_MASS = 1e6  # in the engine [kg]: what is taken from the tip's speed is the impulse on it, and next to nothing


@dataclass(frozen=True)
class Field:
    """mu(x, y) = mean + ripple sin(2 pi x / lengths_x) cos(2 pi y / lengths_y), times `along` per axis of the table."""

    mean: float = 0.30
    ripple: float = 0.15
    lengths: tuple[float, float] = (0.24, 0.30)
    along: tuple[float, float] = (1.2, 0.8)

    def __call__(self, x, y):
        return self.mean + self.ripple * np.sin(2 * np.pi * x / self.lengths[0]) * np.cos(
            2 * np.pi * y / self.lengths[1]
        )


@dataclass(frozen=True)
class Pushes:
    """n pushes: pose (n, 3) of the object at rest [m, m, rad], tip (n, 2) [m] and its constant velocity (n, 2) [m/s]."""

    pose: np.ndarray
    tip: np.ndarray
    velocity: np.ndarray


def draw_pushes(count, rng, reach=0.05):
    """Pushes on any side, up to 70 % of half the side off its middle and 25 degrees off its normal, 80 to 120 mm/s."""
    pose = np.column_stack([rng.uniform(-reach, reach, (count, 2)), rng.uniform(-np.pi, np.pi, count)])
    side = pose[:, 2] + rng.integers(0, 4, count) * np.pi / 2
    normal, along = np.column_stack([np.cos(side), np.sin(side)]), np.column_stack([-np.sin(side), np.cos(side)])
    offset = rng.uniform(-0.7, 0.7, (count, 1)) * SIDE / 2
    tip = pose[:, :2] + normal * (SIDE / 2 + TIP_RADIUS + 5e-4) + along * offset
    heading = side + np.pi + rng.uniform(-1, 1, count) * np.deg2rad(25)
    speed = rng.uniform(0.08, 0.12, (count, 1))
    return Pushes(pose, tip, speed * np.column_stack([np.cos(heading), np.sin(heading)]))


def push_in_the_world(pushes, field, seconds, patches=10, tip_friction=0.25, dt=2e-4):
    """Poses (n, T+1, 3) of the object every PERIOD, and impulses (n, T+1, 2) of the tip on it since the start, without noise.

    Semi-implicit Euler of m a = tip force + sum of friction over the patches, vectorised over the pushes.
    """
    n, h = len(pushes.pose), SIDE / 2
    inertia = MASS * SIDE**2 / 6
    centres = (np.arange(patches) + 0.5) / patches * SIDE - h
    local = np.stack(np.meshgrid(centres, centres), -1).reshape(-1, 2)
    load = MASS * G / len(local)
    pose, velocity, tip = pushes.pose.copy(), np.zeros((n, 3)), pushes.tip.copy()
    impulse = np.zeros((n, 2))
    poses, impulses = [pose.copy()], [impulse.copy()]
    every = round(PERIOD / dt)
    for k in range(1, round(seconds / dt) + 1):
        c, s = np.cos(pose[:, 2]), np.sin(pose[:, 2])
        R = np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)
        arm = local @ R.swapaxes(1, 2)
        slip = velocity[:, None, :2] + velocity[:, None, 2:] * np.stack([-arm[..., 1], arm[..., 0]], -1)
        at = arm + pose[:, None, :2]
        speed = np.sqrt((slip**2).sum(-1, keepdims=True) + 1e-6)  # 1 mm/s
        rub = -load * field(at[..., 0], at[..., 1])[..., None] * np.array(field.along) * slip / speed
        force = rub.sum(1)
        torque = (arm[..., 0] * rub[..., 1] - arm[..., 1] * rub[..., 0]).sum(1)
        # tip, as a disc against the square: nearest point, spring and damper, friction
        seen = np.einsum("nji,nj->ni", R, tip - pose[:, :2])
        nearest = np.clip(seen, -h, h)
        away = seen - nearest
        gap = np.linalg.norm(away, axis=1)
        depth = TIP_RADIUS - gap
        if np.any((gap == 0) & (depth > 0)):
            raise ValueError("a tip went inside the object: make the step smaller or the spring stiffer")
        normal = np.einsum("nij,nj->ni", R, -away / np.maximum(gap, 1e-12)[:, None])  # from the tip to the object
        lever = np.einsum("nij,nj->ni", R, nearest)
        moving = velocity[:, :2] + velocity[:, 2:] * np.stack([-lever[:, 1], lever[:, 0]], -1) - pushes.velocity
        rate = (moving * normal).sum(1)
        press = np.where(depth > 0, np.maximum(2e4 * depth - 60.0 * rate, 0), 0.0)
        across = moving - rate[:, None] * normal
        pushing = press[:, None] * (normal - tip_friction * across / np.sqrt((across**2).sum(1, keepdims=True) + 1e-6))
        force += pushing
        torque += lever[:, 0] * pushing[:, 1] - lever[:, 1] * pushing[:, 0]
        velocity[:, :2] += dt * force / MASS
        velocity[:, 2] += dt * torque / inertia
        pose = pose + dt * velocity
        tip = tip + dt * pushes.velocity
        impulse = impulse + dt * pushing
        if k % every == 0:
            poses.append(pose.copy())
            impulses.append(impulse.copy())
    return np.stack(poses, 1), np.stack(impulses, 1)


def measured(pushes, poses, impulses, rng):
    """Trajectories of the engine's state [x, y, yaw, tip x, tip y, and rates]: noisy poses, a known tip, sums of its noisy force.

    The first pose is the mean of ten frames at rest. The tip's rates are those of a body of TIP_MASS under the measured
    force; the object's are not observed and filled with zeros, as at the start.
    """
    n, steps = poses.shape[0], poses.shape[1] - 1
    seen = poses + rng.normal(size=poses.shape) * POSE_NOISE
    seen[:, 0] = poses[:, 0] + rng.normal(size=(n, 3)) * POSE_NOISE / np.sqrt(10)
    t = np.arange(steps + 1)[:, None] * PERIOD
    tip = pushes.tip[:, None] + pushes.velocity[:, None] * t
    noise = np.concatenate([np.zeros((n, 1, 2)), rng.normal(size=(n, steps, 2)).cumsum(1)], 1) * FORCE_NOISE * PERIOD
    rates = np.concatenate([np.zeros((n, steps + 1, 3)), pushes.velocity[:, None] - (impulses + noise) / TIP_MASS], -1)
    return Trajectories(PERIOD, np.concatenate([seen, tip, rates], -1), np.zeros((n, steps, 0)))


def recorded(folder, count, rng, speeds=(0.08, 0.12), seconds=0.4):
    """MCube's pushes of the square at constant speed, as `measured` gives the world's: Trajectories of at most `count` pushes.

    Each is cut to `seconds` from where the tip has reached its speed; places count from the middle of all of them. The object's
    rates are unknown, and zero at the start.

    Args:
        folder: of one surface, such as FOLDER/plywood. count, rng: so many, drawn at random.
        speeds: of the tip, least and largest [m/s].

    Raises:
        PushError: a file is malformed; there are several surfaces, or fewer than sixteen pushes that are long enough.
    """
    files = find_pushes(folder, shape="rect1")
    surfaces = sorted({file.surface for file in files})
    if len(surfaces) > 1:
        raise PushError(
            f"{folder}: expected the pushes of one surface, found {', '.join(surfaces)}; name the folder of one of them."
        )
    files = [file for file in files if file.acceleration == 0 and speeds[0] <= file.speed <= speeds[1]]
    steps, x = round(seconds / PERIOD), []
    for k in rng.permutation(len(files)):
        push = files[k].read(PERIOD)
        pace = np.linalg.norm(np.diff(push.tip, axis=0), axis=1) / PERIOD
        moving = np.flatnonzero(pace > 0.9 * files[k].speed)
        if len(x) == count or not len(moving) or moving[-1] + 1 < moving[0] + steps:
            continue
        cut = slice(moving[0], moving[0] + steps + 1)
        tip, impulse = push.tip[cut], push.force[cut].cumsum(0) * PERIOD
        velocity = (tip[-1] - tip[0]) / seconds
        rates = np.concatenate([np.zeros((steps + 1, 3)), velocity - (impulse - impulse[0]) / TIP_MASS], 1)
        x.append(np.concatenate([push.object[cut], tip, rates], 1))
    if len(x) < 16:
        raise PushError(
            f"{folder}: expected sixteen pushes of rect1 or more, a=0, v={1e3 * speeds[0]:.0f} to {1e3 * speeds[1]:.0f}, of "
            f"{seconds} s at least, found {len(x)}; download more of that surface."
        )
    x = np.array(x)
    middle = x[..., :2].reshape(-1, 2).mean(0)
    x[..., :2] -= middle
    x[..., 3:5] -= middle
    return Trajectories(PERIOD, x, np.zeros((len(x), steps, 0)))


def planar_model(spacing=0.02, dt=1e-3):
    """The engine's: planar object on a grid of points, a tip that nothing slows down, contact at force level."""
    grid = np.arange(5) * spacing - 2 * spacing
    depth = (MASS * G / 25 / 5e4) ** (2 / 3)
    points = "".join(
        f'<geom name="foot{i}{j}" type="sphere" size="0.001" pos="{x:.4f} {y:.4f} {0.001 - depth:.8f}" mass="0"/>'
        for i, x in enumerate(grid)
        for j, y in enumerate(grid)
    )
    height = 0.0125
    return load_model(
        f"""<mujoco model="planar_pushing">
      <option timestep="{dt}" integrator="Euler"><flag eulerdamp="disable"/></option>
      <default><geom friction="0.3"/></default>
      <worldbody>
        <geom name="ground" type="plane" size="1 1 1"/>
        <body name="object">
          <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/><joint name="yaw" type="hinge" axis="0 0 1"/>
          <inertial pos="0 0 {height}" mass="{MASS}" diaginertia="{MASS * SIDE**2 / 12} {MASS * SIDE**2 / 12} {MASS * SIDE**2 / 6}"/>
          <geom name="box" type="box" size="{SIDE / 2} {SIDE / 2} {height}" pos="0 0 {height}"/>{points}
        </body>
        <body name="tip" pos="0 0 {height}">
          <joint name="tip_x" type="slide" axis="1 0 0"/><joint name="tip_y" type="slide" axis="0 1 0"/>
          <geom name="tip" type="sphere" size="{TIP_RADIUS}" mass="{TIP_MASS}"/>
        </body>
      </worldbody></mujoco>""",
        contact="force",
        contact_pairs=(("ground", "foot*"), ("tip", "box")),
    )
