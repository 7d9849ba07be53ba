"""A robot that finds out how hard a soft object is, in simulation: `sim.launch.py` with three cameras and the node that decides where to poke.

    ros2 launch refit poking.launch.py
    ros2 launch refit poking.launch.py object:=lamb choice:=spread view:=true record:=true
    ros2 service call /poking/build_surface refit_interfaces/srv/BuildSurface "{object: lamb}"
    ros2 action send_goal --feedback /poking/explore refit_interfaces/action/ExploreObject "{pokes: 10}"

On a robot the driver of a depth camera and that of a force-torque sensor take the places of what is simulated here. Without a ROS
distribution: `./refit launch poking.launch.py ...`.
"""

from launch.actions import DeclareLaunchArgument

from nodes.framework.extended_simulation import REAL_TIME_FACTOR, extended_simulation, robot_of
from nodes.framework.launching import ARGUMENTS, typed
from nodes.planning.poking_config import PokingConfig

CAMERAS = ("scan", "scan_left", "scan_right")
OWN = [
    robot_of("poke_arm"),
    REAL_TIME_FACTOR,
    DeclareLaunchArgument("object", **{**ARGUMENTS["object"], "default_value": "lamb"}),
    DeclareLaunchArgument("object_seed", default_value="0", description="of its shape, stiffness and camera"),
    DeclareLaunchArgument("probe", **ARGUMENTS["probe"]),
    DeclareLaunchArgument("model", default_value="process", description="what is learnt: docs/nodes/poking.md"),
    DeclareLaunchArgument("choice", default_value="variance", description="where it pokes next: docs/nodes/poking.md"),
    DeclareLaunchArgument(
        "directory",
        default_value="",
        description="where surfaces and checkpoints go; empty: run_directory, or runs/poking",
    ),
]


def nodes(value, node):
    planning = typed(PokingConfig, {"model": value["model"], "choice": value["choice"], "cameras": str(len(CAMERAS))})
    directory = value["directory"] or value["run_directory"]
    # In lock-step the arm's time may go much slower than that on the wall.
    waiting = {"patience": 600.0, "scan_patience": 120.0} if value["lockstep"] == "true" else {}
    scene = {"robot": value["robot"], "width": 640, "height": 480, "rate": 2.0, "depth": False}
    scene |= {"object": value["object"], "object_seed": int(value["object_seed"])}
    return [
        node("poking", {**planning, **waiting, **({"directory": directory} if directory else {})}),
        *(
            node("sim_camera", {**scene, "camera": name, "frame_id": f"{name}_optical_frame"}, name=f"sim_camera{end}")
            for name, end in zip(CAMERAS, ("", "_left", "_right"))
        ),
    ]


def generate_launch_description():
    return extended_simulation(
        OWN, nodes, passed=("object", "object_seed", "probe"), here={"profile": dict(default_value="poke")}
    )
