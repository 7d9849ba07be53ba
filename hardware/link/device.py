"""A device behind a link that may fail at any moment: one thread that opens, serves, stops and reconnects.

class Thermometer(Device):
    def _open(self): ...      # port, handshake, settings; returns the Identity
    def _start(self): ...     # begin streaming
    def _serve(self):         # one turn of at most ~50 ms
        self._sample(celsius, t)
    def _stop(self): ...      # the safe stop, confirmed by read-back
    def _close(self): ...

device = Thermometer(on_sample=print)
device.start(); device.enable(); ...; device.disable(); device.close()
"""

from __future__ import annotations

import contextlib
import enum
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hardware.link.backoff import Backoff
from hardware.link.counters import Counters, RateMeter
from hardware.link.errors import DeviceError, WrongDevice

__all__ = ["Device", "Identity", "State"]

LOOK_PERIOD = 0.1  # [s] between looks whether a missing port is back


@dataclass(frozen=True)
class Identity:
    """Who answers: the maker's names."""

    model: str
    serial: str = ""
    firmware: str = ""


class State(enum.Enum):
    """Of the link."""

    CLOSED = "closed"
    CONNECTING = "connecting"
    READY = "ready"  # open, not streaming
    STREAMING = "streaming"
    STALE = "stale"  # streaming was asked for, no valid sample for stale_timeout
    RECONNECTING = "reconnecting"
    FAILED = "failed"  # gave up


