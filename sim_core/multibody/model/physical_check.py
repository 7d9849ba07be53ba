"""Whether a physical vector makes sense, asked before anybody plans with it or simulates it.

    check = PhysicalCheck(model)
    sentence = check.objection(p)      # "" for a set that a robot can have

A set is refused for the first of these: a number that is not finite; one outside the range declared below for its kind
of quantity; a configuration of the joints in which the mass matrix is not positive definite, because there the
equations have no solution or push backwards. One such configuration is enough: a robot that moves will come to it.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import ArrayLike

from sim_core.multibody.model import build
from sim_core.multibody.model.model import RobotModel

__all__ = ["RANGES", "PhysicalCheck"]

#: end of a parameter's name -> least and greatest value [SI], far beyond any robot that these equations are written for
RANGES: dict[str, tuple[float, float]] = {
    "mass": (0.0, 1e5),
    **{f"h.{axis}": (-1e6, 1e6) for axis in "xyz"},
    **{f"I.{axis}{axis}": (0.0, 1e7) for axis in "xyz"},
    **{f"I.{pair}": (-1e7, 1e7) for pair in ("xy", "xz", "yz")},
    "damping": (0.0, 1e6),
    "armature": (0.0, 1e6),
    "frictionloss": (0.0, 1e6),
    "stiffness": (0.0, 1e8),
    **{f"pos.{axis}": (-1e3, 1e3) for axis in "xyz"},
    **{f"gravity.{axis}": (-1e3, 1e3) for axis in "xyz"},
    "gear": (-1e6, 1e6),
}
#: of quantities that are not listed: constants of a medium, contact laws and networks
OTHERS = (-1e12, 1e12)

SAMPLES = 16  # configurations besides home
UNLIMITED = {"revolute": np.pi, "prismatic": 1.0}  # reach to both sides of home of a joint without limits [rad or m]


class PhysicalCheck:
    """Judges physical vectors of a model.

    Attributes:
        model: that they are for. lower, upper: least and greatest values (np_,) [SI].
        configurations: joint positions at which the mass matrix is looked at, home first, (nq, 1 + samples) [rad or m].
    """

    def __init__(self, model: RobotModel, samples: int = SAMPLES) -> None:
        self.model = model
        self.lower, self.upper = np.array([_range(name) for name in model.parameters.names]).T
        self.configurations = np.column_stack([model.q_home, *_spread(model, samples)])
        self._mass_matrix = build.mass_matrix(model)

    def objection(self, p: ArrayLike, q: ArrayLike | None = None) -> str:
        """Why no robot has the parameters p, or "".

        Args:
            p: physical vector (np_,). q: where the robot is (nq,), looked at besides the fixed configurations.

        Returns:
            One sentence that names the parameter, or the configuration, and what was expected.
        """
        p = np.asarray(p, dtype=float)
        names, units = self.model.parameters.names, self.model.parameters.units
        if p.shape != (len(names),):
            return f"expected {len(names)} parameters of {self.model.name}, found shape {p.shape}"
        if bad := int(np.count_nonzero(~np.isfinite(p))):
            return f"{bad} of {p.size} numbers are not finite, the first is {names[int(np.argmin(np.isfinite(p)))]}"
        outside = (p < self.lower) | (p > self.upper)
        if outside.any():
            i = int(np.argmax(outside))
            return f"{names[i]} is {p[i]:g} {units[i]}, expected {self.lower[i]:g} to {self.upper[i]:g} {units[i]}"
        Q = self.configurations if q is None else np.column_stack([np.asarray(q, dtype=float), self.configurations])
        M = np.asarray(self._mass_matrix(Q, p), dtype=float)
        smallest = np.linalg.eigvalsh(M.reshape(self.model.nv, -1, self.model.nv).swapaxes(0, 1))[:, 0]
        if (smallest > 0.0).all():
            return ""
        k = int(np.argmin(smallest))
        where = ", ".join(f"{name} = {value:.3g}" for name, value in zip(self.model.q_names, Q[:, k]))
        return (
            f"the mass matrix is not positive definite at {where}: its smallest eigenvalue is {smallest[k]:.3g}, expected "
            "more than 0; masses and inertias belong to no bodies"
        )


def _range(name: str) -> tuple[float, float]:
    """Of a parameter, by the end of its name: a body, joint or site may be called anything, dots included."""
    parts = name.split(".")
    found = (RANGES.get(".".join(parts[-count:])) for count in (2, 1))
    return OTHERS if name.startswith("augmentation.") else next((pair for pair in found if pair is not None), OTHERS)


def _spread(model: RobotModel, samples: int) -> list[np.ndarray]:
    """Joint positions (nq,) that fill the joints' ranges evenly, the same on every machine.

    An additive recurrence with powers of the generalised golden ratio: Roberts, "The unreasonable effectiveness of
    quasirandom sequences" (2018).
    """
    ratio = functools.reduce(lambda g, _: (1.0 + g) ** (1.0 / (model.nv + 1)), range(60), 2.0)
    steps = ratio ** -np.arange(1.0, model.nv + 1)
    return [_position(model, (0.5 + k * steps) % 1.0) for k in range(1, samples + 1)]


def _position(model: RobotModel, share: np.ndarray) -> np.ndarray:
    """Joint positions (nq,) at shares (nv,) of the joints' ranges; a ball's three make a rotation, all equally likely."""
    q = np.array(model.q_home, dtype=float)
    for link in model.links:
        i = link.q_index
        if link.follows:
            continue
        if link.kind == "ball":  # Shoemake, "Uniform random rotations", Graphics Gems III (1992)
            a, b, c = share[link.v_index : link.v_index + 3] * (1.0, 2.0 * np.pi, 2.0 * np.pi)
            r, s = np.sqrt(1.0 - a), np.sqrt(a)
            q[i : i + 4] = r * np.sin(b), r * np.cos(b), s * np.sin(c), s * np.cos(c)
            continue
        reach = UNLIMITED[link.kind]
        low = model.q_lower[i] if np.isfinite(model.q_lower[i]) else q[i] - reach
        high = model.q_upper[i] if np.isfinite(model.q_upper[i]) else q[i] + reach
        q[i] = low + share[link.v_index] * (high - low)
    return q
