"""Reinforcement learning on the cart-poles of adaptive MPC: the plant as a gymnasium environment, SAC and DDPG on it.

The plant, its starts, its period, its force bounds and its reward are those of `experiments/problems/ampc_study.py`. Both
rivals are Stable-Baselines3's (Raffin et al. 2021), which `./refit setup bench` installs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from experiments.problems.ampc_study import STEPS, Lab, episode_seed, lab_of
from sim_core.control.tasks import swing_up_reward
from sim_core.plant.errors import PlantError

#: the episode whose score of adaptive MPC is to be reached, counted from 0, and the steps taken until it has ended
JUDGED = 2
AMPC_STEPS = (JUDGED + 1) * STEPS
#: divisors of cart position [m], cart speed [m/s] and pole rates [rad/s] in what the networks see
SCALES = (2.0, 5.0, 5.0)
#: [m/s or rad/s] beyond which the plant's steps are too long for what moves: nothing of it is believed
LOST = 1e3


@dataclass(frozen=True)
class Settings:
    """What was tried of one algorithm.

    Attributes:
        algorithm: "SAC" or "DDPG".
        rate: Adam's rate. gradients: gradient steps for each step of the plant. discount: of rewards to come.
        width: of the two hidden layers. noise: standard deviation of what DDPG adds, in units of the force limit.
        held: periods for which a random force is held where DDPG adds it (1: white, else an Ornstein-Uhlenbeck process).
        reward: factor on rewards in training. warm_up: steps with uniformly random forces, counted as all others.
    """

    algorithm: str
    rate: float = 1e-3
    gradients: int = 1
    discount: float = 0.98
    width: int = 64
    noise: float = 0.2
    held: int = 1
    reward: float = 1.0
    warm_up: int = 420

    def __str__(self) -> str:
        """The settings in a few words."""
        own = "" if self.algorithm == "SAC" else f", noise {self.noise:g}{'' if self.held == 1 else ' held'}"
        return (
            f"rate {self.rate:g}, {self.gradients} gradient steps, discount {self.discount:g}, "
            f"width {self.width}, reward x {self.reward:g}{own}"
        )


@dataclass
class Learnt:
    """One learner on one robot. Lists have one entry for each training episode.

    Attributes:
        steps: of the plant until the episode's end, all of them counted. training: its mean reward.
        evaluated: mean reward of the episode that the policy played without noise after it, not counted as steps.
        cost: mean cost of that episode, as adaptive MPC's planner counts it; its negative is the published reward.
    """

    robot: str
    settings: Settings
    seed: int
    steps: list[int] = field(default_factory=list)
    training: list[float] = field(default_factory=list)
    evaluated: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)

    def reached(self, score: float) -> int | None:
        """Steps until the first episode, played with or without noise, whose score is at least this; None: never."""
        for steps, training, evaluated in zip(self.steps, self.training, self.evaluated):
            if max(training, evaluated) >= score:
                return steps
        return None

    @property
    def best(self) -> float:
        """Highest score of any episode."""
        return max([*self.training, *self.evaluated])


def features(x: np.ndarray) -> np.ndarray:
    """What the networks see of states (..., nx): the whole state, absolute angles as cosines and sines, in units of SCALES."""
    x = np.asarray(x, float)
    nq = x.shape[-1] // 2
    angles = np.cumsum(x[..., 1:nq], -1)
    parts = (
        x[..., :1] / SCALES[0],
        np.cos(angles),
        np.sin(angles),
        x[..., nq : nq + 1] / SCALES[1],
        x[..., nq + 1 :] / SCALES[2],
    )
    return np.concatenate(parts, -1).astype(np.float32)


class SwingUp(gymnasium.Env):
    """A cart-pole's swing-up as adaptive MPC meets it: the same plant, starts, period, force bounds and reward.

    Actions are forces in units of the limit. An episode is cut off after STEPS and never ends before, so that what lies
    behind its end counts for a learner. Where poles are spun until the simulation fails, everything stays as it was and the rest of
    the episode is worth nothing. Episode e starts where adaptive MPC's episode e of the same seed does.

    Args:
        lab: of the robot. seed: of the starts. episode: the first one's number. repeat: every episode is that one.
        factor: on rewards.

    Attributes:
        count: steps of the plant so far. X, U, rewards: states (k+1, nx), forces (k, 1) and rewards (k,) of the episode under way.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, lab: Lab, seed: int, episode: int = 0, repeat: bool = False, factor: float = 1.0) -> None:
        self.plant, self.limit = lab.plant(), float(lab.model.u_upper[0])
        self.count, self._seed, self._next, self._repeat, self._factor = 0, seed, episode, repeat, factor
        self.X: list[np.ndarray] = []
        self.U: list[np.ndarray] = []
        self.rewards: list[float] = []
        self._lost = False
        size = len(features(np.zeros(lab.model.nx)))
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Begin the next episode. seed: of random actions alone, starts follow from the seed of the environment."""
        super().reset(seed=seed)
        self.plant.reset(seed=episode_seed(self._seed, self._next))
        self._next += not self._repeat
        self.X, self.U, self.rewards, self._lost = [self._state()], [], [], False
        return features(self.X[0]), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Hold a force for one period."""
        u = self.limit * np.clip(np.asarray(action, float).reshape(1), -1.0, 1.0)
        self.count += 1
        self.X.append(self._moved(u))
        self.U.append(u)
        reward = 0.0 if self._lost else float(swing_up_reward(self.X[-1]))
        self.rewards.append(reward)
        return features(self.X[-1]), self._factor * reward, False, len(self.U) >= STEPS, {}

    @property
    def score(self) -> float:
        """Mean reward of the episode, without the factor."""
        return float(np.mean(self.rewards))

    def _moved(self, u: np.ndarray) -> np.ndarray:
        """The state after a period (nx,); the last one that could be believed, if it is none."""
        if not self._lost:
            try:
                self.plant.step(u)
            except PlantError:
                self._lost = True
            else:
                state = self._state()
                self._lost = not np.abs(state[len(state) // 2 :]).max() < LOST  # true of NaN as well
                if not self._lost:
                    return state
        return self.X[-1]

    def _state(self) -> np.ndarray:
        return np.concatenate([self.plant.true_q, self.plant.true_v])


def mean_cost(lab: Lab, X: Sequence[np.ndarray], U: Sequence[np.ndarray]) -> float:
    """Mean cost of a step, as the planner of adaptive MPC counts it with the true parameters; its negative is a reward."""
    cost, p = lab.task.cost, lab.model.parameters.nominal
    return float(np.mean(cost.stage(np.array(X[:-1]), np.array(U), p, cost.default_reference)))


@dataclass(frozen=True)
class Job:
    """One learner: what it is, where it learns, and for how many steps of the plant."""

    robot: str
    settings: Settings
    seed: int
    steps: int


def learnt(job: Job, done: Callable[[int], None] | None = None) -> Learnt:
    """Learn for whole episodes until the steps are used up, and play one episode without noise after each.

    The episode without noise starts where the judged episode of adaptive MPC starts.

    Args:
        done: called with STEPS after each episode.
    """
    import torch
    from stable_baselines3 import DDPG, SAC
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise

    torch.set_num_threads(1)
    lab, s = lab_of(job.robot), job.settings
    env = SwingUp(lab, job.seed, factor=s.reward)
    exam = SwingUp(lab, job.seed, JUDGED, repeat=True)
    found = Learnt(job.robot, s, job.seed)

    class Examined(BaseCallback):
        def _on_step(self) -> bool:
            if len(env.U) < STEPS and not self.locals["dones"][0]:
                return True
            found.steps.append(env.count)
            found.training.append(float(np.sum(self.locals["infos"][0]["episode"]["r"]) / s.reward / STEPS))
            seen, over = exam.reset()[0], False
            while not over:
                seen, _, _, over, _ = exam.step(self.model.predict(seen, deterministic=True)[0])
            found.evaluated.append(exam.score)
            found.cost.append(mean_cost(lab, exam.X, exam.U))
            if done is not None:
                done(STEPS)
            return True

    common: dict[str, Any] = dict(
        learning_rate=s.rate,
        buffer_size=200_000,
        learning_starts=s.warm_up,
        batch_size=128,
        gamma=s.discount,
        train_freq=1,
        gradient_steps=s.gradients,
        policy_kwargs={"net_arch": [s.width, s.width]},
        seed=job.seed,
        device="cpu",
    )
    if s.algorithm == "SAC":
        learner: Any = SAC("MlpPolicy", env, **common)
    else:
        mean, sigma = np.zeros(1), s.noise * np.ones(1)
        noise = (
            NormalActionNoise(mean, sigma)
            if s.held == 1
            else OrnsteinUhlenbeckActionNoise(mean, sigma, theta=1.0 / s.held, dt=1.0)
        )
        learner = DDPG("MlpPolicy", env, action_noise=noise, **common)
    learner.learn(job.steps // STEPS * STEPS, Examined())
    return found


#: settings that are searched, on a seed that judges nobody
CANDIDATES = (
    Settings("SAC"),
    Settings("SAC", discount=0.95, reward=5.0),
    Settings("SAC", discount=0.98, reward=10.0, gradients=2, width=128),
    Settings("SAC", discount=0.99, reward=5.0, gradients=2, width=256, rate=3e-4),
    Settings("SAC", discount=0.99, reward=10.0, gradients=4),
    Settings("SAC", discount=0.95, reward=10.0, gradients=4, width=256, rate=3e-4),
    Settings("DDPG"),
    Settings("DDPG", noise=0.4, held=5),
    Settings("DDPG", rate=3e-4, discount=0.95),
    Settings("DDPG", noise=0.1, gradients=2, width=128),
    Settings("DDPG", discount=0.95, gradients=4, width=256, rate=3e-4),
    Settings("DDPG", discount=0.99, noise=0.5, held=3, gradients=2, width=256, rate=3e-4),
)
SEARCHED = 1000
#: those that were best on the cart-pole, for whoever has no time for a search
CHOSEN = {"SAC": CANDIDATES[5], "DDPG": CANDIDATES[10]}


def best_of(found: Sequence[Learnt]) -> dict[str, Settings]:
    """Algorithm -> the settings whose last ten episodes without noise were best, of learners on one robot."""
    best: dict[str, Settings] = {}
    for one in sorted(found, key=last_ten):
        best[one.settings.algorithm] = one.settings
    return best


def last_ten(one: Learnt) -> float:
    """Mean score of the last ten episodes without noise."""
    return float(np.mean(one.evaluated[-10:]))
