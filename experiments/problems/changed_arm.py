"""An arm that changes while it follows its path, with and without refit: the nodes' loop without ROS.

The plant steps, the controller answers every control period, and the refit is the worker's own session. A fit takes time on
a robot: its result is used only FIT_DELAY later, and the samples that arrive meanwhile wait in line, as in the node.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from config.description import PayloadDemo, Track
from config.robot import load_robot, node_settings
from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.refit_session import RefitSession, session_model
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.control.robot_task import control_task, quantities, robot_model
from nodes.framework.actuation import Actuation
from nodes.framework.joint_state_gate import JointSample
from sim_core.command import Command, Mode
from sim_core.control.ampc import AdaptiveMpc, AmpcConfig
from sim_core.control.plan import PlanSolver
from sim_core.control.solver import solver_for
from sim_core.control.tasks import Task
from sim_core.multibody import PhysicalCheck, load_model
from sim_core.multibody.equations.inertia import com_inertia
from sim_core.plant import MujocoPlant
from sim_core.plant.robot_changes import free_for, scenario_of, truth_after

__all__ = ["CHANGE", "SETTLED", "Drive", "Driven", "Round", "changes", "drive", "freed", "relearnt"]

#: [s] when the robot changes; how long after it tracking is first judged
CHANGE, SETTLED = 1.5, 1.0
#: [s] that a fit takes: for itself, and for each of its roll-outs of a second, more than measured on a busy machine (docs/refit.md)
FIT_DELAY = (0.05, 0.01)
#: [s] of a roll-out of a second for each coordinate, where a fit estimates what it held as well
PER_COORDINATE = 0.0007
#: share of a payload within which its mass is learnt
LEARNT = 0.05
#: friction of a gear that the model knows nothing of, as a share of its motor's limit
FRICTION = 0.03


@dataclass(frozen=True)
class Drive:
    """One run: a robot, the name of its change, and whether anybody learns it.

    told: the refit is told the kind of the change, and frees what that takes; else what the hand holds, and what else the data ask for.
    asks: else the hand alone, whatever the data ask for.
    """

    robot: str
    change: str
    refit: bool
    seed: int
    duration: float
    told: bool = False
    asks: bool = True


@dataclass(frozen=True)
class Round:
    """A round of the refit over data from after the change alone.

    Attributes:
        time: when it began [s]. accepted, reason: the verdict. explained: whether the model claims to explain the data.
        inside: estimates of the hand's mass and centre, and of what else changed and may be learnt, by name: whether the 95 %
            interval holds the truth.
        error: of the hand's mass, after the change [kg]. fit_time: what it took on this machine; delay: what it was taken to take [s].
    """

    time: float
    accepted: bool
    reason: str
    explained: bool
    inside: Mapping[str, bool] = field(default_factory=dict)
    error: float = np.nan
    fit_time: float = np.nan
    delay: float = np.nan


@dataclass(frozen=True)
class Driven:
    """What became of it.

    Attributes:
        rmse: of the hand's distance from its path, from SETTLED after the change on [m].
        relearnt: time from the change until a mass of the hand was in use for good that is within LEARNT of the payload [s]; inf where
            it never was, NaN without a payload or without refit.
    """

    rmse: float
    rounds: tuple[Round, ...]
    relearnt: float = np.nan


def changes(robot: str) -> dict[str, list[dict[str, Any]]]:
    """Events of every change that is tried on an arm, by name; all happen at CHANGE, and the model knows of none."""
    model, description = load_model(robot), load_robot(robot)
    demo = description.demo_as(PayloadDemo)
    hand, mass, (x, y, z) = description.task_as(Track).payload_body, demo.mass, demo.com
    joints, links = list(model.joint_names), list(model.body_names)
    middle = joints[len(joints) // 2]
    strongest = (
        dict(zip(joints, model.u_upper)) if len(model.actuator_names) == len(joints) else dict.fromkeys(joints, 1.0)
    )
    payload = f"payload:{mass}"
    rough = [f"friction:{joint}={_friction(model, joint) + FRICTION * strongest[joint]}" for joint in joints]
    upper = next(body for body in links if f"{body}.mass" in model.parameters and body != hand)
    link = links[links.index(upper) + 2]
    found = {
        "payload": [payload],
        "light payload": [f"payload:{0.25 * mass}"],
        "payload far to the side": [f"payload:{0.6 * mass}@{4.0 * x},{3.0 * y},{z}"],
        "joint friction": rough,
        "joint damping x 3": _times(model, "damping", 3),
        "one motor at 80 %": [f"gain:{middle}=0.8"],
        "all motors at 90 %": ["gain:*=0.9"],
        f"link mass x 1.3 ({link})": [f"mass:{link}=1.3"],
        "rotor inertia x 2": _times(model, "armature", 2),
        "base tilted by 3 degrees": ["tilt:3@y"],
        "payload and friction": [payload, *rough],
        "payload and 4 ms delay": [payload],
    }
    events = {name: scenario_of(texts, model, hand, demo.com) for name, texts in found.items()}
    events["payload and 4 ms delay"].append({"action": "delay", "command": 0.004})
    return {name: [{"time": CHANGE, **event} for event in each] for name, each in events.items()}


def _times(model, quantity: str, factor: float) -> list[str]:
    """A multiple of what the joints have, for those that have any."""
    layout = model.parameters
    values = {joint: float(layout.nominal[layout.index(f"{joint}.{quantity}")]) for joint in model.joint_names}
    return [f"{quantity}:{joint}=x{factor}" for joint, value in values.items() if value > 0.0]


def freed(robot: str, change: str) -> str:
    """What the refit frees that is told the kind of a change, besides what the hand holds; "": nothing."""
    hand = load_robot(robot).task_as(Track).payload_body
    return ",".join(free_for(changes(robot)[change], load_model(robot), hand))


def _friction(model, joint: str) -> float:
    layout = model.parameters
    name = f"{joint}.frictionloss"
    return float(layout.nominal[layout.index(name)]) if name in layout else 0.0


@functools.cache
def _task(robot: str, free: str) -> tuple[Task, PlanSolver]:
    """The node's task, and its solver, which all runs of this process share one after the other."""
    config = AdaptiveMpcConfig(**{"robot": robot, "free": free, **node_settings(robot, "adaptive_mpc")})
    task = control_task(load_robot(robot), robot_model(robot, free), config, config.horizon)
    return task, solver_for(task.model, task.cost, task.ilqr)


