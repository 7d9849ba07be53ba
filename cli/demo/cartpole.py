"""The published experiment through the ROS graph: swing-up from a model with every parameter at 2.

Three controllers beside each other on the same robot and the same starts: one that refits, one that
knows the truth, one that never learns. With a hidden change the comparison starts at that moment:
a controller that knows the new truth, and one that keeps what was learnt before.

Source: Heiden et al., Interactive Differentiable Simulation (2019), adaptive MPC.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import scripting
from cli.demo.live import NO_VIEW, LiveView
from cli.demo.recordings import Recording, Timing, load
from config.description import HiddenChange, Robot, SwingUp, SwingUpDemo
from config.robot import load_robot, node_settings
from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.robot_task import control_task, free_parameters, upright
from nodes.framework.actuation import Actuation
from reporting import Result
from reporting.progress import SilentProgress
from sim_core.control.ampc import AdaptiveMpc, AmpcConfig
from sim_core.control.episodes import AdaptiveRun
from sim_core.control.refit import Refit, RefitConfig
from sim_core.control.tasks import swing_up_reward
from sim_core.multibody import RobotModel, load_model
from sim_core.multibody.model.cartpole_parameters import base_parameters
from sim_core.multibody.model.parameter_file import ParameterFile
from sim_core.plant import MujocoPlant

__all__ = ["BasePoint", "CartpoleStory", "EpisodeTrace", "check", "record", "tell"]

STEPS, PERIOD = 140, 0.02
BEFORE = 3  # episodes before the hidden change
FROZEN_EPISODES = 2
SPEC = "Heiden 2019 as specified, item"


# -- recording -------------------------------------------------------------------------------------


def record(
    robot: str,
    folder: Path,
    seed: int,
    episodes: int,
    change: tuple[str, float] | None,
    recipe: str,
    progress=SilentProgress(),
    view: LiveView = NO_VIEW,
) -> None:
    """Run the graphs, one after the other; leaves a bag in `folder`/adaptive, /oracle and /frozen."""
    common = dict(seed=seed, lockstep=True, real_time_factor=0, **view.arguments())
    when = BEFORE * STEPS * PERIOD
    description = load_robot(robot)
    changed = "" if change is None else f"[{_event(description, change, when)}]"
    rounds = episodes if change is None else episodes - BEFORE
    with progress.stage(f"{description.name}, adaptive", episodes) as stage:
        _episodes(
            robot, folder / "adaptive", episodes, True, stage, prior="start", scenario=changed, recipe=recipe, **common
        )
    model = load_model(robot)
    if change is None:
        truth, stuck = "", "start"
    else:
        # From the change on: who knows the new truth, and who keeps what was learnt before.
        folder_of = {name: folder / name / "prior.yaml" for name in ("oracle", "frozen")}
        _save(model, changed_truth(description, model, change), folder_of["oracle"])
        spec = free_parameters(description, model)
        before = [m for m in load(folder / "adaptive").accepted if m.window_end <= when + 1e-6]
        _save(
            model,
            np.array(before[-1].vector) if before else spec.to_physical(spec.prior_mean),
            folder_of["frozen"],
        )
        truth, stuck = (str(folder_of[name]) for name in ("oracle", "frozen"))
        changed = f"[{_event(description, change, 0.0)}]"
    for name, prior, count in (("oracle", truth, rounds), ("frozen", stuck, rounds if change else FROZEN_EPISODES)):
        with progress.stage(f"{description.name}, {name}", count) as stage:
            _episodes(robot, folder / name, count, False, stage, prior=prior, scenario=changed, refit=False, **common)


def _episodes(robot, folder: Path, count: int, refit_at_end: bool, stage, **arguments) -> None:
    # Time need not stand still between episodes: in lock-step it does anyway.
    with scripting.Robot.start(robot, record=folder, paused=False, **arguments) as cartpole:
        for _ in range(count):
            cartpole.run_episode(refit_at_end=refit_at_end).check()
            stage.advance()


def _hidden(robot: Robot) -> HiddenChange:
    """What of it may change; the command lets no change through to a robot that has none."""
    hidden = robot.demo_as(SwingUpDemo).change
    assert hidden is not None, f"{robot.file}: demo.change is missing"
    return hidden


def _event(robot: Robot, change: tuple[str, float], time: float) -> str:
    kind, factor = change
    what = (
        f"action: scale, target: {_hidden(robot).pole}.mass, factor: {factor}"
        if kind == "pole_mass"
        else f"action: actuator_gain, factor: {factor}"
    )
    return f"{{time: {time:g}, {what}}}"


def changed_truth(robot: Robot, model: RobotModel, change: tuple[str, float]) -> np.ndarray:
    """Physical vector (np_,) of the changed robot; mass scales inertia with it, a gain acts like a gear."""
    (kind, factor), hidden = change, _hidden(robot)
    p = np.array(model.parameters.nominal, float)
    for i, name in enumerate(model.parameters.names):
        if (kind == "pole_mass" and name.startswith(f"{hidden.pole}.") and ".pos." not in name) or (
            kind == "gain" and name == f"{hidden.motor}.gear"
        ):
            p[i] *= factor
    return p


def _save(model: RobotModel, p: np.ndarray, path: Path) -> None:
    ParameterFile.from_vector(model, p, np.zeros((model.np_, model.np_))).save(path)


# -- what the bags tell ------------------------------------------------------------------------------


@dataclass(frozen=True)
class EpisodeTrace:
    """One episode: boundary states X (T+1, nx), joint efforts commanded U (T, n), rewards (T,)."""

    t: np.ndarray
    X: np.ndarray
    U: np.ndarray
    rewards: np.ndarray

    @property
    def score(self) -> float:
        """Mean reward of the states reached."""
        return float(np.mean(self.rewards))


@dataclass(frozen=True)
class BasePoint:
    """Base parameters after one accepted refit: at `step` of all steps so far, values and standard deviations."""

    step: int
    values: dict[str, float]
    stds: dict[str, float]


@dataclass(frozen=True)
class CartpoleStory:
    """Everything measured.

    Attributes:
        adaptive, oracle, frozen: episodes of each controller. change: (kind, factor), or None.
        robot: name in config/robots, or the path of its folder.
        base: base parameters over time, starting from the published wrong start.
        truth: base parameters of the plant, (before, after) the change; equal without one.
        reproduced: recomputed rounds equal to the published, and number of rounds.
        offline: scores of the same episodes by the library alone; empty with a change or the literal recipe.
        prediction: open-loop error [-] of the last oracle episode by episodes learnt from (0, 1, 3).
    """

    robot: str
    model: RobotModel
    recipe: str
    recording: Recording
    timing: Timing
    adaptive: list[EpisodeTrace]
    oracle: list[EpisodeTrace]
    frozen: list[EpisodeTrace]
    change: tuple[str, float] | None
    base: list[BasePoint]
    truth: tuple[dict[str, float], dict[str, float]]
    reproduced: tuple[int, int]
    offline: list[float]
    prediction: dict[int, float]

    @property
    def description(self) -> Robot:
        """What robot.yaml says of it."""
        return load_robot(self.robot)

    def after(self, episodes: int) -> dict[str, float]:
        """Base parameters in use after so many episodes."""
        return [point for point in self.base if point.step <= STEPS * episodes][-1].values


def tell(robot: str, folder: Path, seed: int, change, recipe: str) -> CartpoleStory:
    """Read the bags."""
    model, description = load_model(robot), load_robot(robot)
    recording = load(folder / "adaptive")
    adaptive = episodes_of(recording)
    oracle, frozen = (episodes_of(load(folder / name)) for name in ("oracle", "frozen"))
    rounds = recording.replay(model)
    same = sum(
        np.array_equal(message.vector, redone.p) and message.accepted == redone.accepted for message, redone in rounds
    )
    nominal = np.array(model.parameters.nominal, float)
    truth = (
        base_parameters(model, nominal),
        base_parameters(model, nominal if change is None else changed_truth(description, model, change)),
    )
    plain = change is None and recipe == "robust"
    return CartpoleStory(
        robot,
        model,
        recipe,
        recording,
        recording.timing(PERIOD),
        adaptive,
        oracle,
        frozen,
        change,
        _base_over_time(description, model, recipe, rounds),
        truth,
        (same, len(rounds)),
        _offline(description, model, seed, 3) if plain else [],
        _prediction(description, model, recording, oracle[0]) if change is None else {},
    )


def episodes_of(recording: Recording) -> list[EpisodeTrace]:
    """Cut the joint states at resets: a state that repeats a stamp, or goes back, and differs begins an episode."""
    commands = dict(zip(np.round(recording.commands[0], 6), recording.commands[2]))
    pieces: list[list[int]] = [[]]
    for k in range(len(recording.t)):
        last = pieces[-1][-1] if pieces[-1] else None
        if last is not None and recording.t[k] <= recording.t[last] + 1e-9:
            if np.array_equal(recording.q[k], recording.q[last]) and np.array_equal(recording.v[k], recording.v[last]):
                continue
            pieces.append([])
        pieces[-1].append(k)
    traces = []
    for piece in pieces:
        # What follows the last step belongs to the stop of the graph.
        index = np.array(piece[: STEPS + 1])
        if len(index) < STEPS + 1:
            continue
        X = np.concatenate([recording.q[index], recording.v[index]], axis=1)
        U = np.array(
            [commands.get(round(t, 6), np.full(recording.q.shape[1], np.nan)) for t in recording.t[index[:-1]]]
        )
        traces.append(EpisodeTrace(recording.t[index], X, U, swing_up_reward(X[1:])))
    return traces


def _base_over_time(robot: Robot, model: RobotModel, recipe: str, rounds) -> list[BasePoint]:
    """Values and delta-method deviations; covariances come from the replayed rounds."""
    spec = free_parameters(robot, model, recipe)
    names = list(base_parameters(model, model.parameters.nominal))

    def base(xi):
        return np.array(list(base_parameters(model, spec.to_physical(xi)).values()))

    start = base(spec.prior_mean)
    points = [BasePoint(0, dict(zip(names, start)), dict.fromkeys(names, np.nan))]
    for message, redone in rounds:
        if not message.accepted or redone.result is None:
            continue
        xi, step = redone.result.xi, 1e-6
        J = np.array([(base(xi + step * e) - base(xi - step * e)) / (2 * step) for e in np.eye(len(xi))]).T
        std = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", J, redone.result.covariance, J), 0.0))
        points.append(BasePoint(round(message.window_end / PERIOD), dict(zip(names, base(xi))), dict(zip(names, std))))
    return points


def _offline(robot: Robot, model: RobotModel, seed: int, count: int) -> list[float]:
    """The same episodes without ROS: library, plant and refit in one loop."""
    config, start = AdaptiveMpcConfig(robot=robot.name), node_settings(robot.folder, "sim_plant")
    plant = MujocoPlant(
        str(robot.model),
        seed=seed,
        tick=PERIOD,
        initial_q_std=start["initial_position_std"],
        initial_v_std=start["initial_velocity_std"],
    )
    whole_reset = plant.reset
    # As over ROS: a reset brings the robot back and lets time and noise go on.
    plant.reset = lambda seed=None: whole_reset(time=False, state=True, spawned=False)
    spec = free_parameters(robot, model)
    mpc = AdaptiveMpc(control_task(robot, model, config), AmpcConfig(), spec.to_physical(spec.prior_mean))
    refit = Refit(model, spec, RefitConfig(segment_length=1, initial_state="measured", time_budget=np.inf))
    run = AdaptiveRun(plant, mpc, refit, steps=STEPS)
    return [run.episode(0).score for _ in range(count)]


def _prediction(robot: Robot, model: RobotModel, recording: Recording, reference: EpisodeTrace) -> dict[int, float]:
    """Error of 140-step open-loop predictions of the oracle's swing-up, in units of each state's spread on the way."""
    task = control_task(robot, model, AdaptiveMpcConfig(robot=robot.name))
    solver = AdaptiveMpc(task).solver
    u = Actuation(model)
    spread = np.std(reference.X, axis=0)
    errors = {}
    for count in (0, 1, 3):
        known = [np.array(m.vector) for m in recording.accepted if m.window_end <= count * STEPS * PERIOD + 1e-6]
        spec = free_parameters(robot, model)
        p = known[-1] if known else spec.to_physical(spec.prior_mean)
        x = [reference.X[0]]
        for effort in reference.U:
            x.append(solver.predict(x[-1], u.control(effort), p))
        errors[count] = float(np.sqrt(np.mean(np.minimum(((np.array(x) - reference.X) / spread) ** 2, 1e6))))
    return errors


# -- targets -----------------------------------------------------------------------------------------


def scores(episodes: list[EpisodeTrace]) -> list[float]:
    return [episode.score for episode in episodes]


def check(story: CartpoleStory, seed: int) -> Result:
    """Hold the run against the targets of the experiments; this is one seed, they run ten."""
    result = Result(f"demo-{story.description.name.replace('_', '-')}", seed=seed)
    if story.change is None:
        _check_swing_up(result, story)
    else:
        _check_change(result, story)
    solve = 1e3 * story.timing.solve
    result.check("MPC step, 95th percentile", float(np.percentile(solve, 95)), 20.0, "<=", "ms", f"{SPEC} 17")
    fits = [m.fit_time for m in story.recording.parameters if m.fit_time > 0]
    result.check("refit, longest", max(fits, default=np.nan), 0.5, "<=", "s", f"{SPEC} 17")
    largest = max(float(np.nanmax(np.abs(e.U))) for e in [*story.adaptive, *story.oracle, *story.frozen])
    result.check("largest force commanded", largest, 200.0, "<=", "N", f"{SPEC} 18")
    if story.offline:
        gap = max(abs(a - b) for a, b in zip(scores(story.adaptive), story.offline))
        result.check("score through topics against the library alone", gap, 0.01, "<=", "1", f"{SPEC} 19")
    result.check(
        "refits that the bag reproduces bit for bit", story.reproduced[0], story.reproduced[1], "==", "", f"{SPEC} 19"
    )
    result.detail(
        "scores",
        {"adaptive": scores(story.adaptive), "exact model": scores(story.oracle), "frozen": scores(story.frozen)},
    )
    result.detail("base parameters", [{"step": p.step, **p.values} for p in story.base])
    result.detail("truth", story.truth[1])
    result.detail("timing ms", story.timing.percentiles())
    return result


def _check_swing_up(result: Result, story: CartpoleStory) -> None:
    single = story.model.nq == 2  # a cart and one pole
    item, wanted = (10, 0.85) if single else (11, 0.75)
    found = scores(story.adaptive)
    result.check("best score by episode 3", max(found[:3]), wanted, ">=", "1", f"{SPEC} {item}")
    up = upright(story.description, story.model)
    result.check(
        "upright (cos > 0.95) over the last 30 steps of episode 3",
        all(up(x) for x in story.adaptive[2].X[-30:]),
        True,
        "==",
        "",
        f"{SPEC} {item}",
    )
    if not single:
        result.check("worst score, episode 3 to the last", min(found[2:]), wanted, ">=", "1", f"{SPEC} 11")
        result.check(
            "score over the exact model's, from episode 3 on",
            np.mean(found[2:]) / np.mean(scores(story.oracle)[2:]),
            0.95,
            ">=",
            "1",
            f"{SPEC} 11",
        )
    first = next((m for m in story.recording.accepted), None)
    result.check(
        "transitions of the first accepted refit",
        round((first.window_end - first.window_start) / PERIOD) if first else np.nan,
        100,
        "<=",
        "",
        f"{SPEC} 10",
    )
    result.check(
        "held-out one-step loss it lowers by",
        first.loss_before / first.loss_after if first else np.nan,
        10.0,
        ">=",
        "1",
        f"{SPEC} 10",
    )
    result.check(
        "open-loop error after episode 3 over that of the start",
        story.prediction[3] / story.prediction[0],
        0.1,
        "<=",
        "1",
        f"{SPEC} 12",
    )
    truth, known = story.truth[0], story.after(3)
    worst = max(abs(known[n] - truth[n]) / (abs(truth[n]) or abs(truth["h1.z"])) for n in truth)
    result.check("largest base parameter error after episode 3", worst, 0.05, "<=", "1", f"{SPEC} 13")
    start = story.description.task_as(SwingUp).start
    result.check(
        f"best score with every parameter frozen at {start:g}", max(scores(story.frozen)), 0.2, "<", "1", f"{SPEC} 14"
    )


def _check_change(result: Result, story: CartpoleStory) -> None:
    source = f"{SPEC} 15"
    begin = BEFORE * STEPS * PERIOD
    later = [m for m in story.recording.parameters if m.window_end > begin + 1e-6]
    # The controller asks for a refit in the very sample in which it declares the change.
    detected = round((later[0].window_end - begin) / PERIOD) if later else np.nan
    accepted = next((m for m in later if m.accepted), None)
    result.check("samples until the change is detected", detected, 20, "<=", "", source)
    result.check(
        "samples until a refit is accepted",
        round((accepted.window_end - begin) / PERIOD) if accepted else np.nan,
        50,
        "<=",
        "",
        source,
    )
    found, oracle, frozen = scores(story.adaptive)[BEFORE:], scores(story.oracle), scores(story.frozen)
    result.check(
        "best score within 2 episodes over the new exact model's",
        max(a / b for a, b in zip(found[:2], oracle)),
        0.85,
        ">=",
        "1",
        source,
    )
    result.check(
        "score gained over the frozen controller, after the episode of the change",
        np.mean(found[1:]) - np.mean(frozen[1:]),
        0.25,
        ">=",
        "1",
        source,
    )
