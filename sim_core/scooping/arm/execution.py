"""One scoop of an arm, from wherever it is to where its load is measured, whatever happens on the way.

    execution = ScoopExecution(action, pose)
    while not execution.ended:
        target = execution.step(pose, force, dt)        # where the blade shall be, and how stiffly; 125 times a second
    execution.outcome, execution.why

In the air the joints are stiff; from the stand-off on, until the blade is high above the ground again, the arm has the impedance
of the action. A force beyond the limit (a protective stop), a sensor that is silent, or an arm that does not move end the scoop where it is:
from there the blade goes straight up, and its load is carried to the measuring pose like any other.

Source: Zhu, PhD thesis (University of Illinois 2023), sections 6.2 and 6.4; speeds, limits and the ways through the air are choices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from sim_core.scooping.arm.blade_path import BladePath, Place, place_of
from sim_core.scooping.arm.impedance import IMPEDANCE, Impedance
from sim_core.scooping.arm.primitive import PrimitiveConfig, ScoopAction, ScoopTrajectory
from sim_core.telepresence.clutch import Pose

__all__ = ["BladeTarget", "ExecutionConfig", "Outcome", "ScoopExecution", "Stage"]


class Stage(Enum):
    """Where an execution is; the value says it in words."""

    TRANSIT = "on the way to the stand-off"
    APPROACH = "approaching the surface"
    PENETRATE = "going into the ground"
    DRAG = "dragging"
    CLOSE = "closing"
    LIFT = "lifting"
    RETREAT = "going up from the ground"
    CARRY = "carrying the load to the measuring pose"
    ENDED = "at the measuring pose, or where it gave up"


class Outcome(Enum):
    """How a scoop ended."""

    SCOOPED = "scooped"
    OUT_OF_REACH = "out of reach"
    TOO_MUCH_FORCE = "too much force"
    STUCK = "stuck in the ground"
    SENSOR_SILENT = "force sensor silent"
    ARM_STOPPED = "arm stopped"
    CANCELLED = "cancelled"


#: in the ground, where forces are watched as the ground's
WORK = (Stage.APPROACH, Stage.PENETRATE, Stage.DRAG, Stage.CLOSE, Stage.LIFT)


@dataclass(frozen=True)
class ExecutionConfig:
    """Settings; those with an asterisk are published.

    Attributes:
        primitive: of the scoop itself *.
        safe: height of the edge at which it travels [m]. standoff: along the blade before the surface [m].
        transit, turning: at most in the air [m/s], [rad/s]; rising: out of the ground, at most [m/s].
        limit: force of the ground on the scoop at which it stops [N]. silent: [s] without a force that end it.
        leash: distance [m] of a stiff arm from where it shall be at which it is waited for; stopped: [s] of waiting that end it.
        measuring: place of the blade at which a load is measured, closed.
    """

    primitive: PrimitiveConfig = PrimitiveConfig()
    safe: float = 0.42
    standoff: float = 0.03
    transit: float = 0.3
    turning: float = 1.2
    rising: float = 0.2
    limit: float = 80.0
    silent: float = 0.1
    leash: float = 0.03
    stopped: float = 3.0
    measuring: Place = field(
        default_factory=lambda: Place(np.array([0.595, 0.0, 0.45]), 0.0, PrimitiveConfig().closing)
    )

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float) and not (np.isfinite(value) and value > 0.0):
                raise ValueError(f"{name}: expected a positive number, found {value}")


@dataclass(frozen=True, eq=False)
class BladeTarget:
    """Attributes:
    pose: where the blade shall be. twist: its velocity (6,) [m/s], [rad/s]. impedance: with which; None: the joints hold it stiffly.
    """

    pose: Pose
    twist: np.ndarray
    impedance: Impedance | None


@dataclass(frozen=True, eq=False)
class _Segment:
    """A stretch of the way: `at` a time says stage, pose and twist."""

    duration: float
    at: Callable[[float], tuple[Stage, Pose, np.ndarray]]
    impedance: Impedance | None


class ScoopExecution:
    """See the module's docstring.

    Args:
        action: what is asked for. pose: where the blade was told to be last. yaw: of that pose, in whose turns it goes on [rad].

    Attributes:
        stage: where it is. outcome: None until it is known; why: in words.
        peak: largest force of the ground so far [N]. trace: rows of time [s] since the approach began and force [N], from there to the lift.
    """

    def __init__(
        self, action: ScoopAction, pose: Pose, config: ExecutionConfig = ExecutionConfig(), yaw: float = 0.0
    ) -> None:
        self.action, self.config, self._yaw = action, config, yaw
        self.trajectory = ScoopTrajectory(action, config.primitive)
        self.stage = Stage.TRANSIT
        self.outcome: Outcome | None = None
        self.why = ""
        self.peak = 0.0
        self.trace: list[tuple[float, float]] = []
        self._ahead: list[Callable[[Pose], _Segment]] = [self._approach, self._work, self._rise, self._carry]
        self._segment, self._t = self._transit(pose), 0.0
        self._silent = self._waited = self._worked = 0.0

    @property
    def ended(self) -> bool:
        """Whether it is at the measuring pose, or gave up."""
        return self.stage is Stage.ENDED

    @property
    def standoff(self) -> Place:
        """Before the surface, along the blade."""
        start = self.trajectory.start
        place = place_of(
            start
        )  # within half a turn of zero: a wrist that comes from there and goes back never winds up
        return Place(start.position - self.config.standoff * start.rotation[:, 0], place.yaw, place.angle)

    def way_to(self, begin: Pose, goal: Place, yaw: float | None = None) -> list[Place]:
        """Up, over and down: places through which the blade goes from a pose to a place, never low between them."""
        safe, here, way = self.config.safe, place_of(begin, self._yaw if yaw is None else yaw), []
        if here.position[2] < safe - 1e-6:
            here = Place(np.r_[here.position[:2], safe], here.yaw, here.angle)
            way.append(here)
        if goal.position[2] < here.position[2] - 1e-6:
            way.append(Place(np.r_[goal.position[:2], max(safe, here.position[2])], goal.yaw, goal.angle))
        return [*way, goal]

    def ways(self, begin: Pose) -> tuple[BladePath, BladePath]:
        """Through the air: from a pose to the stand-off, and from the end of the scoop to the measuring pose."""
        c, end = self.config, self.trajectory.end
        there = self._path(begin, self.way_to(begin, self.standoff), c.transit)
        yaw = self.standoff.yaw
        return there, BladePath(end, self.way_to(end, c.measuring, yaw), c.transit, c.turning, yaw)

    # -- what happens to it ------------------------------------------------------------------------

    def cancel(self, why: str) -> None:
        """Come back now, for a reason from outside."""
        if self.outcome is None:
            self._end(Outcome.CANCELLED, why)

    def stop(self, why: str) -> None:
        """Nothing moves the arm any more. Once something does, `go_on` says where it is by then."""
        if self.outcome is None:
            self._end(Outcome.ARM_STOPPED, why)

    def go_on(self, pose: Pose) -> None:
        """The arm moves again, from where it is now: what is left is the way up and to the measuring pose."""
        if self.outcome is None:
            self._end(Outcome.ARM_STOPPED, "the arm was stopped")
        if not self.ended:
            self._back(pose)

    def step(self, pose: Pose, force: float, dt: float) -> BladeTarget:
        """Where the blade shall be.

        Args:
            pose: where it is. force: of the ground on the scoop [N], not finite: it is not known. dt: since the last step [s].
        """
        self._watch(pose, force, dt)
        while self._t >= self._segment.duration and not self.ended:
            if not self._ahead:
                self.stage = Stage.ENDED
                break
            if self.stage is Stage.LIFT and self.outcome is None:
                self.outcome, self.why = Outcome.SCOOPED, f"the ground pushed with up to {self.peak:.0f} N"
            self._t -= self._segment.duration
            self._segment = self._ahead.pop(0)(pose)
        if not self.ended:
            self.stage, *_ = self._segment.at(self._t)
        _, target, twist = self._segment.at(self._t)
        self._yaw = place_of(target, self._yaw).yaw
        moving = twist if self._moving else np.zeros(6)
        return BladeTarget(target, moving, self._segment.impedance)

    def _watch(self, pose: Pose, force: float, dt: float) -> None:
        """Let time go on, unless the arm is waited for, and end what has to be ended."""
        c = self.config
        known = bool(np.isfinite(force))
        self._silent = 0.0 if known else self._silent + dt
        if self.stage in WORK:
            self._worked += dt
            if known:
                self.peak = max(self.peak, force)
                self.trace.append((self._worked, force))
        if self.outcome is None and known and force > c.limit:
            self._end(
                Outcome.TOO_MUCH_FORCE, f"{force:.0f} N were felt, at most {c.limit:g} N may be, {self.stage.value}"
            )
            self._back(pose)
        elif self.outcome is None and self._silent > c.silent:
            self._end(Outcome.SENSOR_SILENT, f"no force was told for {1e3 * self._silent:.0f} ms")
            self._back(pose)
        elif self.outcome is Outcome.CANCELLED and self.stage not in (Stage.RETREAT, Stage.CARRY, Stage.ENDED):
            self._back(pose)
        target = self._segment.at(self._t)[1]
        apart = float(np.linalg.norm(target.position - pose.position))
        stuck = apart > c.leash if self._segment.impedance is None else known and force > c.limit
        self._moving = not stuck
        if not stuck:
            self._t, self._waited = self._t + dt, 0.0
        else:
            self._waited += dt
            if self._waited > c.stopped and not self.ended:
                if self._segment.impedance is None:
                    self._end(
                        Outcome.ARM_STOPPED, f"the arm is {1e3 * apart:.0f} mm from where it shall be and stays there"
                    )
                else:
                    self._end(Outcome.STUCK, f"the scoop could not be drawn out of the ground with {c.limit:g} N")
                self._segment, self._t, self._ahead = self._hold(pose), 0.0, []
                self.stage = Stage.ENDED

    def _end(self, outcome: Outcome, why: str) -> None:
        if self.outcome in (None, Outcome.SCOOPED):
            self.outcome, self.why = outcome, why
        else:  # what comes on top of it says where the arm is now
            self.outcome, self.why = outcome, f"{self.why}; then {why}"

    def _back(self, pose: Pose) -> None:
        """From where it is: up, and to the measuring pose."""
        self._segment, self._t, self._waited = self._rise(pose), 0.0, 0.0
        self._ahead, self.stage = [self._carry], Stage.RETREAT

    # -- the stretches of the way ------------------------------------------------------------------

    def _path(self, begin: Pose, way: list[Place], speed: float) -> BladePath:
        return BladePath(begin, way, speed, self.config.turning, self._yaw)

    def _along(self, stage: Stage, path: BladePath, impedance: Impedance | None) -> _Segment:
        return _Segment(path.duration, lambda t: (stage, *path.at(t)), impedance)

    def _transit(self, pose: Pose) -> _Segment:
        c = self.config
        way = self.way_to(pose, self.standoff)
        return self._along(Stage.TRANSIT, self._path(pose, way, c.transit), None)

    def _approach(self, pose: Pose) -> _Segment:
        c, start = self.config, place_of(self.trajectory.start, self._yaw)
        path = self._path(self.standoff.pose, [start], c.primitive.speed)
        return self._along(Stage.APPROACH, path, IMPEDANCE[self.action.stiffness])

    def _work(self, pose: Pose) -> _Segment:
        def at(t: float) -> tuple[Stage, Pose, np.ndarray]:
            state = self.trajectory.at(t)
            return Stage[state.phase.name], state.pose, state.twist

        return _Segment(self.trajectory.duration, at, IMPEDANCE[self.action.stiffness])

    def _rise(self, pose: Pose) -> _Segment:
        """Out of the ground, from where it was told to be; after a stop, from where it is."""
        c = self.config
        begin = self.trajectory.end if self.outcome is Outcome.SCOOPED else pose
        here = place_of(begin, self._yaw)
        up = Place(np.r_[here.position[:2], max(c.safe, here.position[2])], here.yaw, here.angle)
        return self._along(Stage.RETREAT, self._path(begin, [up], c.rising), IMPEDANCE[self.action.stiffness])

    def _carry(self, pose: Pose) -> _Segment:
        """From where it is: what the load weighs, and what the ground did, has moved a soft arm."""
        c = self.config
        return self._along(Stage.CARRY, self._path(pose, self.way_to(pose, c.measuring), c.transit), None)

    def _hold(self, pose: Pose) -> _Segment:
        return _Segment(0.0, lambda t: (Stage.ENDED, pose, np.zeros(6)), IMPEDANCE[self.action.stiffness])
