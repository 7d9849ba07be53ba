"""Look through a URG-04LX, without ROS: who it is, what it sees.

    python -m hardware.urg.show /dev/ttyACM0
    python -m hardware.urg.show /tmp/urg --scans 20 --image scan.png

Ends with code 1 if no scan comes within ten seconds.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from hardware.urg.device import Scan, UrgDevice, UrgSettings

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Print, and draw if asked, what a scanner sees; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hardware.urg.show", description=__doc__.partition("\n")[0])
    parser.add_argument("port", help="serial port, or ADDRESS:PORT")
    parser.add_argument("--baud", type=int, default=115_200, help="rate of an RS-232 line")
    parser.add_argument("--scans", type=int, default=20, help="how many to take")
    parser.add_argument("--image", help="PNG to draw them into")
    options = parser.parse_args(argv)
    address, colon, number = options.port.rpartition(":")
    settings = (
        UrgSettings(ip_address=address, ip_port=int(number))
        if colon and number.isdigit()
        else UrgSettings(port=options.port, baud=options.baud)
    )
    scans: list[Scan] = []
    device = UrgDevice(settings, on_sample=lambda scan, t: scans.append(scan))
    device.start()
    device.enable()
    try:
        came = device.wait_for(lambda: len(scans) > 0 or bool(device.refusal), 10.0)
        if not came or device.refusal:
            print(device.refusal or device.counters.last_error, file=sys.stderr)
            return 1
        device.wait_for(lambda: len(scans) >= options.scans, 5.0 + 0.2 * options.scans)
        rate = device.rate.rate(time.monotonic())
    finally:
        device.close()
    print(_summary(device, scans, rate))
    if options.image:
        _draw(scans, options.image)
        print(f"drawn into {options.image}")
    return 0


def _summary(device: UrgDevice, scans: list[Scan], rate: float) -> str:
    who, geometry, window = device.identity, scans[-1].geometry, scans[-1].window
    assert who is not None, "scans have come, so somebody has answered"
    line = "USB or network" if device.usb else f"{device.settings.baud} baud"
    distances = np.array([scan.distances for scan in scans])
    ranges = np.array([scan.ranges for scan in scans])
    valid = np.isfinite(ranges)
    codes = {int(code): int((distances == code).sum()) for code in np.unique(distances[distances < 20])}
    middle = ranges[:, np.clip(geometry.front - window.first, 0, window.count - 1)]
    ahead = f"{np.median(middle[np.isfinite(middle)]):.3f} m" if np.isfinite(middle).any() else "nothing"
    return "\n".join(
        [
            f"{who.model}, serial {who.serial}, firmware {who.firmware}, {line}",
            f"{len(scans)} scans of {window.count} points from {geometry.angle(window.first):.4f} to "
            f"{geometry.angle(window.last):.4f} rad at {rate:.2f} Hz, {window.width} characters a point",
            f"{100 * valid.mean():.0f} % valid, {np.min(ranges[valid]):.3f} to {np.max(ranges[valid]):.3f} m; straight ahead {ahead}"
            if valid.any()
            else "nothing valid: is the window covered?",
            "error codes: " + (", ".join(f"{code} ({count}x)" for code, count in codes.items()) or "none"),
            f"{device.counters.crc_errors} damaged, {device.counters.timeouts} time-outs",
        ]
    )


def _draw(scans: list[Scan], path: str) -> None:
    """Points of all scans from above, x up, y to the left."""
    from matplotlib.figure import Figure

    window, geometry = scans[-1].window, scans[-1].geometry
    angles = geometry.angle(window.first) + geometry.increment * window.cluster * np.arange(window.count)
    ranges = np.array([scan.ranges for scan in scans])
    ranges[~np.isfinite(ranges)] = np.nan
    x, y = ranges * np.cos(angles), ranges * np.sin(angles)
    figure = Figure(figsize=(6.0, 5.0), dpi=110, layout="constrained")
    axes = figure.add_subplot(aspect="equal")
    axes.plot(y[:-1].T, x[:-1].T, ".", color="0.75", markersize=2)
    axes.plot(y[-1], x[-1], ".", color="tab:blue", markersize=3)
    for edge in (angles[0], angles[-1]):
        axes.plot([0.0, 0.3 * np.sin(edge)], [0.0, 0.3 * np.cos(edge)], color="0.5", linewidth=1)
    axes.annotate("", (0.0, 0.5), (0.0, 0.0), arrowprops=dict(arrowstyle="->", color="tab:red"))
    axes.plot(0.0, 0.0, "o", color="tab:red", markersize=5)
    axes.invert_xaxis()
    axes.set(xlabel="y, left [m]", ylabel="x, ahead [m]", title=f"{len(scans)} turns, the last in blue")
    axes.grid(color="0.93")
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())
