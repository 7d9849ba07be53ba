"""The simulated robot: `robot.launch.py` plus the MuJoCo plant, and a recorder if asked for.

    ros2 launch refit sim.launch.py
    ros2 launch refit sim.launch.py robot:=double_cartpole lockstep:=true refit:=false
    ros2 launch refit sim.launch.py scenario:='[{time: 5, action: attach, frame: hand, mass: 2.0}]' record:=true
    ros2 launch refit sim.launch.py namespace:=left & ros2 launch refit sim.launch.py namespace:=right

Without a ROS distribution: `./refit launch sim.launch.py ...`. Ctrl-C ends everything with exit code 0.
"""

import os
from datetime import datetime, timezone
from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, IncludeLaunchDescription, OpaqueFunction, Shutdown
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, PushRosNamespace

from nodes.entry import shield

LAUNCH = Path(__file__).resolve().parent
SHARE = LAUNCH.parent

#: shared with robot.launch.py, where their meaning is the same
SHARED = [
    DeclareLaunchArgument("robot", default_value="panda", choices=["panda", "cartpole", "double_cartpole"],
                          description="model in config/robots and profile in config"),
    DeclareLaunchArgument("namespace", default_value="", description="namespace of all nodes and of the clock; "
                          "two robots on one machine need different ones"),
    DeclareLaunchArgument("use_sim_time", default_value="true", choices=["true", "false"],
                          description="take time from the clock topic"),
    DeclareLaunchArgument("params_file", default_value="", description="ROS parameter YAML on top of config/<robot>.yaml, or "
                          "the physical parameters that a demo or identify found, for plant and controller alike"),
    DeclareLaunchArgument("prior", default_value="", description="physical parameters that controller and refit start "
                          "from while the plant keeps its own: a file, or 'start' for the published wrong start of a cart-pole"),
    DeclareLaunchArgument("autostart", default_value="true", choices=["true", "false"],
                          description="configure and activate the lifecycle nodes"),
    DeclareLaunchArgument("log_level", default_value="info", choices=["debug", "info", "warn", "error", "fatal"],
                          description="logging threshold of all nodes"),
    DeclareLaunchArgument("refit", default_value="true", choices=["true", "false"],
                          description="run the refit; without it the controller keeps the parameters it starts with"),
    DeclareLaunchArgument("recipe", default_value="robust", choices=["robust", "literal"],
                          description="how a cart-pole's physics is refitted: robustly, or as published"),
    DeclareLaunchArgument("lockstep", default_value="false", choices=["true", "false"],
                          description="the plant waits for every command, so that results do not depend on load"),
    DeclareLaunchArgument("run_directory", default_value="", description="where the bag and accepted parameter "
                          "revisions go; empty: runs/sim-<stamp> if record:=true, else nowhere"),
]
OWN = [
    DeclareLaunchArgument("scenario", default_value="", description="hidden changes of the plant: YAML text or file, "
                          "see docs/nodes/sim_plant.md"),
    DeclareLaunchArgument("seed", default_value="0", description="of the plant's initial states and sensor noise"),
    DeclareLaunchArgument("real_time_factor", default_value="1.0",
                          description="simulated seconds per second; 0: as fast as possible"),
    DeclareLaunchArgument("paused", default_value="false", choices=["true", "false"],
                          description="start with time standing still, until set_simulation_state"),
    DeclareLaunchArgument("record", default_value="false", choices=["true", "false"],
                          description="record a bag into run_directory"),
    DeclareLaunchArgument("profile", default_value="control", choices=["full", "control", "identify"],
                          description="which topics are recorded"),
]


def is_physical(path):
    """Physical parameters as refit and identify write them, rather than a ROS parameter file."""
    return bool(path) and "model_hash:" in Path(path).expanduser().read_text()


def plant_and_recorder(context):
    value = {argument.name: LaunchConfiguration(argument.name).perform(context) for argument in [*SHARED, *OWN]}
    run_directory = value["run_directory"]
    if not run_directory and value["record"] == "true":
        run_directory = os.path.join("runs", f"sim-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}")
    files, physical = [str(SHARE / "config" / f"{value['robot']}.yaml")], {}
    if is_physical(value["params_file"]):
        physical = {"params_file": value["params_file"]}
    elif value["params_file"]:
        files.append(value["params_file"])
    plant = LifecycleNode(
        package="refit", executable="sim_plant", name="sim_plant", namespace=value["namespace"],
        autostart=value["autostart"] == "true", output="screen",
        parameters=[*files, {
            "robot": value["robot"],
            "scenario": value["scenario"],
            "seed": int(value["seed"]),
            "real_time_factor": float(value["real_time_factor"]),
            "lockstep": value["lockstep"] == "true",
            "start_paused": value["paused"] == "true",
            **physical,
        }],
        # A namespace has its own time and its own frames; without one these are the usual names.
        remappings=[("/clock", "clock"), ("/tf", "tf"), ("/tf_static", "tf_static")],
        ros_arguments=["--log-level", value["log_level"]],
        prefix=f"{shield()} nice -n -10",       # it stands for a servo loop; without the right to, `nice` says so and goes on
        # Without a plant nothing here makes sense; on a real robot the supervisor judges that instead.
        on_exit=Shutdown(reason="the plant has ended"),
    )
    robot = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(LAUNCH / "robot.launch.py")),
        launch_arguments=[(argument.name, value[argument.name]) for argument in SHARED if argument.name != "run_directory"]
        + [("run_directory", run_directory)])
    record = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(LAUNCH / "record.launch.py")),
        launch_arguments=[(name, value[name]) for name in ("namespace", "profile", "use_sim_time", "autostart", "log_level")]
        + [("run_directory", run_directory)])
    # The recorder first: what it misses at the start is lost.
    return [*([GroupAction([record])] if value["record"] == "true" else []), GroupAction([robot]), plant]


def generate_launch_description():
    return LaunchDescription([*SHARED, *OWN, OpaqueFunction(function=plant_and_recorder)])
