"""What is inside an emulated URG-04LX: its commands, states and timing, and its own SCIP codec. No I/O; time comes in.

Not imitated: the measuring commands of SCIP 1.1 (every one but `SCIP2.0` answers `E`), the distortion of a scan taken
while something moves (all rays of a turn are cast when it faces ahead), how long the firmware thinks.

A single scan (GD, GS) asked for right after BM is answered when the first whole turn with the laser on has been measured;
what is asked behind it waits its turn.

Source: Hokuyo, Communication Protocol Specification for SCIP 2.0, C-42-03320B.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

__all__ = ["Sensor", "encode", "info_line", "reply", "sum_character"]

Answer = str | tuple[str, list[bytes]]  # status, with or without lines

STEPS, FIRST, LAST, FRONT, LAST_STEP = 1024, 44, 725, 384, 768
RATES = ("019200", "057600", "115200", "250000", "500000", "750000")
UNMEASURABLE = 19
NOT_YET = ""  # no status of the manual: the reply comes later
QUEUE = 8  # requests that can wait behind one that is answered later; more are a shortage of buffers
LOOK, SEND, REST = range(3)  # phases of a turn: until it faces ahead, until its last step, until it begins anew
MODEL = "URG-04LX(Hokuyo Automatic Co.,Ltd.)"
#: command -> characters of parameters
PARAMETERS = {
    "VV": 0,
    "PP": 0,
    "II": 0,
    "BM": 0,
    "QT": 0,
    "RS": 0,
    "TM": 1,
    "SS": 6,
    "CR": 2,
    "HS": 1,
    "DB": 2,
    "GD": 10,
    "GS": 10,
    "MD": 13,
    "MS": 13,
}
IN_UPDATE_MODE = ("VV", "II", "RS")


# ---- codec ---------------------------------------------------------------------------------------


def sum_character(text: bytes) -> bytes:
    """Section 7."""
    return bytes([0x30 + sum(text) % 64])


def encode(values: int | np.ndarray, width: int) -> bytes:
    """Numbers as `width` characters each, most significant six bits first (section 6)."""
    shifts = 6 * np.arange(width - 1, -1, -1)
    return ((np.atleast_1d(values)[:, None] >> shifts & 0x3F) + 0x30).astype(np.uint8).tobytes()


def info_line(text: str) -> bytes:
    """An entry of VV, PP or II: the semicolon is not part of the sum."""
    raw = text.encode("ascii")
    return raw + b";" + sum_character(raw)


def reply(echo: str, status: str, lines: Iterable[bytes] = ()) -> bytes:
    """A reply of SCIP 2.0."""
    raw = status.encode("ascii")
    return b"\n".join([echo.encode("latin-1"), raw + sum_character(raw), *lines]) + b"\n\n"


def data_lines(time: int, distances: np.ndarray, width: int) -> list[bytes]:
    """Time stamp and blocks of a scan, each with its sum."""
    stamp, data = encode(time, 4), encode(distances, width)
    blocks = [stamp, *(data[i : i + 64] for i in range(0, len(data), 64))]
    return [block + sum_character(block) for block in blocks]


# ---- the sensor ----------------------------------------------------------------------------------


@dataclass
class Stream:
    """A running MD or MS."""

    echo: str  # without the count of scans and what follows
    string: str
    first: int
    last: int
    cluster: int
    skip: int
    remaining: int  # -1: without end
    width: int
    turn: int = 0  # how many turns have passed

    def header(self) -> str:
        return f"{self.echo}{max(self.remaining, 0):02}{self.string}"


class Sensor:
    """See the module's docstring.

    Args:
        cast: what it sees now, by step: `cast() -> (LAST - FIRST + 1,)` ints [mm or error code].
        serial: SERI.
        scip1: whether it wakes up in SCIP 1.1.
        rate: bit rate after power-up, as six digits.
        rpm: nominal speed of the motor.
        boot_time: silence after power-up [s].

    Attributes:
        rate: bit rate in force [baud].
        trouble: status 21-49 (checking) or 50-97 (broken) that the hardware has, else 0.
        rpm: of the motor, as commanded; `slow` overrides it while not None.
        history: (timer [ms], host time of step 0 [s], CRC-32 of the distances as int32) of scans sent.
    """

    def __init__(
        self,
        cast: Callable[[], np.ndarray],
        now: float,
        serial: str = "H0614967",
        scip1: bool = True,
        rate: str = "019200",
        rpm: float = 600.0,
        boot_time: float = 0.1,
    ) -> None:
        self.cast, self.serial, self.scip1_at_boot, self.default_rate = cast, serial, scip1, rate
        self.nominal_rpm, self.boot_time = rpm, boot_time
        self.firmware_update = False
        self.slow: float | None = None
        self.trouble = 0
        self.skew = 0.0  # of the timer's crystal
        self.processing = 0.0  # from the last step to the reply [s]
        self.next_status: str | None = None  # the next reply's, whatever is asked
        self.history: deque[tuple[int, float, int]] = deque(maxlen=2000)
        self.power_on(now)

    def power_on(self, now: float) -> None:
        """As after switching on."""
        self.scip1 = self.scip1_at_boot
        self.awake = now + self.boot_time
        self.rate = int(self.default_rate)
        self._line = b""
        self._waiting: deque[tuple[str, bool]] = deque()  # requests, and whether one came twice at once
        self._latest: tuple[int, np.ndarray] | None = None
        self._turn_begin, self._phase = now, LOOK
        self._seen: np.ndarray | None = None
        self.reset(now)

    def reset(self, now: float) -> None:
        """RS: laser off, motor speed, bit rate and timer as after switching on."""
        self.laser, self.adjusting, self.sensitive = False, False, 0
        self.rpm, self.rate = self.nominal_rpm, int(self.default_rate)
        self.simulated: deque[tuple[int, int]] = deque()
        self.simulation = 0
        self._stream: Stream | None = None
        self._told = 0  # the trouble that the stream's reader knows of
        self.set_timer(0, now)

    # -- time --------------------------------------------------------------------------------------
    def set_timer(self, ms: float, now: float) -> None:
        """What the timer shows from now on."""
        self._zero, self._zero_ms = now, ms

    def timer(self, t: float) -> int:
        """The 24-bit timer at host time t [ms]."""
        return int(self._zero_ms + 1000.0 * (1.0 + self.skew) * (t - self._zero)) & 0xFFFFFF

    @property
    def period(self) -> float:
        """Of a turn [s]."""
        return 60.0 / (self.slow or self.rpm)

    def next_event(self) -> float:
        """Host time at which `advance` has something to do."""
        last = self._stream.last if self._stream else LAST
        step = (min(FRONT, last), last, STEPS)[self._phase]
        return self._turn_begin + self.period * step / STEPS + (self.processing if self._phase == SEND else 0.0)

    def advance(self, now: float) -> Iterator[bytes]:
        """What the sensor sends by itself up to now; `history` ends with the scan that was given last."""
        while now >= self.next_event():
            if self._phase == LOOK:
                self._seen = self.cast() if self.laser else None
            elif self._phase == SEND:
                yield from self._turn()
                yield from self._work(now)
            else:
                self._turn_begin += self.period
                if now - self._turn_begin > 10 * self.period:  # the process slept: those turns are lost
                    self._turn_begin = now
            self._phase = (self._phase + 1) % 3

    def _turn(self) -> list[bytes]:
        """The scan of this turn is complete."""
        if not self.laser:
            self._latest = None
            return []
        stream, trouble = self._stream, self._present_trouble()
        if trouble >= 50:
            self.laser, self._stream, self._told = False, None, 0
            return [reply(stream.header(), f"{trouble:02}")] if stream else []
        if trouble:
            told, self._told = self._told, trouble
            return [reply(stream.header(), f"{trouble:02}")] if stream and told != trouble else []
        if self._told:
            self._told = 0
            if stream:
                return [reply(stream.header(), "98")]
        if self._seen is None:  # switched on in the middle of the turn
            return []
        latest = self._latest = self.timer(self._turn_begin), self._seen
        if stream is None:
            return []
        stream.turn += 1
        if (stream.turn - 1) % (stream.skip + 1):
            return []
        if stream.remaining > 0:
            stream.remaining -= 1
        lines, distances = _scan(latest, stream.first, stream.last, stream.cluster, stream.width)
        self.history.append((latest[0], self._turn_begin, zlib.crc32(distances.astype(np.int32).tobytes())))
        if stream.remaining == 0:
            self.laser, self._stream = False, None
        return [reply(stream.header(), "99", lines)]

    def _present_trouble(self) -> int:
        """The hardware's own, or what DB has it simulate."""
        if not self.trouble and self._stream and self.simulated:
            turns, status = self.simulated[0]
            if turns:
                self.simulated[0] = (turns - 1, status)
            elif len(self.simulated) > 1:
                self.simulated.popleft()
            return status
        return self.trouble or (50 if self.simulation in (1, 2) else 0)

    # -- commands ----------------------------------------------------------------------------------
    def receive(self, data: bytes, now: float) -> list[bytes]:
        """Replies to what a host wrote: several requests at once, or part of one."""
        if now < self.awake:
            return []
        *lines, self._line = (self._line + data).replace(b"\r", b"\n").split(b"\n")
        self._line = self._line[-64:]
        answers: list[bytes] = []
        seen: set[str] = set()
        for line in lines:
            if line:
                text = line.decode("latin-1")
                if len(self._waiting) == QUEUE:
                    answers.append(reply(text, "0B"))
                else:
                    self._waiting.append((text, text in seen))
                    answers += self._work(now)
                seen.add(text)
        return answers

    def _work(self, now: float) -> list[bytes]:
        """Replies to the requests that wait, one after the other, as far as it can answer them now."""
        answers: list[bytes] = []
        while self._waiting and (answer := self._answer(*self._waiting[0], now)) is not None:
            self._waiting.popleft()
            answers.append(answer)
        return answers

    def _answer(self, line: str, repeated: bool, now: float) -> bytes | None:
        """The reply to a request; None: a single scan was asked for, and none has been measured since the laser went on."""
        if self.scip1:
            self.scip1 = line != "SCIP2.0"
            return f"{line}\n{'E' if self.scip1 else '0'}\n\n".encode("latin-1")
        if self.next_status is not None:
            status, self.next_status = self.next_status, None
            return reply(line, status)
        status, lines = self._status(line, now, repeated)
        return None if status == NOT_YET else reply(line, status, lines)

    def _status(self, line: str, now: float, repeated: bool) -> tuple[str, list[bytes]]:
        """Status and further lines of a request's reply."""
        command, (given, semicolon, string) = line[:2], line[2:].partition(";")
        if command not in PARAMETERS:
            return ("0E" if any(known[0] == command[:1] for known in PARAMETERS) else "0D"), []
        if self.firmware_update and command not in IN_UPDATE_MODE:
            return "0I", []
        if len(string) > 16:
            return "0G", []
        if not (string.isascii() and string.isprintable()):
            return "0H", []
        if self.adjusting and command != "TM":
            return "0E", []
        if len(given) < PARAMETERS[command]:
            return ("0F" if given else "0C"), []
        if len(given) > PARAMETERS[command]:
            return "0D", []
        if repeated:
            return "0B", []
        if command in ("GD", "GS", "MD", "MS"):
            return self._measure(command, given, semicolon + string)
        answer = getattr(self, f"_{command.lower()}")(given, now)
        return answer if isinstance(answer, tuple) else (answer, [])

    def _vv(self, given: str, now: float) -> Answer:
        return "00", [
            info_line(text)
            for text in (
                "VEND:Hokuyo Automatic Co.,Ltd.",
                "PROD:SOKUIKI Sensor URG-04LX",
                "FIRM:3.3.00(16/Apr./2008)",
                "PROT:SCIP 2.0",
                f"SERI:{self.serial}",
            )
        ]

    def _pp(self, given: str, now: float) -> Answer:
        return "00", [
            info_line(text)
            for text in (
                f"MODL:{MODEL}",
                "DMIN:20",
                "DMAX:5600",
                f"ARES:{STEPS}",
                f"AMIN:{FIRST}",
                f"AMAX:{LAST}",
                f"AFRT:{FRONT}",
                f"SCAN:{self.nominal_rpm:.0f}",
            )
        ]

    def _ii(self, given: str, now: float) -> Answer:
        broken = self.trouble >= 50 or self.simulation in (1, 2)
        works = "Error detected" if broken else "Sensor is checking" if self.trouble else "Sensor works well"
        speed, mode = 60.0 / self.period, "Sensitive" if self.sensitive else "Normal"
        return "00", [
            info_line(text)
            for text in (
                f"MODL:{MODEL}",
                f"LASR:{'ON' if self.laser else 'OFF'}",
                f"SCSP:{'Initial' if speed == self.nominal_rpm else 'Changed'}({speed:.0f}[rpm])<-Default setting by user",
                f"MESM:{f'Measuring by {mode} Mode' if self.laser else 'IDLE'}",
                f"SBPS:{self.rate}[bps]<-Default setting by user",
                f"TIME:{self.timer(now):06X}",
                f"STAT:{'F/W update mode (CPU clock is 6MHz)' if self.firmware_update else works}.",
            )
        ]

    def _bm(self, given: str, now: float) -> Answer:
        if self._present_trouble() >= 50:
            return "01"
        was, self.laser = self.laser, True
        return "02" if was else "00"

    def _qt(self, given: str, now: float) -> Answer:
        self.laser, self._stream, self._told = False, None, 0
        return "00"

    def _rs(self, given: str, now: float) -> Answer:
        self.reset(now)
        self.firmware_update = False
        return "00"

    def _tm(self, given: str, now: float) -> Answer:
        if given == "1":
            return ("00", [(stamp := encode(self.timer(now), 4)) + sum_character(stamp)]) if self.adjusting else "04"
        if given not in ("0", "2"):
            return "01"
        if self.adjusting is (given == "0"):
            return "02" if self.adjusting else "03"
        self._qt("", now)
        self.adjusting = given == "0"
        return "00"

    def _ss(self, given: str, now: float) -> Answer:
        if not given.isdigit():
            return "01"
        if given == "038400":
            return "04"
        if given not in RATES:
            return "02"
        if int(given) == self.rate:
            return "03"
        self.rate = int(given)
        return "00"

    def _cr(self, given: str, now: float) -> Answer:
        if not given.isdigit():
            return "01"
        level = int(given)
        if level > 10 and level != 99:
            return "02"
        rpm = self.nominal_rpm * (1.0 - 0.01 * level) if level <= 10 else self.nominal_rpm
        if rpm == self.rpm:
            return "03"
        self.rpm = rpm
        return "00"

    def _hs(self, given: str, now: float) -> Answer:
        if given not in ("0", "1"):
            return "01"
        if int(given) == self.sensitive:
            return "02"
        self.sensitive = int(given)
        return "00"

    def _db(self, given: str, now: float) -> Answer:
        if given not in ("01", "02", "03", "04", "05", "10"):
            return "01"
        if self.trouble:
            return "05"
        mode = int(given)
        if mode == 10:
            if not self.simulation:
                return "03"
            self.simulation = 0
            self.simulated.clear()
            return "00"
        if mode == self.simulation:
            return "02"
        self.simulation, self.scip1 = mode, mode == 1
        # Status by turns of a stream; the last one stays.
        self.simulated = deque(
            {3: [(10, 0), (10, 21), (0, 0)], 4: [(10, 0), (10, 21), (0, 50)], 5: [(10, 0), (0, 50)]}.get(mode, [])
        )
        return "00"

    def _measure(self, command: str, given: str, string: str) -> tuple[str, list[bytes]]:
        stream = command[0] == "M"
        fields = [given[:4], given[4:8], given[8:10], *([given[10], given[11:13]] if stream else [])]
        for status, field in zip(("01", "02", "03", "06", "07"), fields, strict=False):
            if not field.isdigit():
                return status, []
        first, last, cluster, *rest = map(int, fields)
        cluster, width = max(cluster, 1), 3 if command[1] == "D" else 2
        if last > LAST_STEP:
            return "04", []
        if last < first:
            return "05", []
        trouble = self._present_trouble()
        if trouble >= 50:
            return f"{trouble:02}", []
        if stream:
            if self._stream is not None:
                return "0B", []
            skip, count = rest
            self.laser = True
            self._stream = Stream(command + given[:11], string, first, last, cluster, skip, count or -1, width)
            # Only what is measured from now on counts: this turn is under way.
            self._phase = REST
            return "00", []
        if not self.laser:
            return "10", []
        if self._latest is None:
            return NOT_YET, []
        return "00", _scan(self._latest, first, last, cluster, width)[0]


def _scan(
    scan: tuple[int, np.ndarray], first: int, last: int, cluster: int, width: int
) -> tuple[list[bytes], np.ndarray]:
    """Lines of a scan (timer [ms], what was seen), and what they say."""
    timer, seen = scan
    turn = np.full(LAST_STEP + 1, UNMEASURABLE)
    turn[FIRST : LAST + 1] = seen
    points = turn[first : last + 1]
    if cluster > 1:
        groups = np.full((-(-len(points) // cluster), cluster), 1 << 20)
        groups.ravel()[: len(points)] = points
        valid = np.where(groups < 20, 1 << 20, groups).min(axis=1)
        points = np.where(valid < 1 << 20, valid, groups[:, 0])
    points = np.minimum(points, 4 ** (3 * width) - 1)
    return data_lines(timer, points, width), points
