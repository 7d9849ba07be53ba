"""Base of the house's lifecycle nodes, and the `main` they share.

    class Recorder(RefitNode):
        Config = RecorderConfig

        def configure(self): ...      # allocate; raise to refuse, the text is logged
        def activate(self): ...       # start working
        def stop(self): ...           # reach the declared stop state, at any moment
        def deactivate(self): ...     # stop working; stop() has been called
        def cleanup(self): ...        # free what configure allocated
        def time_jumped_back(self): ...   # forget every state that has a time in it

    def main(args=None):
        return spin_main(Recorder, args)

rclpy turns an exception in a transition into a silent ERROR; here it becomes a logged sentence and
a FAILURE, so the node stays where it was and can be tried again.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import signal
import sys
import threading
import time
import traceback
from functools import partial

import rclpy
from rclpy._rclpy_pybind11 import RCLError
from rclpy.clock import Clock, ClockType, JumpThreshold
from rclpy.duration import Duration
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions

from nodes.framework.config import ConfigError, declare
from nodes.framework.diagnostics import Diagnostics
from nodes.framework.polled import Polled
from nodes.framework.watchdog import PATIENCE, Watchdog, watch_interpreter

__all__ = ["RefitNode", "spin_main", "turn"]

# After a signal a node that has not ended within this time is ended, with a traceback of every thread [s].
# Launch kills after ten; a recorder may take five to complete its bag.
ENDING_LIMIT = 8.0
# After a signal a transition that another thread is in may take this long to come to its end [s].
TRANSITION_LIMIT = 3.0
# A transition may compile kernels: an executor is said to stand still in one after this time only [s].
TRANSITION_PATIENCE = 60.0

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class RefitNode(LifecycleNode):
    """A lifecycle node with typed configuration, diagnostics and a declared stop state.

    Subclasses set `Config` and override hooks. `self.config` is the configuration in force,
    `self.diagnostics` collects what is published once a second.

    Args:
        name: node name unless remapped; None: the class's `name`.
        **kwargs: passed to rclpy (`namespace`, `parameter_overrides`, `context`, ...).

    Raises:
        ConfigError: a given parameter value cannot be used.
    """

    name = "refit_node"
    Config: type | None = None
    live_parameters = False  # True: parameters may change while running (see `config_changed`)
    own_loop = False  # True: the node's own loop calls self.diagnostics.beat()
    executor_threads = 1  # > 1: callbacks run in parallel, use callback groups
    coroutines = False  # True: some of its services are, which rclpy's events executor does not know (see `_executor`)

    def __init__(self, name: str | None = None, **kwargs) -> None:
        super().__init__(name or self.name, **kwargs)
        self.is_active = False
        self.exit_requested = False
        self._transitions = threading.RLock()  # held by the thread that is in one
        self._interruptible = False  # the main thread is in one
        self.config = (
            declare(self, self.Config, self._on_change if self.live_parameters else None) if self.Config else None
        )
        self.watchdog = Watchdog(self._say_stalled, self._say_not_run)
        self._own_turns = self.watchdog.loop("loop that sends the diagnostics", watched=lambda: self.is_active)
        self.diagnostics = Diagnostics(self, now=self.stamp_now, turned=self._own_turns.turn)
        self._seconds_not_run = 0.0
        self.steady_clock = Clock(clock_type=ClockType.STEADY_TIME)
        if not self.own_loop:
            # Steady clock: simulated time stands still in a pause, the diagnostics must not.
            self.create_timer(1.0, self._beat, clock=self.steady_clock)
        self._jump = self.get_clock().create_jump_callback(
            JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-1), on_clock_change=False),
            post_callback=lambda jump: self._on_jump(),
        )

    # ---- hooks -----------------------------------------------------------------------------
    def configure(self) -> None:
        """Allocate. Raise to stay unconfigured; the exception's text is logged."""

    def activate(self) -> None:
        """Start working. Raise to stay inactive."""

    def deactivate(self) -> None:
        """Stop working; `stop` has been called before."""

    def cleanup(self) -> None:
        """Free what `configure` allocated; must cope with a half-done `configure`."""

    def discard(self, *entities) -> None:
        """Destroy subscriptions, timers, services and publishers of this node, of whichever kind each is."""
        kinds = (self.destroy_subscription, self.destroy_timer, self.destroy_service, self.destroy_publisher)
        for entity in entities:
            any(destroy(entity) for destroy in kinds)

    def stop(self) -> None:
        """Reach the declared stop state now. May be called at any moment and more than once."""

    def time_jumped_back(self) -> None:
        """Simulated time went back: forget all state that has a time in it."""

    def config_changed(self, old, new) -> None:
        """Parameters are about to change from `old` to `new`; ValueError refuses the change."""

    def diagnose(self) -> None:
        """Diagnostics are about to be published: state what is costly to keep up to date. May come before `configure`."""

    def was_not_run(self, seconds: float) -> None:
        """The process was stopped, or the machine gave it no time, in all for `seconds` so far. On the watch's thread."""

    def stamp_now(self):
        """Stamp of the diagnostics, builtin_interfaces/Time."""
        return self.get_clock().now().to_msg()

    def create_timer(self, timer_period_sec, callback, *args, **kwargs):
        """rclpy's, of a callback without arguments that does not come once the timer is destroyed.

        Executors hand on a call that was due already: the node would work on what it has just freed, or start anew.
        """

        def call():
            if timer in self._timers:
                callback()

        timer = super().create_timer(timer_period_sec, call, *args, **kwargs)
        return timer

    @property
    def subscriptions(self):
        """Those an executor takes messages from: polled ones (nodes/framework/polled.py) are left out."""
        return (s for s in super().subscriptions if not isinstance(s.callback_group, Polled))

    @property
    def services(self):
        """Those an executor takes requests from: polled ones are left out."""
        return (s for s in super().services if not isinstance(s.callback_group, Polled))

    # ---- transitions -----------------------------------------------------------------------
    def on_configure(self, state):
        return self._transition("configure", self.configure, undo=self.cleanup)

    def on_activate(self, state):
        super().on_activate(state)  # enables lifecycle publishers before the hook uses them
        # What configuration built lives as long as the node. Searching those 70 000 objects again and
        # again for garbage stops every thread for 10 ms and more; frozen, they are left alone.
        gc.collect()
        gc.freeze()
        result = self._transition("activate", self.activate, undo=self.stop)
        self._own_turns.turn()
        self.is_active = result == SUCCESS
        return result

    def on_deactivate(self, state):
        self.is_active = False
        result = self._transition("deactivate", self.stop, self.deactivate)
        super().on_deactivate(state)
        return result

    def on_cleanup(self, state):
        return self._transition("clean up", self.cleanup)

    def on_shutdown(self, state):
        # Every step is tried: a failing deactivate must not keep the rest from being freed.
        steps = [self.stop, self.deactivate] if self.is_active else [self.stop]
        self.is_active = False
        for step in [*steps, self.cleanup]:
            self._transition("shut down", step)
        return SUCCESS

    def on_error(self, state):
        return self.on_shutdown(state)

    def _transition(self, what: str, *steps, undo=None):
        with self._transitions:
            try:
                try:
                    self._interruptible = threading.current_thread() is threading.main_thread()
                    return self._walk(what, steps, undo)
                finally:
                    self._interruptible = False
            except KeyboardInterrupt:
                # Cut short by a signal, which `spin_main` knows of. It goes no further than this: an executor that it
                # passes through prints where it came from.
                return FAILURE

    def _walk(self, what: str, steps, undo):
        try:
            for step in steps:
                step()
            return SUCCESS
        except Exception as error:  # a node's failure is a value: it is said and survived
            text = str(error) or type(error).__name__
            self.get_logger().error(f"{self.get_name()} could not {what}: {text}")
            if not isinstance(error, (ValueError, OSError)):
                self.get_logger().error(traceback.format_exc())
            self.diagnostics.error(f"could not {what}: {text}")
            if undo is not None:
                with contextlib.suppress(Exception):
                    undo()
            return FAILURE

    def _LifecycleNodeMixin__change_state(self, transition_id: int):
        # rclpy 7.1 lets a transition that the present state does not offer (activate before
        # configure) escape as an exception that ends the process. Overriding the private method is
        # the only place to turn it into the answer `success: false`.
        try:
            return super()._LifecycleNodeMixin__change_state(transition_id)
        except RCLError:
            label = self._state_machine.current_state[1]
            self.get_logger().error(f"{self.get_name()} cannot make transition {transition_id} while {label}.")
            return FAILURE

    def _beat(self) -> None:
        self.diagnose()
        self.diagnostics.beat()

    def _say_stalled(self, text: str) -> None:
        self.get_logger().warning(text)
        self.diagnostics.notice(text.partition("\n")[0])

    def _say_not_run(self, seconds: float) -> None:
        self._seconds_not_run += seconds
        text = f"This process was not run for {seconds:.1f} s: it was stopped, or the machine is overloaded."
        self.get_logger().warning(text)
        self.diagnostics.set("seconds_not_run", self._seconds_not_run)
        self.diagnostics.notice(text)
        self.was_not_run(self._seconds_not_run)

    def _on_jump(self) -> None:
        self.get_logger().info("Time went back: state cleared.")
        self.time_jumped_back()

    def _on_change(self, new) -> None:
        self.config_changed(self.config, new)
        self.config = new

    def request_exit(self) -> None:
        """End the process as Ctrl-C would, from any thread."""
        self.exit_requested = True

    def close(self) -> None:
        """Stop state, then everything freed. The context must still be valid, for last messages."""
        # What another thread of the executor is making must not be freed in its hands.
        self._transitions.acquire(timeout=TRANSITION_LIMIT)
        for step in (self.stop, self.trigger_shutdown, lambda: self.diagnostics.beat(force=True), self.destroy_node):
            with contextlib.suppress(Exception):
                step()


