"""A TCP connection that is used like a serial port: SCIP over a network."""

from __future__ import annotations

import contextlib
import select
import socket

from hardware.link import Disconnected

__all__ = ["TcpPort"]


class TcpPort:
    """See `hardware.link.SerialPort`, whose methods these are; a network has no rate.

    Args:
        address, port: of the device.
        timeout: for the connection [s].

    Raises:
        Disconnected: nobody accepts there.
    """

    baud = 0

    def __init__(self, address: str, port: int, timeout: float = 1.0) -> None:
        self.path = f"{address}:{port}"
        try:
            self._socket = socket.create_connection((address, port), timeout)
        except OSError as error:
            raise Disconnected(
                f"nobody accepts at {self.path} ({error}): check ip_address, ip_port and the cable"
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self, size: int = 4096, timeout: float = 0.0) -> bytes:
        """What has arrived; waits at most `timeout` [s] for the first byte, then b""."""
        try:
            if not select.select([self._socket], [], [], max(0.0, timeout))[0]:
                return b""
            data = self._socket.recv(size)
        except BlockingIOError:
            return b""
        except (OSError, ValueError) as error:
            raise Disconnected(f"the connection to {self.path} is lost ({error})") from error
        if not data:
            raise Disconnected(f"{self.path} has closed the connection")
        return data

    def write(self, data: bytes) -> None:
        """Hand all of `data` to the network."""
        try:
            while data:
                if not select.select([], [self._socket], [], 1.0)[1]:
                    raise Disconnected(f"{self.path} takes no data: cable or device hangs")
                data = data[self._socket.send(data) :]
        except (OSError, ValueError) as error:
            raise Disconnected(f"the connection to {self.path} is lost ({error})") from error

    def discard_input(self) -> None:
        """Drop what has arrived and was not read."""
        while self.read():
            pass

    def set_baud(self, baud: int) -> None:
        """Nothing: a network has no rate."""

    def transmission_time(self, n_bytes: int) -> float:
        """Zero: far below a millisecond."""
        return 0.0

    def close(self) -> None:
        """May be called at any moment and more than once."""
        with contextlib.suppress(OSError):
            self._socket.close()
