"""A robot that a person acts through, in simulation: `sim.launch.py` with the bridge to the operator's page.

    ros2 launch refit teleop.launch.py
    ros2 launch refit teleop.launch.py record:=true
    ros2 launch refit teleop.launch.py host:=0.0.0.0 token_file:=token certificate:=station.pem key:=station.key

The eyes are drawn, while somebody looks, by `sim_camera`: without a graphics card 0.1 s of processor time a picture. `cameras:=''`
leaves them out, where cameras of one's own publish `camera/<name>/image/compressed`.

The page's address is printed when the bridge is active. Without a ROS distribution: `./refit launch teleop.launch.py ...`.
"""

from launch.actions import DeclareLaunchArgument

from nodes.framework.extended_simulation import REAL_TIME_FACTOR, extended_simulation, robot_of
from nodes.framework.launching import number

OWN = [
    robot_of("teleop"),
    REAL_TIME_FACTOR,
    DeclareLaunchArgument(
        "host", default_value="127.0.0.1", description="address of the page; beyond loopback with token and certificate"
    ),
    DeclareLaunchArgument("port", default_value="8090", description="of the page; 0: a free one"),
    DeclareLaunchArgument("token_file", default_value="", description="file with the token that a page has to say"),
    DeclareLaunchArgument("certificate", default_value="", description="PEM file with which the page is encrypted"),
    DeclareLaunchArgument("key", default_value="", description="PEM file with the certificate's key"),
    DeclareLaunchArgument(
        "cameras",
        default_value="left_eye,right_eye",
        description="of the robot's model that people may look through; empty: none",
    ),
    DeclareLaunchArgument("camera_rate", default_value="5.0", description="pictures a second of each, at most"),
]
#: arguments that are parameters of the bridge
BRIDGE = ("robot", "host", "token_file", "certificate", "key")


def nodes(value, node):
    bridge = {name: value[name] for name in BRIDGE}
    eyes = [name.strip() for name in value["cameras"].split(",") if name.strip()]
    seen = {"robot": value["robot"], "camera": "", "streams": eyes, "rate": number("camera_rate", value["camera_rate"])}
    return [
        node("telepresence_bridge", {**bridge, "port": number("port", value["port"], int)}),
        *([node("sim_camera", seen)] if eyes else []),
    ]


def generate_launch_description():
    return extended_simulation(OWN, nodes)
