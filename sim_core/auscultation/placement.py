"""Put the stethoscope onto a body, hold it there for a recording, and come back, whatever happens.

    placement = Placement(point, normal, pose)
    while not placement.ended:
        target = placement.step(pose, force, dt)        # where the membrane shall be; 125 times a second
    placement.outcome, placement.why

In the air the membrane goes to a stand-off before the point, then along the normal. From there on it is a virtual mass
that is pushed towards the body by the wanted force, and back by the force that is felt:

    M dv/dt = F_wanted - F_felt - D v,   v <= s towards the body

with D = F_wanted / s until it touches, so that in the air it goes at the approach's speed s, and with a smaller D afterwards, which
a breathing chest moves with less force. Every outcome, a good one too, ends with the way back along the normal.

Whoever makes the recording elsewhere gives the placement some overtime and says when it has come:

    placement = Placement(point, normal, pose, PlacementConfig(overtime=30.0))
    placement.finish()                                   # once it is there
    placement.cancel("no microphone", Outcome.NO_SOUND)  # or will never be

Source: Zhu, PhD thesis (University of Illinois 2023), section 5.3; its impedance is not published, and the limits are choices.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.spatial.transform import Rotation

from sim_core.telepresence.arm_kinematics import pose_error
from sim_core.telepresence.clutch import Pose

__all__ = ["Outcome", "Phase", "Placement", "PlacementConfig"]

#: share of the highest speeds that is asked for: an arm goes a little beyond
MARGIN = 0.9


class Phase(Enum):
    """Where a placement is; the value says it in words."""

    TRANSIT = "on the way to the stand-off"
    APPROACH = "approaching along the normal"
    SETTLE = "touching, until the force is steady"
    RECORD = "holding still for the recording"
    RETREAT = "on the way back"
    ENDED = "at the stand-off, or where it was called back on the way there"


class Outcome(Enum):
    """How a placement ended."""

    RECORDED = "recorded"
    NO_CONTACT = "no contact"
    FORCE_NOT_REACHED = "force not reached"
    CONTACT_LOST = "contact lost"
    TOO_MUCH_FORCE = "too much force"
    SENSOR_SILENT = "force sensor silent"
    ARM_STOPPED = "arm stopped"
    CANCELLED = "cancelled"
    NO_SOUND = "no sound"
    OUT_OF_REACH = "out of reach"


@dataclass(frozen=True)
class PlacementConfig:
    """Settings; those with an asterisk are published.

    Attributes:
        force: wanted along the normal [N] *. duration: of the recording [s] *. overtime: [s] after it within which somebody says
            that the recording has come; 0: the duration alone decides.
        standoff: before the point [m] *. transit, turning: at most in the air [m/s] *, [rad/s] *. approach: [m/s] *.
        ramp: in which it comes to full speed in the air [s]. mass: virtual, once it touches [kg]; landing, damping: from then on,
            and in the recording [N s/m].
        touch: force that counts as contact [N]. band: about the wanted force [N], and settled: for how long [s] within it
            before the recording begins. patience: [s] of contact within which that has to happen.
        abort: force at which it comes back [N]. past: [m] beyond the point without contact at which it comes back.
        lost: [s] without contact in a recording. silent: [s] without a force. leash: [m] that the target goes
            at most from where the membrane is; stopped: [s] at its end, at which the arm counts as stopped.
    """

    force: float = 7.0
    duration: float = 10.0
    overtime: float = 0.0
    standoff: float = 0.08
    transit: float = 0.065
    turning: float = 1.0
    approach: float = 0.03
    ramp: float = 0.5
    mass: float = 1.0
    landing: float = 150.0
    damping: float = 60.0
    touch: float = 1.0
    band: float = 0.7
    settled: float = 0.4
    patience: float = 8.0
    abort: float = 11.0
    past: float = 0.03
    lost: float = 0.2
    silent: float = 0.05
    leash: float = 0.008
    stopped: float = 0.5

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (np.isfinite(value) and (value > 0.0 or name == "overtime" and value == 0.0)):
                raise ValueError(f"{name}: expected a positive number, found {value}")
        if not self.touch < self.force - self.band or not self.force + self.band < self.abort:
            raise ValueError(
                f"expected touch < force - band and force + band < abort, found {self.touch}, {self.force}, {self.band}, "
                f"{self.abort} N"
            )


class Placement:
    """See the module's docstring.

    Args:
        point, normal: on the body and out of it (3,) [m], in the axes of all poses; the normal need not have length 1.
        pose: where the membrane was last told to be, its z axis out of the stethoscope.

    Attributes:
        phase: where it is. outcome: None until it is known; why: in words. recorded: [s] of the recording so far.
        trace: force of each step of the recording [N].

    Raises:
        ValueError: point or normal are not three finite numbers, or the normal is nothing.
    """

    def __init__(
        self, point: np.ndarray, normal: np.ndarray, pose: Pose, config: PlacementConfig = PlacementConfig()
    ) -> None:
        point, normal = np.asarray(point, float), np.asarray(normal, float)
        if point.shape != (3,) or normal.shape != (3,) or not np.isfinite([*point, *normal]).all():
            raise ValueError(f"point and normal are three finite numbers each, found {point} and {normal}")
        if np.linalg.norm(normal) < 1e-9:
            raise ValueError("the normal has no direction")
        self.config = config
        self.point, self.normal = point, normal / np.linalg.norm(normal)
        self.rotation = facing(-self.normal, pose.rotation)
        self.phase = Phase.TRANSIT
        self.outcome: Outcome | None = None
        self.why = ""
        self.trace: list[float] = []
        self.recorded = 0.0
        self._target = self._begin = pose
        self._back = self._at(-config.standoff)  # where the way back leads
        self._depth, self._speed = -config.standoff, 0.0  # along -normal, 0 at the point
        self._touched = 0.0
        self._share = 0.0  # of the full speed in the air
        self._settled = self._lost = self._silent = self._behind = 0.0

    @property
    def ended(self) -> bool:
        """Whether it is back."""
        return self.phase is Phase.ENDED

    def cancel(self, why: str, outcome: Outcome = Outcome.CANCELLED) -> None:
        """Come back now, for a reason from outside, as a microphone that is silent."""
        if self.outcome is None:
            self._end(outcome, why)

    def finish(self) -> None:
        """The recording has come: come back. Without one that is being made this changes nothing."""
        if self.phase is Phase.RECORD:
            self._end(Outcome.RECORDED, f"{self.recorded:.1f} s were recorded")

    def stop(self, why: str) -> None:
        """Nothing moves the arm any more. Once something does, `go_on` says where it is by then."""
        if self.outcome is None:
            self._end(Outcome.ARM_STOPPED, why)

    def go_on(self, pose: Pose) -> None:
        """The arm moves again, from where it is now: what is left of the way back leads along the normal.

        Raises:
            RuntimeError: it was not stopped, and is not on its way back for another reason.
        """
        if self.outcome is None:
            raise RuntimeError("a placement that nothing stopped goes on by itself")
        up = self.config.standoff - float((pose.position - self.point) @ self.normal)
        self._target, self._share = pose, 0.0
        self._back = Pose(pose.position + max(up, 0.0) * self.normal, pose.rotation)

    def step(self, pose: Pose, force: float, dt: float) -> Pose:
        """Where the membrane shall be.

        Args:
            pose: where it is. force: felt along the normal, pressing is positive [N]; not finite: there is none.
            dt: since the last step [s].
        """
        self._watch(pose, force, dt)
        if self.phase is Phase.TRANSIT:
            self._go(pose, self._at(-self.config.standoff), Phase.APPROACH, dt)
        elif self.phase in (Phase.APPROACH, Phase.SETTLE, Phase.RECORD):
            self._press(pose, force, dt)
        elif self.phase is Phase.RETREAT:
            self._go(pose, self._back, Phase.ENDED, dt)
        return self._target

    def _at(self, depth: float) -> Pose:
        return Pose(self.point - depth * self.normal, self.rotation)

    def _go(self, pose: Pose, goal: Pose, then: Phase, dt: float) -> None:
        """One step along a straight line to the goal, both speeds kept; an arm that is behind is waited for."""
        c = self.config
        if np.linalg.norm(self._target.position - pose.position) > c.leash:
            self._share = 0.0
            return
        off = pose_error(goal, self._target)
        left = (
            max(np.linalg.norm(off[:3]) / c.transit, np.linalg.norm(off[3:]) / c.turning) / MARGIN
        )  # [s] at full speed
        # Faster and slower evenly; the share of the full speed ends with the way that is left.
        self._share = min(1.0, self._share + dt / c.ramp, float(np.sqrt(2.0 * left / c.ramp)) + 1e-3)
        steps = left / (self._share * dt)
        if steps <= 1.0:
            self._target, self.phase, self._speed, self._share = goal, then, 0.0, 0.0
            self._depth = -c.standoff
            return
        turn = Rotation.from_rotvec(off[3:] / steps).as_matrix()
        self._target = Pose(self._target.position + off[:3] / steps, turn @ self._target.rotation)

    def _press(self, pose: Pose, force: float, dt: float) -> None:
        c = self.config
        felt = force if np.isfinite(force) else c.force  # held for a moment, until it counts as silent
        in_air = self.phase is Phase.APPROACH
        in_record = self.phase is Phase.RECORD
        damping = c.force / (MARGIN * c.approach) if in_air else c.damping if in_record else c.landing
        mass = damping * c.ramp / 4.0 if in_air else c.mass
        push = c.force - felt
        # Implicit in the damping, which no step makes unstable.
        self._speed = float(
            np.clip((self._speed + push * dt / mass) / (1.0 + damping * dt / mass), -c.transit, c.approach)
        )
        reached = float((self.point - pose.position) @ self.normal)
        self._depth = float(np.clip(self._depth + self._speed * dt, reached - c.leash, reached + c.leash))
        self._target = self._at(self._depth)
        if self.phase is Phase.APPROACH:
            if felt >= c.touch and np.isfinite(force):
                self.phase = Phase.SETTLE
            elif self._depth > c.past:
                self._end(Outcome.NO_CONTACT, f"nothing was touched up to {1e3 * c.past:.0f} mm beyond the point")
        elif self.phase is Phase.SETTLE:
            self._touched += dt
            self._settled = self._settled + dt if abs(felt - c.force) <= c.band else 0.0
            if self._settled >= c.settled:
                self.phase = Phase.RECORD
            elif self._touched > c.patience or self._depth > c.past + c.standoff:
                self._end(Outcome.FORCE_NOT_REACHED, f"{felt:.1f} N were reached, not {c.force:g} N")
        else:
            self.trace.append(float(force))
            self.recorded += dt
            self._lost = self._lost + dt if felt < c.touch else 0.0
            if self._lost > c.lost:
                self._end(Outcome.CONTACT_LOST, f"contact was lost after {self.recorded:.1f} s of {c.duration:g} s")
            elif self.recorded >= c.duration + c.overtime:
                if c.overtime > 0.0:
                    self._end(Outcome.NO_SOUND, f"no recording had come {c.overtime:g} s after its end")
                else:
                    self.finish()

    def _watch(self, pose: Pose, force: float, dt: float) -> None:
        """What ends a placement at any time before its way back."""
        c = self.config
        if self.outcome is not None or self.ended:
            return
        self._silent = 0.0 if np.isfinite(force) else self._silent + dt
        apart = float(np.linalg.norm(pose.position - self._target.position))
        self._behind = self._behind + dt if apart > 0.99 * c.leash else 0.0
        if np.isfinite(force) and force > c.abort:
            self._end(Outcome.TOO_MUCH_FORCE, f"{force:.1f} N were felt, at most {c.abort:g} N may be")
        elif self._silent > c.silent:
            self._end(Outcome.SENSOR_SILENT, f"no force was told for {1e3 * self._silent:.0f} ms")
        elif self._behind > c.stopped:
            self._end(Outcome.ARM_STOPPED, f"the arm is {1e3 * apart:.0f} mm from where it shall be")
        if self.outcome is Outcome.ARM_STOPPED:
            self.go_on(pose)  # from where it is, not from where it should have been

    def _end(self, outcome: Outcome, why: str) -> None:
        self.outcome, self.why = outcome, why
        hurts = outcome is Outcome.TOO_MUCH_FORCE
        if self.phase is Phase.TRANSIT and hurts:
            self._back = self._begin  # something was in the way: back as it came
        # Else nothing is near on the way to the stand-off: it stays where it is. Where it hurts there is no gentle start.
        self.phase = Phase.ENDED if self.phase is Phase.TRANSIT and not hurts else Phase.RETREAT
        self._share = 1.0 if hurts else 0.0


def facing(direction: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """The rotation (3, 3) nearest to another whose z axis has a direction (3,) of length 1."""
    z = rotation[:, 2]
    axis, cosine = np.cross(z, direction), float(z @ direction)
    sine = float(np.linalg.norm(axis))
    if sine < 1e-9:
        turn = np.zeros(3) if cosine > 0.0 else np.pi * rotation[:, 0]
    else:
        turn = np.arctan2(sine, cosine) * axis / sine
    return Rotation.from_rotvec(turn).as_matrix() @ rotation
