"""A robot that a person acts through, in simulation: `sim.launch.py` with the bridge to the operator's page.

    ros2 launch refit teleop.launch.py
    ros2 launch refit teleop.launch.py record:=true
    ros2 launch refit teleop.launch.py host:=0.0.0.0 token_file:=token certificate:=station.pem key:=station.key

The page's address is printed when the bridge is active. Without a ROS distribution: `./refit launch teleop.launch.py ...`.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
    Shutdown,
)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode
from launch_ros.event_handlers import OnStateTransition

from config.robot import loadable_robots, node_parameters
from nodes.framework.launching import ARGUMENTS, number, parameter_files, shield
from nodes.framework.security import enclave_arguments, variables

LAUNCH = Path(__file__).resolve().parent

#: passed on to sim.launch.py, where their meaning is the same
SHARED = (
    *("namespace", "secure", "keystore", "params_file", "autostart", "log_level", "arm", "lockstep"),
    *("view", "view_port", "record", "profile", "run_directory", "scenario", "seed"),
)
#: what a session with a person changes in them: nothing moves before somebody has armed
HERE = {"arm": dict(default_value="auto")}
OWN = [
    DeclareLaunchArgument(
        "robot",
        default_value=next((robot.name for robot in loadable_robots() if robot.controller == "teleop"), ""),
        description="name in config/robots; its controller is teleop",
    ),
    DeclareLaunchArgument(
        "real_time_factor", default_value="1.0", description="simulated seconds per second; 0: as fast as possible"
    ),
    DeclareLaunchArgument(
        "host", default_value="127.0.0.1", description="address of the page; beyond loopback with token and certificate"
    ),
    DeclareLaunchArgument("port", default_value="8090", description="of the page; 0: a free one"),
    DeclareLaunchArgument("token_file", default_value="", description="file with the token that a page has to say"),
    DeclareLaunchArgument("certificate", default_value="", description="PEM file with which the page is encrypted"),
    DeclareLaunchArgument("key", default_value="", description="PEM file with the certificate's key"),
]
#: arguments that are parameters of the bridge
BRIDGE = ("robot", "host", "token_file", "certificate", "key")


def robot_and_bridge(context):
    names = [*SHARED, *(argument.name for argument in OWN)]
    value = {name: LaunchConfiguration(name).perform(context) for name in names}
    files = [str(node_parameters(value["robot"])), *parameter_files(value["params_file"]).ros]
    bridge = LifecycleNode(
        package="refit",
        executable="telepresence_bridge",
        name="telepresence_bridge",
        exec_name="telepresence_bridge",
        namespace=value["namespace"],
        autostart=value["autostart"] == "true",
        output="screen",
        parameters=[
            *files,
            {
                **{name: value[name] for name in BRIDGE},
                "port": number("port", value["port"], int),
                "use_sim_time": True,
            },
        ],
        remappings=[("/clock", "clock")],
        ros_arguments=["--log-level", value["log_level"], *enclave_arguments(value, "telepresence_bridge")],
        prefix=shield(),
    )
    hopeless = RegisterEventHandler(
        OnStateTransition(
            target_lifecycle_node=bridge,
            start_state="configuring",
            goal_state="unconfigured",
            entities=[Shutdown(reason="the bridge cannot be configured, see above")],
        )
    )
    simulation = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(LAUNCH / "sim.launch.py")),
        launch_arguments=[(name, value[name]) for name in (*SHARED, "robot", "real_time_factor")],
    )
    guarded = [SetEnvironmentVariable(name, given) for name, given in variables(value).items()]
    return [*guarded, simulation, hopeless, bridge]


def generate_launch_description():
    return LaunchDescription(
        [
            *OWN,
            *(DeclareLaunchArgument(name, **{**ARGUMENTS[name], **HERE.get(name, {})}) for name in SHARED),
            OpaqueFunction(function=robot_and_bridge),
        ]
    )
