"""What a tool weighs, seen by the force-torque sensor that carries it: identified, and taken off again.

A tool at rest acts on the sensor with f = m g_S + f_0 and n = c x (m g_S) + n_0, where g_S is gravity in the sensor's axes,
c the tool's centre of mass in the sensor's frame, and f_0, n_0 the sensor's offsets. Force and torque are those that act on
the sensor's measuring side, as everywhere in this stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["GRAVITY", "MINIMUM_POSES", "ToolIdentification", "ToolLoad", "identify_tool"]

#: Of every model here [m/s^2]. The standard value 9.80665 differs by 0.03 %, less than sensors do.
GRAVITY = 9.81
MINIMUM_POSES = 6
# Spread of the directions of gravity, relative to that of evenly spread ones, below which a parameter rests on noise.
OBSERVABLE = 0.1


@dataclass(frozen=True)
class ToolLoad:
    """A rigid tool: mass [kg], centre of mass in the sensor's frame, (3,) [m]."""

    mass: float = 0.0
    com: np.ndarray = field(default_factory=lambda: np.zeros(3))

    def wrench(self, gravity_S: np.ndarray) -> np.ndarray:
        """Wrench of the tool at rest, (..., 6) [N, N m]; gravity_S: gravity in the sensor's axes, (..., 3) [m/s^2]."""
        force = self.mass * np.asarray(gravity_S, float)
        return np.concatenate([force, np.cross(self.com, force)], axis=-1)


@dataclass(frozen=True)
class ToolIdentification:
    """What `identify_tool` found.

    Attributes:
        tool: mass and centre.
        offset: the sensor's, (6,) [N, N m].
        force_residual, torque_residual: root mean square of what the model does not explain, per axis [N], [N m].
        mass_std, com_std, offset_std: standard deviation by the residuals [kg], (3,) [m], (6,) [N, N m].
    """

    tool: ToolLoad
    offset: np.ndarray
    force_residual: float
    torque_residual: float
    mass_std: float
    com_std: np.ndarray
    offset_std: np.ndarray


def identify_tool(gravity_S: np.ndarray, wrench: np.ndarray) -> ToolIdentification:
    """Mass, centre and offsets by least squares over poses at rest.

    Forces alone give mass and force offset, torques then centre and torque offset: were both fitted at once, the weighting
    of newtons against newton metres would move the mass.

    Args:
        gravity_S: gravity in the sensor's axes at each pose, (n, 3) [m/s^2]; n >= 6.
        wrench: mean of the sensor's samples at each pose, (n, 6) [N, N m].

    Raises:
        ValueError: too few poses, directions of gravity that do not tell the parameters apart, or data that no tool explains.

    Source: Atkeson, An and Hollerbach, Estimation of Inertial Parameters of Manipulator Loads and Links (1986), for the static case.
    """
    g, w = np.asarray(gravity_S, float), np.asarray(wrench, float)
    n = len(g)
    if g.shape != (n, 3) or w.shape != (n, 6) or not (np.isfinite(g).all() and np.isfinite(w).all()):
        raise ValueError(f"expected finite gravity (n, 3) and wrench (n, 6), got {g.shape} and {w.shape}")
    if n < MINIMUM_POSES:
        raise ValueError(f"{n} poses are too few: at least {MINIMUM_POSES} are needed")
    eye = np.tile(np.eye(3), (n, 1, 1))
    # Scaled by |g|, so that a column of the force regressor and one of its offset weigh the same.
    force_regressor = np.concatenate([g[:, :, None] / GRAVITY, eye], axis=2).reshape(3 * n, 4)
    _require_observable(g)
    force, force_cov, force_rms = _least_squares(force_regressor, w[:, :3].reshape(-1))
    mass = force[0] / GRAVITY
    if mass <= 0.0:
        raise ValueError(
            f"the forces mean a mass of {mass:.3g} kg: the sensor's sign or the direction of gravity is reversed, or "
            "there is no tool; check 'sign' and 'tool.gravity_frame'"
        )
    mass_std = float(np.sqrt(force_cov[0, 0])) / GRAVITY
    if mass_std > 0.2 * mass:
        raise ValueError(
            f"a mass of {mass:.3g} kg is within the noise ({mass_std:.2g} kg): the tool is too light for this sensor"
        )
    # c x f = -[f]x c
    torque_regressor = np.concatenate([-_cross_matrices(mass * g), eye], axis=2).reshape(3 * n, 6)
    torque, torque_cov, torque_rms = _least_squares(torque_regressor, w[:, 3:].reshape(-1))
    return ToolIdentification(
        ToolLoad(float(mass), torque[:3]),
        np.concatenate([force[1:], torque[3:]]),
        force_rms,
        torque_rms,
        mass_std,
        np.sqrt(np.diag(torque_cov)[:3]),
        np.sqrt(np.concatenate([np.diag(force_cov)[1:], np.diag(torque_cov)[3:]])),
    )


def _require_observable(g: np.ndarray) -> None:
    """Directions of gravity must spread about their mean in two dimensions.

    About the mean, as offsets look like a constant. c x (g_i - mean) = 0 for all i has a solution c != 0 exactly if the deviations lie
    on one line.
    """
    unit = g / np.linalg.norm(g, axis=1, keepdims=True)
    spread = np.linalg.svd(unit - unit.mean(axis=0), compute_uv=False) / np.sqrt(len(g) / 3.0)
    if spread[1] < OBSERVABLE:
        raise ValueError(
            "gravity differs along one line of the sensor's frame only, along which the centre of mass cannot be told from "
            "the offsets: tilt the sensor towards other sides as well"
        )


def _least_squares(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Solution, its covariance by the residual, and the residual's root mean square."""
    x, *_ = np.linalg.lstsq(a, b, rcond=None)
    residual = b - a @ x
    variance = residual @ residual / (len(b) - a.shape[1])
    return x, variance * np.linalg.inv(a.T @ a), float(np.sqrt(np.mean(residual**2)))


def _cross_matrices(v: np.ndarray) -> np.ndarray:
    """[v]x, so that [v]x u = v x u; (n, 3) -> (n, 3, 3)."""
    zero = np.zeros(len(v))
    x, y, z = v.T
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