class Device(ABC):
    """See the module's docstring. Hooks (underscore) run on the device's thread alone.

    Attributes:
        state: present State.
        identity: of the device that answered last; None before the first.
        counters, rate: totals of the link's life; valid samples per second.
        faults, warnings: name -> sentence, conditions that last until removed (levels ERROR and WARN).
        last_error: newest failure of the link; "" once it streams or stands ready again.
        last_sample: host time of the newest sample's measurement; -inf before the first.
        on_state: called on the device's thread when the state has changed.

    Args:
        on_sample: called as on_sample(sample, t) on the device's thread.
        backoff: delays between attempts.
        stale_timeout: silence after which samples count as missing [s].
        allow_replacement: accept another model or serial number after a reconnection.
    """

    def __init__(
        self,
        *,
        on_sample: Callable = lambda sample, t: None,
        backoff: Backoff | None = None,
        stale_timeout: float = 0.15,
        allow_replacement: bool = False,
    ) -> None:
        self.on_sample = on_sample
        self.backoff = backoff or Backoff()
        self.stale_timeout = stale_timeout
        self.allow_replacement = allow_replacement
        self.counters, self.rate = Counters(), RateMeter()
        self.identity: Identity | None = None
        self.state = State.CLOSED
        self.faults: dict[str, str] = {}
        self.warnings: dict[str, str] = {}
        self.last_error = ""
        self.last_sample = float("-inf")
        self.on_state: Callable[[], None] = lambda: None
        self._enabled = False
        self._arrived = float("-inf")
        self._wake = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    # -- hooks -------------------------------------------------------------------------------------
    @abstractmethod
    def _open(self) -> Identity:
        """Open the port, shake hands, apply volatile settings."""

    def _start(self) -> None:
        """Begin streaming."""

    @abstractmethod
    def _serve(self) -> None:
        """One turn while enabled: wait at most ~50 ms, hand every valid sample to `_sample`."""

    def _idle(self) -> None:
        """One turn while not enabled."""
        time.sleep(0.02)

    def _stop(self) -> None:
        """The declared safe stop, while connected; confirmed by read-back where the device can."""

    @abstractmethod
    def _close(self) -> None:
        """Free the port; must cope with a half-done `_open`."""

    def _sample(self, sample: Any, t: float, n: int = 1) -> None:
        """Count a valid sample measured at host time t and hand it on; a stamp that does not increase is dropped.

        A sample may be a block of n measurements of which t is the newest one's time.
        """
        now = time.monotonic()
        if t <= self.last_sample:
            self.counters.add("dropped", n)
            return
        self.last_sample = t
        self.counters.add("samples", n)
        self.counters.latency(now - t)
        self.rate.tick(now, n)
        self._arrived = now
        if self.state is State.STALE:
            self._set_state(State.STREAMING)
        self.on_sample(sample, t)

    # -- from any thread ---------------------------------------------------------------------------
    def start(self) -> None:
        """Begin to look for the device."""
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def enable(self) -> None:
        """Stream from now on, and after every reconnection."""
        with self._wake:
            self._enabled = True
            self._wake.notify_all()

    def disable(self, timeout: float = 2.0) -> bool:
        """Stop streaming; True once the device is in its safe stop, or was not connected."""
        with self._wake:
            self._enabled = False
            self._wake.notify_all()
        return self.wait_for(lambda: self.state not in (State.STREAMING, State.STALE), timeout)

    def close(self, timeout: float = 3.0) -> None:
        """Safe stop, port freed, thread ended."""
        with self._wake:
            self._closing, self._enabled = True, False
            self._wake.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def wait_for(self, condition: State | Callable[[], bool], timeout: float) -> bool:
        """Whether a state is reached, or a condition holds, within `timeout` [s]."""
        holds = (lambda: self.state is condition) if isinstance(condition, State) else condition
        end = time.monotonic() + timeout
        with self._wake:
            while not holds():
                rest = end - time.monotonic()
                if rest <= 0.0:
                    return False
                self._wake.wait(min(rest, 0.05))
        return True

    @property
    def sample_age(self) -> float:
        """Time since a valid sample arrived, or since streaming began [s]; 0 while not streaming."""
        if self.state not in (State.STREAMING, State.STALE):
            return 0.0
        return time.monotonic() - self._arrived

    # -- the thread --------------------------------------------------------------------------------
    def _run(self) -> None:
        while not self._closing:
            awaited = ""
            try:
                self._connect()
                self._run_connected()
            except DeviceError as error:
                self._lost(str(error))
                awaited = getattr(error, "path", "")
            except Exception as error:  # a driver's own mistake must not end the thread in silence
                self._lost(f"{type(error).__name__}: {error}")
            finally:
                with contextlib.suppress(Exception):
                    self._close()
            if self._closing:
                break
            if not self._rest(awaited):
                break
        if self.state is not State.FAILED:
            self._set_state(State.CLOSED)

    def _lost(self, why: str) -> None:
        """Said before anything is closed, which may take its time."""
        self.last_error = self.counters.last_error = why
        if not self._closing:
            self._set_state(State.RECONNECTING)

    def _connect(self) -> None:
        self._set_state(State.CONNECTING if self.identity is None else State.RECONNECTING)
        found = self._open()
        known = self.identity
        if (
            known is not None
            and not self.allow_replacement
            and (found.model, found.serial) != (known.model, known.serial)
        ):
            raise WrongDevice(
                f"expected {known.model} {known.serial}".rstrip()
                + f", found {found.model} {found.serial}".rstrip()
                + ": plug the same device in, or set allow_replacement"
            )
        if known is not None:
            self.counters.add("reconnects")
        self.identity = found
        self.backoff.reset()
        self._set_state(State.READY)

    def _run_connected(self) -> None:
        while not self._closing:
            if self._enabled:
                self._start()
                self.last_error = ""
                self.rate.clear()
                self._arrived = time.monotonic()
                self._set_state(State.STREAMING)
                try:
                    while self._enabled and not self._closing:
                        self._serve()
                        if self.state is State.STREAMING and self.sample_age > self.stale_timeout:
                            self._set_state(State.STALE)
                except DeviceError:
                    raise
                except BaseException:
                    with contextlib.suppress(DeviceError):
                        self._stop()  # a mistake of ours leaves the device as safely as a command to stop
                    raise
                self._stop()
                self._set_state(State.READY)
            else:
                self.last_error = ""
                self._idle()
        self._set_state(State.READY)

    def _rest(self, awaited: str) -> bool:
        """Wait for the next attempt; False if there is none. A port that was missing and appears is tried at once."""
        try:
            delay = self.backoff.next()
        except DeviceError as error:
            self.last_error = self.counters.last_error = f"{self.last_error}; {error}"
            self._set_state(State.FAILED)
            return False
        end = time.monotonic() + delay
        missing = bool(awaited) and not os.path.exists(awaited)
        with self._wake:
            while not self._closing and (rest := end - time.monotonic()) > 0.0:
                self._wake.wait(min(rest, LOOK_PERIOD))
                if missing and os.path.exists(awaited):
                    break
        return not self._closing

    def _set_state(self, state: State) -> None:
        with self._wake:
            changed, self.state = state is not self.state, state
            self._wake.notify_all()
        if changed:
            self.on_state()
