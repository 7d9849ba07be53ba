"""The drivers of a robot's devices, on its hardware or on emulators that a simulated robot moves.

    ros2 launch refit drivers.launch.py robot:=dxl_arm
    ros2 launch refit drivers.launch.py robot:=dxl_arm use_emulators:=true devices:=dynamixel,urg

Without a ROS distribution: `./refit launch drivers.launch.py ...`. The nodes are the same in both cases, and so is what
travels on their wires; only the ports' names differ. robot.launch.py is this plus controller, refit and supervisor.

Here no supervisor runs, so that whoever likes may command the drivers, within their limits; with supervised:=true they
wait for one that is started otherwise.
"""

import shutil
import sys
import tempfile
import zlib
from pathlib import Path

from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    GroupAction,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
)
from launch.event_handlers import OnShutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, PushRosNamespace

from config.robot import node_parameters, robot_folder
from nodes.devices.robot_devices import robot_devices
from nodes.framework.launching import ARGUMENTS, parameter_files, shield, typed, urgent
from nodes.framework.security import enclave_arguments, variables
from nodes.plant.emulator_program import emulator_program
from nodes.plant.sim_plant_config import SimPlantConfig
from nodes.supervision.launch_check import check_arguments

NAMES = (
    "robot",
    "namespace",
    "secure",
    "keystore",
    "params_file",
    "autostart",
    "log_level",
    "drivers",
    "supervised",
    "use_emulators",
    "devices",
    "scenario",
    "seed",
)
#: drivers that move something, and ask a supervisor whether they may
ACTUATORS = ("dynamixel", "robotiq", "ability_hand")


def drivers(context):
    value = {name: LaunchConfiguration(name).perform(context) for name in NAMES}
    value = check_arguments(value)
    devices = robot_devices(value["robot"], value["devices"])
    if not devices:
        raise ValueError(
            f"robot:={value['robot']} has no devices in its robot.yaml: its joint states come from elsewhere"
        )
    emulated = value["use_emulators"] == "true"
    files = [str(node_parameters(value["robot"])), *parameter_files(value["params_file"]).ros]
    autostart = value["autostart"] == "true" and value["drivers"] == "auto"
    actions = []
    if emulated:
        folder = Path(tempfile.mkdtemp(prefix="refit-devices-"))
        number_of_launch = zlib.crc32(str(folder).encode())
        places = dict(
            folder=str(folder),
            here=str(robot_folder(value["robot"])),
            world=_world(folder),
            ip=f"127.{1 + number_of_launch % 250}.{1 + number_of_launch // 250 % 250}.1",
        )
        devices = [device.placed(**places) for device in devices]
        actions = [_plant(value, files, places["world"]), *map(_emulator, devices), _tidy(folder, places["world"])]
    return [
        *(SetEnvironmentVariable(name, given) for name, given in variables(value).items()),
        *actions,
        _frames(value, files),
        *(_driver(device, files, value, emulated, autostart) for device in devices),
    ]


def _world(folder: Path) -> str:
    memory = Path("/dev/shm")
    return str((memory if memory.is_dir() else folder) / f"{folder.name}.world")


def _plant(value, files, world):
    return LifecycleNode(
        package="refit",
        executable="sim_plant",
        name="sim_plant",
        exec_name="sim_plant",
        namespace="",
        autostart=True,
        output="screen",
        parameters=[
            *files,
            {
                **typed(SimPlantConfig, {name: value[name] for name in ("robot", "scenario", "seed")}),
                "world": world,
                "position_noise": 0.0,
                "velocity_noise": 0.0,
                "tf_period": 0.0,
            },
        ],
        remappings=[("/tf", "tf"), ("/tf_static", "tf_static")],
        ros_arguments=["--log-level", value["log_level"], *enclave_arguments(value, "sim_plant")],
        prefix=urgent(),
    )


def _frames(value, files):
    """Description and frames of the robot, as its drivers measure it."""
    return LifecycleNode(
        package="refit",
        executable="robot_state",
        name="robot_state",
        exec_name="robot_state",
        namespace="",
        autostart=True,
        output="screen",
        parameters=[*files, {"robot": value["robot"]}],
        remappings=[("/tf", "tf"), ("/tf_static", "tf_static")],
        ros_arguments=["--log-level", value["log_level"], *enclave_arguments(value, "robot_state")],
        prefix=shield(),
    )


def _emulator(device):
    return ExecuteProcess(
        cmd=[sys.executable, "-m", emulator_program(list(device.emulator)), *device.emulator],
        name=f"emulated_{device.node}",
        output="screen",
        prefix=urgent(),
    )


def _driver(device, files, value, emulated, autostart):
    alone = value["supervised"] == "false"
    return LifecycleNode(
        package="refit",
        executable=device.executable,
        name=device.node,
        exec_name=device.node,
        namespace=device.namespace,
        autostart=autostart,
        output="screen",
        parameters=[
            *files,
            *([dict(device.emulated)] if emulated and device.emulated else []),
            *([{"require_supervisor": False}] if alone and device.executable in ACTUATORS else []),
        ],
        remappings=[("/tf", "tf"), ("/tf_static", "tf_static"), *device.remap.items()],
        ros_arguments=["--log-level", value["log_level"], *enclave_arguments(value, device.node, device.namespace)],
        prefix=urgent(),
    )


def _tidy(folder, world):
    def remove(event, context):
        shutil.rmtree(folder, ignore_errors=True)
        Path(world).unlink(missing_ok=True)

    return RegisterEventHandler(OnShutdown(on_shutdown=remove))


def generate_launch_description():
    return LaunchDescription(
        [
            *(DeclareLaunchArgument(name, **ARGUMENTS[name]) for name in NAMES),
            GroupAction([PushRosNamespace(LaunchConfiguration("namespace")), OpaqueFunction(function=drivers)]),
        ]
    )
