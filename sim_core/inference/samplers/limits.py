"""Ways to keep a method inside the unit cube: reflection, and a map of the cube onto the whole space."""

from typing import overload

import numpy as np

__all__ = ["logit", "reflect", "sigmoid", "sigmoid_log_slope"]


@overload
def reflect(z: np.ndarray) -> np.ndarray: ...
@overload
def reflect(z: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...
def reflect(z: np.ndarray, velocity: np.ndarray | None = None) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """z folded back into [0, 1] at the walls, however far it went; a velocity turns with an odd number of folds."""
    turns = np.floor(z)
    inside = np.where(turns % 2 == 0, z - turns, 1 - (z - turns))
    return inside if velocity is None else (inside, np.where(turns % 2 == 0, velocity, -velocity))


def sigmoid(y: np.ndarray) -> np.ndarray:
    """z in (0, 1) of any y."""
    return 0.5 * (1 + np.tanh(0.5 * y))


def logit(z: np.ndarray, margin: float = 1e-6) -> np.ndarray:
    """y of z; z closer than `margin` to a wall is moved there."""
    z = np.clip(z, margin, 1 - margin)
    return np.log(z) - np.log1p(-z)


def sigmoid_log_slope(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log dz/dy = log z (1 - z), and its derivative 1 - 2 z."""
    return -np.logaddexp(0, y) - np.logaddexp(0, -y), -np.tanh(0.5 * y)