def _session(robot: str, free: str, asks: bool) -> RefitSession:
    own = {"robot": robot, "free": free, "estimate_held": asks}
    config = RefitWorkerConfig(**{**own, **node_settings(robot, "refit_worker")})
    return RefitSession(session_model(config), config)


def hand_truth(robot: str, events: list[dict[str, Any]]) -> dict[str, float]:
    """Mass [kg] and centre [m] of the hand with what it holds after the events, by the names of the refit's estimates."""
    model, body = load_model(robot), load_robot(robot).task_as(Track).payload_body
    m, c, _ = (
        np.asarray(x, float) for x in com_inertia(model.parameters.nominal[model.parameters.inertia_slice(body)])
    )
    mass, moment = float(m), float(m) * c.ravel()
    for event in events:
        if event["action"] == "attach":
            mass, moment = mass + event["mass"], moment + event["mass"] * np.array(event["com"])
    return {f"{body}.mass": mass, **{f"{body}.com.{axis}": x for axis, x in zip("xyz", moment / mass)}}


def drive(run: Drive) -> Driven:
    """Follow the path through the change."""
    events, settings = changes(run.robot)[run.change], node_settings(run.robot, "sim_plant")
    free = freed(run.robot, run.change) if run.told else ""
    task, solver = _task(run.robot, free)
    plant = MujocoPlant(
        run.robot,
        seed=run.seed,
        scenario=events,
        tick=settings["tick"],
        stop_state="hold",
        position_noise=settings["position_noise"],
        velocity_noise=settings["velocity_noise"],
    )
    model, mpc = task.model, AdaptiveMpc(task, AmpcConfig(), solver=solver)
    actuation, n, check = Actuation(model), model.nq, PhysicalCheck(model)
    truth = {**hand_truth(run.robot, events), **truth_after(events, load_model(run.robot))}
    learner = _Learner(_session(run.robot, free, run.asks), truth) if run.refit else None
    ticks, errors = round(task.ilqr.dt / plant.tick_period), []
    while plant.t < run.duration - 1e-9:
        t = plant.t
        if learner is not None:
            for p, revision in learner.proposals(t):
                if not check.objection(p, plant.q):
                    mpc.set_parameters(p, revision)
        c = mpc.command(np.concatenate([plant.q, plant.v]), t)
        plant.command(
            Command(
                Mode.FEEDBACK, t, plant.joints, actuation.effort(c.u), c.x_ref[:n], c.x_ref[n:], actuation.gain(c.K)
            )
        )
        for _ in range(ticks):
            plant.tick()
            if learner is not None:
                learner.see(JointSample(plant.t, plant.q.copy(), plant.v.copy(), plant.effort.copy()))
        if plant.t >= CHANGE + SETTLED:
            errors.append(task.error(np.concatenate([plant.true_q, plant.true_v]), plant.t))
    rmse, payload = float(np.sqrt(np.mean(np.square(errors)))), [e["mass"] for e in events if e["action"] == "attach"]
    if learner is None:
        return Driven(rmse, ())
    return Driven(rmse, tuple(learner.rounds), relearnt(learner.rounds, LEARNT * payload[0]) if payload else np.nan)


