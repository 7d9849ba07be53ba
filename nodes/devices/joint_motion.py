"""Whether the robot is at rest, from its joint states, at no cost while nobody asks."""

from __future__ import annotations

import numpy as np
from sensor_msgs.msg import JointState

from nodes.framework.joint_state_gate import seconds
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import SENSOR

__all__ = ["JointMotion"]


class JointMotion:
    """The fastest joint since one last asked.

    Attributes:
        known: whether joint states have come since `begin`.

    Args:
        node, topic: where joint states come from; best effort, as only the present matters.
    """

    def __init__(self, node, topic: str) -> None:
        self._node = node
        self._reader = create_polled_subscription(node, JointState, topic, SENSOR)
        self._last: dict[str, tuple[float, float]] = {}
        self.known = False

    def begin(self) -> None:
        """Forget what has come until now."""
        take(self._reader)
        self._last.clear()
        self.known = False

    @property
    def missing(self) -> bool:
        """Whether somebody publishes joint states, and none have come."""
        return not self.known and self._node.count_publishers(self._reader.topic_name) > 0

    def peak(self) -> float:
        """Largest speed of any joint in the messages since the last call [rad/s]; 0 without any.

        Where a message has no velocities, the change of position since the message before counts.
        """
        fastest = 0.0
        for message, _ in take(self._reader):
            self.known = True
            velocity = np.asarray(message.velocity, float)
            if len(velocity) == len(message.name):
                speeds = velocity
            else:
                speeds = self._differences(message)
            finite = np.abs(speeds[np.isfinite(speeds)])
            fastest = max(fastest, float(finite.max(initial=0.0)))
        return fastest

    def _differences(self, message) -> np.ndarray:
        stamp, speeds = seconds(message.header.stamp), []
        for name, position in zip(message.name, message.position):
            before = self._last.get(name)
            if before is not None and stamp > before[0]:
                speeds.append((position - before[1]) / (stamp - before[0]))
            self._last[name] = stamp, position
        return np.array(speeds, float)

    def close(self) -> None:
        """Free the subscription."""
        self._node.destroy_subscription(self._reader)
