"""Controller, refit and supervisor for one robot, with the drivers of its devices where it has any.

    ros2 launch refit robot.launch.py robot:=dxl_arm
    ros2 launch refit robot.launch.py robot:=dxl_arm use_emulators:=true devices:=dynamixel,ft_sensor record:=true
    ros2 launch refit robot.launch.py robot:=panda
    ros2 launch refit robot.launch.py robot:=panda refit:=false namespace:=left
    ros2 launch refit robot.launch.py robot:=panda params_file:=runs/demo-panda-.../parameters.yaml
    ros2 launch refit robot.launch.py robot:=dxl_arm params_file:=tool/ft_sensor.yaml,servos/dynamixel.yaml,servos/parameters.yaml

Without a ROS distribution: `./refit launch robot.launch.py ...`. `sim.launch.py` is this with a plant in place of drivers.
"""

import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    GroupAction,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
    Shutdown,
)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, PushRosNamespace
from launch_ros.event_handlers import OnStateTransition

from config.robot import load_robot, node_parameters, robot_folder
from nodes.devices.robot_devices import robot_devices
from nodes.framework.launching import ARGUMENTS, number, parameter_files, shield, urgent
from nodes.framework.respawning import respawned
from nodes.framework.security import enclave_arguments, variables
from nodes.supervision.launch_check import check_arguments

LAUNCH = Path(__file__).resolve().parent

NAMES = (
    "robot",
    "namespace",
    "secure",
    "keystore",
    "use_sim_time",
    "params_file",
    "prior",
    "autostart",
    "log_level",
    "arm",
    "refit",
    "object",
    "probe",
    "boxes",
    "free",
    "recipe",
    "lockstep",
    "solver",
    "run_directory",
    "view",
    "view_port",
    "view_reference",
)
#: controllers that are started again where they have died: whoever they serve may be far away, and they move nothing before he acts anew
RESPAWNED = ("teleop",)
#: passed on to drivers.launch.py and record.launch.py
DRIVERS = (
    "robot",
    "namespace",
    "secure",
    "keystore",
    "params_file",
    "autostart",
    "log_level",
    "drivers",
    "use_emulators",
    "devices",
    "scenario",
    "seed",
)
RECORD = ("namespace", "secure", "keystore", "profile", "use_sim_time", "autostart", "log_level")
ALL = tuple(dict.fromkeys((*NAMES, *DRIVERS, "record", *RECORD)))


