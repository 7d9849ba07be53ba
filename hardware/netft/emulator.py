"""An emulated Net F/T: RDT on UDP port 49152, the configuration page on HTTP.

    python -m hardware.emulate netft --ip 127.0.0.2 --http-port 8080 --wrench 1 2 3 0 0 0

Not imitated: the TCP and CAN interfaces, calibrations other than the active one, tool transformations, the real box's delays.
"""

from __future__ import annotations

import argparse
import contextlib
import select
import socket
import struct
import threading
import time
import urllib.parse
import zlib
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults
from hardware.emulation.wrench_source import WrenchSource

__all__ = ["NetFtEmulator", "NetFtSettings", "UdpPort", "arguments", "make"]

REQUEST = struct.Struct(">HHI")
NUMBERS, COUNTS = struct.Struct(">III"), struct.Struct(">6i")
BIT_SATURATED, BIT_CONDITION, BIT_TEMPERATURE, BIT_ANY = 17, 16, 2, 31
INTERNAL = 7000  # samples per second
FORCES = {"lbf": 4.4482216152605, "N": 1.0, "klbf": 4448.2216152605, "kN": 1000.0, "kgf": 9.80665, "gf": 0.00980665}
TORQUES = {
    "lbf-in": 0.1129848290276167,
    "lbf-ft": 1.3558179483314004,
    "N-m": 1.0,
    "N-mm": 0.001,
    "kgf-cm": 0.0980665,
    "kN-m": 1000.0,
}


class UdpPort:
    """A socket that answers whoever asked last. What is written ends with its CRC-32, which stands for UDP's own checksum:
    a datagram that a fault has damaged is dropped on the way, as it would be."""

    def __init__(self, ip: str, port: int) -> None:
        self.address = ip, port
        self.client: tuple | None = None
        self.stats = dict(received=0, sent=0, damaged=0, unplugged=0, nobody=0)
        self.plugged = True
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._socket.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def read(self, timeout: float) -> list[tuple[bytes, tuple]]:
        """Datagrams that have come, with their senders; waits at most `timeout` [s] for the first."""
        found = []
        if self._poll.poll(max(0.0, timeout) * 1e3):
            with contextlib.suppress(BlockingIOError):
                while True:
                    try:
                        found.append(self._socket.recvfrom(2048))
                    except ConnectionRefusedError:
                        continue
        if not self.plugged:
            return []
        self.stats["received"] += len(found)
        return found

    def write(self, data: bytes) -> None:
        """A datagram with its checksum, towards the client."""
        body, checksum = data[:-4], data[-4:]
        if not self.plugged:
            self.stats["unplugged"] += 1
        elif zlib.crc32(body).to_bytes(4, "big") != checksum:
            self.stats["damaged"] += 1
        elif self.client is None:
            self.stats["nobody"] += 1
        else:
            with contextlib.suppress(OSError):
                self._socket.sendto(body, self.client)
                self.stats["sent"] += 1

    def unplug(self) -> None:
        self.plugged = False

    def replug(self) -> None:
        self.plugged = True

    def close(self) -> None:
        self._socket.close()


@dataclass
class NetFtSettings:
    """What the web page sets; kept when the power is off.

    Attributes:
        force_unit, torque_unit: as the page spells them.
        counts_per_force, counts_per_torque: of those units.
        rated: largest load, (6,) [N, N m].
        rdt_rate: records per second; a whole fraction of 7000.
        buffer_size: records per datagram of the buffered stream, 1-40.
        threshold: force that latches the condition [N]; None: not watched.
    """

    force_unit: str = "N"
    torque_unit: str = "N-m"
    counts_per_force: int = 1_000_000
    counts_per_torque: int = 1_000_000
    rated: np.ndarray = field(default_factory=lambda: np.array([330.0, 330.0, 990.0, 30.0, 30.0, 30.0]))
    rdt_rate: int = INTERNAL
    buffer_size: int = 10
    threshold: float | None = None

    def scale(self) -> np.ndarray:
        """Counts per N and per N m, (6,)."""
        return np.repeat(
            [self.counts_per_force / FORCES[self.force_unit], self.counts_per_torque / TORQUES[self.torque_unit]], 3
        )

    def set_rate(self, rate: float) -> None:
        """The next whole fraction of the internal rate at or above `rate` [Hz]."""
        self.rdt_rate = INTERNAL // max(1, int(INTERNAL // max(1.0, min(float(rate), INTERNAL))))


