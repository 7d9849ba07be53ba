"""An arm that was displaced while nobody controlled it, and the controller that is told to go on: the nodes' loop without ROS."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import mujoco
import numpy as np

from config.description import PayloadDemo, Track
from config.robot import load_robot, node_settings
from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.robot_task import control_task
from nodes.framework.actuation import Actuation
from sim_core.command import Command, Mode
from sim_core.control.ampc import AdaptiveMpc, AmpcConfig
from sim_core.control.path_follower import PathFollower, PathSettings
from sim_core.control.plan import PlanSolver
from sim_core.control.solver import solver_for
from sim_core.control.tasks import Task
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant

__all__ = ["Displaced", "Return", "displaced", "go_back", "passes_through"]

#: [s] of following before the arm is displaced, at most; of following that is watched once it is back
BEFORE, AFTER = 4.0, 2.0
#: [s] after which an arm that is not back has failed
PATIENCE = 30.0
#: share of a joint's range, and of its velocity limit, in which displaced states are drawn
RANGE, SPEED = 0.9, 0.2
#: [m] by which a drawn posture keeps clear of the floor and of itself
CLEARANCE = 0.02


@dataclass(frozen=True)
class Displaced:
    """Where an arm is when control returns: q [rad], v [rad/s] (n,), how far along the path [s]; and an unknown load [kg]."""

    robot: str
    q: np.ndarray
    v: np.ndarray
    time: float
    mass: float


@dataclass(frozen=True)
class Return:
    """What became of it.

    Attributes:
        fastest: largest speed of any joint over its velocity limit, from the first command on until the end [1].
        distance: of the hand from the path when control returned [m].
        arrived: how long it took until the path went on [s]; NaN: never.
        error: largest distance from the path in the last second [m].
        through: whether the way led through the floor or the arm itself.
    """

    fastest: float
    distance: float
    arrived: float
    error: float
    through: bool


@functools.cache
def _task(robot: str) -> tuple[Task, PlanSolver]:
    """The node's task, and its solver, which all runs of this process share one after the other."""
    settings = node_settings(robot, "adaptive_mpc")
    config = AdaptiveMpcConfig(**{"robot": robot, **settings})
    task = control_task(load_robot(robot), load_model(robot), config, config.horizon)
    return task, solver_for(task.model, task.cost, task.ilqr)


class _Clearance:
    """Distances between bodies of an arm that are apart at home, and to what does not move."""

    def __init__(self, robot: str) -> None:
        described = load_model(robot)
        self.model = model = described.mj_model
        self.data = mujoco.MjData(model)
        root = model.body_weldid[model.geom_bodyid]  # bodies without a joint between them are one
        pairs = [(i, j) for i in range(model.ngeom) for j in range(i + 1, model.ngeom) if root[i] != root[j]]
        self.data.qpos[:] = described.q_home
        mujoco.mj_kinematics(model, self.data)
        self._pairs = [pair for pair in pairs if self._distance(*pair) >= CLEARANCE]

    def _distance(self, i: int, j: int) -> float:
        return mujoco.mj_geomDistance(self.model, self.data, i, j, 2.0 * CLEARANCE, None)

    def __call__(self, q: np.ndarray, enough: float) -> bool:
        self.data.qpos[:] = q
        mujoco.mj_kinematics(self.model, self.data)
        return all(self._distance(*pair) >= enough for pair in self._pairs)


_clearance = functools.cache(_Clearance)


def passes_through(robot: str, q: np.ndarray) -> bool:
    """Whether the arm at q (n,) is in the floor or in itself."""
    return not _clearance(robot)(q, 0.0)


def displaced(robot: str, count: int, seed: int) -> list[Displaced]:
    """Random postures clear of floor and arm; every second one at rest, every second pair with the demonstration's load."""
    rng, model = np.random.default_rng(seed), load_model(robot)
    load = load_robot(robot).demo_as(PayloadDemo).mass
    middle, half = (model.q_upper + model.q_lower) / 2, RANGE * (model.q_upper - model.q_lower) / 2
    found: list[Displaced] = []
    while len(found) < count:
        q = rng.uniform(middle - half, middle + half)
        if not _clearance(robot)(q, CLEARANCE):
            continue
        v = SPEED * model.v_limit * rng.uniform(-1.0, 1.0, model.nv) * (len(found) % 2)
        found.append(Displaced(robot, q, v, rng.uniform(0.0, BEFORE), load * (len(found) // 2 % 2)))
    return found


def go_back(start: Displaced, settings: PathSettings = PathSettings()) -> Return:
    """Follow the path for a while, be displaced, go on, and be watched."""
    task, solver = _task(start.robot)
    node = node_settings(start.robot, "sim_plant")
    body = load_robot(start.robot).task_as(Track).payload_body
    load = [{"time": 0.0, "action": "attach", "frame": body, "mass": start.mass}] if start.mass else []
    plant = MujocoPlant(
        start.robot,
        scenario=load,
        tick=node["tick"],
        stop_state="hold",
        position_noise=node["position_noise"],
        velocity_noise=node["velocity_noise"],
    )
    period, model = task.ilqr.dt, task.model
    ticks = round(period / plant.tick_period)
    mpc, actuation = AdaptiveMpc(task, AmpcConfig(), solver=solver), Actuation(model)
    follower, n = PathFollower(settings, 0.0, 0.1), model.nq
    displaced_at, back, fastest, distance = None, np.nan, 0.0, np.nan
    errors, through = [], False
    while True:
        t = plant.t
        if displaced_at is None and t >= start.time:
            displaced_at = t
            plant.set_state(start.q, start.v)
            mpc.reset()
            follower.resume(t)
            distance = task.error(np.r_[start.q, start.v], start.time)
        x = np.concatenate([plant.q, plant.v])
        step = follower.advance(task, x, t)
        c = mpc.command(x, step.clock, step.aim)
        plant.command(
            Command(
                Mode.FEEDBACK, t, plant.joints, actuation.effort(c.u), c.x_ref[:n], c.x_ref[n:], actuation.gain(c.K)
            )
        )
        if displaced_at is not None:
            through = through or passes_through(start.robot, plant.true_q)
            errors.append(task.error(np.concatenate([plant.true_q, plant.true_v]), step.time))
            if not step.led and np.isnan(back):
                back = t - displaced_at
            if t - displaced_at > (PATIENCE if np.isnan(back) else back + AFTER):
                break
        for _ in range(ticks):
            plant.tick()
            if displaced_at is not None:
                fastest = max(fastest, float(np.max(np.abs(plant.true_v) / model.v_limit)))
    return Return(fastest, distance, back, max(errors[-round(1.0 / period) :]), through)
