"""Joint states that come in parts: arms, neck and hand have drivers of their own, and whoever moves all joints wants all of them.

    parts = JointStateParts(joint_names, age_limit=0.1)
    sample, why = parts.read(message, now)           # None and "": a part was taken, and the state is told with the next leading one

Each driver is known by the joints that it names. A whole state is told whenever the driver of the most joints has spoken, with its
stamp; what the others said last holds for as long as the age limit lets it. So one that falls silent makes the whole state stale, and
nothing is made up for it. Two that name a joint at once are an error. Two that name the very same joints cannot be told apart.

Pure, as `joint_state_gate.py`, which every part goes through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nodes.framework.joint_state_gate import JointSample, JointStateGate

__all__ = ["JointStateParts"]


@dataclass
class _Part:
    """One driver: its joints in the model's order, where they are in it, the gate that they go through, what came last."""

    index: np.ndarray
    gate: JointStateGate
    last: JointSample | None = None


class JointStateParts:
    """See the module's docstring.

    Args:
        joint_names: the model's joints, in its order.
        age_limit: oldest stamp of any joint, relative to now [s]; inf: do not check.
        future_limit: how far a stamp may lie ahead of now [s].
    """

    def __init__(self, joint_names: Sequence[str], age_limit: float = np.inf, future_limit: float = np.inf) -> None:
        self.joint_names = tuple(joint_names)
        self.age_limit, self.future_limit = age_limit, future_limit
        self._parts: dict[frozenset[str], _Part] = {}
        self._conflict, self._conflict_at = "", -np.inf  # two drivers of one joint, and when that was so last [s]

    def read(self, message, now: float = np.nan) -> tuple[JointSample | None, str]:
        """Take one part.

        Args:
            message: sensor_msgs/JointState or alike; joints that the model does not have are left out.
            now: the node's clock [s]; NaN: the newest stamp of all.

        Returns:
            (the state of all joints, ""), (None, the sentence why not), or (None, "") where another driver leads.
        """
        names = [name for name in message.name if name in self.joint_names]
        if not names:
            return None, ""
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            return None, f"joint {twice} is named twice in one message of joint_states"
        key = frozenset(names)
        part = self._parts.get(key) or self._new(key)
        sample, why = part.gate.read(message, now)
        if sample is None:
            return None, why
        at = sample.stamp if np.isnan(now) else now
        if why := self._claimed(key, at):
            self._conflict, self._conflict_at = why, at
            return None, why
        self._parts[key], part.last = part, sample
        return self._whole(now) if part is self._leading() else (None, "")

    def _new(self, key: frozenset[str]) -> _Part:
        index = np.array([k for k, name in enumerate(self.joint_names) if name in key])
        return _Part(index, JointStateGate([self.joint_names[k] for k in index], self.age_limit, self.future_limit))

    def _claimed(self, key: frozenset[str], now: float) -> str:
        """Why a joint of these may not be told by their driver; drivers that have fallen silent claim nothing any more."""
        for other, part in list(self._parts.items()):
            if other == key or not other & key:
                continue
            if part.last is not None and now - part.last.stamp <= self.age_limit:
                return (
                    f"joint {', '.join(sorted(other & key))} is told by two drivers, one of {', '.join(sorted(other))} and one of "
                    f"{', '.join(sorted(key))}: each joint is told by one"
                )
            del self._parts[other]
        return ""

    def _leading(self) -> _Part:
        """That of the most joints; of equals, the one with the model's first."""
        return max(self._parts.values(), key=lambda part: (len(part.index), -int(part.index[0])))

    def _whole(self, now: float) -> tuple[JointSample | None, str]:
        parts = list(self._parts.values())
        if self._conflict and self._leading().last.stamp - self._conflict_at <= self.age_limit:
            return None, self._conflict  # nobody knows which of them is right
        samples = [part.last for part in parts if part.last is not None]
        found = np.zeros(len(self.joint_names), bool)
        for part in parts:
            found[part.index] = True
        if not found.all():
            missing = [name for name, there in zip(self.joint_names, found) if not there]
            return None, f"joint {', '.join(missing)} is told by no driver yet: {len(parts)} of them have spoken"
        at = max(sample.stamp for sample in samples) if np.isnan(now) else now
        arrays = {field: np.full(len(found), np.nan) for field in ("position", "velocity", "effort")}
        for part, sample in zip(parts, samples):
            if at - sample.stamp > self.age_limit:
                silent = ", ".join(self.joint_names[k] for k in part.index)
                return None, (
                    f"joint {silent} was told {at - sample.stamp:.3f} s ago, limit {self.age_limit:.3f} s: its driver is silent"
                )
            for field, values in arrays.items():
                values[part.index] = getattr(sample, field)
        return JointSample(self._leading().last.stamp, **arrays), ""
