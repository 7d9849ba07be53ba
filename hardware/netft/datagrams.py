"""All datagrams that wait at a socket, in one call of the kernel: recvmmsg(2), which Python's socket module lacks.

At 7 kHz a call per datagram is most of what receiving costs.
"""

from __future__ import annotations

import ctypes
import errno
import os

import numpy as np

__all__ = ["DatagramReader"]

MSG_DONTWAIT, MSG_TRUNC = 0x40, 0x20


class _IoVector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class _Header(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.c_void_p),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class _Message(ctypes.Structure):
    _fields_ = [("header", _Header), ("length", ctypes.c_uint)]


_libc = ctypes.CDLL(None, use_errno=True)


class DatagramReader:
    """Reads datagrams of whole records.

    Args:
        record: size of a record [bytes]. longest: records in the longest datagram.
        count: most datagrams of one call.
    """

    def __init__(self, record: int, longest: int, count: int = 64) -> None:
        self.record, self.count = record, count
        size = record * longest
        self._memory = np.zeros((count, size), np.uint8)
        self._vectors = (_IoVector * count)(*(_IoVector(self._memory[k].ctypes.data, size) for k in range(count)))
        self._messages = (_Message * count)()
        step = ctypes.sizeof(_IoVector)
        for k, message in enumerate(self._messages):
            message.header.vectors = ctypes.addressof(self._vectors) + k * step
            message.header.vector_count = 1
        fields = np.frombuffer(memoryview(self._messages), np.uint32).reshape(count, -1)
        self._lengths = fields[:, _Message.length.offset // 4]
        self._flags = fields[:, _Message.header.offset // 4 + _Header.flags.offset // 4]

    def read(self, fd: int) -> tuple[np.ndarray, int]:
        """What waits at a socket, without waiting: records in order, bytes of shape (n record,), and how many datagrams had others.

        Raises:
            OSError: of the socket; nothing waiting is none, nor is a peer that refused an earlier request.
        """
        n = _libc.recvmmsg(fd, self._messages, self.count, MSG_DONTWAIT, None)
        if n < 0:
            number = ctypes.get_errno()
            if number in (errno.EAGAIN, errno.EINTR, errno.ECONNREFUSED):
                return self._memory[0, :0], 0
            raise OSError(number, os.strerror(number))
        lengths = self._lengths[:n]
        good = (lengths > 0) & (lengths % self.record == 0) & (self._flags[:n] & MSG_TRUNC == 0)
        first = int(lengths[0])
        if good.all() and (lengths == first).all():
            return self._memory[:n, :first].reshape(-1), 0
        parts = [self._memory[k, : lengths[k]] for k in np.flatnonzero(good)]
        return np.concatenate(parts) if parts else self._memory[0, :0], int(n - good.sum())
