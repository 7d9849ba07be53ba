"""The one door through which joint states enter a node: order, completeness, numbers, age.

Pure: takes anything shaped like sensor_msgs/JointState. Every refusal is a sentence that names
what was expected and what was found, because it ends up in front of an operator.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["JointSample", "JointStateGate", "peek_stamp", "seconds"]


def seconds(stamp) -> float:
    """builtin_interfaces/Time as float seconds (exact to 1 ns up to 104 days of simulated time)."""
    return stamp.sec + 1e-9 * stamp.nanosec


def peek_stamp(data: bytes) -> float:
    """Stamp [s] of a serialised message whose first field is a header.

    CDR: four bytes say the byte order (second byte, lowest bit: 1 is little-endian), then sec and nanosec.
    """
    sec, nanosec = struct.unpack_from("<iI" if data[1] & 1 else ">iI", data, 4)
    return sec + 1e-9 * nanosec


@dataclass(frozen=True)
class JointSample:
    """One accepted joint state, in the model's joint order.

    Attributes:
        stamp: time of the state [s].
        position, velocity: shape (n,) [rad | m], [rad/s | m/s].
        effort: applied over the tick that ended at `stamp`, shape (n,) [N m | N]; NaN where absent.
    """

    stamp: float
    position: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray


class JointStateGate:
    """Turns messages into JointSample or into the sentence why not.

    Args:
        joint_names: the model's joints, in its order.
        age_limit: oldest stamp accepted, relative to now [s]; inf: do not check (lock-step, where
            time stands still until this very state has been answered).
        future_limit: how far a stamp may lie ahead of now [s]: /clock and joint_states travel on
            different topics, so a state may overtake its own clock message.
    """

    def __init__(self, joint_names: Sequence[str], age_limit: float = np.inf, future_limit: float = np.inf) -> None:
        self.joint_names = tuple(joint_names)
        self.age_limit, self.future_limit = age_limit, future_limit
        self._order_of: tuple[tuple[str, ...], np.ndarray] | None = None

    def read(self, message, now: float = np.nan) -> tuple[JointSample | None, str]:
        """Accept or refuse one message.

        Args:
            message: sensor_msgs/JointState or alike.
            now: the node's clock [s]; NaN: age is not checked.

        Returns:
            (sample, "") or (None, sentence).
        """
        order, why = self._order(tuple(message.name))
        if why:
            return None, why
        stamp = seconds(message.header.stamp)
        if now - stamp > self.age_limit:
            return None, (
                f"joint state is {now - stamp:.3f} s old, limit {self.age_limit:.3f} s: "
                "the plant or the network is late"
            )
        if stamp - now > self.future_limit:
            return None, (
                f"joint state is stamped {stamp - now:.3f} s in the future, limit "
                f"{self.future_limit:.3f} s: clocks differ or use_sim_time is not set on both sides"
            )
        arrays = {}
        for field in ("position", "velocity", "effort"):
            values = np.asarray(getattr(message, field), dtype=float)
            if field == "effort" and values.size == 0:
                arrays[field] = np.full(order.size, np.nan)
                continue
            if values.size != len(message.name):
                return None, f"joint state has {values.size} entries in {field}, expected {len(message.name)}"
            arrays[field] = values[order]
            if not np.all(np.isfinite(arrays[field])):
                bad = [name for name, value in zip(self.joint_names, arrays[field]) if not np.isfinite(value)]
                return None, f"{field} of {', '.join(bad)} is not finite"
        return JointSample(stamp, **arrays), ""

    def _order(self, names: tuple[str, ...]) -> tuple[np.ndarray, str]:
        """Indices that bring `names` into the model's order; the last answer is kept, names rarely change."""
        if self._order_of is None or self._order_of[0] != names:
            missing = [name for name in self.joint_names if name not in names]
            if missing:
                return np.empty(0, int), (
                    f"joint {', '.join(missing)} is missing from joint_states; "
                    f"received {', '.join(names) or 'no names'}"
                )
            self._order_of = names, np.array([names.index(name) for name in self.joint_names])
        return self._order_of[1], ""
