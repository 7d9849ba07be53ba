"""What is plugged in: serial ports by sysfs, and who answers on them; sensors on the network, cameras, audio inputs.

Ports are opened as the drivers open them, and identified by the drivers themselves.
"""

from __future__ import annotations

import contextlib
import glob
import grp
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hardware.dynamixel.bus import Bus
from hardware.dynamixel.scan import scan
from hardware.dynamixel.tables import BAUD_RATES
from hardware.ft300.device import Ft300Device
from hardware.link import Device, DeviceError, SerialPort, State
from hardware.link.serial_port import latency_timer
from hardware.netft.configuration import fetch_configuration
from hardware.robotiq.device import RobotiqGripper
from hardware.urg.device import UrgDevice, UrgSettings

__all__ = ["KINDS", "Answer", "Port", "audio_inputs", "cameras", "net_ft", "probe", "serial_ports"]

PATIENCE = 12.0  # [s] for a driver to find its device or say that it is not there
HOKUYO = "15d1"
LATENCY = 0.04  # [s] for a servo's reply: an FTDI adapter as it comes holds it back for 16 ms, a busy machine for more
LIKELY_IDS = range(1, 21)  # of Protocol 1.0, which has no broadcast ping that all models understand

Say = Callable[[str], None]


@dataclass(frozen=True)
class Port:
    """A serial port.

    Attributes:
        path: /dev/ttyUSB0.
        by_id: the name that survives replugging; "" without one.
        usb: vendor:product of the adapter; "" if it is none.
        product: what the adapter calls itself.
        group: that may use it.
        allowed: whether this user may.
        latency: latency timer of an FTDI adapter [ms]; None for others.
    """

    path: str
    by_id: str = ""
    usb: str = ""
    product: str = ""
    group: str = ""
    allowed: bool = True
    latency: int | None = None

    def is_at(self, path: str) -> bool:
        """Whether a path leads here."""
        return os.path.realpath(path) == os.path.realpath(self.path)


class Answer(NamedTuple):
    """Who answered: kind is one of KINDS; id of a servo, else 0; baud 0 where it means nothing."""

    kind: str
    model: str
    serial: str = ""
    firmware: str = ""
    id: int = 0
    baud: int = 0
    protocol: float = 0.0

    def __str__(self) -> str:
        details = [f"serial {self.serial}"] * bool(self.serial) + [f"firmware {self.firmware}"] * bool(self.firmware)
        details += [f"protocol {self.protocol:g}"] * bool(self.protocol) + [f"{self.baud} baud"] * bool(self.baud)
        return (f"id {self.id} " if self.kind == "dynamixel" else "") + ", ".join([self.model, *details])


# -- serial ports ----------------------------------------------------------------------------------


def serial_ports(dev: str | os.PathLike = "/dev", sysfs: str | os.PathLike = "/sys") -> list[Port]:
    """The USB serial ports of this machine; the folders are parameters for tests."""
    names = {os.path.realpath(link): link for link in sorted(glob.glob(f"{dev}/serial/by-id/*"))}
    paths = sorted(glob.glob(f"{dev}/ttyUSB*") + glob.glob(f"{dev}/ttyACM*"))
    return [describe_port(path, names.get(os.path.realpath(path), ""), sysfs) for path in paths]


def describe_port(path: str, by_id: str = "", sysfs: str | os.PathLike = "/sys") -> Port:
    """What sysfs and the file system know about a port."""
    usb, product = _adapter(Path(sysfs) / "class/tty" / Path(os.path.realpath(path)).name / "device")
    return Port(
        path, by_id, usb, product, _group(path), os.access(path, os.R_OK | os.W_OK), latency_timer(path, str(sysfs))
    )


def _adapter(device: Path) -> tuple[str, str]:
    """(vendor:product, name) of the USB device that a tty belongs to; the nearest folder above that names a vendor."""
    if not device.exists():
        return "", ""
    for folder in (resolved := device.resolve(), *resolved.parents):
        if (folder / "idVendor").is_file():
            return f"{_text(folder / 'idVendor')}:{_text(folder / 'idProduct')}", _text(folder / "product")
    return "", ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _group(path: str) -> str:
    try:
        return grp.getgrgid(os.stat(path).st_gid).gr_name
    except (OSError, KeyError):
        return ""


# -- who answers -----------------------------------------------------------------------------------


