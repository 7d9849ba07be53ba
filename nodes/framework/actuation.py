"""Between the model's controls (one per actuator) and the efforts in messages (one per joint)."""

from __future__ import annotations

import numpy as np

__all__ = ["Actuation"]


class Actuation:
    """Scatter and gather by the model's actuators; effort = gear * control on the joint driven.

    Args:
        model: RobotModel whose actuators are motors, one per actuated joint.

    Attributes:
        joints: index of the joint each actuator drives, shape (nu,).
        gear: nominal transmission, shape (nu,) [-].
    """

    def __init__(self, model) -> None:
        self.n = model.nv
        self.joints = np.array([actuator.v_index for actuator in model.actuators])
        layout = model.parameters
        self._lower = np.concatenate([model.q_lower, -model.v_limit])
        self._upper = np.concatenate([model.q_upper, model.v_limit])
        self._u_lower, self._u_upper = model.u_lower, model.u_upper
        self.gear = np.array(
            [
                layout.nominal[layout.index(f"{name}.gear")] if f"{name}.gear" in layout else 1.0
                for name in model.actuator_names
            ]
        )

    def effort(self, u: np.ndarray) -> np.ndarray:
        """Joint efforts, shape (n,) [N m | N], of controls u, shape (nu,)."""
        tau = np.zeros(self.n)
        tau[self.joints] = self.gear * u
        return tau

    def control(self, effort: np.ndarray) -> np.ndarray:
        """Controls, shape (nu,), behind joint efforts, shape (n,)."""
        return effort[self.joints] / self.gear

    def within_limits(self, u: np.ndarray, K: np.ndarray, x_ref: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(control, reference) of the policy u + K (x - x_ref), told about a state that the model's limits allow.

        A plan from a state beyond a limit, such as a falling arm's, leads through states beyond it; what a command gate
        lets pass does not.
        """
        inside = np.clip(x_ref, self._lower, self._upper)
        return np.clip(u + K @ (inside - x_ref), self._u_lower, self._u_upper), inside

    def gain(self, K: np.ndarray) -> np.ndarray:
        """JointCommand.gain, shape (n, 2n), of the policy u + K (x - x_ref), K (nu, 2n).

        The message multiplies (reference - measurement), hence the sign.
        """
        G = np.zeros((self.n, K.shape[1]))
        G[self.joints] = -self.gear[:, None] * K
        return G
