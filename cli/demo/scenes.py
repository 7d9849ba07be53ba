"""What each arm is shown with: its payload, the graph that runs it, and where it is looked at from."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["SCENES", "Scene"]


@dataclass(frozen=True)
class Scene:
    """The demonstration of one arm.

    Attributes:
        title: what people call the robot.
        payload: mass that appears in the hand [kg]. payloads: what the arm can carry along its path [kg].
        centre: the payload's centre of mass in the hand's frame [m].
        view: the camera's target (3) [m], distance [m], azimuth and elevation [deg].
        ball: radius the payload is drawn with [m].
        launch, arguments: launch file that runs the robot, and arguments of its own.
    """

    title: str
    payload: float
    payloads: tuple[float, float]
    centre: tuple[float, float, float]
    view: tuple[float, float, float, float, float, float]
    ball: float
    launch: str = "sim.launch.py"
    arguments: dict = field(default_factory=lambda: {"paused": True})


#: by name in config/robots
SCENES = {
    "panda": Scene("Panda", 2.0, (0.1, 4.0), (0.03, 0.02, 0.08), (0.25, 0.0, 0.42, 1.75, 145.0, -12.0), 0.05),
    "dxl_arm": Scene(
        "Dynamixel arm",
        0.2,
        (0.05, 0.35),
        (0.01, 0.015, 0.05),
        (0.16, 0.0, 0.2, 0.8, 145.0, -15.0),
        0.02,
        "robot.launch.py",
        {"use_emulators": True, "drivers": "by_hand", "devices": "dynamixel"},
    ),
}
