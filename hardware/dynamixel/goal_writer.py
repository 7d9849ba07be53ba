"""The bus cycle's writing: goals of all joints as one sync write per kind of goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hardware.dynamixel import protocol1, protocol2
from hardware.dynamixel.commands import Goals
from hardware.dynamixel.duty_ceiling import DutyCeiling
from hardware.dynamixel.joints import GroupState, Joint, JointArrays, some
from hardware.dynamixel.servo_setup import ServoLimits
from hardware.dynamixel.transport import Transport

__all__ = ["GoalWriter"]

Frame = protocol1.SyncWriteFrame | protocol2.SyncWriteFrame

CEILING_TIME = 1e-4  # [s] on the wire at most that bounds of the duty may add to a cycle: five servos at 1 Mbit/s
REPEAT = 1.0  # [s] after which the limits of current-based and of hot servos are sent again unchanged


class GoalWriter:
    """Turns goals into counts within what each servo accepts, and sends them.

    Args:
        bus, joints, arrays: of the group.
        limits: of each servo; None: it has not answered yet and gets no goals.
    """

    def __init__(
        self, bus: Transport, joints: Sequence[Joint], arrays: JointArrays, limits: Sequence[ServoLimits | None]
    ) -> None:
        self._bus, self._arrays = bus, arrays
        self._known = np.array([limit is not None for limit in limits])

        def raw(of: Callable[[ServoLimits], float]) -> np.ndarray:
            return np.array([float(of(limit)) if limit else 0.0 for limit in limits])

        self._current, self._pwm, self._velocity = (
            raw(lambda l: l.current),
            raw(lambda l: l.pwm),
            raw(lambda l: l.velocity),
        )
        self._low, self._high = raw(lambda l: l.low), raw(lambda l: l.high)
        self._protocol1 = bus.protocol == 1.0

        def frame(name: str, mask: np.ndarray) -> tuple[Frame | None, np.ndarray]:
            which = np.flatnonzero(mask & self._known)
            if not len(which):
                return None, which
            item = joints[int(which[0])].model.items[name]
            return bus.codec.SyncWriteFrame(item.address, item.size, [joints[k].id for k in which.tolist()]), which

        takes_current = arrays.takes_effort & ~arrays.is_pwm
        currents, which = frame("goal_current", takes_current)
        # The bound of the duty (100) lies just before the goal current (102): one write sets both, at once.
        self._ceiling = (
            DutyCeiling(joints, arrays)
            if currents is not None
            and not self._protocol1
            and bus.transmission_time(2 * len(which)) <= CEILING_TIME
            and all(_adjacent(joints[k]) for k in which.tolist())
            else None
        )
        if self._ceiling is not None and currents is not None:
            currents = protocol2.SyncWriteFrame(currents.address - 2, 4, currents.ids)
        self._frames = {
            "goal_current": (currents, which),
            "goal_pwm": frame("goal_pwm", arrays.is_pwm),
            "goal_velocity": frame("goal_velocity", arrays.takes_velocity),
            "goal_position": frame("goal_position", arrays.takes_position),
        }
        # What bounds the effort of servos with a loop of their own: goal current in mode 5, goal PWM in the others.
        self._caps = (
            {}
            if self._protocol1
            else {
                "goal_current": frame("goal_current", arrays.limits_current),
                "goal_pwm": frame("goal_pwm", ~arrays.takes_effort & ~arrays.limits_current),
            }
        )
        self._sent: dict[str, tuple[float, np.ndarray]] = {}
        self._parts: dict[tuple[int, tuple[int, ...], bytes], Frame] = {}

    def send(self, state: GroupState, goals: Goals) -> None:
        """One cycle's goals."""
        a = self._arrays
        for name, (frame, which) in self._frames.items():
            if frame is None:
                continue
            if name == "goal_current":
                counts = goals.effort / a.effort
                bound = self._current
            elif name == "goal_pwm":
                counts = self._duty(state, goals) / a.duty
                bound = self._pwm
            elif name == "goal_velocity":
                counts = goals.velocity / a.velocity
                bound = self._velocity
            else:
                counts = np.minimum(np.maximum(goals.position / a.position + a.zero, self._low), self._high)
                self._send(frame, counts[which])
                continue
            counts = np.minimum(np.maximum(counts, -bound), bound)
            if name == "goal_current" and self._ceiling is not None:
                duty = np.minimum(np.ceil(self._ceiling.duty(state, goals.effort) / a.duty), self._pwm)
                counts = np.rint(counts) * 65536.0 + duty
            self._send(frame, counts[which], signed_magnitude=self._protocol1)

    def cap(self, t: float, effort: np.ndarray, factor: np.ndarray) -> None:
        """Bounds of servos that close the position or velocity loop themselves; sent when they change, and once a second.

        Args:
            t: host time [s].
            effort: most allowed of each joint in mode 5, shape (n,) [N m].
            factor: share of the PWM limit allowed for the others, shape (n,).
        """
        for name, (frame, which) in self._caps.items():
            if frame is None:
                continue
            counts = (
                np.minimum(np.abs(effort / self._arrays.effort), self._current)
                if name == "goal_current"
                else self._pwm * factor
            )[which]
            before = self._sent.get(name)
            if before is None or t - before[0] > REPEAT or not np.array_equal(before[1], counts):
                self._send(frame, counts)
                self._sent[name] = t, counts

    def _duty(self, state: GroupState, goals: Goals) -> np.ndarray:
        """u = (R i + k_e omega) / V: the PWM that gives an effort, by the motor's data sheet."""
        a = self._arrays
        volts = a.resistance * goals.effort / a.k_t + a.back_emf * state.qd
        return volts / np.maximum(state.voltage, 1.0)

    def _part(self, frame: Frame, known: np.ndarray) -> Frame:
        """A frame for some of its servos, prepared once."""
        key = frame.address, frame.ids, known.tobytes()
        if key not in self._parts:
            ids = [id for id, good in zip(frame.ids, known, strict=True) if good]
            self._parts[key] = type(frame)(frame.address, frame.size, ids)
        return self._parts[key]

    def _send(self, frame: Frame, counts: np.ndarray, signed_magnitude: bool = False) -> None:
        known = np.isfinite(counts)
        if some(~known):  # a joint whose state is not known yet has no goal: it gets none
            if not some(known):
                return
            frame, counts = self._part(frame, known), counts[known]
        counts = np.rint(counts).astype(np.int64)
        if signed_magnitude:
            counts = np.abs(counts) | (counts < 0) << 10
        self._bus.send(frame.encode(counts))


def _adjacent(joint: Joint) -> bool:
    """Whether its servo's bound of the duty and its goal current are neighbours in its table."""
    pwm, current = (joint.model.items.get(name) for name in ("goal_pwm", "goal_current"))
    return pwm is not None and current is not None and pwm.size == 2 and current.address == pwm.address + 2
