"""An emulated URG-04LX on a pseudo-terminal or a TCP port: `python -m hardware.emulate urg --link /tmp/urg`.

Page: docs/hardware/urg.md.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults
from hardware.emulation.pty_port import PtyPort
from hardware.emulation.world import world_of_plant
from hardware.urg.scene import MujocoScene, Optics, Room, Scene
from hardware.urg.sensor import FIRST, FRONT, LAST, RATES, STEPS, Sensor
from hardware.urg.tcp_server import TcpServerPort

__all__ = ["UrgEmulator", "arguments", "make"]


class UrgEmulator(Emulator):
    """A sensor in a scene, behind a port.

    Args:
        port: PtyPort or TcpServerPort.
        scene: what it sees.
        optics: how well.
        **sensor: of `Sensor`.
    """

    name = "urg"
    own_faults = {
        "block_sum": "a block of data is damaged, with probability p per block",
        "lost_lf": "a line feed of a scan is lost, with probability p per scan",
        "laser_fault": "status `code`: 21-49 the sensor checks itself, 50-97 (default 50) its hardware is broken",
        "motor_slow": "the motor turns at `rpm` (default 90 % of its speed)",
        "ts_wrap": "the timer jumps to `before` seconds (default 2) before it starts again at zero",
        "status": "the next reply has status `code`",
    }

    def __init__(
        self,
        port: PtyPort | TcpServerPort,
        scene: Scene,
        optics: Optics | None = None,
        faults: Faults | None = None,
        **sensor: Any,
    ) -> None:
        super().__init__(faults)
        self.port, self.scene, self.optics = port, scene, optics or Optics()
        self._angles = (np.arange(FIRST, LAST + 1) - FRONT) * (2.0 * np.pi / STEPS)
        self.sensor = Sensor(self._cast, time.monotonic(), **sensor)
        self.damaged: list[int] = []  # timers of scans that block_sum or lost_lf hit
        self._rate_change: tuple[float, int] | None = None
        self._serial = getattr(port, "baud", None) is not None
        if self._serial:
            port.baud = self.sensor.rate

    def _cast(self) -> np.ndarray:
        return self.optics.measure(self.scene.cast(self._angles))

    def step(self, timeout: float) -> None:
        # Polling waits whole milliseconds; a scan leaves on time.
        wait = min(timeout, max(0.0, self.sensor.next_event() - time.monotonic()))
        data = self.port.read(max(0.0, wait - 0.001))
        if not data:
            time.sleep(min(wait, 0.001, max(0.0, self.sensor.next_event() - time.monotonic())))
        if not self.powered:
            return
        now = time.monotonic()
        for answer in self.sensor.receive(data, now) if data else ():
            self.send(answer)
            if self._serial and self._rate_change is None and self.sensor.rate != self.port.baud:
                # The reply still leaves at the old rate (SS, 8.7).
                self._rate_change = now + 10.0 * len(answer) / self.port.baud + 0.005, self.sensor.rate
        if self._rate_change is not None and now >= self._rate_change[0] and self.faults.active("wrong_baud") is None:
            self.port.baud, self._rate_change = self._rate_change[1], None
        for scan in self.sensor.advance(now):
            self.send(self._damage(scan))

    def _damage(self, scan: bytes) -> bytes:
        """A scan as block_sum and lost_lf leave it."""
        hit = False
        if self.faults.active("block_sum") is not None:
            lines = scan.split(b"\n")
            for k in range(3, len(lines) - 2):
                if self.faults.hit("block_sum"):
                    at = self.faults.rng.randrange(len(lines[k]))
                    changed = 0x30 + (lines[k][at] - 0x30 + self.faults.rng.randrange(1, 64)) % 64
                    lines[k] = lines[k][:at] + bytes([changed]) + lines[k][at + 1 :]
                    hit = True
            scan = b"\n".join(lines)
        if self.faults.hit("lost_lf"):
            feeds = [k for k, byte in enumerate(scan) if byte == 0x0A]
            at = self.faults.rng.choice(feeds)
            scan = scan[:at] + scan[at + 1 :]
            hit = True
        if hit and self.sensor.history:
            self.damaged.append(self.sensor.history[-1][0])
        return scan

    # -- faults, control ---------------------------------------------------------------------------
    def power_on(self) -> None:
        self.sensor.power_on(time.monotonic())
        if self._serial:
            self.port.baud = self.sensor.rate

    def on_fault(self, name: str, parameters: dict) -> None:
        sensor = self.sensor
        if name == "laser_fault":
            sensor.trouble = int(parameters.get("code", 50))
        elif name == "overtemp":
            sensor.trouble = 60
        elif name == "motor_slow":
            sensor.slow = float(parameters.get("rpm", 0.9 * sensor.nominal_rpm))
        elif name == "ts_wrap":
            sensor.set_timer(2**24 - 1000.0 * float(parameters.get("before", 2.0)), time.monotonic())
        elif name == "status":
            sensor.next_status = str(parameters["code"])

    def on_clear(self, name: str) -> None:
        if name in ("laser_fault", "overtemp"):
            self.sensor.trouble = 0
        elif name == "motor_slow":
            self.sensor.slow = None

    def replug(self) -> None:
        """The cable also powers it: it wakes up anew."""
        self.power_on()
        super().replug()

    def set(self, **values: Any) -> None:
        """timer [ms], skew, noise, codes, pose [x, y, yaw] in a room, serial, scip1, firmware_update, processing [s]."""
        actions = {
            "timer": lambda v: self.sensor.set_timer(float(v), time.monotonic()),
            "skew": lambda v: setattr(self.sensor, "skew", float(v)),
            "noise": lambda v: setattr(self.optics, "noise", float(v)),
            "codes": lambda v: setattr(self.optics, "codes", bool(v)),
            "pose": lambda v: setattr(self.scene, "pose", np.array(v, float).reshape(3)),
            "serial": lambda v: setattr(self.sensor, "serial", str(v)),
            "scip1": lambda v: setattr(self.sensor, "scip1_at_boot", bool(v)),
            "firmware_update": lambda v: setattr(self.sensor, "firmware_update", bool(v)),
            "processing": lambda v: setattr(self.sensor, "processing", float(v)),
        }
        super().set(**{key: value for key, value in values.items() if key not in actions})
        for key, value in values.items():
            actions[key](value)

    def stats(self) -> dict:
        sensor = self.sensor
        return {
            **super().stats(),
            "laser": sensor.laser,
            "rate": sensor.rate,
            "scip1": sensor.scip1,
            "rpm": 60.0 / sensor.period,
            "timer": sensor.timer(time.monotonic()),
            "scans": list(sensor.history),
            "damaged": self.damaged[-2000:],
            "tcp_port": getattr(self.port, "port", None),
        }


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hardware.emulate urg`."""
    parser.add_argument("--scip", choices=("1.1", "2.0"), default="1.1", help="protocol after power-up")
    parser.add_argument("--rs232", metavar="BAUD", help="a serial line, at this rate after power-up; else USB")
    parser.add_argument(
        "--tcp", type=int, metavar="PORT", help="SCIP over TCP at --ip instead of --link; 0: any free port"
    )
    parser.add_argument("--room", help="YAML with the walls around the scanner; else a small room with a corner")
    parser.add_argument("--site", default="urg", help="the scanner's frame in the model of --world")
    parser.add_argument("--serial", default="H0614967", help="serial number")
    parser.add_argument(
        "--rpm", type=float, default=600.0, help="of the motor; other models turn faster than the URG-04LX's 600"
    )
    parser.add_argument("--noise", type=float, default=1.0, help="scale of the noise")
    parser.add_argument("--no-codes", action="store_true", help="no error codes at edges and dark surfaces")


