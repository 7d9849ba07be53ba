"""A serial port whose other end is ours: the client opens `link` as it would open a USB adapter."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import select
import struct
import threading
import time
import tty
from collections import deque
from pathlib import Path

from hardware.emulation.placed_link import place_link

__all__ = ["PtyPort"]

TCGETS2 = 0x802C542A  # asm-generic/ioctls.h; struct termios2 holds the rate as a number
_TERMIOS2 = struct.Struct("IIIIB19BII")
SLICE = 0.001  # [s] of wire time handed over at once when paced


class PtyPort:
    """A pseudo-terminal with the timing and the failures of a serial line.

    Args:
        link: symbolic link to the client's end; replaced atomically at every plugging in.
        baud: rate of the device; bytes that the client sends at another are lost. None: USB, where the rate means nothing.
        pace: bytes towards the client take their time on the wire (10 bits each); USB is never paced.

    Attributes:
        stats: bytes in and out, lost to a wrong rate, to a full buffer, to an unplugged wire.
    """

    def __init__(self, link: str | os.PathLike, baud: int | None, pace: bool = True) -> None:
        self.link, self.baud, self.pace = Path(link), baud, pace
        self.stats = dict(received=0, sent=0, wrong_baud=0, overflow=0, unplugged=0)
        self._lock = threading.Lock()
        self._master = self._slave = -1
        self._queue: deque[tuple[float, bytes]] = deque()
        self._free = 0.0  # when the line has sent all that was queued
        self._due = threading.Condition()
        self._closing = False
        self._pump: threading.Thread | None = None
        self.replug()

    @property
    def plugged(self) -> bool:
        return self._master >= 0

    def fileno(self) -> int:
        """Of our end; -1 while unplugged."""
        return self._master

    # -- the wire ----------------------------------------------------------------------------------
    def read(self, timeout: float = 0.0) -> bytes:
        """What the client wrote; waits at most `timeout` [s] for the first byte, then b""."""
        master = self._master
        if master < 0:
            time.sleep(timeout)
            return b""
        try:
            poll = select.poll()
            poll.register(master, select.POLLIN)
            if not poll.poll(max(0.0, timeout) * 1e3):
                return b""
            data = os.read(master, 65536)
        except (OSError, ValueError) as error:
            # Unplugged meanwhile by another thread (EBADF, EIO), or nothing there after all.
            if getattr(error, "errno", errno.EBADF) not in (errno.EBADF, errno.EIO, errno.EAGAIN):
                raise
            return b""
        if self.baud is not None and self.client_baud() != self.baud:
            self.stats["wrong_baud"] += len(data)
            return b""
        self.stats["received"] += len(data)
        return data

    def write(self, data: bytes) -> None:
        """Send towards the client; what does not fit into its buffer is lost and counted."""
        if not (self.pace and self.baud):
            self._send(data)
            return
        n = max(1, int(self.baud / 10.0 * SLICE))
        with self._due:
            for i in range(0, len(data), n):
                part = bytes(data[i : i + n])
                self._free = max(self._free, time.monotonic()) + len(part) * 10.0 / self.baud
                self._queue.append((self._free, part))
            if self._pump is None:
                self._pump = threading.Thread(target=self._pump_out, name="wire", daemon=True)
                self._pump.start()
            self._due.notify()

    def client_baud(self) -> int:
        """The rate the client has set, to the last digit."""
        with self._lock:
            if self._master < 0:
                return 0
            raw = fcntl.ioctl(self._master, TCGETS2, bytes(_TERMIOS2.size))
        return _TERMIOS2.unpack(raw)[-1]

    def _send(self, data: bytes) -> None:
        with self._lock:
            if self._master < 0:
                self.stats["unplugged"] += len(data)
                return
            if (
                self.baud is not None
                and _TERMIOS2.unpack(fcntl.ioctl(self._master, TCGETS2, bytes(_TERMIOS2.size)))[-1] != self.baud
            ):
                self.stats["wrong_baud"] += len(data)
                return
            try:
                sent = os.write(self._master, data)
            except BlockingIOError:
                sent = 0
            self.stats["sent"] += sent
            self.stats["overflow"] += len(data) - sent

    def _pump_out(self) -> None:
        while not self._closing:
            with self._due:
                while not self._queue and not self._closing:
                    self._due.wait()
                if self._closing:
                    return
                due, data = self._queue[0]
            rest = due - time.monotonic()
            if rest > 0.0:
                time.sleep(rest)
            with self._due:
                if self._queue and self._queue[0][1] is data:
                    self._queue.popleft()
                else:
                    continue  # dropped by an unplugging while it waited
            self._send(data)

    # -- plugging ----------------------------------------------------------------------------------
    def unplug(self) -> None:
        """As pulling the cable: the client's next access fails, the link is gone."""
        with self._due:
            self._queue.clear()
            self._free = 0.0
        with self._lock, contextlib.suppress(OSError):
            if self._master < 0:
                return
            with contextlib.suppress(FileNotFoundError):
                self.link.unlink()
            master, slave, self._master, self._slave = self._master, self._slave, -1, -1
            os.close(slave)
            os.close(master)

    def replug(self) -> None:
        """A new pseudo-terminal under the same link."""
        with self._lock:
            if self._master >= 0:
                return
            master, slave = pty.openpty()
            tty.setraw(slave)  # before the link exists: an echo would corrupt the stream
            os.set_blocking(master, False)
            place_link(self.link, os.ttyname(slave))
            # Our end of the client's side stays open, else reading fails while nobody is connected.
            self._master, self._slave = master, slave

    def close(self) -> None:
        """Unplug for good."""
        self._closing = True
        with self._due:
            self._due.notify_all()
        self.unplug()
