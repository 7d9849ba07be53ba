"""One poke: to a stand-off through the air, straight into the object until a force is felt, and back, whatever happens.

    motion = PokeMotion(order, pose, settings)
    motion.begin(way)                                   # or motion.refuse(why), and nothing moves
    motion.feel(reading)                                # for each word of the wrist's sensor
    target = motion.step(pose, dt)                      # where the probe's tip shall be; 250 times a second
    motion.outcome, motion.why, motion.log

At the stand-off the probe stands still, and what the sensor says there is taken for nothing. Then the tip advances along the inward
normal at constant speed. With the first reading that reaches the force limit the log ends and the way back begins; at the stand-off
the sensor is asked once more, which tells whether it has drifted. Forces in the log are not set to zero where the surface was
believed to be: by how much that was wrong is for a model to learn.

Source: Zhu, PhD thesis (University of Illinois 2023), sections 4.3.1 and 6.5.1; ways through the air and all limits are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.elastic.probe_reading import ProbeReading
from sim_core.telepresence.arm_kinematics import pose_error
from sim_core.telepresence.clutch import Pose

__all__ = [
    "TARE",
    "PokeLog",
    "PokeMotion",
    "PokeOrder",
    "PokeOutcome",
    "PokePhase",
    "PokeSettings",
    "air_force",
]

#: [s] before the tip advances over which the force in the air is averaged; whoever reads a bag does so as well
TARE = 0.2
#: stamps that are nearer to each other are the same [s]
SAME = 1e-6


class PokePhase(Enum):
    """Where a poke is; the value says it in words."""

    REACH = "finding out whether the arm reaches it"
    TRANSIT = "on the way to the stand-off"
    TARE = "standing still in the air, to learn what the sensor says there"
    PRESS = "advancing along the inward normal"
    RETRACT = "on the way back along the normal"
    CHECK = "standing still in the air again"
    AWAY = "going away from the object"
    ENDED = "away from the object, or where it was called back in the air"


class PokeOutcome(Enum):
    """How a poke ended."""

    DONE = "done"
    DEEPEST = "deepest"
    NO_CONTACT = "no contact"
    OUT_OF_REACH = "out of reach"
    TOO_FORCEFUL = "too forceful"
    SENSOR_SILENT = "force sensor silent"
    SENSOR_SATURATED = "force sensor saturated"
    SENSOR_DRIFTED = "force sensor drifted"
    ARM_STOPPED = "arm stopped"
    CANCELLED = "cancelled"


#: outcomes after which the log is one of displacement and force, unless the sensor has drifted
MEASURED = (PokeOutcome.DONE, PokeOutcome.DEEPEST, PokeOutcome.NO_CONTACT)


@dataclass(frozen=True)
class PokeSettings:
    """Of all pokes.

    Attributes:
        standoff: before the point, from where the tip advances slowly [m]. clearance: before the point, to where it comes through the air [m].
        transit [m/s], turning [rad/s]: in the air, at most. ramp: in which it comes to full speed there [s].
        approach: between the clearance and the stand-off, and back [m/s].
        calm: for which the probe stands still before the sensor is asked [s].
        touch: force that counts as contact [N]. margin: over a poke's limit that is too forceful [N]. abort: in the air, at once [N].
        range: of one axis of the sensor's force, from which on it is saturated [N]. drift: of the force in the air that is too much [N].
        silent: time without a reading that ends a poke [s].
        leash: that the tip's target leads the tip while it presses [m], and in the air; stopped: [s] at its end, at which the arm counts as stopped.
    """

    standoff: float = 0.01
    clearance: float = 0.06
    transit: float = 0.15
    turning: float = 1.0
    ramp: float = 0.5
    approach: float = 0.03
    calm: float = 0.3
    touch: float = 0.2
    margin: float = 2.0
    abort: float = 20.0
    range: float = 100.0
    drift: float = 0.3
    silent: float = 0.05
    leash: tuple[float, float] = (0.003, 0.015)
    stopped: float = 0.5

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not all(np.isfinite(number) and number > 0.0 for number in np.atleast_1d(value)):
                raise ValueError(f"{name}: expected a positive number, found {value}")
        if not self.standoff < self.clearance:
            raise ValueError(f"expected standoff < clearance, found {self.standoff:g} and {self.clearance:g} m")


@dataclass(frozen=True, eq=False)
class PokeOrder:
    """What one poke is to be.

    Attributes:
        point: on the surface (3,) [m]. normal: outward (3,); it need not have length 1. Both in the axes of all poses.
        force_limit: [N]. speed: of the tip while it advances [m/s]. deepest: displacement at which it turns back whatever the force [m].
        roll: of the probe about its axis, see `probe_pose` of rigid_body.py [rad].

    Raises:
        ValueError: a number that makes no sense; the sentence says which.
    """

    point: np.ndarray
    normal: np.ndarray
    force_limit: float = 5.0
    speed: float = 2e-3
    deepest: float = 0.02
    roll: float = 0.0

    def __post_init__(self) -> None:
        point, normal = np.asarray(self.point, float), np.asarray(self.normal, float)
        if point.shape != (3,) or normal.shape != (3,) or not np.isfinite([*point, *normal]).all():
            raise ValueError(f"expected three finite numbers each, found the point {point} and the normal {normal}")
        if np.linalg.norm(normal) < 1e-6:
            raise ValueError(f"expected a normal that points out of the object, found {normal.tolist()}")
        for name in ("force_limit", "speed", "deepest"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0.0):
                raise ValueError(f"{name}: expected a positive number, found {value}")
        if not np.isfinite(self.roll):
            raise ValueError(f"roll: expected a finite number, found {self.roll}")
        object.__setattr__(self, "point", point)
        object.__setattr__(self, "normal", normal / np.linalg.norm(normal))

    def at(self, depth: float, rotation: np.ndarray) -> Pose:
        """Of the tip at a displacement [m]."""
        return Pose(self.point - depth * self.normal, rotation)


@dataclass(eq=False)
class PokeLog:
    """What was felt while the tip advanced, one row for each reading of the sensor.

    Attributes:
        stamp: [s]. displacement: [m]. force: along the outward normal, less that in the air [N]. wrench: on the probe about its tip,
            in the world's axes, less that in the air (6,) [N], [N m]. tip: (3,) [m].
        air: what the sensor said in the air before (6,); None: it was not asked. drift: of the force along the normal in the air, after
            less before [N]; NaN: not known.
        begun, ended: stamps between which (the first excluded, the last included) the readings lie [s].
    """

    stamp: list[float] = field(default_factory=list)
    displacement: list[float] = field(default_factory=list)
    force: list[float] = field(default_factory=list)
    wrench: list[np.ndarray] = field(default_factory=list)
    tip: list[np.ndarray] = field(default_factory=list)
    air: np.ndarray | None = None
    drift: float = float("nan")
    begun: float = float("nan")
    ended: float = float("nan")

    @property
    def peak(self) -> float:
        """Largest force [N]; 0 before there is any."""
        return max(self.force, default=0.0)

    def add(self, reading: ProbeReading, point: np.ndarray, normal: np.ndarray) -> float:
        """One more row; its force [N].

        Raises:
            RuntimeError: what the sensor says in the air is not known yet.
        """
        if self.air is None:
            raise RuntimeError("the force in the air comes before those of the poke")
        wrench = reading.wrench - self.air
        force = float(wrench[:3] @ normal)
        self.stamp.append(reading.stamp)
        self.displacement.append(reading.displacement(point, normal))
        self.force.append(force)
        self.wrench.append(wrench)
        self.tip.append(reading.tip)
        return force


class PokeMotion:
    """See the module's docstring.

    Args:
        order: see there. pose: where the tip was last told to be. settings: see there.

    Attributes:
        phase: where it is. outcome: None until it is known; why: in words. log: see `PokeLog`. rotation: of the probe while it presses.
        peak: largest force along the normal from the first contact on, also after the log has ended [N].
    """

    def __init__(self, order: PokeOrder, pose: Pose, settings: PokeSettings = PokeSettings()) -> None:
        self.order, self.settings = order, settings
        self.phase = PokePhase.REACH
        self.outcome: PokeOutcome | None = None
        self.why, self.rotation = "", pose.rotation
        self.log = PokeLog()
        self.peak = 0.0
        self._target = self._begin = pose
        self._ahead: list[Pose] = []
        self._back: list[Pose] = []
        self._share, self._depth = 0.0, -settings.standoff
        self._calm: list[ProbeReading] = []
        self._still = np.nan  # stamp from which on the probe stands still
        self._newest = -np.inf
        self._silent = self._behind = self._waited = 0.0

    @property
    def ended(self) -> bool:
        """Whether it is back."""
        return self.phase is PokePhase.ENDED

    @property
    def depth(self) -> float:
        """Displacement that the tip was told last [m]; of a meaning while it presses."""
        return self._depth

    # -- from outside ------------------------------------------------------------------------------

    def begin(self, way: Sequence[Pose]) -> None:
        """Go: by poses of the tip that lead from where it is to the clearance before the point, whose rotation holds from there on."""
        if self.phase is PokePhase.REACH:
            self.rotation = way[-1].rotation
            self._ahead = [*way, self.order.at(-self.settings.standoff, self.rotation)]
            self.phase = PokePhase.TRANSIT

    def refuse(self, why: str) -> None:
        """The arm does not reach it: nothing moves."""
        if self.outcome is None:
            self._end(PokeOutcome.OUT_OF_REACH, why)

    def cancel(self, why: str) -> None:
        """Come back now."""
        if self.outcome is None:
            self._end(PokeOutcome.CANCELLED, why)

    def stop(self, why: str) -> None:
        """Nothing moves the arm any more. Once something does, `go_on` says where it is by then."""
        if self.outcome is None:
            self._end(PokeOutcome.ARM_STOPPED, why)

    def go_on(self, pose: Pose) -> None:
        """The arm moves again, from where it is now: what is left is the way back along the normal.

        Raises:
            RuntimeError: it was not stopped, and is not on its way back for another reason.
        """
        if self.outcome is None:
            raise RuntimeError("a poke that nothing stopped goes on by itself")
        if self.ended:
            return
        self._target, self._share = pose, 0.0
        self._retract(pose, check=False)

    # -- what is felt ------------------------------------------------------------------------------

    def feel(self, reading: ProbeReading) -> None:
        """One more word of the sensor; one that is not newer than the last, or not finite, says nothing."""
        if not (np.isfinite(reading.raw).all() and reading.stamp > self._newest + SAME):
            return
        self._newest, self._silent = reading.stamp, 0.0
        s, phase = self.settings, self.phase
        if self.outcome is None and (worst := float(np.abs(reading.raw[:3]).max())) >= s.range:
            self._end(PokeOutcome.SENSOR_SATURATED, f"it said {worst:.1f} N on one axis, and tells up to {s.range:g} N")
        elif phase is PokePhase.TRANSIT and self.outcome is None:
            if (felt := float(np.linalg.norm(reading.wrench[:3]))) > s.abort:
                self._end(
                    PokeOutcome.TOO_FORCEFUL, f"{felt:.1f} N were felt {phase.value}, at most {s.abort:g} N may be"
                )
        elif phase in (PokePhase.TARE, PokePhase.CHECK):
            self._weigh(reading)
        elif phase is PokePhase.PRESS:
            self._press(reading)
        elif phase is PokePhase.RETRACT and self.log.air is not None:
            self._leave(float((reading.wrench - self.log.air)[:3] @ self.order.normal))

    def _weigh(self, reading: ProbeReading) -> None:
        """In the air: after it has been calm, the last readings are what the sensor says where nothing is."""
        s = self.settings
        if not np.isfinite(self._still):
            self._still = reading.stamp
        self._calm.append(reading)
        if reading.stamp - self._still < s.calm + TARE - SAME:
            return
        air = air_force(self._calm, reading.stamp)
        if self.phase is PokePhase.TARE:
            self.log.air, self.log.begun, self._calm = air, reading.stamp, []
            self.phase, self._depth = PokePhase.PRESS, -s.standoff
            return
        assert self.log.air is not None
        away = air - self.log.air
        self.log.drift, apart = float(away[:3] @ self.order.normal), float(np.linalg.norm(away[:3]))
        if apart > s.drift and self.outcome in MEASURED:
            self.outcome = PokeOutcome.SENSOR_DRIFTED
            self.why = f"in the air it said {apart:.2f} N more or less than before, at most {s.drift:g} N may be"
        self._go_away()

    def _press(self, reading: ProbeReading) -> None:
        order, s, log = self.order, self.settings, self.log
        force = log.add(reading, order.point, order.normal)
        self.peak, depth = max(self.peak, force), log.displacement[-1]
        if force >= order.force_limit + s.margin:
            self._end(
                PokeOutcome.TOO_FORCEFUL,
                f"{force:.1f} N were felt, {order.force_limit:g} N were asked for, and at most {s.margin:g} N more may be",
            )
        elif force >= order.force_limit:
            self._end(PokeOutcome.DONE, f"{force:.2f} N were felt at a displacement of {1e3 * depth:.1f} mm")
        elif depth >= order.deepest:
            deepest = f"up to a displacement of {1e3 * order.deepest:.1f} mm"
            if self.peak < s.touch:
                self._end(PokeOutcome.NO_CONTACT, f"nothing was felt {deepest}")
            else:
                self._end(PokeOutcome.DEEPEST, f"{self.peak:.2f} N were felt at most {deepest}")

    def _leave(self, force: float) -> None:
        """What is felt after the log's end [N]."""
        self.peak, most = max(self.peak, force), self.order.force_limit + self.settings.margin
        if force >= most and self.outcome in MEASURED:
            self.outcome = PokeOutcome.TOO_FORCEFUL
            self.why = f"{force:.1f} N were felt {self.phase.value}, at most {most:g} N may be"

    # -- where the tip shall be --------------------------------------------------------------------

    def step(self, pose: Pose, dt: float) -> Pose:
        """Where the tip shall be.

        Args:
            pose: where it is. dt: since the last step [s].
        """
        self._watch(pose, dt)
        phase, s = self.phase, self.settings
        if phase is PokePhase.TRANSIT:
            slow = len(self._ahead) == 1  # the last stretch, along the normal
            if self._go(pose, self._ahead[0], s.approach if slow else s.transit, dt):
                self._ahead.pop(0)
                if not self._ahead:
                    self.phase, self._still, self._calm = PokePhase.TARE, np.nan, []
        elif phase is PokePhase.PRESS:
            # Not farther ahead of the tip than the leash, which bounds what the arm's springs push with.
            reached = float((self.order.point - pose.position) @ self.order.normal)
            self._depth = min(self._depth + self.order.speed * dt, reached + s.leash[0])
            self._target = self.order.at(self._depth, self.rotation)
        elif phase is PokePhase.RETRACT:
            if self._go(pose, self._back[0], s.approach, dt, wait=False):
                self._back.pop(0)
                if self._back and self.log.air is not None and self.outcome is not PokeOutcome.SENSOR_SILENT:
                    self.phase, self._still, self._calm, self._waited = PokePhase.CHECK, np.nan, [], 0.0
                else:
                    self._go_away()
        elif phase is PokePhase.CHECK:
            self._waited += dt
            if self._waited > s.calm + TARE + 0.5:  # nothing, or too little, was heard
                self._go_away()
        elif phase is PokePhase.AWAY and self._go(pose, self._back[0], s.transit, dt):
            self.phase = PokePhase.ENDED
        return self._target

    def _go(self, pose: Pose, goal: Pose, speed: float, dt: float, wait: bool = True) -> bool:
        """One step along a straight line to the goal, both speeds kept; an arm that is behind is waited for. Whether it is there."""
        s = self.settings
        if wait and np.linalg.norm(self._target.position - pose.position) > s.leash[1]:
            self._share = 0.0
            return False
        off = pose_error(goal, self._target)
        left = max(
            float(np.linalg.norm(off[:3])) / speed, float(np.linalg.norm(off[3:])) / s.turning
        )  # [s] at full speed
        # Faster and slower evenly; the share of the full speed ends with the way that is left.
        self._share = min(1.0, self._share + dt / s.ramp, float(np.sqrt(2.0 * left / s.ramp)) + 1e-3)
        if left <= self._share * dt:
            self._target, self._share = goal, 0.0
            return True
        part = self._share * dt / left
        turn = Rotation.from_rotvec(part * off[3:]).as_matrix()
        self._target = Pose(self._target.position + part * off[:3], turn @ self._target.rotation)
        return False

    def _watch(self, pose: Pose, dt: float) -> None:
        """What ends a poke at any time before its way back, besides what is felt."""
        if self.outcome is not None or self.ended:
            return
        s = self.settings
        self._silent += dt
        apart = float(np.linalg.norm(pose.position - self._target.position))
        longest = s.leash[0] if self.phase is PokePhase.PRESS else s.leash[1]
        self._behind = self._behind + dt if apart > 0.99 * longest else 0.0
        if self._silent > s.silent:
            self._end(PokeOutcome.SENSOR_SILENT, f"no force was told for {1e3 * self._silent:.0f} ms")
        elif self._behind > s.stopped:
            self._end(PokeOutcome.ARM_STOPPED, f"the arm is {1e3 * apart:.1f} mm from where it shall be")
            self._target = pose  # from where it is, not from where it should have been
            if self.phase is PokePhase.RETRACT:
                self._retract(pose, check=False)

    def _end(self, outcome: PokeOutcome, why: str) -> None:
        self.outcome, self.why = outcome, why
        phase = self.phase
        self.log.ended = self._newest
        if phase is PokePhase.REACH:
            self.phase = PokePhase.ENDED
        elif phase is PokePhase.TRANSIT and outcome is PokeOutcome.TOO_FORCEFUL:
            self.phase, self._back, self._share = (
                PokePhase.AWAY,
                [self._begin],
                0.0,
            )  # something was in the way: back as it came
        elif phase is PokePhase.TRANSIT and len(self._ahead) > 1:
            self.phase = PokePhase.ENDED  # nothing is near: it stays where it is
        elif phase is PokePhase.TRANSIT or phase is PokePhase.TARE:
            self._go_away()
        elif phase is PokePhase.PRESS:
            self._retract(self._target, check=True)

    def _retract(self, pose: Pose, check: bool) -> None:
        """Along the normal: to the stand-off, where the sensor is asked again, and on to the clearance."""
        s, order = self.settings, self.order
        out = float((pose.position - order.point) @ order.normal)
        stops = [s.standoff, s.clearance] if check else [s.clearance]
        self._back = [Pose(pose.position + max(0.0, stop - out) * order.normal, pose.rotation) for stop in stops]
        self.phase, self._share = PokePhase.RETRACT, 1.0

    def _go_away(self) -> None:
        """To the clearance."""
        here = self._target
        out = float((here.position - self.order.point) @ self.order.normal)
        self._back = [Pose(here.position + max(0.0, self.settings.clearance - out) * self.order.normal, here.rotation)]
        self.phase, self._share = PokePhase.AWAY, 0.0


def air_force(readings: Sequence[ProbeReading], until: float) -> np.ndarray:
    """Mean wrench (6,) of the readings of the last TARE seconds up to a stamp."""
    lately = [one.wrench for one in readings if until - TARE + SAME < one.stamp <= until]
    return np.mean(lately, axis=0)
