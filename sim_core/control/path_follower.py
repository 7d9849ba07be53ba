"""Following a path from wherever the arm is: led back at a bounded speed while the path waits, then on along the path.

    follower = PathFollower(settings, begin=stamp, longest=0.1)
    step = follower.advance(task, x, stamp)                 # once per control period
    command = mpc.command(x, step.clock, step.aim)          # unless step.stopped
    follower.resume(stamp)                                  # control was away: a halt, a deactivation

A controller that is handed a path's next point from far away drives there at full effort. So when control begins, or
begins again, beyond the tolerance, the joints are led to the posture that has the hand on the path (`JointMove`), and
the path goes on once the hand is there. What happens when the hand leaves the tolerance later is a choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim_core.control.hand_path import HandPath
from sim_core.control.joint_move import JointMove
from sim_core.control.path_clock import PathClock
from sim_core.control.tasks import Aim, Task

__all__ = ["BEYOND", "PathFollower", "PathSettings", "PathStep"]

#: what may be done about a hand that stays beyond the tolerance
BEYOND = ("report", "approach", "stop")
#: [s] a joint that is led takes at least to its full speed
RAMP = 0.5
#: [rad/s or m/s] taken as the limit of a joint that has none
UNLIMITED = 1.0


@dataclass(frozen=True)
class PathSettings:
    """What counts as off the path, and what is done about it.

    Attributes:
        path_tolerance: of the hand's distance [m].
        turn_tolerance: of its turn [rad]; it decides only whether an arm is led back when control begins.
        path_tolerance_time: how long the hand may be beyond the distance before `path_beyond` is done [s].
        path_beyond: one of BEYOND: say so; let the path wait and lead back; stop commanding.
        approach_speed: of the joints while they are led, a share of their velocity limits.
    """

    path_tolerance: float = 0.03
    turn_tolerance: float = 0.5
    path_tolerance_time: float = 1.0
    path_beyond: str = "report"
    approach_speed: float = 0.3


@dataclass(frozen=True)
class PathStep:
    """What is to be done with one state.

    Attributes:
        time: along the path [s].
        clock: time that never stands still, for AdaptiveMpc [s].
        aim: see AdaptiveMpc.command; None: the task's own references at `clock`.
        error: the task's error at `time`.
        led: whether the arm is on its way to the path, which waits.
        stopped: whether commanding is over until `resume`.
        message: what is out of the ordinary, a sentence; "" if nothing is.
    """

    time: float
    clock: float
    aim: Callable[[float], Aim] | None
    error: float
    led: bool = False
    stopped: bool = False
    message: str = ""


class PathFollower:
    """See the module's docstring. A task without a path is given its time and nothing else.

    Args:
        settings: PathSettings.
        begin: stamp at which the path begins [s].
        longest: gap between two states that is no outage yet [s].
    """

    def __init__(self, settings: PathSettings, begin: float, longest: float) -> None:
        self.settings = settings
        self._path, self._longest = PathClock(begin, longest), longest
        self._waited = 0.0  # by the path, for an arm that was led [s]
        self._stamp = begin
        self._fresh = True  # the next state is the first under control
        self._move: JointMove | None = None
        self._begun = 0.0  # stamp at which it began
        self._make_up = False  # whether the path shall catch up with the time it takes
        self._beyond: float | None = None  # stamp since which the hand is beyond the tolerance
        self._stopped = False

    def resume(self, stamp: float) -> None:
        """Control was away until this stamp: the path has waited, and the arm may be anywhere."""
        if self._path.time > 0.0:
            self._path.stand_still(stamp)
        else:  # a path that has not begun does so as if nothing had been
            self._path = PathClock(stamp, self._longest)
        self._fresh, self._move, self._beyond, self._stopped = True, None, None, False
        self._stamp = stamp

    def advance(self, task: Task, x: np.ndarray, stamp: float) -> PathStep:
        """What to do with state x (nx,) of this stamp [s]."""
        if task.hand is None or task.lead is None:
            time = self._path.advance(stamp)
            return PathStep(time, time, None, task.error(x, time))
        hand, q = task.hand, x[: task.model.nq]
        fresh, self._fresh = self._fresh, False
        if (fresh or self._path.outage(stamp)) and not self._stopped:
            if self._move is not None or self._far(*hand.errors(q, self._path.time)):
                # An outage is made up for; a halt, and what a person did meanwhile, is not.
                self._lead(task, hand, x, stamp, not fresh and (self._move is None or self._make_up))
        if self._stopped:
            self._path.stand_still(stamp)
        elif self._move is not None:
            (self._path.wait if self._make_up else self._path.stand_still)(stamp)
            self._waited += stamp - self._stamp
            arrived = hand.errors(q, self._path.time)[0] <= self.settings.path_tolerance
            if arrived and stamp - self._begun >= self._move.duration:
                self._move = None
        else:
            self._path.advance(stamp)
        self._stamp = stamp
        error, _ = hand.errors(q, self._path.time)
        message = self._judge(task, hand, x, stamp, error)
        return self._step(task, task.lead, stamp, error, message)

    def _far(self, distance: float, turn: float) -> bool:
        return distance > self.settings.path_tolerance or turn > self.settings.turn_tolerance

    def _lead(self, task: Task, hand: HandPath, x: np.ndarray, stamp: float, make_up: bool) -> None:
        model, n = task.model, task.model.nq
        limit = np.where(np.isfinite(model.v_limit), model.v_limit, UNLIMITED)
        speed = self.settings.approach_speed * limit
        goal = hand.posture(self._path.time)
        self._move = JointMove(x[:n], x[n:], goal, speed, speed / RAMP, model.q_lower, model.q_upper)
        self._begun, self._stamp, self._beyond, self._make_up = stamp, stamp, None, make_up

    def _judge(self, task: Task, hand: HandPath, x: np.ndarray, stamp: float, error: float) -> str:
        """Do what the settings say about a hand that is beyond the tolerance; returns what to say."""
        settings, move = self.settings, self._move
        if self._stopped:
            return self._off("the controller has stopped; resume to be led back", error)
        if move is not None and stamp - self._begun < move.duration:
            left = move.duration - (stamp - self._begun)
            return f"led to the path, {error:.3f} m away, for another {left:.1f} s; the path waits"
        if move is None and error <= settings.path_tolerance:
            self._beyond = None
            return ""
        self._beyond = stamp if self._beyond is None else self._beyond
        if stamp - self._beyond < settings.path_tolerance_time:
            return "settling on the path, which waits" if move is not None else ""
        if settings.path_beyond == "stop":
            self._stopped, self._move = True, None
            return self._off("the controller has stopped; resume to be led back", error)
        if move is not None:
            return self._off("the arm does not come nearer; the path waits", error)
        if settings.path_beyond == "approach":
            self._lead(task, hand, x, stamp, make_up=False)
            return self._off("the arm is led back; the path waits", error)
        return self._off("the path goes on", error)

    def _off(self, what: str, error: float) -> str:
        limit, time = self.settings.path_tolerance, self.settings.path_tolerance_time
        return f"off the path by {error:.3f} m for more than {time:g} s (tolerance {limit:g} m): {what}"

    def _step(
        self, task: Task, lead: Callable[[np.ndarray], Aim], stamp: float, error: float, message: str
    ) -> PathStep:
        time, dt, horizon = self._path.time, task.ilqr.dt, task.ilqr.horizon
        clock, move = time + self._waited, self._move
        if move is None:
            aim = (lambda late: Aim(task.reference(time + late))) if self._waited else None
            return PathStep(time, clock, aim, error, stopped=self._stopped, message=message)
        since = stamp - self._begun

        def aim_of_move(late: float) -> Aim:
            return lead(np.array([move.state(since + late + k * dt) for k in range(horizon + 1)]))

        return PathStep(time, clock, aim_of_move, error, led=True, message=message)