@dataclass
class _Stream:
    began: float
    first_tick: int
    group: int  # records per datagram
    step: int  # internal samples per record
    remaining: int | None  # records; None: no end
    made: int = 0
    waiting: list[bytes] = field(default_factory=list)


class NetFtEmulator(Emulator):
    """See the module's docstring; `set` takes what `WrenchSource.set` does, and threshold."""

    name = "netft"
    own_faults = {
        "udp_loss": "a datagram is lost, with probability p",
        "reorder": "a datagram leaves after its successor, with probability p",
        "dup": "a datagram is sent twice, with probability p",
        "seq_reset": "the stream's record numbers start anew",
        "saturate": "the transducer is overloaded",
        "status_bit": "bit `bit` of the status word is set",
        "client_stolen": "another client takes the stream",
        "units_change": "the web page is set to units `force` and `torque`",
    }
    overtaking = True  # datagrams

    def __init__(
        self,
        ip: str = "127.0.0.1",
        http_port: int = 80,
        udp_port: int = 49152,
        source: WrenchSource | None = None,
        settings: NetFtSettings | None = None,
        serial: str = "FT00001",
        faults: Faults | None = None,
    ) -> None:
        super().__init__(faults)
        self.port = UdpPort(ip, udp_port)
        self.source, self.settings, self.serial = source or WrenchSource(), settings or NetFtSettings(), serial
        self.requests: dict[str, int] = {}
        self.records = 0
        self.power_on()
        try:
            self._http = _WebServer((ip, http_port), self)
        except OSError as error:
            self.port.close()
            raise OSError(
                f"port {http_port} of {ip} cannot be opened ({error.strerror}): choose another --http-port"
            ) from None
        threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, name="http", daemon=True
        ).start()

    @property
    def http_port(self) -> int:
        return self._http.server_address[1]

    def power_on(self) -> None:
        self._on_since = time.monotonic()
        self._stream: _Stream | None = None
        self._bias = np.zeros(6)
        self._latched = False
        self._held: bytes | None = None
        self.port.client = None

    # -- the loop ----------------------------------------------------------------------------------
    def step(self, timeout: float) -> None:
        stream, due = self._stream, float("inf")
        if stream is not None:
            # A wake-up per record would be dear at 7 kHz: records leave in the millisecond in which they are due.
            step = stream.step / INTERNAL
            due = max(stream.began + (stream.made + 1) * step, time.monotonic() + (0.001 if step < 0.001 else 0.0))
            # Polling counts whole milliseconds, rounded up: the rest is slept.
            timeout = max(0.0, min(timeout, due - time.monotonic() - 0.001))
        for datagram, sender in self.port.read(timeout):
            self._answer(datagram, sender)
        if due < float("inf"):
            time.sleep(min(0.001, max(0.0, due - time.monotonic())))
        if not self.powered:
            self._stream = None
        if self._stream is not None:
            self._advance(self._stream, time.monotonic())

    def _answer(self, datagram: bytes, sender: tuple) -> None:
        if len(datagram) != 8 or not self.powered:
            return
        header, command, count = REQUEST.unpack(datagram)
        if header != 0x1234:
            return
        self.requests[f"{command:#06x}"] = self.requests.get(f"{command:#06x}", 0) + 1
        now = time.monotonic()
        if command == 0x0000:
            self._stream = None
        elif command in (0x0001, 0x0002, 0x0003, 0x0004):
            self.port.client, self._held = sender, None
            group = self.settings.buffer_size if command == 0x0003 else 1
            self._stream = _Stream(now, self._tick(now), group, INTERNAL // self.settings.rdt_rate, count or None)
        elif command == 0x0041:
            self._latched = False
        elif command == 0x0042:
            self._bias = self.source.at(np.array([now]))[0]

    def _tick(self, now: float) -> int:
        return int((now - self._on_since) * INTERNAL)

    def _advance(self, stream: _Stream, now: float) -> None:
        """Make the records that are due."""
        n = int((now - stream.began) * INTERNAL / stream.step) - stream.made
        # After a pause of this process the newest half second leaves, as from a box that never pauses but in a network that does.
        n = min(n, INTERNAL // 2 // stream.step + 1, n if stream.remaining is None else stream.remaining)
        if n <= 0:
            return
        times = stream.began + (stream.made + 1 + np.arange(n)) * stream.step / INTERNAL
        counts, status = self.measure(times)
        for k in range(n):
            stream.made += 1
            head = NUMBERS.pack(
                stream.made & 0xFFFFFFFF, stream.first_tick + stream.made * stream.step & 0xFFFFFFFF, status[k]
            )
            stream.waiting.append(head + COUNTS.pack(*counts[k]))
            if stream.remaining is not None:
                stream.remaining -= 1
            if len(stream.waiting) >= stream.group or stream.remaining == 0:
                self._transmit(b"".join(stream.waiting))
                stream.waiting.clear()
        self.records += n
        if stream.remaining == 0:
            self._stream = None

    def measure(self, times: np.ndarray) -> tuple[list[list[int]], list[int]]:
        """Counts and status words of samples at host times (n,) [s]."""
        load = self.source.at(times) - self._bias
        rated = self.settings.rated
        saturated: np.ndarray = np.any(np.abs(load) >= rated, axis=1)
        if self.faults.active("saturate") is not None:
            load, saturated = np.where(load < 0.0, -rated, rated), np.ones(len(times), bool)
        counts = np.rint(np.clip(load, -rated, rated) * self.settings.scale())
        if self.settings.threshold is not None:
            self._latched |= bool((np.linalg.norm(load[:, :3], axis=1) > self.settings.threshold).any())
        common = self._latched << BIT_CONDITION
        fault = self.faults.active("status_bit")
        common |= 0 if fault is None else 1 << int(fault.get("bit", 28))
        common |= (self.faults.active("overtemp") is not None) << BIT_TEMPERATURE
        status = [common | int(s) << BIT_SATURATED for s in saturated]
        return counts.astype(int).tolist(), [word | (word != 0) << BIT_ANY for word in status]

    def _transmit(self, datagram: bytes) -> None:
        if self.faults.hit("udp_loss"):
            return
        if self._held is None and self.faults.hit("reorder"):
            self._held = datagram
            return
        out = [datagram, datagram] if self.faults.hit("dup") else [datagram]
        if self._held is not None:
            out.append(self._held)
            self._held = None
        for each in out:
            self.send(each + zlib.crc32(each).to_bytes(4, "big"))

    # -- faults and facts --------------------------------------------------------------------------
    def on_fault(self, name: str, parameters: dict) -> None:
        if name == "seq_reset" and self._stream is not None:
            now, old = time.monotonic(), self._stream
            self._stream = _Stream(now, old.first_tick + old.made * old.step, old.group, old.step, old.remaining)
        elif name == "client_stolen":
            self.port.client = None
        elif name == "units_change":
            force, torque = parameters.get("force", "lbf"), parameters.get("torque", "lbf-in")
            if force not in FORCES or torque not in TORQUES:
                raise ValueError(f"units are {', '.join(FORCES)} and {', '.join(TORQUES)}, not {force} and {torque}")
            self.settings.force_unit, self.settings.torque_unit = force, torque

    def stats(self) -> dict:
        return {
            **super().stats(),
            "records": self.records,
            "requests": dict(self.requests),
            "http_port": self.http_port,
            "held": self._held is not None,
        }

    def set(self, **values: Any) -> None:
        if "threshold" in values:
            self.settings.threshold = values.pop("threshold")
        self.source.set(**values)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        super().close()

    # -- web page ----------------------------------------------------------------------------------
    def page(self) -> str:
        """netftapi2.xml, the elements that clients are known to read."""
        s, now = self.settings, np.array([time.monotonic()])
        counts, status = self.measure(now)
        rated = s.rated / np.repeat([FORCES[s.force_unit], TORQUES[s.torque_unit]], 3)
        values = {
            "runstat": f"0x{status[0]:08X}",
            "runft": ";".join(map(str, counts[0])),
            "runrate": INTERNAL,
            "prodname": "Ethernet Axia or Net F/T (emulated)",
            "cfgcalsn": self.serial,
            "scfgfu": s.force_unit,
            "scfgtu": s.torque_unit,
            "cfgcpf": s.counts_per_force,
            "cfgcpt": s.counts_per_torque,
            "cfgmr": ";".join(f"{r:.9g}" for r in rated),
            "setbias": "0;0;0;0;0;0",
            "comrdte": "Enabled",
            "comrdtrate": s.rdt_rate,
            "comrdtbsiz": s.buffer_size,
            "netip": self.port.address[0],
            "mfgdigsn": self.serial,
            "mfgdigver": "2.2.59",
        }
        return '<?xml version="1.0"?><netft>' + "".join(f"<{k}>{v}</{k}>" for k, v in values.items()) + "</netft>"

    def configure(self, values: dict[str, str]) -> None:
        """comm.cgi, config.cgi: what they set."""
        s = self.settings
        if "comrdtrate" in values:
            s.set_rate(float(values["comrdtrate"]))
            self._stream = None
        if "comrdtbsiz" in values:
            s.buffer_size = max(1, min(40, int(values["comrdtbsiz"])))
        for key, names in (("cfgfu", list(FORCES)), ("cfgtu", list(TORQUES))):
            if key in values:
                name = names[int(values[key]) - 1]
                s.force_unit, s.torque_unit = (name, s.torque_unit) if key == "cfgfu" else (s.force_unit, name)


class _WebServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], emulator: NetFtEmulator) -> None:
        self.emulator = emulator
        super().__init__(address, _Page)


