"""Training a network to imitate the quadratic programme: collect its answers on walks, then fit the network to them.

    data = collect(plant, robot, transitions=10_000, period=1/160, seed=0)
    net = train(data, hidden=(192, 192), seed=0)

Source: Heiden, NeuralSim (2021), MPC imitation: 10 000 transitions under random linear and angular targets of the torso,
supervised regression of the torques by mean squared error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from config.tiers import require
from sim_core.motion.quadruped.controller import TrotConfig, TrotController
from sim_core.motion.quadruped.observation import SIZE, SLICES
from sim_core.motion.quadruped.robot import QuadrupedRobot
from sim_core.motion.quadruped.stance import QpStance
from sim_core.motion.quadruped.stance_net import StanceNet
from sim_core.motion.quadruped.walking import LeggedPlant, Target, walk

__all__ = ["Dataset", "RandomTargets", "TargetRange", "collect", "train"]


@dataclass(frozen=True)
class TargetRange:
    """Where random targets come from: forward, sideways [m/s] and turning [rad/s], each (lower, upper)."""

    forward: tuple[float, float] = (-0.3, 0.5)
    sideways: tuple[float, float] = (-0.2, 0.2)
    turning: tuple[float, float] = (-0.6, 0.6)


class RandomTargets:
    """A target of its own for every stretch of `hold` [s]; one in five is to stay in place."""

    def __init__(
        self, rng: np.random.Generator, duration: float, ranges: TargetRange = TargetRange(), hold: float = 1.5
    ) -> None:
        self._hold = hold
        count = int(np.ceil(duration / hold)) + 1
        lower, upper = np.transpose([ranges.forward, ranges.sideways, ranges.turning])
        self._values = rng.uniform(lower, upper, (count, 3)) * (rng.random((count, 1)) > 0.2)

    def __call__(self, t: float) -> Target:
        forward, sideways, turning = self._values[int(t / self._hold)]
        return Target((forward, sideways), turning)


@dataclass(frozen=True)
class Dataset:
    """What the programme was asked and what it answered.

    Attributes:
        observations: (N, 41).
        torques: answers of the programme (N, 12) [N m].
        episode: number of the walk that each row is from, (N,).

    Raises:
        ValueError: shapes do not fit each other, or a number is not finite.
    """

    observations: np.ndarray
    torques: np.ndarray
    episode: np.ndarray

    def __post_init__(self) -> None:
        n = len(self.observations)
        if self.observations.shape != (n, SIZE) or self.torques.shape != (n, 12) or self.episode.shape != (n,):
            raise ValueError(
                f"expected observations (N, {SIZE}), torques (N, 12) and episode (N,), found "
                f"{self.observations.shape}, {self.torques.shape} and {self.episode.shape}."
            )
        if not (np.isfinite(self.observations).all() and np.isfinite(self.torques).all()):
            raise ValueError("The data set holds NaN or infinity.")


def collect(
    plant: LeggedPlant,
    robot: QuadrupedRobot,
    transitions: int = 10_000,
    period: float = 1 / 160,
    seed: int = 0,
    config: TrotConfig = TrotConfig(),
    episode: int = 1000,
    ranges: TargetRange = TargetRange(),
    disturbance: float = 2.0,
    advance: Callable[[int], None] = lambda count: None,
) -> Dataset:
    """Walk under the programme and write down what it was asked and what it answered.

    Args:
        episode: transitions of a walk; every walk starts anew with targets of its own.
        disturbance: standard deviation of the error added to the torques that are applied, held for 50 ms [N m]. What is
            written down stays the programme's answer, so the data show it returning from where it would not go itself:
            a network's small errors lead to such places.
        advance: called with the number of transitions that have been added.

    Raises:
        RuntimeError: the programme could not keep the robot on its feet.
    """
    rng = np.random.default_rng(seed)
    controller = TrotController(robot, QpStance(robot), config)
    rows: list[tuple[np.ndarray, np.ndarray]] = []
    count = 0
    while count < transitions:
        length = min(episode, transitions - count)
        duration = length * period
        errors = rng.normal(0.0, disturbance, (int(duration / 0.05) + 1, 12))
        trace = walk(
            plant,
            controller,
            RandomTargets(rng, duration, ranges),
            duration,
            period,
            lambda t, torques: torques + errors[int(t / 0.05)],
        )
        if np.isfinite(trace.fallen):
            raise RuntimeError(
                f"The robot fell after {trace.fallen:.1f} s of walk {len(rows) + 1}: the targets or the "
                "disturbance are too large for the programme."
            )
        rows.append((trace.array("observation"), trace.array("torques")))
        count += len(trace.t)
        advance(len(trace.t))
    X, Y = (np.concatenate(columns)[:transitions] for columns in zip(*rows))
    return Dataset(X, Y, np.repeat(np.arange(len(rows)), [len(x) for x, _ in rows])[:transitions])


def train(
    data: Dataset,
    hidden: tuple[int, ...] = (192, 192),
    seed: int = 0,
    epochs: int = 200,
    batch: int = 256,
    learning_rate: float = 2e-3,
    margin: float = 0.1,
    advance: Callable[[float], None] = lambda loss: None,
) -> StanceNet:
    """Fit a network to a data set; the last tenth of the walks (at least one) only measures it.

    Args:
        hidden: widths; (192, 192) is the published network, (192, 192, 192) the shipped one.
        margin: of the range in which the network may be asked, beyond what it saw, as a share of that.
        advance: called with the training loss after every epoch.

    Returns:
        StanceNet; meta holds the held-out RMS error of the standing legs' torques [N m] and how it was trained.

    Raises:
        MissingTierError: torch is not installed.
    """
    require("learning", "training a stance network")
    import torch

    torch.manual_seed(seed)
    walks = np.unique(data.episode)
    held_out = data.episode >= walks[-max(1, len(walks) // 10)] if len(walks) > 1 else np.zeros(len(data.episode), bool)
    X, Y = data.observations[~held_out], data.torques[~held_out]
    x_mean, x_std = X.mean(0), X.std(0)
    x_std = np.where(x_std > 1e-6, x_std, 1.0)  # constant inputs tell nothing
    y_mean, y_std = Y.mean(0), Y.std(0)
    x = torch.tensor((X - x_mean) / x_std, dtype=torch.float32)
    y = torch.tensor((Y - y_mean) / y_std, dtype=torch.float32)
    sizes = (SIZE, *hidden, 12)
    linear = [torch.nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])]
    model = torch.nn.Sequential(*(part for layer in linear[:-1] for part in (layer, torch.nn.ELU())), linear[-1])
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    steps = epochs * -(-len(x) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, learning_rate, total_steps=steps, pct_start=0.1)
    for _ in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(x)).split(batch):
            loss = torch.nn.functional.mse_loss(model(x[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(rows)
        advance(total / len(x))
    W = [layer.weight.detach().numpy().astype(float) for layer in linear]
    b = [layer.bias.detach().numpy().astype(float) for layer in linear]
    b[0], W[0] = b[0] - W[0] @ (x_mean / x_std), W[0] / x_std
    b[-1], W[-1] = y_mean + y_std * b[-1], y_std[:, None] * W[-1]
    low, high = data.observations.min(0), data.observations.max(0)
    slack = margin * (high - low) + 1e-6
    patterns = np.zeros(16, bool)
    patterns[((data.observations[:, SLICES["contacts"]] > 0.5) @ [1, 2, 4, 8]).astype(int)] = True
    meta = {"transitions": len(X), "hidden": list(hidden), "seed": seed, "epochs": epochs, "loss": total / len(x)}
    net = StanceNet(
        tuple(w.astype(np.float32) for w in W),
        tuple(v.astype(np.float32) for v in b),
        low - slack,
        high + slack,
        patterns,
        meta,
    )
    if held_out.any():
        meta["held_out_rms"] = imitation_error(net, data.observations[held_out], data.torques[held_out])
    return net


def imitation_error(net: StanceNet, observations: np.ndarray, torques: np.ndarray) -> float:
    """RMS difference of the standing legs' torques from the programme's [N m]."""
    standing = np.repeat(observations[:, SLICES["contacts"]] > 0.5, 3, axis=1)
    error = np.array([net.evaluate(x) for x in observations]) - torques
    return float(np.sqrt(np.mean(error[standing] ** 2)))
