"""`refit calibrate WHAT BAG`: what a robot's sensors and servos are really like, from a recording of them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from cli.calibrate_run import run_calibration
from identification.calibrate.camera import CameraSettings, calibrate_camera
from identification.calibrate.scanner import ScannerSettings, calibrate_scanner
from identification.calibrate.servos import ServoSettings, calibrate_servos
from identification.calibrate.tool import ToolSettings, calibrate_tool
from reporting import progress_for

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

Bag = Annotated[Path, typer.Argument(help="bag directory or .mcap file")]
Robot = Annotated[
    Optional[str], typer.Option(help="robot in config/robots, or a model file; default: robot_description of the bag")
]
Out = Annotated[Optional[Path], typer.Option(help="new folder for the results; default below runs/")]
Json = Annotated[Optional[Path], typer.Option(help="write the checks to this file as well")]
AllowTruncated = Annotated[bool, typer.Option("--allow-truncated", help="use what a cut-off bag still holds")]
StillSpeed = Annotated[
    float, typer.Option(help="the robot is still while no joint is faster, in rad/s or m/s", min=1e-4)
]
StillTime = Annotated[float, typer.Option(help="shortest stretch at rest that counts, in s", min=0.1)]


class Mount(StrEnum):
    """Where the camera is."""

    HAND = "hand"
    BASE = "base"


@app.command()
def tool(
    bag: Bag,
    topic: Annotated[
        str, typer.Option(help="wrenches as measured, geometry_msgs/WrenchStamped")
    ] = "ft_sensor/wrench_raw",
    frame: Annotated[
        Optional[str],
        typer.Option(help="body or site of the model where the sensor is; default: frame_id of the wrenches"),
    ] = None,
    max_std: Annotated[
        float, typer.Option(help="stretches with a larger standard deviation of any force, in N, are left out")
    ] = 0.5,
    still_speed: StillSpeed = 0.05,
    still_time: StillTime = 0.5,
    robot: Robot = None,
    allow_truncated: AllowTruncated = False,
    out: Out = None,
    json: Json = None,
) -> int:
    """Mass and centre of the tool behind a force-torque sensor, and the sensor's offsets.

    Record joint_states and ft_sensor/wrench_raw while the robot visits eight
    or more poses, a second at rest in each, the sensor tilted to all sides.
    Where the robot stands still, the mean wrench is m g plus an offset;
    gravity in the sensor's axes follows from the joints.

    Writes ft_sensor.yaml with tool.mass and tool.com. Offsets drift, so they
    are shown and not kept: call ~/bias at the start of work.
    """
    settings = ToolSettings(topic, frame, max_std, still_speed, still_time, robot)
    return run_calibration(bag, out, json, allow_truncated, lambda reader: calibrate_tool(reader, settings))


@app.command()
def camera(
    bag: Bag,
    mount: Annotated[
        Mount,
        typer.Option(
            help="hand: the camera moves with the hand and the target stays; base: the camera stays "
            "and the target is on the hand"
        ),
    ] = Mount.HAND,
    topic: Annotated[
        str,
        typer.Option(
            help="poses of the target in the camera's optical frame (geometry_msgs/PoseStamped), or "
            "images (sensor_msgs/Image) of a chessboard with --board"
        ),
    ] = "target_pose",
    board: Annotated[
        Optional[str],
        typer.Option(
            help="chessboard in the images: inner corners per row x per column x edge of a "
            "square in m, such as 7x6x0.03"
        ),
    ] = None,
    hand: Annotated[str, typer.Option(help="body or site that carries camera or target")] = "hand",
    base: Annotated[str, typer.Option(help="body or site that counts as the robot's base")] = "base_link",
    child: Annotated[
        str, typer.Option(help="frame whose pose is written, if /tf_static leads from it to the optical frame")
    ] = "camera_link",
    still_speed: StillSpeed = 0.05,
    still_time: StillTime = 0.5,
    robot: Robot = None,
    allow_truncated: AllowTruncated = False,
    out: Out = None,
    json: Json = None,
) -> int:
    """Pose of a camera on the hand or beside the robot (hand-eye calibration).

    Record joint_states, what the camera sees of a target, and /tf_static,
    while the robot visits ten to twenty poses, a second at rest in each,
    turned by 20 degrees and more about different axes. The target stays where
    it is: on the table with --mount hand, on the hand with --mount base.

    Writes static_transform.yaml for the node static_transform.
    """
    settings = CameraSettings(mount.value, topic, board, hand, base, child, still_speed, still_time, robot)
    return run_calibration(bag, out, json, allow_truncated, lambda reader: calibrate_camera(reader, settings))


@app.command()
def servos(
    bag: Bag,
    free: Annotated[
        Optional[list[str]],
        typer.Option(
            help="free besides gear, friction, damping and sensor.delay, repeatable: "
            "'*.armature', hand.payload, ...; names of refit identify"
        ),
    ] = None,
    robot: Annotated[Optional[str], typer.Option(help="refuse a bag of another robot")] = None,
    begin: Annotated[float, typer.Option("--from", help="first second of the recording to use", min=0.0)] = 0.0,
    end: Annotated[float, typer.Option("--to", help="last second of the recording to use")] = float("inf"),
    starts: Annotated[int, typer.Option(help="starting points", min=2)] = 3,
    seed: Annotated[int, typer.Option(help="of the starting points", min=0)] = 0,
    allow_truncated: AllowTruncated = False,
    out: Out = None,
    json: Json = None,
) -> int:
    """Torque constant, friction and damping of the servos of a robot in current control.

    Record joint_states while the arm moves all joints at once, fast and
    slowly, through different poses, ten seconds or more. Efforts are measured
    current times the torque constant that the driver assumed; the factor that
    makes them explain the motion corrects it. Masses and inertias count as
    known: calibrate without a payload.

    Writes <driver>.yaml with joints.<name>.torque_constant, and
    parameters.yaml with friction and damping for plant and controller.
    """
    settings = ServoSettings(tuple(free or ()), robot, begin, end, starts, seed)
    with progress_for(Console()) as progress:
        return run_calibration(
            bag, out, json, allow_truncated, lambda reader: calibrate_servos(reader, settings, progress)
        )


@app.command()
def scanner(
    bag: Bag,
    room: Annotated[
        Optional[str], typer.Option(help="rectangular room, LENGTHxWIDTH along x and y of the base frame, in m")
    ] = None,
    center: Annotated[str, typer.Option(help="X,Y of the room's centre in the base frame, in m")] = "0,0",
    room_yaw: Annotated[float, typer.Option(help="by which the room is turned in the base frame, in rad")] = 0.0,
    walls: Annotated[
        Optional[Path], typer.Option(help="YAML file with walls in the base frame in place of --room")
    ] = None,
    guess: Annotated[
        Optional[str],
        typer.Option(
            help="X,Y,YAW of the scanner, within 0.3 m and 0.3 rad; default: the model's frame of the scans' name"
        ),
    ] = None,
    height: Annotated[
        Optional[float], typer.Option(help="of the scanner over the base frame, in m; default: the model's")
    ] = None,
    tilt: Annotated[
        bool, typer.Option("--tilt", help="look for pitch and roll too; a wrongly measured room looks like a tilt")
    ] = False,
    topic: Annotated[str, typer.Option(help="scans, sensor_msgs/LaserScan")] = "scan",
    base: Annotated[str, typer.Option(help="body or site that counts as the robot's base")] = "base_link",
    robot: Robot = None,
    allow_truncated: AllowTruncated = False,
    out: Out = None,
    json: Json = None,
) -> int:
    """Pose of a laser scanner on the robot's base, from scans of walls that are known in the base frame.

    Record a few seconds of scans with the robot at rest, and measure where the
    walls are in its base frame, to some millimetres: a rectangular room
    (--room 4.2x3.1 --center 0.3,0), or single walls in a YAML list of
    {from: (x, y), to: (x, y), lean: angle}, see docs/calibration.md. What else
    stands in the room counts for nothing.

    Writes static_transform.yaml for the node static_transform.
    """
    settings = ScannerSettings(room, center, room_yaw, walls, guess, height, tilt, topic, base, robot)
    return run_calibration(bag, out, json, allow_truncated, lambda reader: calibrate_scanner(reader, settings))
