"""The thread that owns the plant: pacing, pausing, stepping, lock-step.

Everything that touches the plant runs on this one thread, between two ticks, in the order it was
asked for. That makes a reset safe at any moment, and needs no lock around the physics.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from sim_core.command import Command, CommandRefused, Refusal
from sim_core.plant import MujocoPlant, PlantError

__all__ = ["SimLoop"]


class SimLoop(threading.Thread):
    """Runs a plant against the wall clock, or in step with its controller.

    Callbacks run on this thread: `on_tick(plant)` after each servo tick and after each reset,
    `on_idle()` while time stands still (at least 10 times a second), `on_refused(error)` for a
    command that was not taken, `on_turn()` on every turn of the loop, `attend()` to take what has arrived: before
    each tick, when the wait for it is over, and while time stands still or waits for a command.

    Attributes:
        plant: to be touched on this thread only: in callbacks and through `call`.
        playing: whether time runs, unless `halted` says why it does not.

    Args:
        plant: handed over; nobody else may touch it from now on.
        real_time_factor: simulated per wall time; 0: as fast as possible.
        lockstep: at each control boundary wait for the command stamped with that state's time.
        control_ticks: servo ticks between control boundaries.
        lockstep_timeout: wall time without that command before the plant halts [s].
        held: time stands still while this is true.
        catch_up: of a delay, at most this much is made up for [s]: a stalled machine must not make the robot live through the
            stall in a burst that no controller can follow.
    """

    IDLE_PERIOD = 0.1  # [s] between turns while time stands still
    # In lock-step the loop looks for the command itself: rclpy's executors take 5 to 100 ms to bring one, which was
    # three quarters of a lock-step's time.
    LOOK_PERIOD = 0.0005  # [s] between looks
    EAGER = 0.5  # [s] after a boundary; a controller that takes longer does not mind IDLE_PERIOD
    REPEAT_PERIOD = 0.5  # [s] between repetitions of a state nobody answers
    GATE_MARGIN = 0.05  # [s] of a lease within which no tick begins in lock-step
    HELD_PERIOD = 0.002  # [s] between looks whether the plant is still held

    def __init__(
        self,
        plant: MujocoPlant,
        *,
        on_tick: Callable,
        on_idle: Callable,
        on_refused: Callable,
        on_turn: Callable,
        attend: Callable = lambda: None,
        real_time_factor: float = 1.0,
        lockstep: bool = False,
        control_ticks: int = 1,
        lockstep_timeout: float = 5.0,
        held: Callable[[], bool] = lambda: False,
        catch_up: float = 0.02,
    ) -> None:
        super().__init__(name="simulation", daemon=True)
        self.plant = plant
        self._on_tick, self._on_idle = on_tick, on_idle
        self._on_refused, self._on_turn, self._attend = on_refused, on_turn, attend
        self._factor = real_time_factor
        self._lockstep, self._control_ticks = lockstep, control_ticks
        self._timeout = lockstep_timeout
        self._held, self._catch_up = held, catch_up
        self._inbox: deque = deque()
        self._wake = threading.Condition()
        self._closing = False
        self.playing = False
        self.halted = ""  # why time stands still although it should run; "" if it runs
        self._steps_wanted = 0
        self._steps_done: Callable | None = None
        self._waiting: Command | None = None  # in lock-step: for the gate to open
        self._answered = False
        self._answered_before = False  # since play or reset: before it, the timeout does not run
        self._boundary_since = self._repeat_due = self._factor_wall = time.monotonic()
        self._factor_t = plant.t
        self._idled = 0.0
        self._anchor()

    # ---- from any thread -------------------------------------------------------------------
    def call(self, function: Callable, timeout: float = 10.0):
        """`function(plant)` on the loop's thread; returns its result or raises its exception.

        Raises:
            TimeoutError: the loop did not get to it.
        """
        if threading.current_thread() is self:
            return function(self.plant)
        future: Future = Future()
        self._post(lambda: _settle(future, function, self.plant))
        return future.result(timeout)

    def command(self, command: Command) -> None:
        """Hand a command over; whether it was taken shows on `on_refused`."""
        if threading.current_thread() is self:
            self._take(command)
        else:
            self._post(lambda: self._take(command))

    def play(self) -> None:
        """Let time run; clears a halt."""
        self.call(lambda plant: self._set_playing(True))

    def pause(self) -> None:
        """Let time stand still."""
        self.call(lambda plant: self._set_playing(False))

    def set_real_time_factor(self, factor: float) -> None:
        """Change the pace."""
        self.call(lambda plant: self._set_factor(factor))

    def waiting_long(self) -> bool:
        """Whether lock-step has waited long enough that the state should be said again.

        A controller that was not there, or not running, when the state was published would
        otherwise wait for the plant as the plant waits for it.
        """
        now = time.monotonic()
        if not self._lockstep or not self.playing or self._answered or now < self._repeat_due:
            return False
        self._repeat_due = now + self.REPEAT_PERIOD
        return now - self._boundary_since > self.REPEAT_PERIOD

    def factor_reached(self) -> float:
        """Simulated per wall time since the last call; 0 while time stands still."""
        now, t = time.monotonic(), self.plant.t
        wall, self._factor_wall = now - self._factor_wall, now
        simulated, self._factor_t = t - self._factor_t, t
        return max(0.0, simulated / max(wall, 1e-9))

    def step(self, ticks: int) -> Future:
        """Run so many servo ticks, then stand still; the future gives how many were run.

        `future.ticks_left` counts down; `cancel_steps` ends it early.
        """
        future: Future = Future()
        future.ticks_left = ticks
        self._post(lambda: self._begin_steps(ticks, future))
        return future

    def cancel_steps(self) -> None:
        """End a step in progress after the present tick."""
        self._post(lambda: self._end_steps("cancelled"))

    def reset(self, **scopes) -> None:
        """Reset the plant (see MujocoPlant.reset) and start counting boundaries anew."""
        self.call(lambda plant: self._reset(scopes))

    def close(self, timeout: float = 2.0) -> None:
        """End the thread."""
        self._closing = True
        with self._wake:
            self._wake.notify()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(timeout)

    def _post(self, job: Callable) -> None:
        with self._wake:
            self._inbox.append(job)
            self._wake.notify()

    # ---- the loop --------------------------------------------------------------------------
    def run(self) -> None:
        while not self._closing:
            while self._inbox:
                self._inbox.popleft()()
            self._on_turn()
            if self._lockstep or not self._may_advance():
                self._attend()
            if not self._may_advance():
                with self._wake:
                    called = self._inbox or self._closing or self._wake.wait(self._rest())
                now = time.monotonic()
                if not called and now >= max(self._idled, self._boundary_since) + self.IDLE_PERIOD:
                    self._idled = now
                    self._on_idle()
                continue
            if self._pace():
                self._attend()
                self._tick()
        self._end_steps("the plant is shutting down")

    def _may_advance(self) -> bool:
        if self.halted or not (self.playing or self._steps_wanted):
            return False
        if self._held():
            self._anchor()  # what passes meanwhile is not caught up with
            return False
        if self._lockstep and not self._gate_is_open():
            return False  # what a stop does to time must not depend on how fast this machine is
        if not self._lockstep or self._answered or not self._at_boundary():
            return True
        if self._answered_before and time.monotonic() - self._boundary_since > self._timeout:
            self._halt(
                f"Lock-step: no command for the state at t = {self.plant.t:.4f} s within "
                f"{self._timeout:g} s; start the controller, then reset or play."
            )
        return False

    def _gate_is_open(self) -> bool:
        """Whether commands may pass for a while; those that came too early get their turn."""
        gate = self.plant.gate
        if gate is not None and gate.closed(time.monotonic() + self.GATE_MARGIN):
            return False
        if self._waiting is not None:
            command, self._waiting = self._waiting, None
            self._take(command)
        return True

    def _rest(self) -> float:
        """Time until the next turn if nobody calls [s]."""
        if self._held():
            return self.HELD_PERIOD
        awaited = self._lockstep and (self.playing or self._steps_wanted) and not self.halted
        eager = awaited and time.monotonic() < self._boundary_since + self.EAGER
        return self.LOOK_PERIOD if eager else self.IDLE_PERIOD

    def _at_boundary(self) -> bool:
        """Whether t is a whole number of control periods."""
        plant = self.plant
        return round(plant.t / plant.tick_period) % self._control_ticks == 0

    def _pace(self) -> bool:
        """Wait until the next tick is due; False if something came in meanwhile."""
        if self._factor <= 0.0 or self._steps_wanted:
            return True
        now = time.monotonic()
        due = self._anchor_wall + (self.plant.t - self._anchor_t) / self._factor
        if now - due > self._catch_up:  # the lost time stays lost, which the factor reached says
            self._anchor()
            return True
        if due > now:
            # Waiting on the inbox instead of sleeping lets a reset or a pause in at once.
            with self._wake:
                if not self._inbox:
                    self._wake.wait(due - now)
            return time.monotonic() >= due - 1e-4
        return True

    def _tick(self) -> None:
        try:
            self.plant.tick()
        except PlantError as error:
            self._halt(str(error))
            return
        if self._at_boundary():
            self._answered = False
            self._boundary_since = time.monotonic()
        self._on_tick(self.plant)
        if self._steps_wanted:
            self._steps_wanted -= 1
            self._steps_future.ticks_left = self._steps_wanted
            if not self._steps_wanted:
                self._end_steps("")

    # ---- jobs, on the loop's thread ----------------------------------------------------------
    def _take(self, command: Command) -> None:
        plant = self.plant
        if self._lockstep and command.stamp < plant.t - 1e-6:
            return  # an answer to a state that is history: late, repeated, or before a reset
        try:
            plant.command(command)
        except CommandRefused as refused:
            if self._lockstep and refused.reason is Refusal.DISARMED:
                self._waiting = command
            else:
                self._on_refused(refused)
            return
        self._answered = self._answered_before = True
        if self.halted and self._lockstep:
            self.halted = ""

    def _set_playing(self, playing: bool) -> None:
        self.playing = playing
        if playing:
            self.halted = ""
            self._answered_before = False
        self._boundary_since = time.monotonic()
        self._anchor()

    def _set_factor(self, factor: float) -> None:
        self._factor = factor
        self._anchor()

    def _begin_steps(self, ticks: int, future: Future) -> None:
        self._end_steps("another step request came in")
        self.halted = ""
        self._steps_wanted, self._steps_future = ticks, future
        self._steps_total = ticks
        if not ticks:
            future.set_result(0)

    def _end_steps(self, why: str) -> None:
        future = getattr(self, "_steps_future", None)
        if future is None or future.done():
            return
        done = self._steps_total - self._steps_wanted
        self._steps_wanted = 0
        self._anchor()
        if not why or why == "cancelled":
            future.set_result(done)
        else:
            future.set_exception(PlantError(f"Stopped after {done} of {self._steps_total} steps: {why}."))

    def _reset(self, scopes) -> None:
        self._end_steps("the simulation was reset")
        self.plant.reset(**scopes)
        self._waiting = None
        self._answered = self._answered_before = False
        self._boundary_since = time.monotonic()
        self.halted = ""
        self._factor_t, self._factor_wall = self.plant.t, time.monotonic()
        self._anchor()
        self._on_tick(self.plant)

    def _halt(self, sentence: str) -> None:
        self.halted = sentence
        self.plant.release_command(sentence)
        self._end_steps(sentence)

    def _anchor(self) -> None:
        self._anchor_wall, self._anchor_t = time.monotonic(), self.plant.t


def _settle(future: Future, function: Callable, plant) -> None:
    try:
        future.set_result(function(plant))
    except BaseException as error:  # handed to the caller, whatever it is
        future.set_exception(error)
