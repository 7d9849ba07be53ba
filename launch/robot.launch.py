"""Controller, refit and supervisor for one robot, whatever publishes its joint states.

    ros2 launch refit robot.launch.py robot:=panda
    ros2 launch refit robot.launch.py robot:=panda refit:=false namespace:=left
    ros2 launch refit robot.launch.py robot:=panda params_file:=runs/demo-panda-.../parameters.yaml

Without a ROS distribution: `./refit launch robot.launch.py ...`. `sim.launch.py` is this plus the plant.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, PushRosNamespace

from nodes.entry import shield

SHARE = Path(__file__).resolve().parents[1]

ARGUMENTS = [
    DeclareLaunchArgument("robot", default_value="panda", choices=["panda", "cartpole", "double_cartpole"],
                          description="model in config/robots and profile in config"),
    DeclareLaunchArgument("namespace", default_value="", description="namespace of all nodes and of the clock; "
                          "two robots on one machine need different ones"),
    DeclareLaunchArgument("use_sim_time", default_value="false", choices=["true", "false"],
                          description="take time from the clock topic"),
    DeclareLaunchArgument("params_file", default_value="", description="ROS parameter YAML on top of config/<robot>.yaml, or "
                          "the physical parameters that a demo or identify found"),
    DeclareLaunchArgument("prior", default_value="", description="physical parameters that controller and refit start "
                          "from: a file, or 'start' for the published wrong start of a cart-pole"),
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
    DeclareLaunchArgument("run_directory", default_value="", description="where accepted parameter revisions are "
                          "written; empty: nowhere"),
]


def is_physical(path):
    """Physical parameters as refit and identify write them, rather than a ROS parameter file."""
    return bool(path) and "model_hash:" in Path(path).expanduser().read_text()


def nodes(context):
    """The three nodes, with the profile, the parameter file and the arguments, the later the stronger."""
    value = {argument.name: LaunchConfiguration(argument.name).perform(context) for argument in ARGUMENTS}
    yes = {name: text == "true" for name, text in value.items()}
    files, prior = [str(SHARE / "config" / f"{value['robot']}.yaml")], value["prior"]
    if is_physical(value["params_file"]):
        prior = prior or value["params_file"]
    elif value["params_file"]:
        files.append(value["params_file"])
    physical = {"physical_parameters": prior} if prior else {}
    common = {"robot": value["robot"], "use_sim_time": yes["use_sim_time"]}
    only = {
        "adaptive_mpc": {"lockstep": yes["lockstep"], "recipe": value["recipe"], **physical, **({} if yes["refit"] else {"refit": "off"})},
        "refit_worker": {"run_directory": value["run_directory"], "recipe": value["recipe"], **physical},
        "supervisor": {} if yes["refit"] else {"refit_age_limit": 0.0},
    }
    return [
        LifecycleNode(
            package="refit", executable=name, name=name, namespace="", autostart=yes["autostart"], output="screen",
            parameters=[*files, {**common, **parameters}],
            # A clock of its own for every namespace; without a namespace this is the usual /clock.
            remappings=[("/clock", "clock")],
            ros_arguments=["--log-level", value["log_level"]],
            # Without the right to, `nice` says so and runs the node all the same.
            prefix=f"{shield()} nice -n -10" if name == "adaptive_mpc" else shield(),
        )
        for name, parameters in only.items() if name != "refit_worker" or yes["refit"]
    ]


def generate_launch_description():
    return LaunchDescription([
        *ARGUMENTS,
        GroupAction([PushRosNamespace(LaunchConfiguration("namespace")), OpaqueFunction(function=nodes)]),
    ])
