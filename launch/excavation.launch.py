"""A robot that digs in a pile of blocks, in simulation: `sim.launch.py` with a camera and the node that plans motions of the bucket.

    ros2 launch refit excavation.launch.py
    ros2 launch refit excavation.launch.py tray_seed:=3 policy:=bf5 view:=true record:=true
    ros2 action send_goal --feedback /excavation/run_trial refit_interfaces/action/RunExcavation "{path: medium}"

On a robot the driver of a depth camera and that of a force-torque sensor take the places of what is simulated here. Without a ROS
distribution: `./refit launch excavation.launch.py ...`.
"""

from launch.actions import DeclareLaunchArgument

from nodes.framework.extended_simulation import REAL_TIME_FACTOR, extended_simulation, robot_of
from nodes.framework.launching import typed
from nodes.planning.excavation_config import ExcavationConfig

OWN = [
    robot_of("bucket_arm"),
    REAL_TIME_FACTOR,
    DeclareLaunchArgument("tray", default_value="blocks", description="what lies there: docs/nodes/sim_plant.md"),
    DeclareLaunchArgument("tray_seed", default_value="-1", description="of the pile; -1: that of `seed`"),
    DeclareLaunchArgument(
        "policy", default_value="rs7", description="what chooses the motions: docs/nodes/excavation.md"
    ),
    DeclareLaunchArgument(
        "directory",
        default_value="",
        description="where checkpoints of trials go; empty: run_directory, or runs/excavation",
    ),
]


def nodes(value, node):
    planning = typed(ExcavationConfig, {"policy": value["policy"]})
    directory = value["directory"] or value["run_directory"]
    # In lock-step the arm's time may go much slower than that on the wall, while blocks are computed.
    waiting = {"patience": 600.0, "picture_patience": 60.0} if value["lockstep"] == "true" else {}
    camera = {"robot": value["robot"], "camera": "overhead", "width": 320, "height": 240, "grains": "sim_plant/grains"}
    return [
        node("excavation", {**planning, **waiting, **({"directory": directory} if directory else {})}),
        node("sim_camera", {**camera, "frame_id": "overhead_optical_frame", "points": False}),
    ]


def generate_launch_description():
    return extended_simulation(OWN, nodes, passed=("tray", "tray_seed"), here={"profile": dict(default_value="dig")})
