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

from nodes.launching import ARGUMENTS, is_physical, shield

SHARE = Path(__file__).resolve().parents[1]

NAMES = ("robot", "namespace", "use_sim_time", "params_file", "prior", "autostart", "log_level", "refit", "recipe", "lockstep",
         "run_directory")


def nodes(context):
    """The three nodes, with the profile, the parameter file and the arguments, the later the stronger."""
    value = {name: LaunchConfiguration(name).perform(context) for name in NAMES}
    yes = {name: text == "true" for name, text in value.items()}
    files, prior = [str(SHARE / "config" / f"{value['robot']}.yaml")], value["prior"]
    if is_physical("params_file", value["params_file"]):
        prior = prior or value["params_file"]
    elif value["params_file"]:
        files.append(value["params_file"])
    if prior != "start" and prior and not is_physical("prior", prior):
        raise ValueError(f"prior:={prior}: holds no physical parameters; give a parameters.yaml of a demo or identify, or 'start'")
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
        *(DeclareLaunchArgument(name, **ARGUMENTS[name]) for name in NAMES),
        GroupAction([PushRosNamespace(LaunchConfiguration("namespace")), OpaqueFunction(function=nodes)]),
    ])
