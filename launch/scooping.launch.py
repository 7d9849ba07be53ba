"""A robot that collects a sample from a tray of grains, in simulation: `sim.launch.py` with a camera and the node that plans scoops.

    ros2 launch refit scooping.launch.py
    ros2 launch refit scooping.launch.py tray:=gravel view:=true record:=true
    ros2 action send_goal --feedback /scoop/collect_sample refit_interfaces/action/CollectSample "{threshold: 6.0e-5}"

On a robot the driver of a depth camera and that of a force-torque sensor take the places of what is simulated here. Without a ROS
distribution: `./refit launch scooping.launch.py ...`.
"""

from launch.actions import DeclareLaunchArgument

from nodes.framework.extended_simulation import REAL_TIME_FACTOR, extended_simulation, robot_of
from nodes.framework.launching import typed
from nodes.planning.scooping_config import ScoopingConfig

OWN = [
    robot_of("scoop_arm"),
    REAL_TIME_FACTOR,
    DeclareLaunchArgument("tray", default_value="gravel", description="what lies in it: docs/nodes/sim_plant.md"),
    DeclareLaunchArgument(
        "policy", default_value="codega", description="what is believed of scoops: docs/nodes/scooping.md"
    ),
    DeclareLaunchArgument("budget", default_value="20", description="scoops at most"),
    DeclareLaunchArgument(
        "directory",
        default_value="",
        description="where checkpoints of searches go; empty: run_directory, or runs/scooping",
    ),
]


def nodes(value, node):
    planning = typed(ScoopingConfig, {name: value[name] for name in ("robot", "policy", "budget")})
    directory = value["directory"] or value["run_directory"]
    # In lock-step the arm's time may go much slower than that on the wall, while grains are computed.
    waiting = {"patience": 600.0} if value["lockstep"] == "true" else {}
    camera = {"robot": value["robot"], "camera": "overhead", "width": 640, "height": 480, "grains": "sim_plant/grains"}
    return [
        node("scooping", {**planning, **waiting, **({"directory": directory} if directory else {})}),
        node("sim_camera", {**camera, "frame_id": "overhead_optical_frame", "points": False}),
    ]


def generate_launch_description():
    return extended_simulation(OWN, nodes, passed=("tray",), here={"profile": dict(default_value="search")})
