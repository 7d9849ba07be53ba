"""`refit calibrate WHAT BAG`: what a robot's sensors and servos are really like, from a recording of them."""

from __future__ import annotations

import typer

from identification.calibrate_camera import camera
from identification.calibrate_scanner import scanner
from identification.calibrate_servos import servos
from identification.calibrate_tool import tool

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    help="""
Calibrate a robot from a bag: what its wrist carries, where its camera and its
scanner are, how strong its servos are.

Each leaves a new folder below runs/ with report.html (estimates with 95 %
intervals, residuals), result.json (the checks) and, if every check passed,
the parameters that the nodes load.

Record with:
./refit launch record.launch.py profile:=calibrate run_directory:=runs/today

Step by step for a real robot: docs/calibration.md. Exit code 0: every check
passed; 1: one failed, no parameters are written; 2: the bag cannot be used.
""",
)
for function in (tool, camera, servos, scanner):
    app.command()(function)
