"""RDT, the protocol of ATI's Net F/T: requests of 8 bytes, records of 36, both big-endian, over UDP port 49152.

Source: ATI, Net F/T Installation and Operation Manual 9620-05, chapters "UDP interface using RDT" and
"Status code".
"""

from __future__ import annotations

import enum
import struct

import numpy as np

__all__ = [
    "CONDITION",
    "RECORD",
    "SATURATION",
    "STATUS_BITS",
    "Command",
    "SequenceAccount",
    "decode_records",
    "encode_request",
    "error_bits",
    "status_names",
]

#: One record; counts are forces and torques times the counts per unit of the configuration page.
RECORD = np.dtype([("rdt_sequence", ">u4"), ("ft_sequence", ">u4"), ("status", ">u4"), ("counts", ">i4", (6,))])

SATURATION = 1 << 17
CONDITION = 1 << 16
SUMMARY = 1 << 31
_UNKNOWN, _SEEN, _MISSING = 0, 1, 2

STATUS_BITS = {
    30: "CPU or RAM error",
    29: "digital board error",
    28: "analog board error",
    27: "serial link communication error",
    26: "program memory verify error",
    25: "halted due to configuration errors",
    24: "settings validation error",
    23: "configuration incompatible with calibration",
    22: "network communication failure",
    21: "CAN communication error",
    20: "RDT communication error",
    19: "EtherNet/IP protocol failure",
    18: "DeviceNet protocol failure",
    17: "transducer saturation or A/D error",
    16: "threshold condition latched",
    14: "watchdog timeout",
    13: "stack check error",
    12: "serial EEPROM failure",
    11: "serial flash failure",
    10: "analog board watchdog timeout",
    9: "excessive strain gage excitation current",
    8: "insufficient strain gage excitation current",
    7: "analog ground out of range",
    6: "analog board supply too high",
    5: "analog board supply too low",
    4: "serial link data unavailable",
    3: "reference voltage or power monitoring error",
    2: "internal temperature error",
    1: "HTTP protocol failure",
}


class Command(enum.IntEnum):
    """Of a request."""

    STOP = 0x0000
    AXIA = 0x0001  # Axia sensors stream on this one as well
    REAL_TIME = 0x0002  # one record per datagram
    BUFFERED = 0x0003  # several records per datagram
    MULTI_UNIT = 0x0004
    RESET_LATCH = 0x0041
    SOFTWARE_BIAS = 0x0042


def encode_request(command: int, count: int = 0) -> bytes:
    """A request; count: records asked for, 0 for no end."""
    return struct.pack(">HHI", 0x1234, command, count)


def decode_records(data: bytes | bytearray | memoryview | np.ndarray) -> np.ndarray:
    """Records in a buffer, without a copy; dtype RECORD, shape (n,).

    Raises:
        ValueError: the length is no multiple of 36 bytes.
    """
    return np.frombuffer(data, RECORD)


def status_names(status: int) -> list[str]:
    """What the bits of a status word mean, most severe first; the summary bit has no meaning of its own."""
    return [name for bit, name in STATUS_BITS.items() if status >> bit & 1]


def error_bits(status: int) -> int:
    """The bits that tell of a fault of the sensor, which neither saturation nor a latched condition is."""
    return status & ~(SUMMARY | SATURATION | CONDITION)


class SequenceAccount:
    """Which records of a stream came, which did not, which came late or twice; exact while faults mix.

    A record behind the newest one is a duplicate if one of this number and this `ft_sequence` was seen, and late if
    its number is missing. Anything else is a stream that was started anew, as is a jump over more numbers than the
    sensor's internal counter advanced: every record has an internal sample of its own.

    A record costs the same few operations whatever numbers it claims, so that forged ones do not hold up the stream.

    Attributes:
        lost: records that never came (one that comes late is taken off again).
        late, duplicates: records refused.
        restarts: streams that began anew without being asked to.
    """

    HISTORY = 4096  # records a late one may be behind: half a second at 7 kHz

    def __init__(self) -> None:
        self.lost = self.late = self.duplicates = self.restarts = 0
        self._ft = np.zeros(self.HISTORY, np.uint32)
        self._state = np.zeros(self.HISTORY, np.uint8)  # both by number modulo HISTORY
        self.begin()

    def begin(self) -> None:
        """A stream has been asked for: the next record's number is where counting starts."""
        self._newest: int | None = None
        self._newest_ft = 0
        self._state[:] = _UNKNOWN

    def accept(self, records: np.ndarray) -> np.ndarray:
        """The records to use, in order: all but late ones and duplicates.

        Args:
            records: as they arrived, dtype RECORD, shape (n,).
        """
        if not len(records):
            return records
        rdt = records["rdt_sequence"].astype(np.uint32)
        ft = records["ft_sequence"].astype(np.uint32)
        if self._newest is not None:
            expected = np.uint32(self._newest) + np.arange(
                1, len(rdt) + 1, dtype=np.uint32
            )  # wraps as the counter does
            if np.array_equal(rdt, expected):
                slots = rdt % self.HISTORY
                self._ft[slots], self._state[slots] = ft, _SEEN
                self._newest, self._newest_ft = int(rdt[-1]), int(ft[-1])
                return records
        keep = np.fromiter(map(self._judge, rdt.tolist(), ft.tolist()), bool, len(rdt))
        return records if keep.all() else records[keep]

    def _judge(self, rdt: int, ft: int) -> bool:
        """Whether one record is to be used."""
        if self._newest is None:
            return self._take(rdt, ft)
        ahead, ahead_ft = _difference(rdt, self._newest), _difference(ft, self._newest_ft)
        slot = rdt % self.HISTORY
        if ahead == 1:
            return self._take(rdt, ft)
        if ahead > 1 and ahead_ft >= ahead:
            self.lost += ahead - 1
            self._miss(self._newest, ahead)
            return self._take(rdt, ft)
        if -self.HISTORY < ahead <= 0:
            state = self._state[slot]
            if state == _SEEN and self._ft[slot] == ft:
                self.duplicates += 1
                return False
            if state != _SEEN and ahead_ft <= ahead:
                self.lost -= int(state == _MISSING)  # unknown: it belongs before the first record of the stream
                self.late += 1
                self._ft[slot], self._state[slot] = ft, _SEEN
                return False
        self.restarts += 1
        self.begin()
        return self._take(rdt, ft)

    def _miss(self, newest: int, ahead: int) -> None:
        """The numbers between `newest` and the one `ahead` of it are missing; at most two writes, however many."""
        if ahead > self.HISTORY:
            self._state[:] = _MISSING
            return
        first, end = (newest + 1) % self.HISTORY, (newest + ahead) % self.HISTORY
        if first <= end:
            self._state[first:end] = _MISSING
        else:
            self._state[first:], self._state[:end] = _MISSING, _MISSING

    def _take(self, rdt: int, ft: int) -> bool:
        self._newest, self._newest_ft = rdt, ft
        slot = rdt % self.HISTORY
        self._ft[slot], self._state[slot] = ft, _SEEN
        return True


def _difference(a: int, b: int) -> int:
    """a - b of counters of 32 bits, -2^31 to 2^31 - 1."""
    return (a - b + 0x80000000 & 0xFFFFFFFF) - 0x80000000
