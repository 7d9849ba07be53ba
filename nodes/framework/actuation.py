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
        # What may be asked of a driven joint; of a passive one the receiver only wants to know its state.
        self._highest = np.full(model.nq + model.nv, np.inf)
        self._lowest = -self._highest
        for q, v in ((actuator.q_index, actuator.v_index) for actuator in model.actuators):
            self._lowest[[q, model.nq + v]] = model.q_lower[q], -model.v_limit[v]
            self._highest[[q, model.nq + v]] = model.q_upper[q], model.v_limit[v]
        layout = model.parameters
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

    def reference(self, x: np.ndarray) -> np.ndarray:
        """State [q, v] that driven joints may be asked for: x within their limits.

        A plan begins where the arm is. A joint that was pushed beyond a limit would be asked to be there, which every gate
        refuses, so that nothing led it back.
        """
        return np.clip(x, self._lowest, self._highest)

    def gain(self, K: np.ndarray) -> np.ndarray:
        """JointCommand.gain, shape (n, 2n), of the policy u + K (x - x_ref), K (nu, 2n).

        The message multiplies (reference - measurement), hence the sign.
        """
        G = np.zeros((self.n, K.shape[1]))
        G[self.joints] = -self.gear[:, None] * K
        return G
