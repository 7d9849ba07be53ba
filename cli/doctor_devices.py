"""`refit doctor --devices`: what is plugged in, who answers, and how that differs from what a robot expects.

./refit doctor --devices                          everything that is found
./refit doctor --devices --robot dxl_arm          found against config/robots/dxl_arm, with a remedy per difference
./refit doctor --devices --port /dev/ttyUSB0      one port, a pseudo-terminal for instance
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from cli.device_scan import Answer, Port, audio_inputs, cameras, describe_port, net_ft, probe, serial_ports
from cli.findings import ESSENTIAL, NOTE, OK, WARNING
from config.robot import load_robot, loadable_robots, node_parameters
from hardware.audio.portaudio import find_device
from hardware.link import DeviceError

__all__ = ["Expectation", "Finding", "expectations", "main"]

NET_FT_ADDRESS = "192.168.1.1"  # of a sensor as it is delivered
UDEV_LATENCY = 'ACTION=="add", SUBSYSTEM=="usb-serial", DRIVER=="ftdi_sio", ATTR{latency_timer}="1"'


@dataclass(frozen=True)
class Finding:
    """One device or port: what was expected of it (""; nothing in particular), what was found, what to do about it."""

    topic: str
    status: str
    found: str
    expected: str = ""
    remedy: str = ""


# -- what a robot expects --------------------------------------------------------------------------


@dataclass(frozen=True)
class Expectation:
    """A device that a node of the robot is configured for.

    Attributes:
        node: its name.
        kind: dynamixel, urg, ft300, robotiq (on serial ports), netft, realsense, audio, or "" (not looked for).
        where: port, address, serial number or name.
        baud, protocol: of servos.
        servos: id -> (joint, model).
        options: the node's parameters, dotted.
    """

    node: str
    kind: str
    where: str = ""
    baud: int = 0
    protocol: float = 2.0
    servos: dict[int, tuple[str, str]] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)

    @property
    def text(self) -> str:
        what = f"{len(self.servos)} servos at {self.baud} baud" if self.kind == "dynamixel" else NAMES[self.kind]
        return f"{what} on {self.where}" if self.where else what


#: kinds that sit on a serial port, as a person calls them
NAMES = {"dynamixel": "servo bus", "urg": "URG scanner", "ft300": "FT-300", "robotiq": "Robotiq 2F gripper"}


def expectations(robot: str, *overrides: Path) -> list[Expectation]:
    """What robot.yaml and the parameters of a robot ask for.

    Args:
        robot: name in config/robots, or the path of a robot's folder.
        overrides: further ROS parameter files, the later the stronger, as `params_file:=` of the launch files.

    Raises:
        ValueError: no such robot, a robot.yaml that cannot be used, or a file that is no parameter file.
    """
    try:
        found = load_robot(robot)
    except FileNotFoundError:
        found = None
    if found is None or not found.devices:
        known = [each.name for each in loadable_robots() if each.devices]
        raise ValueError(f"robot '{robot}' has no devices; those that have: {', '.join(known)}")
    parameters = _parameters(node_parameters(found.folder))
    for override in overrides:
        for node, values in _parameters(override).items():
            parameters.setdefault(node, {}).update(values)
    return [_expectation(device.node, device.executable, parameters.get(device.node, {})) for device in found.devices]


def _parameters(path: Path) -> dict[str, dict[str, object]]:
    """{node: {dotted name: value}} of a ROS parameter file."""
    try:
        sections = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        return {name.rpartition("/")[2]: dict(_flat(section["ros__parameters"])) for name, section in sections.items()}
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no ROS parameter file ({type(error).__name__}: {error})") from error


def _flat(values: dict, prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


#: executable -> (parameter of the port, its default); defaults are the nodes' own, which a test compares
PORTS = {
    "dynamixel": ("port_name", "/dev/ttyUSB0"),
    "urg": ("serial_port", "/dev/ttyACM0"),
    "robotiq": ("port_name", "/dev/ttyUSB0"),
    "force_torque": ("port", "/dev/ttyUSB0"),
}


def _expectation(node: str, executable: str, values: dict[str, object]) -> Expectation:
    name, default = PORTS.get(executable, ("", ""))
    port = str(values.get(name, default))
    if executable == "dynamixel":
        joints = {key.split(".")[1] for key in values if key.startswith("joints.") and key.endswith(".id")}
        servos = {
            int(values[f"joints.{joint}.id"]): (joint, str(values.get(f"joints.{joint}.model", ""))) for joint in joints
        }
        return Expectation(
            node,
            "dynamixel",
            port,
            int(values.get("baud_rate", 57600)),
            float(values.get("protocol_version", 2.0)),
            dict(sorted(servos.items())),
            values,
        )
    if executable == "urg":
        # SCIP over TCP is the network's business.
        return Expectation(
            node, "" if values.get("ip_address") else "urg", str(values.get("ip_address") or port), options=values
        )
    if executable == "force_torque":
        driver = str(values.get("driver", "netft"))
        where = str(values.get("address", NET_FT_ADDRESS)) if driver == "netft" else port
        return Expectation(node, {"netft": "netft", "ft300": "ft300"}.get(driver, ""), where, options=values)
    if executable == "robotiq":
        return Expectation(node, "robotiq", port, options=values)
    if executable == "realsense":
        return Expectation(node, "realsense", str(values.get("serial_no", "")).lstrip("_"), options=values)
    if executable == "audio":
        live = values.get("source", "device") == "device"
        return Expectation(node, "audio" if live else "", str(values.get("device", "default")), options=values)
    return Expectation(node, "", options=values)


# -- serial ports ----------------------------------------------------------------------------------


def look_at_port(port: Port, expected: bool) -> Iterator[Finding]:
    """Permission, latency timer, a name that lasts."""
    usb = f"{port.product or 'USB adapter'} ({port.usb})" if port.usb else "serial port"
    if not port.allowed:
        yield Finding(
            port.path,
            ESSENTIAL if expected else WARNING,
            f"{usb}; no permission, it belongs to group {port.group or 'root'}",
            remedy=f"sudo usermod -aG {port.group if port.group not in ('', 'root') else 'dialout'} $USER, then log in again",
        )
        return
    yield Finding(port.path, OK, f"{usb}{f', as {port.by_id}' if port.by_id else ''}")
    if port.latency is not None and port.latency > 1:
        name = Path(os.path.realpath(port.path)).name
        yield Finding(
            port.path,
            WARNING,
            f"USB latency timer {port.latency} ms: every bus cycle waits for it",
            "1 ms",
            f"echo 1 | sudo tee /sys/bus/usb-serial/devices/{name}/latency_timer; to keep it, a udev rule: {UDEV_LATENCY}",
        )


def judge_servos(expected: Expectation, answers: list[Answer], elsewhere: dict[str, list[Answer]]) -> Iterator[Finding]:
    """Servos found on the expected port against those configured."""
    found = {who.id: who for who in answers if (who.baud, who.protocol) == (expected.baud, expected.protocol)}
    strays = [who for who in answers if found.get(who.id) is not who]
    for number, (joint, model) in expected.servos.items():
        topic, wanted = (
            f"{expected.node}: {joint}",
            f"id {number} {model}, protocol {expected.protocol:g}, {expected.baud} baud",
        )
        who = found.get(number)
        stray = next((each for each in strays if each.id == number), None)
        if who is not None and model in ("", who.model):
            yield Finding(topic, OK, str(who), wanted)
        elif who is not None:
            yield Finding(
                topic, ESSENTIAL, str(who), wanted, f"mount the right servo, or set joints.{joint}.model to {who.model}"
            )
        elif stray is not None and stray.protocol != expected.protocol:
            yield Finding(
                topic,
                ESSENTIAL,
                str(stray),
                wanted,
                f"set protocol_version to {stray.protocol:g}, for all servos of the bus",
            )
        elif stray is not None:
            yield Finding(
                topic,
                ESSENTIAL,
                str(stray),
                wanted,
                f"set baud_rate to {stray.baud} if all servos are there, else this servo's register to {expected.baud}",
            )
        else:
            there = [path for path, others in elsewhere.items() if any(each.id == number for each in others)]
            yield Finding(
                topic,
                ESSENTIAL,
                "no answer",
                wanted,
                f"it answers on {there[0]}: set port_name"
                if there
                else "check the servos' supply, then the cable from the one before it; is another servo set to the same id?",
            )
    for who in answers:
        if who.id not in expected.servos:
            yield Finding(
                f"{expected.node}: id {who.id}",
                WARNING,
                str(who),
                "no such servo",
                "configure it under joints, or take it off the bus",
            )


def judge_serial(expected: Expectation, answers: list[Answer], elsewhere: dict[str, list[Answer]]) -> Iterator[Finding]:
    """Who answered on an expected port against who should."""
    fitting = [who for who in answers if who.kind == expected.kind]
    if expected.kind == "dynamixel" and (fitting or not answers):
        yield from judge_servos(expected, fitting, elsewhere)
        return
    if fitting:
        yield Finding(expected.node, OK, str(fitting[0]), expected.text)
        return
    there = [path for path, others in elsewhere.items() if any(who.kind == expected.kind for who in others)]
    remedy = f"it answers on {there[0]}: set {_port_parameter(expected)}" if there else "check power and cable"
    yield Finding(expected.node, ESSENTIAL, str(answers[0]) if answers else "no answer", expected.text, remedy)


def _port_parameter(expected: Expectation) -> str:
    return {"dynamixel": "port_name", "robotiq": "port_name", "urg": "serial_port", "ft300": "port"}[expected.kind]


def look_at_serial(ports: list[Port], wanted: list[Expectation], bauds: tuple[int, ...], say) -> Iterator[Finding]:
    """All ports, then what was expected of them."""
    heard: dict[str, list[Answer]] = {}
    for port in ports:
        here = [each for each in wanted if port.is_at(each.where)]
        yield from look_at_port(port, bool(here))
        if not port.allowed:
            continue
        servos = next((each for each in here if each.kind == "dynamixel"), Expectation("", "dynamixel"))
        try:
            heard[port.path] = probe(
                port, [each.kind for each in here], servos.baud, servos.protocol, servos.servos, bauds, say
            )
        except DeviceError as error:
            yield Finding(
                port.path,
                ESSENTIAL if here else WARNING,
                str(error),
                remedy="end the program that uses it, then ask again",
            )
            continue
        if not here:
            for who in heard[port.path]:
                yield Finding(f"{port.path}: {NAMES[who.kind]}", OK, str(who))
            if not heard[port.path]:
                yield Finding(port.path, NOTE, "nobody answers in a protocol known here")
    for each in wanted:
        port = next((port for port in ports if port.is_at(each.where)), None)
        if port is None:
            others = {path: answers for path, answers in heard.items() if any(who.kind == each.kind for who in answers)}
            yield Finding(
                each.node,
                ESSENTIAL,
                "no such port",
                each.text,
                f"a {NAMES[each.kind]} answers on {next(iter(others))}: set {_port_parameter(each)}"
                if others
                else f"plug it in; `ls /dev/serial/by-id` names what to set {_port_parameter(each)} to",
            )
        elif port.path in heard:
            yield from judge_serial(
                each, heard[port.path], {path: found for path, found in heard.items() if path != port.path}
            )


# -- elsewhere -------------------------------------------------------------------------------------


def look_at_network(wanted: list[Expectation], address: str) -> Iterator[Finding]:
    """Net F/T sensors: those expected, and one at `address`, if given, or at the address of delivery."""
    places = [(each.node, each.where, int(each.options.get("http_port", 80)), 2.0, ESSENTIAL) for each in wanted]
    if not wanted:
        places = [("Net F/T", address or NET_FT_ADDRESS, 80, 2.0 if address else 0.5, ESSENTIAL if address else NOTE)]
    for topic, host, http_port, timeout, status in places:
        expected = f"Net F/T at {host}" if status == ESSENTIAL else ""
        try:
            yield Finding(topic, OK, f"{net_ft(host, http_port, timeout)} at {host}", expected)
        except DeviceError as error:
            yield Finding(
                topic,
                status,
                str(error) if status == ESSENTIAL else f"none at {host}",
                expected,
                f"ping {host}; this machine needs an address in the same network" if status == ESSENTIAL else "",
            )


def look_at_cameras(wanted: list[Expectation]) -> Iterator[Finding]:
    """RealSense cameras on USB."""
    try:
        found = cameras()
    except DeviceError as error:
        yield Finding("RealSense", ESSENTIAL if wanted else NOTE, str(error))
        return
    fitting = {each.node: [one for one in found if each.where in ("", one["serial"])] for each in wanted}
    for one in found:
        # The same camera at 480 Mbit/s delivers a fraction of its modes.
        slow = one["usb"].startswith(("1", "2"))
        yield Finding(
            "RealSense",
            WARNING if slow else OK,
            f"{one['model']}, serial {one['serial']}, firmware {one['firmware']}, USB {one['usb']}",
            remedy="use a USB 3 port and cable" if slow else "",
        )
    for each in wanted:
        if not fitting[each.node]:
            yield Finding(
                each.node,
                ESSENTIAL,
                "no such camera",
                f"RealSense {each.where or '(any)'}",
                f"set serial_no to _{found[0]['serial']}, or plug the right one in"
                if found
                else "plug it in; a camera that `lsusb` lists (8086:0b..) and this does not needs the udev rules of librealsense",
            )
        else:
            yield Finding(
                each.node, OK, f"serial {fitting[each.node][0]['serial']}", f"RealSense {each.where or '(any)'}"
            )
    if not found and not wanted:
        yield Finding("RealSense", NOTE, "none")


def look_at_audio(wanted: list[Expectation]) -> Iterator[Finding]:
    """Audio inputs."""
    for each in wanted or [None]:
        try:
            found = audio_inputs(str(each.options.get("server", "")) if each else "")
        except DeviceError as error:
            yield Finding(each.node if each else "audio inputs", ESSENTIAL if each else NOTE, str(error))
            continue
        if each is None:
            for one in found:
                yield Finding(
                    "audio input",
                    OK,
                    f"{one['number']} '{one['name']}', {one['channels']} channels, {one['rate']:.0f} Hz",
                )
            if not found:
                yield Finding("audio input", NOTE, "none")
            continue
        listed = [{"name": "", "max_input_channels": 0}] * (1 + max((one["number"] for one in found), default=-1))
        for one in found:
            listed[one["number"]] = {"name": one["name"], "max_input_channels": one["channels"]}
        try:
            number = find_device(listed, next((one["number"] for one in found), -1), each.where)
            yield Finding(each.node, OK, f"{number} '{listed[number]['name']}'", f"audio input '{each.where}'")
        except DeviceError as error:
            yield Finding(each.node, ESSENTIAL, str(error), f"audio input '{each.where}'", "plug it in, or set device")


# -- the command -----------------------------------------------------------------------------------


def findings(options, say) -> Iterator[Finding]:
    """All findings, in the order in which they are made."""
    wanted = expectations(options.robot, *options.params) if options.robot else []
    serial = [each for each in wanted if each.kind in NAMES]
    if options.port:
        ports = [describe_port(path, sysfs=options.sysfs) for path in options.port]
        if missing := [port.path for port in ports if not os.path.exists(port.path)]:
            raise ValueError(
                f"no port {', '.join(missing)}; those there are: "
                f"{', '.join(port.path for port in serial_ports(options.dev, options.sysfs)) or 'none'}"
            )
        serial = [each for each in serial if any(port.is_at(each.where) for port in ports)]
    else:
        ports = serial_ports(options.dev, options.sysfs)
        # A port of another name, as of an emulator, is looked at because it is expected.
        ports += [
            describe_port(each.where, sysfs=options.sysfs)
            for each in serial
            if os.path.exists(each.where) and not any(port.is_at(each.where) for port in ports)
        ]
        if not ports:
            yield Finding("serial ports", NOTE, "none (no /dev/ttyUSB* or /dev/ttyACM*)")
    yield from look_at_serial(ports, serial, tuple(options.baud), say)
    if options.port:
        return

    def of(kind: str) -> list[Expectation]:
        return [each for each in wanted if each.kind == kind]

    say("network")
    if of("netft") or options.address or not wanted:
        yield from look_at_network(of("netft"), options.address)
    if of("realsense") or not wanted:
        say("cameras")
        yield from look_at_cameras(of("realsense"))
    if of("audio") or not wanted:
        say("audio inputs")
        yield from look_at_audio(of("audio"))
    for each in of(""):
        yield Finding(each.node, NOTE, f"not looked for{f': {each.where}' if each.where else ''}")


_MARKS = {OK: "[green]✓[/]", NOTE: "[dim]·[/]", WARNING: "[yellow]![/]", ESSENTIAL: "[bold red]✗[/]"}


def show(found: list[Finding], console: Console) -> None:
    """The table, and the remedies below it: commands must stay whole for copying."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "what", "expected", "found"):
        table.add_column(heading, overflow="fold")
    for each in found:
        table.add_row(_MARKS[each.status], *map(_plain, (each.topic, each.expected, each.found)))
    console.print(table)
    for each in found:
        if each.remedy:
            console.print(
                f"{_MARKS[each.status]} {_plain(each.topic)} → {_plain(each.remedy)}", soft_wrap=True, highlight=False
            )


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="refit doctor --devices",
        description="Devices on this machine, and how they differ from what a robot expects.",
        epilog="Exit codes: 0 all is as expected, 1 a device is missing or wrong, 2 wrong usage.",
    )
    parser.add_argument("--robot", help="compare with robot.yaml and nodes.yaml in config/robots/ROBOT")
    parser.add_argument(
        "--params",
        type=lambda text: [Path(each.strip()) for each in text.split(",")],
        default=[],
        metavar="FILES",
        help="ROS parameter files on top of the robot's, separated by commas, as params_file:=",
    )
    parser.add_argument(
        "--port",
        action="append",
        metavar="PATH",
        help="look at this serial port alone (pseudo-terminals too); may be repeated",
    )
    parser.add_argument(
        "--baud",
        type=lambda text: [int(each) for each in text.split(",")],
        default=[],
        metavar="RATES",
        help="look for servos at these rates only, separated by commas",
    )
    parser.add_argument("--address", default="", help=f"of a Net F/T (without a robot; as delivered: {NET_FT_ADDRESS})")
    parser.add_argument(
        "--json", metavar="FILE", help="write the findings to FILE; -: to the screen, in place of the table"
    )
    parser.add_argument("--sysfs", default="/sys", help=argparse.SUPPRESS)
    parser.add_argument("--dev", default="/dev", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """The command, without the word --devices. Returns the exit code."""
    try:
        options = _parse(argv)
    except SystemExit as ending:
        return int(ending.code or 0)
    error_console = Console(stderr=True)
    try:
        with error_console.status("looking") if error_console.is_terminal else contextlib.nullcontext() as status:
            found = list(findings(options, (lambda text: status.update(_plain(text))) if status else lambda text: None))
    except ValueError as error:
        print(f"refit doctor: {error}", file=sys.stderr)
        return 2
    wrong = [each.topic for each in found if each.status == ESSENTIAL]
    document = json.dumps(
        {"passed": not wrong, "findings": [asdict(each) for each in found]}, indent=2, ensure_ascii=False
    )
    if options.json == "-":
        print(document)
        return 1 if wrong else 0
    if options.json:
        try:
            Path(options.json).write_text(document + "\n", encoding="utf-8")
        except OSError as error:
            print(f"refit doctor: cannot write {options.json}: {error.strerror}", file=sys.stderr)
            return 2
    show(found, Console())
    print(
        f"\nMissing or wrong: {', '.join(dict.fromkeys(wrong))}."
        if wrong
        else "\nAll is as expected."
        if options.robot
        else ""
    )
    return 1 if wrong else 0
