"""What both cart-pole experiments do: controllers beside each other on the same robots and seeds.

All runs are in lock-step on sim_core.plant (MuJoCo), without ROS. Episode e of seed s starts from
the same scatter for every controller. Scores are means over 140 steps of the Control Suite's
smooth reward without its control term. Every controller with every seed is a job of its own, which gives the same
episodes wherever it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from reporting.progress import Progress, SilentProgress
from sim_core.control.ampc import AdaptiveMpc, AmpcConfig, CommandSource
from sim_core.control.episodes import AdaptiveRun, Episode
from sim_core.control.ilqr import BoxIlqr
from sim_core.control.refit import Refit, RefitConfig
from sim_core.control.tasks import Task, cartpole_swing_up
from sim_core.host.executors import spread
from sim_core.inference.data.window import Window
from sim_core.multibody import RobotModel, load_model
from sim_core.multibody.model.cartpole_parameters import base_parameters, cartpole_spec
from sim_core.plant import MujocoPlant

DT, STEPS, EPISODES = 0.02, 140, 10
NOISE = 0.005  # standard deviation of all measured states
#: fits are bounded by evaluations, never by time: the same seed gives the same result anywhere
#: an open-loop double pendulum multiplies errors by a million; the floor lets a fit without noise
#: go on until rounding is left (with noise the floor is out of reach and changes nothing)
ROBUST = RefitConfig(segment_length=1, initial_state="measured", time_budget=np.inf, scale_floor=(1e-11, 1e-10))
#: as published there is no gate: every fit is used
LITERAL = RefitConfig(recipe="literal", max_evaluations=10, time_budget=np.inf, held_out=0.0, max_unexplained=np.inf)


@dataclass(frozen=True)
class Lab:
    """One robot with its task and its free parameters in both recipes."""

    model: RobotModel
    task: Task = field(init=False)
    solver: BoxIlqr = field(init=False)  # shared: episodes run one after the other
    refit: Refit = field(init=False)
    literal: Refit = field(init=False)

    def __post_init__(self):
        set_ = object.__setattr__
        set_(self, "task", cartpole_swing_up(self.model, dt=DT))
        set_(self, "solver", BoxIlqr(self.model, self.task.cost, self.task.ilqr))
        set_(self, "refit", Refit(self.model, cartpole_spec(self.model), ROBUST))
        set_(self, "literal", Refit(self.model, cartpole_spec(self.model, scale="raw"), LITERAL))

    def plant(self, noise: float = 0.0, delay_steps: int = 0) -> MujocoPlant:
        """Swing-up starts of the suite: poles down, +-0.01; the second angle +-0.1; velocities +-0.01."""
        scatter = np.r_[0.01, 0.01, 0.1][: self.model.nq]
        return MujocoPlant(
            self.model.name,
            tick=DT,
            initial_q_std=scatter,
            initial_v_std=0.01,
            position_noise=noise,
            velocity_noise=noise,
            command_delay=DT * delay_steps,
        )

    def adaptive(self, noise: float = 0.0, delay_steps: int = 0) -> AdaptiveRun:
        """Starts from all parameters at 2 and refits."""
        config = AmpcConfig(delay_steps=delay_steps)
        mpc = AdaptiveMpc(self.task, config, self.start(), self.solver)
        return AdaptiveRun(self.plant(noise, delay_steps), mpc, self.refit, steps=STEPS)

    def published(self) -> AdaptiveRun:
        """The literal recipe: L-BFGS on raw parameters, semi-implicit Euler over the control step."""
        task = cartpole_swing_up(self.model, dt=DT, integrator="semi_implicit_euler", substeps=1)
        mpc = AdaptiveMpc(task, AmpcConfig(change_factor=np.inf), self.start())  # no triggers
        return AdaptiveRun(self.plant(), mpc, self.literal, steps=STEPS)

    def fixed(self, p: np.ndarray | None = None, noise: float = 0.0, delay_steps: int = 0) -> AdaptiveRun:
        """Never refits. p: parameters for good; None: the exact ones."""
        mpc = AdaptiveMpc(self.task, AmpcConfig(delay_steps=delay_steps), p, self.solver)
        return AdaptiveRun(self.plant(noise, delay_steps), mpc, steps=STEPS)

    def start(self) -> np.ndarray:
        """All parameters at 2."""
        return self.refit.spec.to_physical(self.refit.spec.prior_mean)


@functools.cache
def lab_of(robot: str) -> Lab:
    """The lab of a robot, one in each process, with its kernels built and loaded, so that no timing contains a compiler."""
    lab = Lab(load_model(robot))
    t = DT * np.arange(40)
    q = np.tile(lab.model.q_home, (40, 1))
    for refit in (lab.refit, lab.literal):
        refit.fit(Window(t, q, 0 * q, np.zeros((39, 1))))
    return lab


@dataclass
class SeedRecord:
    """Everything measured with one seed. Scores are lists over episodes."""

    adaptive: list[Episode] = field(default_factory=list)
    oracle: list[float] = field(default_factory=list)
    frozen: list[float] = field(default_factory=list)
    robust: list[Episode] = field(default_factory=list)
    robust_oracle: list[float] = field(default_factory=list)
    literal: list[float] = field(default_factory=list)
    prediction: dict[int, float] = field(default_factory=dict)
    curves: dict[str, np.ndarray] = field(default_factory=dict)
    changes: dict[str, ChangeRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class ChangeRecord:
    """A hidden change at the start of an episode; scores from that episode on."""

    adaptive: list[Episode]
    oracle: list[float]
    frozen: list[float]

    @property
    def detected(self) -> float:
        """Samples from the change to its declaration; infinite if it was missed."""
        return self.adaptive[0].detected[0] if self.adaptive[0].detected else np.inf

    @property
    def refitted(self) -> float:
        """Samples from the change to the first accepted refit."""
        first = self.adaptive[0].first_accepted
        return first[0] if first else np.inf


def episode_seed(seed: int, episode: int) -> int:
    return 1000 * seed + episode


def play(run: AdaptiveRun, seed: int, episodes: Iterable[int]) -> list[Episode]:
    """Episodes of a seed, by their numbers."""
    return [run.episode(episode_seed(seed, e)) for e in episodes]


def scores(episodes: Iterable[Episode]) -> list[float]:
    return [e.score for e in episodes]


#: name -> (event of the plant's scenario, the same change of the model's parameters by name)
CHANGES = {
    "first pole mass x10": (dict(action="scale", target="pole1.mass", factor=10.0), ("pole1.", 10.0)),
    "actuator gain x0.6": (dict(action="actuator_gain", factor=0.6), ("slider.gear", 0.6)),
}
BEFORE, AFTER = 3, 3  # episodes before and from the change


#: name -> (controller of a lab, its episodes)
CONTROLLERS: dict[str, tuple[Callable[[Lab], AdaptiveRun], int]] = {
    "adaptive": (lambda lab: lab.adaptive(), EPISODES),
    "oracle": (lambda lab: lab.fixed(), EPISODES),
    "frozen": (lambda lab: lab.fixed(lab.start()), 2),
    "robust": (lambda lab: lab.adaptive(NOISE, 1), EPISODES),
    "robust_oracle": (lambda lab: lab.fixed(None, NOISE, 1), EPISODES),
    "literal": (lambda lab: lab.published(), EPISODES),
}


@dataclass(frozen=True)
class Job:
    """One robot and one seed; `what` is a controller or a change, by its name in CONTROLLERS or CHANGES."""

    robot: str
    seed: int
    what: str


def played(job: Job) -> list[Episode] | ChangeRecord:
    """What a job gives: a function of nothing else, but for the clock times of solves and fits."""
    lab = lab_of(job.robot)
    if job.what in CHANGES:
        return change(lab, job.seed, *CHANGES[job.what])
    controller, episodes = CONTROLLERS[job.what]
    return play(controller(lab), job.seed, range(episodes))


def study(
    robot: str,
    seeds: Sequence[int],
    changes: bool,
    literal_seeds: int,
    progress: Progress = SilentProgress(),
    executor: Executor | None = None,
) -> list[SeedRecord]:
    """Run every controller with every seed.

    Args:
        changes: also the hidden changes of the robot. literal_seeds: so many seeds also by the published recipe.
        executor: computes the jobs; None: this process, one after another.
    """
    jobs = []
    for number, seed in enumerate(seeds):
        names = [name for name in CONTROLLERS if name != "literal" or number < literal_seeds]
        jobs += [Job(robot, seed, name) for name in (*names, *(CHANGES if changes else ()))]
    with progress.stage(robot, total=len(jobs)) as stage:
        found = dict(zip(jobs, spread(played, jobs, executor, lambda count: stage.advance())))
    lab, records = lab_of(robot), []
    for seed in seeds:
        episodes = {name: found.get(Job(robot, seed, name), []) for name in CONTROLLERS}
        record = SeedRecord(
            episodes["adaptive"],
            scores(episodes["oracle"]),
            scores(episodes["frozen"]),
            episodes["robust"],
            scores(episodes["robust_oracle"]),
            scores(episodes["literal"]),
            changes={name: found[Job(robot, seed, name)] for name in CHANGES} if changes else {},
        )
        predict(lab, record, episodes["oracle"][0])
        records.append(record)
    return records


def change(lab: Lab, seed: int, event: dict, scaled: tuple[str, float]) -> ChangeRecord:
    """Adapt for a few episodes, change the robot, go on; beside it the new oracle and the old model."""
    prefix, factor = scaled
    learner = lab.adaptive()
    play(learner, seed, range(BEFORE))
    p_old, later = learner.parameters, range(BEFORE, BEFORE + AFTER)
    p_new = lab.model.parameters.nominal.copy()
    for i, name in enumerate(lab.model.parameters.names):
        if name.startswith(prefix) and not name.startswith(f"{prefix}pos"):
            p_new[i] *= factor
    learner.plant.apply([event])
    after = play(learner, seed, later)
    others = []
    for p in (p_new, p_old):
        run = lab.fixed(p)
        run.plant.apply([event])
        others.append(scores(play(run, seed, later)))
    return ChangeRecord(after, *others)


def predict(lab: Lab, record: SeedRecord, oracle: Episode) -> None:
    """Open-loop predictions of the exact controller's swing-up, under what was known after 0, 1, 3 episodes.

    Error: root mean square over steps and states, each state divided by its spread on the way.
    """
    spread = np.std(oracle.X_true, axis=0)
    for episodes in (0, 1, 3):
        p = lab.start() if episodes == 0 else record.adaptive[episodes - 1].p
        x = [oracle.X_true[0]]
        for u in oracle.U:
            x.append(lab.solver.predict(x[-1], u, p))
        error = (np.array(x) - oracle.X_true) / spread
        record.prediction[episodes] = float(np.sqrt(np.mean(np.minimum(error**2, 1e6))))
        record.curves[f"after {episodes}"] = np.array(x)
    record.curves["robot"] = oracle.X_true


def parameter_error(lab: Lab, p: np.ndarray) -> dict[str, float]:
    """Relative error of each base parameter; of those that are zero, relative to the first moment."""
    truth, found = (base_parameters(lab.model, v) for v in (lab.model.parameters.nominal, p))
    return {n: abs(found[n] - truth[n]) / (abs(truth[n]) or abs(truth["h1.z"])) for n in truth}


# -- safety -------------------------------------------------------------------------------


def corrupted_batches(lab: Lab, episode: Episode) -> dict[str, bool]:
    """Ways in which a batch can be wrong -> does the gate reject it? All start from good parameters."""
    rng, nq, X, U = np.random.default_rng(0), lab.model.nq, episode.X, episode.U
    t = DT * np.arange(len(X))
    xi = lab.refit.spec.from_physical(episode.p)
    flipped, frozen = X.copy(), np.tile(X[5], (len(X), 1))
    flipped[:, nq:] *= -1
    batches = {
        "force with the wrong sign": (X, -U),
        "force of another robot": (X, rng.uniform(-200, 200, U.shape)),
        "velocities with the wrong sign": (flipped, U),
        "sensor that repeats one sample": (frozen, U),
        "samples in random order": (X[rng.permutation(len(X))], U),
        "positions drowned in noise of 1": (X + np.r_[np.ones(nq), np.zeros(nq)] * rng.standard_normal(X.shape), U),
    }
    return {
        name: not lab.refit.fit(Window(t, x[:, :nq], x[:, nq:], u), xi).accepted for name, (x, u) in batches.items()
    }


def fallback_is_plan_then_zero(lab: Lab) -> bool:
    """Feed NaN after a good solve: the plan's next actions follow, and zero force when it has run out."""
    mpc = lab.fixed().mpc
    x = np.concatenate([lab.model.q_home, np.zeros(lab.model.nv)]) + 0.01
    mpc.command(x, 0.0)
    plan = mpc.solver.U.copy()
    bad = np.full(lab.model.nx, np.nan)
    commands = [mpc.command(bad, DT * (k + 1)) for k in range(len(plan) + 3)]
    followed, stopped = commands[: len(plan) - 1], commands[len(plan) - 1 :]
    return all(
        c.source is CommandSource.PREVIOUS_PLAN and np.array_equal(c.u, plan[k + 1]) for k, c in enumerate(followed)
    ) and all(c.source is CommandSource.STOP and not np.any(c.u) for c in stopped)