class _Page(BaseHTTPRequestHandler):
    server: _WebServer

    def do_GET(self) -> None:
        emulator = self.server.emulator
        if not emulator.port.plugged or not emulator.powered or emulator.faults.active("silence") is not None:
            self.close_connection = True
            return
        url = urllib.parse.urlsplit(self.path)
        try:
            if url.path in ("/comm.cgi", "/config.cgi", "/setting.cgi"):
                values = dict(urllib.parse.parse_qsl(url.query))
                emulator.call(lambda: emulator.configure(values))
                body = "<html>done</html>"
            elif url.path == "/netftapi2.xml":
                body = emulator.call(emulator.page)
            else:
                self.send_error(404)
                return
        except (ValueError, IndexError, TimeoutError) as error:
            self.send_error(400, str(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/xml")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `refit emulate` that this device has alone."""
    parser.add_argument("--http-port", type=int, default=80, help="of the configuration page; 0: any that is free")
    parser.add_argument("--udp-port", type=int, default=49152)
    parser.add_argument("--rate", type=float, default=INTERNAL, help="records per second that the web page is set to")
    parser.add_argument("--serial", default="FT00001", help="serial number of the calibration")
    parser.add_argument("--force-unit", choices=FORCES, default="N")
    parser.add_argument("--torque-unit", choices=TORQUES, default="N-m")
    parser.add_argument(
        "--counts", type=int, nargs=2, default=(1_000_000, 1_000_000), help="per unit of force and of torque"
    )
    parser.add_argument(
        "--rated", type=float, nargs=6, default=(330.0, 330.0, 990.0, 30.0, 30.0, 30.0), help="largest load [N, N m]"
    )
    parser.add_argument("--threshold", type=float, help="force that latches the condition [N]")
    WrenchSource.arguments(parser)


def make(options: argparse.Namespace, faults: Faults) -> NetFtEmulator:
    """The emulated device that the options describe."""
    per_force, per_torque = options.counts
    settings = NetFtSettings(
        options.force_unit,
        options.torque_unit,
        per_force,
        per_torque,
        np.array(options.rated, float),
        threshold=options.threshold,
    )
    settings.set_rate(options.rate)
    return NetFtEmulator(
        options.ip,
        options.http_port,
        options.udp_port,
        WrenchSource.from_options(options),
        settings,
        options.serial,
        faults,
    )
