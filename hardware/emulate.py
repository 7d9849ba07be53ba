"""Play a device: `./refit emulate DEVICE`, or `python -m hardware.emulate DEVICE`.

One process per device, as makers' own software busy-waits and a Python thread would starve beside it. Prints
READY when the device can be opened; with --world that is when the plant is there. Ends at SIGINT, SIGTERM, or, with
--with-parent, when its stdin closes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import yaml

from config.niceness import carry_over
from hardware.emulation.emulator import Control
from hardware.emulation.faults import COMMON, Faults

__all__ = ["DEVICES", "main"]

#: device -> (module, what it is)
DEVICES = {
    "dynamixel": ("hardware.dynamixel.emulator", "servos on one bus"),
    "urg": ("hardware.urg.emulator", "Hokuyo URG-04LX scanner"),
    "netft": ("hardware.netft.emulator", "ATI Net F/T force-torque sensor"),
    "ft300": ("hardware.ft300.emulator", "Robotiq FT-300 force-torque sensor"),
    "serial_wrench": ("hardware.serial_wrench.emulator", "force-torque sensor of a described serial format"),
    "robotiq": ("hardware.robotiq.emulator", "Robotiq 2F gripper"),
    "ability_hand": ("hardware.ability_hand.emulator", "Psyonic Ability Hand"),
    "realsense": ("hardware.realsense.emulator", "renderer of an emulated RealSense"),
    "audio": ("hardware.audio.emulator", "microphone or stethoscope behind a sound server"),
    "rangefinder": ("hardware.rangefinder.emulator", "ultrasonic rangefinder"),
    "estop": ("hardware.estop.emulator", "emergency stop with a serial heartbeat"),
}


def _parser(device: str, devices: Mapping[str, tuple[str, str]] = DEVICES) -> argparse.ArgumentParser:
    module, what = devices[device]
    parser = argparse.ArgumentParser(
        prog=f"refit emulate {device}",
        description=f"Emulates: {what}.",
        epilog="common faults: " + "; ".join(f"{name}: {text}" for name, text in COMMON.items()),
    )
    parser.add_argument("--link", type=Path, help="path that clients open as the serial port")
    parser.add_argument("--ip", default="127.0.0.1", help="address of a network device")
    parser.add_argument("--seed", type=int, default=0, help="of noise and faults")
    parser.add_argument("--control", type=Path, help="Unix socket for inject, clear, stats, set")
    parser.add_argument("--world", type=Path, help="shared world of a simulated robot")
    parser.add_argument("--state", type=Path, help="YAML file with values to start from")
    parser.add_argument("--with-parent", action="store_true", help="end when stdin closes")
    importlib.import_module(module).arguments(parser)
    return parser


def main(argv: list[str] | None = None, devices: Mapping[str, tuple[str, str]] = DEVICES) -> int:
    """Run the emulator that the words name until it is ended; returns the exit code.

    Args:
        devices: as DEVICES; others are played by whoever computes what they sense above this package.
    """
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help", "--list"):
        print(
            "usage: refit emulate DEVICE [options]      (DEVICE --help lists them)\n\n"
            + "\n".join(f"  {name:14} {what}" for name, (_, what) in devices.items())
        )
        return 0 if argv else 2
    if argv[0] not in devices:
        print(f"refit emulate: no device '{argv[0]}'; there are {', '.join(devices)}", file=sys.stderr)
        return 2
    carry_over()
    stop, running = threading.Event(), False

    def end(*_: object) -> None:
        stop.set()
        if not running:  # what loads, or waits for the plant, looks at no event
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with contextlib.suppress(AttributeError):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    device = argv[0]
    try:
        options = _parser(device, devices).parse_args(argv[1:])
        if options.with_parent:
            threading.Thread(target=_watch_parent, daemon=True).start()
        emulator = importlib.import_module(devices[device][0]).make(options, Faults(options.seed))
        if options.state:
            emulator.set(**(yaml.safe_load(options.state.read_text()) or {}))
    except (OSError, ValueError, yaml.YAMLError) as error:
        print(f"refit emulate {device}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    running = True
    control = Control(options.control, emulator) if options.control else None
    print("READY", flush=True)
    try:
        emulator.run(stop)
    finally:
        if control is not None:
            control.close()
    return 0


def _watch_parent() -> None:
    # The descriptor, not sys.stdin: its buffer's lock would be held at interpreter exit.
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
