"""Episodes of adaptive MPC on a simulated robot, in lock-step: plan, act, refit, repeat.

    run = AdaptiveRun(plant, mpc, refit, xi)
    for seed in range(10):
        episode = run.episode(seed)

Algorithm A5 of Heiden et al.: every episode starts with no data; the physics is refitted every 50
steps of the first episode and at the end of each. Beyond it: a refit as soon as the controller
declares that the robot has changed, from the data after the change alone, and again every half
window until the episode ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim_core.control.ampc import AdaptiveMpc, CommandSource
from sim_core.control.refit import Refit, RefitResult
from sim_core.control.tasks import swing_up_reward
from sim_core.inference.data.window import Window


@dataclass(frozen=True)
class Episode:
    """What happened. T steps of dt [s].

    Attributes:
        X: measured states (T+1, nx). X_true: the plant's own. U: controls in force (T, nu).
        refits: (step, result) of every fit, accepted or not.
        detected: steps at which a change was declared.
        solve_time: (T,) [s]. fallbacks: steps without a plan of their own.
        p: physical parameters in use after it.
        dt: control period [s].
    """

    X: np.ndarray
    X_true: np.ndarray
    U: np.ndarray
    refits: tuple[tuple[int, RefitResult], ...]
    detected: tuple[int, ...]
    solve_time: np.ndarray
    fallbacks: int
    p: np.ndarray
    dt: float
    rewards: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rewards", swing_up_reward(self.X_true[1:]))

    @property
    def score(self) -> float:
        """Mean reward of the states reached."""
        return float(np.mean(self.rewards))

    def upright(self, last: int = 30, threshold: float = 0.95) -> bool:
        """All poles within threshold = cos(angle) over the last steps."""
        nq = self.X_true.shape[1] // 2
        return bool(np.all(np.cos(np.cumsum(self.X_true[-last:, 1:nq], axis=1)) > threshold))

    @property
    def first_accepted(self) -> tuple[int, RefitResult] | None:
        return next(((k, r) for k, r in self.refits if r.accepted), None)


class AdaptiveRun:
    """One robot and its controller over several episodes.

    Args:
        plant: MujocoPlant whose tick is the control period.
        mpc: AdaptiveMpc.
        refit: Refit, or None for a controller that never learns.
        xi: coordinates of the parameters that mpc starts with; the prior mean by default.
        steps: per episode. refit_every: steps between refits in the first episode.
    """

    def __init__(
        self,
        plant: Any,
        mpc: AdaptiveMpc,
        refit: Refit | None = None,
        xi: np.ndarray | None = None,
        steps: int = 140,
        refit_every: int = 50,
    ) -> None:
        self.plant, self.mpc, self.refit = plant, mpc, refit
        self.xi = None if refit is None else np.array(refit.spec.prior_mean if xi is None else xi)
        self.steps, self.refit_every = steps, refit_every
        self.half_window = mpc.config.change_window // 2
        self.episodes = self.revision = 0

    def episode(self, seed: int) -> Episode:
        """Reset the plant with this seed and run one episode."""
        plant, mpc, dt = self.plant, self.mpc, self.mpc.task.ilqr.dt
        plant.reset(seed=seed)
        mpc.reset()
        X, X_true = [self._state()], [self._true_state()]
        U: list[np.ndarray] = []
        refits: list[tuple[int, RefitResult]] = []
        detected: list[int] = []
        solve_time: list[float] = []
        fallbacks = 0
        for k in range(self.steps):
            command = mpc.command(X[-1], k * dt)
            if command.change_detected:
                detected.append(k)
                result = self._fit(X, U, self._since(k))
                refits += [(k, result)] if result else []
            plant.step(command.u)
            U.append(command.applied)
            X.append(self._state())
            X_true.append(self._true_state())
            solve_time.append(command.solve_time)
            fallbacks += command.source is not CommandSource.PLAN
            first = self._due(k + 1, detected)
            if first is not None and (result := self._fit(X, U, first)):
                refits.append((k + 1, result))
        self.episodes += 1
        return Episode(
            np.array(X),
            np.array(X_true),
            np.array(U),
            tuple(refits),
            tuple(detected),
            np.array(solve_time),
            fallbacks,
            self.parameters,
            dt,
        )

    @property
    def parameters(self) -> np.ndarray:
        """Physical vector in use, pending ones included."""
        return self.mpc.revision.p if self.refit is None or not self.revision else self._p

    def _due(self, step: int, detected: list[int]) -> int | None:
        """First sample of the data to fit after so many steps; None: no fit now."""
        if detected:
            since = step - detected[-1]
            return self._since(detected[-1]) if since % self.half_window == 0 or step == self.steps else None
        early = self.episodes == 0 and step % self.refit_every == 0
        return 0 if early or step == self.steps else None

    def _since(self, declared: int) -> int:
        """The monitor reacts when half of its window deviates: so many transitions are new."""
        return max(0, declared - self.half_window)

    def _fit(self, X: list[np.ndarray], U: list[np.ndarray], first: int) -> RefitResult | None:
        if self.refit is None:
            return None
        nq, dt = self.mpc.task.model.nq, self.mpc.task.ilqr.dt
        states = np.array(X[first:])
        window = Window(dt * np.arange(first, len(X)), states[:, :nq], states[:, nq:], np.array(U[first:]))
        result = self.refit.fit(window, self.xi)
        if result.accepted:
            self.revision += 1
            self.xi, self._p = result.xi, result.p
            self.mpc.set_parameters(result.p, self.revision)
        return result

    def _state(self) -> np.ndarray:
        return np.concatenate([self.plant.q, self.plant.v])

    def _true_state(self) -> np.ndarray:
        return np.concatenate([self.plant.true_q, self.plant.true_v])
