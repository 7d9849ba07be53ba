"""Record a running robot to a rosbag2 MCAP bag.

    ros2 launch refit record.launch.py run_directory:=runs/today
    ros2 launch refit record.launch.py run_directory:=runs/today namespace:=left profile:=control

Without a ROS distribution: `./refit launch record.launch.py ...`.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, PushRosNamespace

from nodes.framework.launching import ARGUMENTS, shield
from nodes.framework.security import check_secure, enclave_arguments, variables

NAMES = ("run_directory", "namespace", "secure", "keystore", "profile", "use_sim_time", "autostart", "log_level")


def recorder(context):
    value = {name: LaunchConfiguration(name).perform(context) for name in NAMES}
    check_secure(value)
    return [
        *(SetEnvironmentVariable(name, given) for name, given in variables(value).items()),
        LifecycleNode(
            package="refit",
            executable="recorder",
            name="recorder",
            exec_name="recorder",
            namespace="",
            autostart=value["autostart"] == "true",
            output="screen",
            parameters=[
                {
                    "bag": f"{value['run_directory']}/bag",
                    "profile": value["profile"],
                    "use_sim_time": value["use_sim_time"] == "true",
                }
            ],
            remappings=[("/clock", "clock"), ("/tf", "tf"), ("/tf_static", "tf_static")],
            ros_arguments=["--log-level", value["log_level"], *enclave_arguments(value, "recorder")],
            prefix=shield(),
        ),
    ]


def generate_launch_description():
    return LaunchDescription(
        [
            DeclareLaunchArgument("run_directory", description="folder that receives `bag`; made if need be"),
            *(DeclareLaunchArgument(name, **ARGUMENTS[name]) for name in NAMES[1:]),
            GroupAction([PushRosNamespace(LaunchConfiguration("namespace")), OpaqueFunction(function=recorder)]),
        ]
    )