def everything(context):
    """Recorder, controller and the rest, drivers. The recorder first: what it misses at the start is lost."""
    value = {name: LaunchConfiguration(name).perform(context) for name in ALL}
    value = check_arguments(value)
    if value["record"] == "true" and not value["run_directory"]:
        value["run_directory"] = os.path.join(
            "runs", f"{robot_folder(value['robot']).name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        )
    recorder = _include(
        "record.launch.py", [*((name, value[name]) for name in RECORD), ("run_directory", value["run_directory"])]
    )
    drivers = _include("drivers.launch.py", [*((name, value[name]) for name in DRIVERS), ("supervised", "true")])
    has_drivers = value["drivers"] != "none" and (
        robot_devices(value["robot"], value["devices"]) or value["use_emulators"] == "true"
    )
    return [
        *(SetEnvironmentVariable(name, given) for name, given in variables(value).items()),
        *([recorder] if value["record"] == "true" else []),
        GroupAction([PushRosNamespace(value["namespace"]), *nodes(value)]),
        *([drivers] if has_drivers else []),
    ]


def _include(name, arguments):
    return GroupAction(
        [IncludeLaunchDescription(PythonLaunchDescriptionSource(str(LAUNCH / name)), launch_arguments=arguments)]
    )


def started(robot, value, physical=""):
    """{node: parameters that the arguments give it}: controller, refit (where the robot is refitted) and supervisor.

    Args:
        robot: config.description.Robot. value: {argument: text}. physical: file of physical parameters; "": the model's own.
    """
    yes = {name: text == "true" for name, text in value.items()}
    refitted = yes["refit"] and robot.refit is not None
    given = {"physical_parameters": physical} if physical else {}
    # Only where it is said: a robot's nodes.yaml may free more for good.
    free = {"free": value["free"]} if value["free"] else {}
    boxes = [text.strip() for text in value["boxes"].split(";") if text.strip()]
    mpc = {
        "lockstep": yes["lockstep"],
        "recipe": value["recipe"],
        **given,
        **free,
        **({} if refitted else {"refit": "off"}),
    }
    controllers = {
        "adaptive_mpc": mpc,
        "stance_controller": {"lockstep": yes["lockstep"], "solver": value["solver"]},
        "teleop": {"lockstep": yes["lockstep"], **({"boxes": boxes} if boxes else {})},
        # In lock-step the arm's time may run faster than the microphone's node does.
        "placement": {"lockstep": yes["lockstep"], **({"sound_patience": 30.0} if yes["lockstep"] else {})},
        "scoop_arm": {"lockstep": yes["lockstep"]},
        "bucket_arm": {"lockstep": yes["lockstep"]},
        "poke_arm": {"lockstep": yes["lockstep"], "object": value["object"], "probe": value["probe"]},
    }
    if robot.controller not in controllers:
        raise ValueError(
            f"robot:={value['robot']}: controller is missing in {robot.file}, so there is nothing to run it"
        )
    worker = {"run_directory": value["run_directory"], "recipe": value["recipe"], **given, **free}
    own = {
        robot.controller: controllers[robot.controller],
        **({"refit_worker": worker} if refitted else {}),
        "supervisor": {
            "commander": robot.controller,
            "auto_arm": value["arm"] == "auto" or not value["arm"] and value["use_emulators"] == "true",
            **({} if refitted else {"refit_age_limit": 0.0}),
            # Time waits for the gate and for every command, so that what a busy machine holds up is nobody's danger.
            **(
                dict.fromkeys(("lease_duration", "state_age_limit", "command_age_limit"), 10.0)
                if yes["lockstep"]
                else {}
            ),
        },
    }
    common = {"robot": value["robot"], "use_sim_time": yes["use_sim_time"]}
    return {name: {**common, **parameters} for name, parameters in own.items()}


def nodes(value):
    """The nodes, with the robot's parameters, files and arguments, the later the stronger."""
    robot, given = load_robot(value["robot"]), parameter_files(value["params_file"])
    files, prior = [str(node_parameters(value["robot"])), *given.ros], value["prior"] or given.physical
    autostart = value["autostart"] == "true"

    def node(name, parameters, **options):
        return LifecycleNode(
            package="refit",
            executable=name,
            name=name,
            exec_name=name,
            namespace="",
            output="screen",
            parameters=[*files, parameters],
            # A clock of its own for every namespace; without a namespace this is the usual /clock.
            remappings=[("/clock", "clock")],
            ros_arguments=["--log-level", value["log_level"], *enclave_arguments(value, name)],
            prefix=urgent(value["lockstep"] == "true") if name in (robot.controller, "supervisor") else shield(),
            **options,
        )

    # Without it every gate is closed, and nobody would say so.
    last = {"supervisor": Shutdown(reason="the supervisor has ended, without which nothing may move")}
    made = {
        name: respawned(partial(node, name, parameters), autostart)
        if name in RESPAWNED
        else node(name, parameters, autostart=autostart, on_exit=last.get(name))
        for name, parameters in started(robot, value, prior).items()
    }
    hopeless = OnStateTransition(
        target_lifecycle_node=made["supervisor"],
        start_state="configuring",
        goal_state="unconfigured",
        entities=[Shutdown(reason="the supervisor cannot be configured, see above: without it nothing may move")],
    )
    return [*made.values(), *([view(value)] if value["view"] == "true" else []), RegisterEventHandler(hopeless)]


def view(value):
    """The page in the browser. What it computes may wait for what moves the robot, and so does its start."""
    return LifecycleNode(
        package="refit",
        executable="view",
        name="view",
        exec_name="view",
        namespace="",
        autostart=value["autostart"] == "true",
        output="screen",
        parameters=[
            {
                "robot": value["robot"],
                "port": number("view_port", value["view_port"], int),
                "reference": value["view_reference"],
            }
        ],
        # A robot's time wakes whoever listens to it a hundred times a second: the page reads stamps instead.
        remappings=[("/tf", "tf"), ("/tf_static", "tf_static")],
        ros_arguments=["--log-level", value["log_level"], *enclave_arguments(value, "view")],
        prefix=f"{shield()} nice -n 5",
    )


def generate_launch_description():
    return LaunchDescription(
        [
            *(DeclareLaunchArgument(name, **ARGUMENTS[name]) for name in ALL),
            OpaqueFunction(function=everything),
        ]
    )
