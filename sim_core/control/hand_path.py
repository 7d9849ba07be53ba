"""The path of an arm's hand as its joints see it: how far they are from it, and the posture that is on it."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np
from scipy.optimize import least_squares

from sim_core.multibody import RobotModel
from sim_core.multibody.model import build

__all__ = ["HandPath"]


class HandPath:
    """A site that follows a path with a fixed orientation.

    Args:
        model: the arm.
        frame: site that follows.
        path: t [s] -> position of the site in world (3,) [m].
        orientation: R_WF (3, 3) that the site shall keep.
        position [1/m^2], rotation [-], posture [1/rad^2]: weights of the controller's cost.

    Attributes:
        stiffness: what a joint's deviation costs at the home pose through what it does to the hand, (n,) [1/rad^2].
    """

    def __init__(
        self,
        model: RobotModel,
        frame: str,
        path: Callable[[float], np.ndarray],
        orientation: np.ndarray,
        position: float,
        rotation: float,
        posture: float,
    ) -> None:
        self.model, self.path = model, path
        self._orientation = np.asarray(orientation, float)
        q, nominal = ca.SX.sym("q", model.nq), model.parameters.nominal
        here, R = build.frame_pose(model, frame)(q, nominal)
        pose = ca.vertcat(here, ca.reshape(R.T, 9, 1))
        self._pose = ca.Function("pose", [q], [pose])
        self._jacobian = ca.Function("jacobian", [q], [ca.jacobian(pose, q)])
        self._scale = np.sqrt(np.r_[np.full(3, position), np.full(9, rotation)])
        self._posture = np.sqrt(posture)
        J = self._scale[:, None] * np.asarray(self._jacobian(model.q_home))
        self.stiffness = np.sum(J * J, axis=0) + posture

    def errors(self, q: np.ndarray, t: float) -> tuple[float, float]:
        """Distance [m] and turn [rad] of the hand at q (n,) from the path's point at t [s]."""
        pose = np.asarray(self._pose(q)).ravel()
        turned = np.sum(pose[3:].reshape(3, 3) * self._orientation)
        return (
            float(np.linalg.norm(pose[:3] - self.path(t))),
            float(np.arccos(np.clip((turned - 1) / 2, -1.0, 1.0))),
        )

    def posture(self, t: float) -> np.ndarray:
        """Joints (n,) with the hand at the path's point at t [s]: those that the controller's cost holds best at rest.

        The search begins at the home pose, so that the same point always has the same posture.
        """
        model, goal = self.model, np.r_[self.path(t), self._orientation.ravel()]

        def residual(q: np.ndarray) -> np.ndarray:
            return np.r_[self._scale * (np.asarray(self._pose(q)).ravel() - goal), self._posture * (q - model.q_home)]

        def jacobian(q: np.ndarray) -> np.ndarray:
            return np.vstack([self._scale[:, None] * np.asarray(self._jacobian(q)), self._posture * np.eye(model.nq)])

        return least_squares(
            residual, model.q_home, jacobian, bounds=(model.q_lower, model.q_upper), xtol=1e-10, ftol=1e-12
        ).x
