"""The servo group's messages, built once and refilled every cycle."""

from __future__ import annotations

import array

import numpy as np
from control_msgs.msg import DynamicJointState, InterfaceValue
from sensor_msgs.msg import JointState

from hardware.dynamixel.joints import GroupState

__all__ = ["ServoMessages"]

INTERFACES = ("voltage", "temperature", "current", "hardware_error", "torque_enabled")


class ServoMessages:
    """Messages of one group.

    Args:
        names: of all joints.
    """

    def __init__(self, names) -> None:
        self._names = list(names)
        n = len(self._names)
        self._state = JointState(name=self._names)
        for field in ("position", "velocity", "effort"):
            setattr(self._state, field, array.array("d", bytes(8 * n)))
        # Views on the very memory that the message serialises.
        self._q, self._qd, self._tau = (
            np.frombuffer(getattr(self._state, field)) for field in ("position", "velocity", "effort")
        )
        self._dynamic = DynamicJointState(joint_names=self._names)
        self._dynamic.interface_values = [
            InterfaceValue(interface_names=list(INTERFACES), values=[0.0] * len(INTERFACES)) for _ in names
        ]
        self._rows = [np.frombuffer(value.values) for value in self._dynamic.interface_values]

    def joint_state(self, state: GroupState, stamp) -> JointState:
        """Joints that answered in this cycle; nothing old under a new stamp."""
        if state.valid.all():
            message = self._state
            self._q[:], self._qd[:], self._tau[:] = state.q, state.qd, state.effort
        else:
            there = np.flatnonzero(state.valid)
            message = JointState(
                name=[self._names[k] for k in there],
                position=state.q[there].tolist(),
                velocity=state.qd[there].tolist(),
                effort=state.effort[there].tolist(),
            )
        message.header.stamp = stamp
        return message

    def dynamic(self, state: GroupState, stamp) -> DynamicJointState:
        """Voltage [V], temperature [deg C], current [A], hardware error bits and torque of each joint; NaN where it did not answer."""
        table = np.array([state.voltage, state.temperature, state.current, state.hardware_error, state.torque])
        table[:, ~state.valid] = np.nan
        for row, values in zip(self._rows, table.T, strict=True):
            row[:] = values
        self._dynamic.header.stamp = stamp
        return self._dynamic