def make(
    options: argparse.Namespace, faults: Faults, scene: Scene | None = None, kind: type[UrgEmulator] = UrgEmulator
) -> UrgEmulator:
    """The emulator that the options describe.

    Args:
        scene: what it sees, where that is computed elsewhere; None: rays cast into the room or world of the options.
        kind: of the emulator.

    Raises:
        ValueError: they do not fit together.
    """
    rate = f"{int(options.rs232):06}" if options.rs232 else "019200"
    if rate not in RATES:
        raise ValueError(
            f"the URG-04LX has no rate of {options.rs232} baud, only {', '.join(str(int(r)) for r in RATES)}"
        )
    if scene is not None:
        pass
    elif options.world:
        world = world_of_plant(options.world)
        scene = MujocoScene(world.mjcf, world.joints, lambda: world.state().q, options.site)
    else:
        scene = Room(options.room)
    if options.tcp is not None:
        port: PtyPort | TcpServerPort = TcpServerPort(options.ip, options.tcp)
    elif options.link:
        port = PtyPort(options.link, int(rate) if options.rs232 else None)
    else:
        raise ValueError("where is it plugged in? Give --link PATH, or --tcp PORT")
    return kind(
        port,
        scene,
        Optics(options.seed, options.noise, not options.no_codes),
        faults,
        serial=options.serial,
        scip1=options.scip == "1.1",
        rate=rate,
        rpm=options.rpm,
    )
