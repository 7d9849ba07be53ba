"""A laser scanner in a known scene: its driver, and the node that says where it stands, where bodies stand and what its diode does.

    ros2 launch refit lidar.launch.py scene:=data/lidar/mirror.yaml use_emulators:=true
    ros2 launch refit lidar.launch.py scene:=my_room.yaml port:=/dev/ttyACM0 record:=true run_directory:=runs/today
    ros2 action send_goal /lidar/localize refit_interfaces/action/LocalizeScan "{}"

With emulators the scanner is played by the model of its optics in `seen` (or `scene`), through the same driver. Without a ROS
distribution: `./refit launch lidar.launch.py ...`.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    GroupAction,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
    Shutdown,
)
from launch.event_handlers import OnShutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, PushRosNamespace
from launch_ros.event_handlers import OnStateTransition

from nodes.framework.launching import ARGUMENTS, number, parameter_files, shield, urgent
from nodes.framework.security import check_secure, enclave_arguments, variables

NAMES = (
    *("namespace", "secure", "keystore", "params_file", "autostart", "log_level", "use_emulators", "seed"),
    *("view", "view_port", "record", "profile", "run_directory"),
)
HERE = {"profile": {**ARGUMENTS["profile"], "default_value": "scan"}}
OWN = [
    DeclareLaunchArgument("scene", description="file with what the scanner stands in: docs/lidar.md"),
    DeclareLaunchArgument("values_file", default_value="", description="values of its parameters, from a calibration"),
    DeclareLaunchArgument("port", default_value="/dev/ttyACM0", description="of the scanner, unless it is emulated"),
    DeclareLaunchArgument(
        "seen", default_value="", description="scene of an emulated scanner, where it is not the one that is believed"
    ),
    DeclareLaunchArgument(
        "noise", default_value="1.0", description="of an emulated scanner, as a multiple of what is specified"
    ),
    DeclareLaunchArgument(
        "codes",
        default_value="false",
        choices=["true", "false"],
        description="error codes of an emulated scanner at edges",
    ),
    DeclareLaunchArgument(
        "control", default_value="", description="Unix socket by which the emulated scanner is told things"
    ),
]


def everything(context):
    value = {name: LaunchConfiguration(name).perform(context) for name in (*NAMES, *(a.name for a in OWN))}
    check_secure(value)
    if value["record"] == "true" and not value["run_directory"]:
        raise ValueError("record:=true needs run_directory:=FOLDER, which receives the bag")
    files = parameter_files(value["params_file"]).ros

    def node(name, parameters):
        return LifecycleNode(
            package="refit",
            executable=name,
            name=name,
            exec_name=name,
            namespace="",
            autostart=value["autostart"] == "true",
            output="screen",
            parameters=[*files, parameters],
            remappings=[("/clock", "clock"), ("/tf", "tf"), ("/tf_static", "tf_static")],
            ros_arguments=["--log-level", value["log_level"], *enclave_arguments(value, name)],
            prefix=shield(),
        )

    port, played = value["port"], []
    if value["use_emulators"] == "true":
        folder = Path(tempfile.mkdtemp(prefix="refit-devices-"))
        port = str(folder / "urg")
        played = [_emulator(value, port), _tidy(folder)]
    explained = node(
        "lidar",
        {
            "scene": value["scene"],
            "values_file": value["values_file"],
            **({"directory": value["run_directory"]} if value["run_directory"] else {}),
        },
    )
    hopeless = RegisterEventHandler(
        OnStateTransition(
            target_lifecycle_node=explained,
            start_state="configuring",
            goal_state="unconfigured",
            entities=[Shutdown(reason="the node lidar cannot be configured, see above")],
        )
    )
    viewed = {"robot": "", "port": number("view_port", value["view_port"], int)}
    return [
        *(SetEnvironmentVariable(name, given) for name, given in variables(value).items()),
        # The recorder first: what it misses at the start is lost.
        *([_recorder(node, value)] if value["record"] == "true" else []),
        *played,
        hopeless,
        explained,
        node("urg", {"serial_port": port, "frame_id": "laser"}),
        *([node("view", viewed)] if value["view"] == "true" else []),
    ]


def _recorder(node, value):
    return node("recorder", {"bag": f"{value['run_directory']}/bag", "profile": value["profile"]})


def _emulator(value, port):
    words = ["--scene", value["seen"] or value["scene"], "--link", port, "--seed", value["seed"]]
    words += ["--noise", str(number("noise", value["noise"]))]
    words += [] if value["codes"] == "true" else ["--no-codes"]
    words += ["--control", value["control"]] if value["control"] else []
    return ExecuteProcess(
        cmd=[sys.executable, "-m", "nodes.plant.lidar_emulator", "urg", *words],
        name="emulated_urg",
        output="screen",
        prefix=urgent(),
    )


def _tidy(folder):
    def remove(event, context):
        shutil.rmtree(folder, ignore_errors=True)

    return RegisterEventHandler(OnShutdown(on_shutdown=remove))


def generate_launch_description():
    return LaunchDescription(
        [
            *OWN,
            *(DeclareLaunchArgument(name, **{**ARGUMENTS[name], **HERE.get(name, {})}) for name in NAMES),
            GroupAction([PushRosNamespace(LaunchConfiguration("namespace")), OpaqueFunction(function=everything)]),
        ]
    )
