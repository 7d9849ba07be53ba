"""A stretch of robot data at constant rate, and how raw samples become one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.inference.data.robust import robust_scale

__all__ = ["Window", "contiguous_windows", "kinematic_inconsistency", "sensor_noise"]

# Stamps may deviate from the grid by this share of one period before a window is refused.
JITTER = 0.05

# Noise of the worst position sensor that is believed, standard deviation [rad or m].
WORST_SENSOR = 0.02


@dataclass(frozen=True)
class Window:
    """Samples of the state at constant dt and the control held between them.

    Attributes:
        t: stamps, shape (N+1,) [s].
        q: positions, shape (N+1, nq) [rad or m]; all states of a system whose states are not positions and their rates.
        v: velocities, shape (N+1, nv) [rad/s or m/s]; nv = 0 for such a system.
        u: applied controls, u[k] held over [t[k], t[k+1]], shape (N, nu) [N m or N].

    Raises:
        ValueError: shapes disagree, a value is not finite, or stamps are uneven.
    """

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray

    def __post_init__(self) -> None:
        for name in ("t", "q", "v", "u"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=float))
        n = len(self.t)
        if n < 2 or self.t.ndim != 1:
            raise ValueError(f"a window needs at least two stamps in one dimension, got shape {self.t.shape}")
        for name, rows in (("q", n), ("v", n), ("u", n - 1)):
            a = getattr(self, name)
            if a.ndim != 2 or len(a) != rows:
                raise ValueError(f"window {name}: expected shape ({rows}, .) for {n} stamps, got {a.shape}")
            if not np.isfinite(a).all():
                row = int(np.argwhere(~np.isfinite(a))[0, 0])
                raise ValueError(
                    f"window {name} is not finite at sample {row} (t = {self.t[row]:.4f} s); "
                    "drop bad samples with contiguous_windows()"
                )
        step = np.diff(self.t)
        if not (np.abs(step - self.dt) <= JITTER * self.dt).all():
            k = int(np.argmax(np.abs(step - self.dt)))
            raise ValueError(
                f"window stamps are uneven: {step[k] * 1e3:.3f} ms after sample {k}, "
                f"{self.dt * 1e3:.3f} ms elsewhere; split with contiguous_windows()"
            )

    @property
    def dt(self) -> float:
        """Sample period [s]."""
        return float(np.median(np.diff(self.t)))

    @property
    def transitions(self) -> int:
        """Number of steps N."""
        return len(self.t) - 1

    @property
    def x(self) -> np.ndarray:
        """States [q, v], shape (N+1, nq+nv)."""
        return np.concatenate([self.q, self.v], axis=1)

    def slice(self, start: int, stop: int) -> Window:
        """Samples start..stop, both included."""
        return Window(self.t[start : stop + 1], self.q[start : stop + 1], self.v[start : stop + 1], self.u[start:stop])

    def after(self, time: float) -> Window:
        """Samples at or after `time` [s]."""
        return self.slice(int(np.searchsorted(self.t, time - 1e-9)), self.transitions)


def contiguous_windows(
    t: np.ndarray,
    q: np.ndarray,
    v: np.ndarray,
    u: np.ndarray,
    dt: float | None = None,
    min_transitions: int = 10,
    bridge: float = 1.9,
) -> list[Window]:
    """Cut raw samples at gaps, repeated or backward stamps, and non-finite rows; bring the rest onto even stamps.

    Samples that a driver took a little early or late are interpolated; those of an even clock stay as they are.

    Args:
        t: shape (N+1,) [s]; q: (N+1, nq); v: (N+1, nv); u: (N, nu) as in `Window`.
        dt: expected period [s]; the median step by default.
        min_transitions: shorter pieces are dropped.
        bridge: longest step that is interpolated over [periods]; below 2, a lost sample cuts.

    Returns:
        The pieces in order of time; empty if nothing usable is left.
    """
    t, q, v, u = (np.asarray(a, dtype=float) for a in (t, q, v, u))
    step = np.diff(t)
    dt = float(np.median(step)) if dt is None else dt
    good = np.isfinite(q).all(1) & np.isfinite(v).all(1) & np.isfinite(t)
    joined = (step > JITTER * dt) & (step < bridge * dt) & good[:-1] & good[1:] & np.isfinite(u).all(1)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], joined, [False]]).astype(int)))
    windows = []
    for a, b in edges.reshape(-1, 2):
        if b - a >= min_transitions and t[b] - t[a] > (min_transitions - 0.5) * dt:
            piece = t[a : b + 1], q[a : b + 1], v[a : b + 1], u[a:b]
            even = (np.abs(step[a:b] - dt) <= JITTER * dt).all()
            windows.append(Window(*(piece if even else _evenly(*piece, dt))))
    return windows


def _evenly(t: np.ndarray, q: np.ndarray, v: np.ndarray, u: np.ndarray, dt: float) -> tuple[np.ndarray, ...]:
    """(t, q, v, u) every dt from the first stamp on: q by cubic Hermite (linear where there is no v), v linear, u the mean
    over each step."""
    grid = t[0] + dt * np.arange(int((t[-1] - t[0]) / dt + 0.5) + 1)
    k = np.clip(np.searchsorted(t, grid, side="right") - 1, 0, len(t) - 2)
    h = np.diff(t)[k, None]
    s = (grid - t[k])[:, None] / h
    if v.shape[1]:
        even_q = (
            (1 + 2 * s) * (1 - s) ** 2 * q[k]
            + s * (1 - s) ** 2 * h * v[k]
            + s**2 * (3 - 2 * s) * q[k + 1]
            + s**2 * (s - 1) * h * v[k + 1]
        )
    else:
        even_q = (1 - s) * q[k] + s * q[k + 1]
    impulse = np.concatenate([np.zeros((1, u.shape[1])), np.cumsum(np.diff(t)[:, None] * u, axis=0)])
    reached = impulse[k] + (grid - t[k])[:, None] * u[k]
    return grid, even_q, (1 - s) * v[k] + s * v[k + 1], np.diff(reached, axis=0) / dt


def kinematic_inconsistency(*windows: Window, resolution: float = 0.0) -> np.ndarray:
    """Share of each joint's motion that q and v disagree about, shape (nv,) [-].

    q[k+m] - q[k] must be the integral of v whatever the dynamics are, so this finds
    a flipped sign, swapped joints or a wrong clock before any model is believed.
    Near 0 for sound data, about 1 where q and v are unrelated, 2 for a flipped sign;
    0 for a joint that moves less than its own noise. Samples in random order look like noise as
    large as the motion, so noise counts up to WORST_SENSOR only.

    Args:
        windows: judged together.
        resolution: std of positions that may look free of noise, because they come in steps [rad or m].
    """
    parts = [_travel(w) for w in windows]
    travel_q, travel_v, curvature = (np.concatenate(column) for column in zip(*parts))
    defect = np.sqrt(np.mean((travel_q - travel_v) ** 2, axis=0))
    motion = np.sqrt(np.mean(travel_v**2, axis=0))
    # A resting joint shows noise alone: its own sample-to-sample scatter, of variance 6 sigma^2, is the yardstick.
    scatter = np.sqrt(np.mean(curvature**2, axis=0)) if len(curvature) else 0.0
    believed = 5.0 * np.clip(scatter, np.sqrt(6.0) * resolution, np.sqrt(6.0) * WORST_SENSOR)
    return defect / np.maximum(np.maximum(motion, believed), 1e-9)


def _travel(window: Window) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Travel over 0.05 s by q and by v, and second differences of q; rows of (nv,) each."""
    m = max(1, min(window.transitions // 4, round(0.05 / window.dt)))
    mean_v = 0.5 * (window.v[1:] + window.v[:-1])
    travelled = np.concatenate([np.zeros((1, mean_v.shape[1])), np.cumsum(mean_v, 0)])
    return np.diff(window.q[::m], axis=0), window.dt * np.diff(travelled[::m], axis=0), np.diff(window.q, n=2, axis=0)


def sensor_noise(windows: list[Window], floor: np.ndarray) -> np.ndarray:
    """White-noise std of each measured feature, shape (nx,), never below `floor`.

    Third differences cancel everything quadratic in time; those of white noise have variance
    20 sigma^2. Motion beyond that inflates the estimate, which errs on the lenient side.
    """
    differences = [np.diff(w.x, n=3, axis=0) for w in windows if w.transitions >= 3]
    if not differences:
        return floor
    return np.maximum(robust_scale(np.concatenate(differences), axis=0) / np.sqrt(20.0), floor)
