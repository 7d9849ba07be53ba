"""A serial port whose every failure is `Disconnected`."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import termios
import time
from pathlib import Path

import serial

from hardware.link.errors import Disconnected

__all__ = ["PORT_FAILURES", "SerialPort", "latency_timer", "not_opened", "vanished"]

#: what an operation on a port raises, open or not
PORT_FAILURES = (OSError, ValueError, termios.error, serial.SerialException)


class SerialPort:
    """Raw bytes to and from a device; reading never waits longer than asked.

    pyserial opens and configures the port; reading and writing go to its descriptor directly, which
    costs a third (no locks, no per-call bookkeeping).

    Args:
        path: of the port; opened anew it may lead elsewhere, so a device is named by /dev/serial/by-id.
        baud: any rate; some adapters round it.
        exclusive: refuse a port that another process has open exclusively.

    Raises:
        Disconnected: no such port, no permission, in use; the text says what to do.
    """

    def __init__(self, path: str | os.PathLike, baud: int, exclusive: bool = True) -> None:
        self.path, self.baud = str(path), baud
        try:
            self._serial = serial.Serial(self.path, baud, timeout=0, write_timeout=1.0, exclusive=exclusive or None)
        except PORT_FAILURES as error:
            raise not_opened(self.path, error) from error
        self._fd = self._serial.fileno()
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN | select.POLLHUP | select.POLLERR)
        # Optional by nature: neither pseudo-terminals nor all adapters know it.
        with contextlib.suppress(*PORT_FAILURES, AttributeError, NotImplementedError):
            self._serial.set_low_latency_mode(True)

    def fileno(self) -> int:
        return self._fd

    def read(self, size: int = 4096, timeout: float = 0.0) -> bytes:
        """What has arrived, at most `size` bytes; waits at most `timeout` [s] for the first one, then b"".

        Raises:
            Disconnected: the port is gone.
        """
        try:
            events = self._poll.poll(max(0.0, timeout) * 1e3)
            if not events:
                return b""
            data = os.read(self._fd, size)
        except BlockingIOError:
            return b""
        except PORT_FAILURES as error:
            raise vanished(self.path, error) from error
        if not data:  # readable and empty: the other end is closed
            raise Disconnected(f"{self.path} was closed at its other end: unplugged?", self.path)
        return data

    def write(self, data: bytes) -> None:
        """Hand all of `data` to the port.

        Raises:
            Disconnected: the port is gone or takes nothing for a second.
        """
        try:
            sent = os.write(self._fd, data)
            while sent < len(data):
                if not select.select([], [self._fd], [], 1.0)[1]:
                    raise Disconnected(f"{self.path} takes no data: cable or adapter hangs")
                sent += os.write(self._fd, data[sent:])
        except BlockingIOError:
            raise Disconnected(f"{self.path} takes no data: cable or adapter hangs") from None
        except PORT_FAILURES as error:
            raise vanished(self.path, error) from error

    def discard_input(self) -> int:
        """Drop what has arrived and was not read; returns the bytes dropped."""
        dropped = 0
        with contextlib.suppress(BlockingIOError):
            while data := self.read():
                dropped += len(data)
        return dropped

    def drain(self, quiet: float, limit: float = 1.0) -> int:
        """Read and drop until nothing came for `quiet` [s], at most `limit` [s]; returns the bytes dropped."""
        dropped, end = 0, time.monotonic() + limit
        while time.monotonic() < end:
            data = self.read(timeout=quiet)
            if not data:
                break
            dropped += len(data)
        return dropped

    def set_baud(self, baud: int) -> None:
        """Change the rate of the open port."""
        try:
            self._serial.baudrate = baud
        except PORT_FAILURES as error:
            raise vanished(self.path, error) from error
        self.baud = baud

    def transmission_time(self, n_bytes: int) -> float:
        """Time n bytes take on the wire at 8N1 [s]."""
        return n_bytes * 10.0 / self.baud

    def close(self) -> None:
        """Free the port; may be called at any moment and more than once."""
        with contextlib.suppress(*PORT_FAILURES):
            self._serial.close()


def latency_timer(path: str | os.PathLike, sysfs: str = "/sys") -> int | None:
    """Latency timer of an FTDI adapter [ms]; None for other ports. Above 1 ms it limits every bus cycle."""
    name = Path(os.path.realpath(path)).name
    try:
        return int((Path(sysfs) / "bus/usb-serial/devices" / name / "latency_timer").read_text())
    except (OSError, ValueError):
        return None


def vanished(path: str, error: Exception) -> Disconnected:
    """What to say of an open port that failed with one of PORT_FAILURES."""
    return Disconnected(f"{path} is gone ({_reason(error)}): unplugged?", path)


def not_opened(path: str, error: Exception) -> Disconnected:
    """What to say of a port whose opening failed with one of PORT_FAILURES, and what to do."""
    number = getattr(error, "errno", None)
    if number == errno.ENOENT or not os.path.exists(path):
        text = f"no port {path}: is the device plugged in? `ls /dev/serial/by-id` lists those there are"
    elif number in (errno.EACCES, errno.EPERM):
        text = f"no permission for {path}: sudo usermod -aG dialout $USER, then log in again"
    elif number in (errno.EBUSY, errno.EAGAIN) or "exclusively lock" in str(error):
        text = f"{path} is in use by another process: `fuser {path}` names it"
    else:
        text = f"{path} cannot be opened ({_reason(error)})"
    return Disconnected(text, path)


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None) or (error.args[0] if error.args and isinstance(error.args[0], int) else None)
    return os.strerror(number) if number else str(error)