def relearnt(rounds: Sequence[Round], tolerance: float) -> float:
    """Time from the change until a mass within `tolerance` [kg] of the truth was in use for good [s]; inf if it never was."""
    good = np.inf
    for r in rounds:
        if r.accepted and r.time >= CHANGE:
            known = abs(r.error) <= tolerance
            good = min(good, r.time + r.delay - CHANGE) if known else np.inf
    return good


class _Learner:
    """The refit worker with the time its fits take: one at a time, samples wait in line, results come late."""

    def __init__(self, session: RefitSession, truth: dict[str, float]) -> None:
        self.session, self.truth = session, truth
        self.rounds: list[Round] = []
        self._queue: list[JointSample] = []
        self._ready = -np.inf  # when the fit under way ends [s]
        self._said: list[tuple[float, np.ndarray, int]] = []  # accepted (from when on it is known [s], p, revision)

    def see(self, sample: JointSample) -> None:
        self._queue.append(sample)
        if sample.stamp < self._ready:
            return
        while self._queue:
            self.session.see(self._queue.pop(0))
            if self.session.due:
                self._round(sample.stamp)
                return

    def proposals(self, t: float):
        """What has become ready by t [s], in order: (p, revision)."""
        while self._said and t >= self._said[0][0]:
            yield self._said.pop(0)[1:]

    def _round(self, now: float) -> None:
        session = self.session
        outcome = session.round()
        result = outcome.result
        if result is None:
            return
        considered = session.online.refit.considered
        each = PER_COORDINATE * considered.spec.n if considered is not None else 0.0
        span = float(np.nan_to_num(result.window[1] - result.window[0]))  # without data nothing is rolled out
        delay = FIT_DELAY[0] + span * (FIT_DELAY[1] * (result.iterations - result.of_all) + each * result.of_all)
        self._ready = now + delay
        if outcome.accepted:
            self._said.append((self._ready, outcome.p, outcome.revision))
        said = {e.name: e for e in quantities(session.robot, result.spec, result.xi, result.covariance)}
        mass = next(iter(self.truth))
        error, inside = said[mass].value - self.truth[mass], {}
        if result.window[0] >= CHANGE - 1e-6:
            # The payload's own numbers are those of the hand with it, once more.
            known = [name for name in self.truth if name in said and ".payload." not in name]
            inside = {name: said[name].lower <= self.truth[name] <= said[name].upper for name in known}
        self.rounds.append(
            Round(now, outcome.accepted, outcome.reason, result.explained, inside, error, result.fit_time, delay)
        )
