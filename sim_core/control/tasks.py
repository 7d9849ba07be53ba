"""Tasks: what the controller plans for, with the numbers that make it work.

Cart-poles: the cost of Heiden et al., "Interactive Differentiable Simulation" (2019), on the feature
state (p, p', sin, cos per pole, pole rates, accelerations). Its weights are not published; the sets
used are one feasible choice, found with the exact model. Panda: an end-effector path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from sim_core.control.cost import (
    ControlTerm,
    Cost,
    FeatureTerm,
    FrameOrientation,
    FramePosition,
    LimitTerm,
    StateTerm,
)
from sim_core.control.hand_path import HandPath
from sim_core.control.plan import IlqrConfig
from sim_core.multibody import RobotModel
from sim_core.multibody.model import build


@dataclass(frozen=True)
class Aim:
    """What one solve is for.

    Attributes:
        reference: (H+1, nr) of the knots.
        weights: of the stage's and the last knot's residuals; None: the task's own.
    """

    reference: np.ndarray
    weights: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Task:
    """What AdaptiveMpc needs to know.

    Attributes:
        name, model, cost: as they say; the model is a RobotModel or any other System.
        ilqr: solver settings; ilqr.dt is the control period.
        resolution: (nx,) smallest believable one-step prediction error of each state [SI].
        reference: time [s] -> (H+1, nr) references of the knots from then on.
        starts: () -> list of (H, nu) controls from which an episode's first solve starts.
        error: (x, t) -> the number the task wants small ([m] for tracking, else [-]).
        hand: the path of an arm's hand; None where nothing follows one.
        lead: states of the knots (H+1, nx) -> the aim to follow them with the joints, the hand going where that takes
            it; None where there is no path to be led to.
    """

    name: str
    model: Any
    cost: Cost
    ilqr: IlqrConfig
    resolution: np.ndarray
    reference: Callable[[float], np.ndarray]
    starts: Callable[[], list[np.ndarray]]
    error: Callable[[np.ndarray, float], float] = field(default=lambda x, t: np.nan)
    hand: HandPath | None = None
    lead: Callable[[np.ndarray], Aim] | None = None


# -- cart-poles ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SwingUpWeights:
    """Diagonal of Q per feature, R per control, S = terminal_factor Q."""

    position: float
    speed: float
    orientation: float
    rate: float
    acceleration: float
    control: float
    terminal_factor: float


SINGLE = SwingUpWeights(10.0, 0.3, 10.0, 0.3, 1e-4, control=1e-4, terminal_factor=100.0)
DOUBLE = SwingUpWeights(3.0, 0.3, 10.0, 0.3, 0.0, control=1e-5, terminal_factor=30.0)


def cartpole_swing_up(
    model: RobotModel,
    weights: SwingUpWeights | None = None,
    horizon: int | None = None,
    dt: float = 0.02,
    max_iterations: int = 10,
    integrator: str | None = None,
    substeps: int | None = None,
) -> Task:
    """Swing one or two poles up over the origin, and hold them there.

    Args:
        model: "cartpole" or "double_cartpole": q = [cart, angle from upright, relative angle].
        weights, horizon: by default those of the model's number of poles (H = 20 or 40).
        integrator, substeps: by default the plant's own step, so often per control period.
    """
    poles = model.nq - 1
    if poles not in (1, 2) or model.nu != 1:
        raise ValueError(
            f"{model.name}: expected a cart with one or two poles and one actuator, "
            f"found {model.nq} joints and {model.nu} actuators"
        )
    w = weights or (SINGLE if poles == 1 else DOUBLE)
    horizon = horizon or (20 if poles == 1 else 40)
    accelerations = w.acceleration > 0  # at zero weight the feature would only cost time
    accel = build.accel(model)

    def features(x: ca.SX, u: ca.SX, p: ca.SX) -> ca.SX:
        """(p, p', sin and cos of absolute orientations, rates of the joints, accelerations)."""
        q, v = x[: model.nq], x[model.nq :]
        angles = ca.cumsum(q[1:])  # absolute: what upright means for the second pole
        qdd = accel(q, v, u, p)[1:] if accelerations else ca.SX(0, 1)
        return ca.vertcat(q[0], v[0], ca.sin(angles), ca.cos(angles), v[1:], qdd)

    n = poles * accelerations
    goal = np.r_[0, 0, np.zeros(poles), np.ones(poles), np.zeros(poles), np.zeros(n)]
    Q = np.r_[w.position, w.speed, [w.orientation] * 2 * poles, [w.rate] * poles, [w.acceleration] * n]
    cost = Cost(model, [FeatureTerm(features, goal, Q, w.terminal_factor * Q), ControlTerm(w.control)])
    reference = cost.reference(horizon)
    limit = model.u_upper[0]

    def starts() -> list[np.ndarray]:
        """Zero, and one period of a sine over the horizon at +-1 and +-0.3 of the force limit."""
        sine = np.sin(2 * np.pi * np.arange(horizon) / horizon)[:, None]
        return [a * limit * sine for a in (0.0, 1.0, -1.0, 0.3, -0.3)]

    return Task(
        name=f"{model.name}_swing_up",
        model=model,
        cost=cost,
        ilqr=IlqrConfig(
            horizon, dt, integrator, substeps or max(1, round(dt / model.timestep)), max_iterations, fill="zero"
        ),
        resolution=np.r_[np.full(model.nq, 1e-4), np.full(model.nv, 1e-3)],
        reference=lambda t: reference,
        starts=starts,
        error=lambda x, t: float(1.0 - swing_up_reward(x)),
    )


def swing_up_reward(x: np.ndarray) -> np.ndarray:
    """Smooth reward of the DeepMind Control Suite's cart-pole without its control term.

    upright * centred * slow, each in [0, 1]: mean height of the poles; 0.1^(p/2)^2 and
    0.1^(rate/5)^2 of the fastest joint, both lifted to [1/2, 1] (Gaussian tolerances that fall to
    0.1 at their margins of 2 m and 5 rad/s).

    Args:
        x: (..., nx) states [q, v].

    Returns:
        (...,) in [0, 1].
    """
    x = np.asarray(x, float)
    nq = x.shape[-1] // 2
    upright = np.mean((np.cos(np.cumsum(x[..., 1:nq], -1)) + 1) / 2, -1)
    centred = (1 + 0.1 ** (x[..., 0] / 2) ** 2) / 2
    slow = (1 + np.min(0.1 ** (x[..., nq + 1 :] / 5) ** 2, -1)) / 2
    return upright * centred * slow


# -- Panda ---------------------------------------------------------------------------------------

Path = Callable[[float], np.ndarray]
#: [s] within which an arm that is led with its joints makes up for a deviation
LEAD_TIME = 0.1


def figure_eight(
    centre: Sequence[float] = (0.5, 0.0, 0.45),
    width: float = 0.15,
    height: float = 0.08,
    period: float = 4.0,
    ramp: float = 1.0,
) -> Path:
    """A figure eight in the plane x = centre[0], starting at its centre from rest.

    Args:
        width, height: half extents along y and z [m]. period: of one round [s].
        ramp: time over which the speed along the path grows to its full value [s].

    Returns:
        t [s] -> position (3,) [m]; the centre for t <= 0.
    """
    middle = np.asarray(centre, float)

    def path(t: float) -> np.ndarray:
        t = max(float(t), 0.0)
        s = t - ramp / 2 if t > ramp else t * t / (2 * ramp)  # constant acceleration, then speed
        phase = 2 * np.pi * s / period
        return middle + np.array([0.0, width * np.sin(phase), height * np.sin(2 * phase) / 2])

    return path


def frame_tracking(
    model: RobotModel,
    path: Path,
    frame: str = "hand_site",
    orientation: np.ndarray | None = None,
    horizon: int = 20,
    dt: float = 0.02,
    integrator: str | None = None,
    substeps: int = 1,
    max_iterations: int = 2,
    position: float = 2e4,
    rotation: float = 50.0,
    posture: float = 0.05,
    rate: float = 0.02,
    control: float = 1e-5,
    smoothness: float = 1e-4,
) -> Task:
    """Follow a path with a site of the arm, in real-time iteration.

    Args:
        path: t [s] -> position of the site in world (3,) [m].
        orientation: fixed R_WF (3, 3) of the site; by default that of the home pose.
        position [1/m^2], rotation [-], posture [1/rad^2], rate [s^2/rad^2], control and smoothness
            [1/(N m)^2]: weights. Posture pulls towards the home pose: it decides the redundant
            direction and nothing else. Position and rate limits are quadratic hinges.
    """
    pose = build.frame_pose(model, frame)
    nominal = model.parameters.nominal
    home_position, home_orientation = (np.asarray(a) for a in pose(model.q_home, nominal))
    orientation = home_orientation if orientation is None else np.asarray(orientation, float)
    cost = Cost(
        model,
        [
            StateTerm(np.r_[np.full(model.nq, posture), np.full(model.nv, rate)]),
            ControlTerm(control),
            FramePosition(frame, position),
            FrameOrientation(frame, rotation),
            LimitTerm(position=1e3, velocity=10.0),
        ],
        smoothness=smoothness,
    )
    holding = _holding_control(model)

    def reference(t: float) -> np.ndarray:
        points = np.array([path(t + k * dt) for k in range(horizon + 1)])
        return cost.reference(horizon, position=points, orientation=orientation.ravel())

    hand = HandPath(model, frame, path, orientation, position, rotation, posture)
    # A joint is held as firmly as the path holds it, and damped within LEAD_TIME.
    led = cost.weights(
        state=np.r_[hand.stiffness, np.maximum(LEAD_TIME**2 * hand.stiffness, rate)], position=0.0, orientation=0.0
    )

    def lead(states: np.ndarray) -> Aim:
        return Aim(cost.reference(horizon, state=states), led)

    def error(x: np.ndarray, t: float) -> float:
        return hand.errors(x[: model.nq], t)[0]

    return Task(
        name=f"{model.name}_tracking",
        model=model,
        cost=cost,
        ilqr=IlqrConfig(horizon, dt, integrator, substeps, max_iterations, mu_init=1e-6, fill="hold"),
        resolution=np.r_[np.full(model.nq, 1e-4), np.full(model.nv, 2e-3)],
        reference=reference,
        starts=lambda: [np.tile(holding, (horizon, 1))],
        error=error,
        hand=hand,
        lead=lead,
    )


def _holding_control(model: RobotModel) -> np.ndarray:
    """Controls (nu,) that leave the home pose at rest: a(q, 0, u) = 0, affine in u; clipped."""
    accel, p, rest = build.accel(model), model.parameters.nominal, np.zeros(model.nv)
    a = np.column_stack(
        [np.asarray(accel(model.q_home, rest, u, p)).ravel() for u in [np.zeros(model.nu), *np.eye(model.nu)]]
    )
    u = np.linalg.lstsq(a[:, 1:] - a[:, :1], -a[:, 0], rcond=None)[0]
    return np.clip(u, model.u_lower, model.u_upper)
