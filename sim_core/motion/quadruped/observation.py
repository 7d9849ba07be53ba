"""The 41 numbers a stance solver sees, in the order of the published controller.

Everything is in the heading frame (the trunk's origin and yaw, z up) unless said; so nothing depends on where the robot
is or where it looks.

Source: Heiden, NeuralSim (2021), MPC imitation; order of the inputs as in the Tiny Differentiable Simulator.
"""

from __future__ import annotations

import numpy as np

__all__ = ["FIELDS", "NAMES", "SIZE", "SLICES", "Observation"]

#: name, size, unit, what
FIELDS = (
    ("velocity", 3, "m/s", "of the centre of mass"),
    ("orientation", 3, "rad", "roll, pitch, yaw; yaw is 0"),
    ("angular_velocity", 3, "rad/s", "of the trunk"),
    ("contacts", 4, "", "1 where the leg is to carry"),
    ("feet", 12, "m", "in the trunk's frame"),
    ("friction", 4, "", "coefficient at each foot"),
    ("desired_position", 3, "m", "of the centre of mass above the ground below the trunk"),
    ("desired_velocity", 3, "m/s", ""),
    ("desired_orientation", 3, "rad", "roll, pitch, yaw relative to the present heading"),
    ("desired_angular_velocity", 3, "rad/s", ""),
)
_LEGS = ("FL", "FR", "RL", "RR")
_AXES = {3: ("x", "y", "z"), 4: _LEGS, 12: tuple(f"{leg}.{axis}" for leg in _LEGS for axis in "xyz")}

#: "velocity.x", ..., "feet.RR.z", ...
NAMES = tuple(f"{name}.{part}" for name, size, _, _ in FIELDS for part in _AXES[size])
SIZE = len(NAMES)
_ENDS = np.cumsum([size for _, size, _, _ in FIELDS]).tolist()
SLICES = {name: slice(end - size, end) for (name, size, _, _), end in zip(FIELDS, _ENDS)}


class Observation:
    """Named views on one vector of 41 numbers: `o.contacts[2] = 1.0` writes into `o.vector`."""

    __slots__ = ("vector", *(name for name, *_ in FIELDS))

    vector: np.ndarray
    velocity: np.ndarray
    orientation: np.ndarray
    angular_velocity: np.ndarray
    contacts: np.ndarray
    feet: np.ndarray
    friction: np.ndarray
    desired_position: np.ndarray
    desired_velocity: np.ndarray
    desired_orientation: np.ndarray
    desired_angular_velocity: np.ndarray

    def __init__(self, vector: np.ndarray | None = None) -> None:
        self.vector = np.zeros(SIZE) if vector is None else np.asarray(vector, float)
        if self.vector.shape != (SIZE,):
            raise ValueError(f"An observation has {SIZE} numbers, found shape {self.vector.shape}.")
        for name, where in SLICES.items():
            view = self.vector[where]
            setattr(self, name, view.reshape(4, 3) if name == "feet" else view)
