"""Record a running robot to a rosbag2 MCAP bag.

    ros2 launch refit record.launch.py run_directory:=runs/today
    ros2 launch refit record.launch.py run_directory:=runs/today namespace:=left profile:=control

Without a ROS distribution: `./refit launch record.launch.py ...`.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, PushRosNamespace

from nodes.entry import shield

ARGUMENTS = [
    DeclareLaunchArgument("run_directory", description="folder that receives `bag`; made if need be"),
    DeclareLaunchArgument("namespace", default_value="", description="namespace of the robot to record"),
    DeclareLaunchArgument("profile", default_value="control", choices=["full", "control", "identify"],
                          description="which topics: recording/profiles.yaml lists them"),
    DeclareLaunchArgument("use_sim_time", default_value="false", choices=["true", "false"],
                          description="take time from the clock topic"),
    DeclareLaunchArgument("autostart", default_value="true", choices=["true", "false"],
                          description="configure and activate the recorder"),
    DeclareLaunchArgument("log_level", default_value="info", choices=["debug", "info", "warn", "error", "fatal"],
                          description="logging threshold"),
]


def recorder(context):
    value = {argument.name: LaunchConfiguration(argument.name).perform(context) for argument in ARGUMENTS}
    return [
        LifecycleNode(
            package="refit", executable="recorder", name="recorder", namespace="",
            autostart=value["autostart"] == "true", output="screen",
            parameters=[{"bag": f"{value['run_directory']}/bag", "profile": value["profile"],
                         "use_sim_time": value["use_sim_time"] == "true"}],
            remappings=[("/clock", "clock"), ("/tf", "tf"), ("/tf_static", "tf_static")],
            ros_arguments=["--log-level", value["log_level"]],
            prefix=shield(),
        )
    ]


def generate_launch_description():
    return LaunchDescription([
        *ARGUMENTS,
        GroupAction([PushRosNamespace(LaunchConfiguration("namespace")), OpaqueFunction(function=recorder)]),
    ])