def probe(
    port: Port,
    first: Iterable[str] = (),
    baud: int = 0,
    protocol: float = 2.0,
    ids: Iterable[int] = (),
    bauds: Iterable[int] = (),
    say: Say = lambda text: None,
) -> list[Answer]:
    """Ask on a port in one protocol after the other, until somebody answers.

    Args:
        first: kinds that are expected there, asked for first.
        baud, protocol, ids: of the servos that are expected there; if all of them answer, no other rate is tried.
        bauds: rates to look for servos at; empty: all.
        say: told what is tried.

    Raises:
        Disconnected: the port cannot be opened; the text says why.
    """
    with contextlib.closing(SerialPort(port.path, baud or 57_600)):
        pass  # one sentence if it is in use or may not be opened, rather than one of each driver
    kinds = list(dict.fromkeys([*first, *(["urg"] if port.usb.startswith(HOKUYO) else KINDS)]))
    for kind in kinds:
        if kind == "dynamixel":
            answers = _servos(port, baud, protocol, set(ids), tuple(bauds), say)
        else:
            say(f"{port.path}: {kind}")
            answers = _identified(kind, _DRIVERS[kind](port.path))
        if answers:
            return answers
    return []


#: kinds of devices on serial ports, the quickest to be found first -> driver of the port
_DRIVERS = {
    "robotiq": RobotiqGripper,
    "ft300": Ft300Device,
    # Every tenth scan fits through the slowest line: asked who it is, the scanner is not to complain of its rate.
    "urg": lambda path: UrgDevice(UrgSettings(path, skip=9)),
}
KINDS = (*_DRIVERS, "dynamixel")


def _identified(kind: str, device: Device) -> list[Answer]:
    """Whom a driver finds."""
    device.start()
    try:
        device.wait_for(lambda: device.state is State.READY or bool(device.last_error), PATIENCE)
        identity = device.identity
    finally:
        device.close()
    return [Answer(kind, identity.model, identity.serial, identity.firmware)] if identity else []


def _servos(port: Port, baud: int, protocol: float, ids: set[int], bauds: tuple[int, ...], say: Say) -> list[Answer]:
    """Servos of both protocols at all rates, or all those expected."""
    with contextlib.closing(SerialPort(port.path, baud or (bauds or BAUD_RATES)[0])) as line:
        buses = {each: Bus(line, each, latency=LATENCY) for each in (1.0, 2.0)}

        def look(protocol: float, rates: Iterable[int]) -> list[Answer]:
            found = []
            for rate in rates:
                say(f"{port.path}: servos, protocol {protocol:g}, {rate} baud")
                try:
                    line.set_baud(rate)
                except DeviceError:
                    continue  # the adapter does not know this rate
                found += [
                    Answer("dynamixel", who.model, "", str(who.firmware), who.id, who.baud, who.protocol)
                    for who in scan(buses[protocol], (rate,), likely_ids=sorted({*LIKELY_IDS, *ids}))
                ]
            return found

        found = look(protocol, [baud]) if baud else []
        if ids and ids <= {who.id for who in found}:
            return found
        for each in (protocol, 1.0 if protocol == 2.0 else 2.0):
            found += look(each, [rate for rate in bauds or BAUD_RATES if (rate, each) != (baud, protocol)])
        return found


# -- elsewhere -------------------------------------------------------------------------------------


def net_ft(address: str, http_port: int = 80, timeout: float = 2.0) -> Answer:
    """A Net F/T on the network.

    Raises:
        DeviceError: nobody, or somebody else; the text says what to check.
    """
    identity = fetch_configuration(address, http_port, timeout).identity
    return Answer("netft", identity.model, identity.serial, identity.firmware)


_CAMERAS = """
import json, pyrealsense2 as rs
field = lambda device, name: device.get_info(name) if device.supports(name) else ""
print(json.dumps([{"model": field(d, rs.camera_info.name), "serial": field(d, rs.camera_info.serial_number),
                   "firmware": field(d, rs.camera_info.firmware_version), "usb": field(d, rs.camera_info.usb_type_descriptor)}
                  for d in rs.context().query_devices()]))
"""

_AUDIO_INPUTS = """
import json, sounddevice as sd
print(json.dumps([{"number": i, "name": d["name"], "channels": d["max_input_channels"], "rate": d["default_samplerate"]}
                  for i, d in enumerate(sd.query_devices()) if d["max_input_channels"] > 0]))
"""


def cameras() -> list[dict]:
    """RealSense cameras: model, serial, firmware, usb (its version).

    Raises:
        DeviceError: they could not be looked for.
    """
    return _in_a_process(_CAMERAS, "RealSense cameras", "libusb-1.0-0")


def audio_inputs(server: str = "") -> list[dict]:
    """Inputs that PortAudio sees: number, name, channels, rate; server: a PulseAudio server's instead of the machine's.

    Raises:
        DeviceError: they could not be looked for.
    """
    return _in_a_process(_AUDIO_INPUTS, "audio inputs", "libportaudio2", {"PULSE_SERVER": server} if server else {})


def _in_a_process(program: str, what: str, package: str, environment: dict[str, str] | None = None) -> list[dict]:
    """What a program prints as JSON: makers' libraries crash and hang where they please."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", program],
            capture_output=True,
            text=True,
            timeout=30.0,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
        return json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise DeviceError(f"looking for {what} took more than 30 s: unplug what hangs") from None
    except (ValueError, IndexError):
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise DeviceError(f"{what} could not be looked for ({why}): sudo apt-get install {package}") from None