class turn:
    """`await turn()`: let other callbacks run, and come back some milliseconds later.

    rclpy's executors poll a pending coroutine as fast as they can, at the price of a whole core; the
    short sleep on every turn is what keeps waiting cheap. For waits of seconds, not of hours.
    """

    def __await__(self):
        time.sleep(0.002)
        yield


def _executor(node):
    """The executor a node asks for.

    The classic ones build their wait set anew for every message and poll pending coroutines: 500
    joint states a second cost 22 % of a core before any work is done, 8 % with the events executor, and 100 messages of /clock
    10 % and 3 % (2-core machine, rclpy 7.1.6). That one knows neither coroutines nor guard conditions nor message info.
    """
    if node.executor_threads == 1 and not node.coroutines:
        with contextlib.suppress(ImportError):
            from rclpy.experimental import EventsExecutor

            return EventsExecutor()
    if node.executor_threads == 1:
        return SingleThreadedExecutor()
    return MultiThreadedExecutor(num_threads=node.executor_threads)


def _patience(node: RefitNode) -> float:
    return TRANSITION_PATIENCE if node._interruptible else PATIENCE


def spin_main(node_class, args=None) -> int:
    """Run one node until a signal or the end of its context; returns the exit code.

    SIGINT and SIGTERM are normal endings: within a tenth of a second the node reaches its stop
    state, its last messages leave, and the code is 0. A configuration that cannot work is one
    sentence and code 2. rclpy's own handlers are not used because they close the context first,
    after which nothing, not even a stop command, can be published.
    """
    stopping = threading.Event()
    node = executor = turns = None

    def on_signal(number, frame) -> None:
        stopping.set()
        if node is not None:
            node.watchdog.end_within(ENDING_LIMIT)
        if node is not None and node._interruptible and not node.is_active:
            raise KeyboardInterrupt  # nothing moves yet, so a long `configure` can be cut short

    def on_early_signal(number, frame) -> None:
        os._exit(0)  # nothing has started, so there is nothing to end

    main_thread = threading.current_thread() is threading.main_thread()
    if main_thread:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_early_signal)
    watch_interpreter()  # until the node's own watch does it
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = node_class()
        executor = _executor(node)
        executor.add_node(node)
        if main_thread:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, on_signal)
        turns = node.watchdog.loop("executor", patience=partial(_patience, node))
        node.watchdog.start()
        while not (stopping.is_set() or node.exit_requested) and rclpy.ok():
            turns.turn()
            executor.spin_once(timeout_sec=0.1)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except ConfigError as error:
        print(f"{node_class.name}: {error}", file=sys.stderr)
        return 2
    finally:
        # A second Ctrl-C (terminal and launch both send one) must not interrupt the ending.
        if main_thread:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
        if node is None:
            faulthandler.cancel_dump_traceback_later()
        else:
            node.watchdog.close()
            node.close()
        if executor is not None:
            with contextlib.suppress(Exception):
                executor.shutdown(timeout_sec=0.5)
        rclpy.try_shutdown()
        # The middleware takes leave of the graph when the last of its entities is freed. Left to the end of the process, that
        # happens while its libraries are being torn down, where it crashed or hung for ever now and then.
        node = executor = turns = None
        gc.unfreeze()
        gc.collect()
    return 0
