"""The emulators' end of a TCP connection, used like a pseudo-terminal."""

from __future__ import annotations

import contextlib
import select
import socket
import time

__all__ = ["TcpServerPort"]


class TcpServerPort:
    """Accepts one client at a time; a new one takes the place of the old. Methods as `hardware.emulation.pty_port.PtyPort`.

    Args:
        address, port: to listen at; port 0: any free one, see `port`.

    Attributes:
        stats: bytes in and out, lost to a client that does not read, or to nobody being there.
    """

    baud = None

    def __init__(self, address: str, port: int) -> None:
        self.address, self.port = address, port
        self.stats = dict(received=0, sent=0, overflow=0, unplugged=0, clients=0)
        self._listener: socket.socket | None = None
        self._client: socket.socket | None = None
        self.replug()

    def read(self, timeout: float = 0.0) -> bytes:
        """What the client wrote; waits at most `timeout` [s]."""
        if self._listener is None:
            time.sleep(timeout)
            return b""
        watched = [self._listener] + ([self._client] if self._client else [])
        ready = select.select(watched, [], [], max(0.0, timeout))[0]
        if self._listener in ready:
            self._hang_up()
            self._client = self._listener.accept()[0]
            self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._client.setblocking(False)
            self.stats["clients"] += 1
            return b""
        if not ready or self._client is None:
            return b""
        try:
            data = self._client.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._hang_up()
        self.stats["received"] += len(data)
        return data

    def write(self, data: bytes) -> None:
        """Towards the client; what it does not take is lost and counted."""
        if self._client is None:
            self.stats["unplugged"] += len(data)
            return
        try:
            sent = self._client.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._hang_up()
            sent = 0
        self.stats["sent"] += sent
        self.stats["overflow"] += len(data) - sent

    @property
    def plugged(self) -> bool:
        return self._listener is not None

    def unplug(self) -> None:
        """The connection breaks, and nobody accepts another."""
        self._hang_up()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def replug(self) -> None:
        """Accept again, at the same port."""
        if self._listener is None:
            self._listener = socket.create_server((self.address, self.port), reuse_port=False)
            self.port = self._listener.getsockname()[1]

    def close(self) -> None:
        self.unplug()

    def _hang_up(self) -> None:
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.close()
            self._client = None
