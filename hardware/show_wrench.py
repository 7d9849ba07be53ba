"""Look at a force-torque sensor, without ROS: who it is, what it feels, how well it comes.

    python -m hardware.show_wrench netft 192.168.1.1
    python -m hardware.show_wrench ft300 /dev/ttyUSB0
    python -m hardware.show_wrench serial /dev/ttyUSB0 --description sensor.yaml

Ends with code 1 if no wrench comes within ten seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

from hardware.ft300.device import Ft300Device
from hardware.netft.device import NetFtDevice
from hardware.serial_wrench.device import SerialWrenchDevice
from hardware.serial_wrench.protocol import DescriptionError, load_description
from hardware.wrench.sensor import WrenchBlock, WrenchSensor

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Print what a sensor measures; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hardware.show_wrench", description=__doc__.partition("\n")[0])
    parser.add_argument("driver", choices=("netft", "ft300", "serial"))
    parser.add_argument("where", help="address of a Net F/T, serial port of the others")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to listen")
    parser.add_argument("--rate", type=float, default=1000.0, help="asked of a Net F/T [Hz]")
    parser.add_argument("--http-port", type=int, default=80, help="of a Net F/T")
    parser.add_argument("--description", help="YAML file of a serial sensor")
    options = parser.parse_args(argv)
    blocks: list[WrenchBlock] = []
    common: dict[str, Any] = dict(on_sample=lambda block, t: blocks.append(block))
    try:
        device: WrenchSensor
        if options.driver == "netft":
            device = NetFtDevice(options.where, rate=options.rate, http_port=options.http_port, **common)
        elif options.driver == "ft300":
            device = Ft300Device(options.where, **common)
        else:
            device = SerialWrenchDevice(options.where, load_description(options.description or ""), **common)
    except DescriptionError as error:
        print(error, file=sys.stderr)
        return 2
    device.start()
    device.enable()
    try:
        if not device.wait_for(lambda: bool(blocks), 10.0):
            print(device.counters.last_error or "no wrench came within 10 s", file=sys.stderr)
            return 1
        time.sleep(options.seconds)
        rate = device.rate.rate(time.monotonic())
        troubles = [*device.faults.values(), *device.warnings.values()]
    finally:
        device.close()
    print(_summary(device, blocks, rate, troubles))
    return 0


def _summary(device: WrenchSensor, blocks: list[WrenchBlock], rate: float, troubles: list[str]) -> str:
    who, samples = device.identity, np.concatenate([block.wrench for block in blocks])
    assert who is not None, "wrenches have come, so somebody has answered"
    rows = [
        f"  {axis}  {mean:10.4f}  +- {std:.4f} {unit}, rated {rated:g}"
        for axis, mean, std, unit, rated in zip(
            ("Fx", "Fy", "Fz", "Tx", "Ty", "Tz"),
            samples.mean(0),
            samples.std(0),
            ["N"] * 3 + ["N m"] * 3,
            device.max_load,
        )
    ]
    counted = (
        ", ".join(f"{n} {name}" for name, n in device.counters.as_dict().items() if n and name != "samples") or "none"
    )
    return "\n".join(
        [
            f"{who.model}, serial {who.serial or 'not told'}, firmware {who.firmware or 'not told'}",
            f"{len(samples)} samples at {rate:.1f} Hz, {device.nominal_rate:g} Hz promised; errors: {counted}",
            *rows,
            *troubles,
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
