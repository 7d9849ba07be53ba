"""A robot that a person acts through, in simulation: `sim.launch.py` with the bridge to the operator's page.

    ros2 launch refit teleop.launch.py
    ros2 launch refit teleop.launch.py record:=true
    ros2 launch refit teleop.launch.py host:=0.0.0.0 token_file:=token certificate:=station.pem key:=station.key

The eyes are drawn, while somebody looks, by `sim_camera`: without a graphics card 0.1 s of processor time a picture. `cameras:=none`
leaves them out, where cameras of one's own publish `camera/<name>/image/compressed`.

What the right wrist's camera sees is scanned for its texture when an operator asks (`texture_scan`); that camera draws only while a
scan runs. `texture:=left_wrist` looks with the other one, `texture:=none` leaves both nodes out. `surface:=gravel` puts a plate before it.

People hear through the robot where it has a microphone (`microphone:=default`, or a part of an input's name; without one, a WAV file or
`microphone:=synth`), and the operator speaks where it has a loudspeaker (`voice:=default`, or a part of an output's name). Both are off
unless asked for.

The page's address is printed when the bridge is active. Without a ROS distribution: `./refit launch teleop.launch.py ...`.
"""

from launch.actions import DeclareLaunchArgument

from nodes.framework.extended_simulation import REAL_TIME_FACTOR, extended_simulation, robot_of
from nodes.framework.launching import ARGUMENTS, number
from nodes.plant.sim_plant_config import REHEARSALS

#: what leaves something out; the command line knows no empty value
WITHOUT = ("", "none")
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
        description="of the robot's model that people may look through; none: without",
    ),
    DeclareLaunchArgument("camera_rate", default_value="5.0", description="pictures a second of each, at most"),
    DeclareLaunchArgument(
        "microphone",
        default_value="",
        description="that people may listen to: default or a part of an input's name, a WAV file (played over and over), "
        "or synth, a synthetic chest; empty: none",
    ),
    DeclareLaunchArgument(
        "voice",
        default_value="",
        description="loudspeaker for the operator's voice: default or a part of an output's name; empty: nobody speaks",
    ),
    DeclareLaunchArgument(
        "texture",
        default_value="right_wrist",
        choices=[*WITHOUT, "right_wrist", "left_wrist"],
        description="camera that looks at a surface's texture when an operator asks; none: without",
    ),
    DeclareLaunchArgument(
        "rehearsal",
        default_value="",
        choices=list(REHEARSALS),
        description="task that stands before the robot: docs/telepresence.md; empty: none",
    ),
    DeclareLaunchArgument("rehearsal_seed", default_value="0", description="of where its things are"),
    DeclareLaunchArgument("boxes", **ARGUMENTS["boxes"]),
    DeclareLaunchArgument(
        "surface",
        default_value="",
        choices=["", "smooth", "gravel", "grooves", "cobbles", "rock"],
        description="plate that this camera sees 0.3 m before it while the arm is at home; empty: none",
    ),
]
#: of the camera of a wrist
TOPICS = ("color/image_raw", "color/camera_info", "aligned_depth_to_color/image_raw")
#: the wrist's camera draws so many rows and columns, since texture is fine
ROWS, COLUMNS = 480, 640
#: arguments that are parameters of the bridge
BRIDGE = ("robot", "host", "token_file", "certificate", "key")


def nodes(value, node):
    bridge = {name: value[name] for name in BRIDGE}
    eyes = [name.strip() for name in value["cameras"].split(",") if name.strip() not in WITHOUT]
    task = {"rehearsal": value["rehearsal"], "rehearsal_seed": number("rehearsal_seed", value["rehearsal_seed"], int)}
    seen = {
        **task,
        "robot": value["robot"],
        "camera": "",
        "streams": eyes,
        "rate": number("camera_rate", value["camera_rate"]),
    }
    return [
        node("telepresence_bridge", {**bridge, "port": number("port", value["port"], int)}, respawn=True),
        *([node("sim_camera", seen)] if eyes else []),
        *(texture(value, node, task) if value["texture"] not in WITHOUT else []),
        *([node("audio", heard(value["microphone"]), "microphone")] if value["microphone"] else []),
        *([node("speaker", {"device": value["voice"]})] if value["voice"] else []),
    ]


def heard(microphone):
    """Parameters of the node audio, whose sound needs no resampling at this rate."""
    rate = {"sample_rate": 48000}
    if microphone == "synth":
        return {**rate, "source": "synth"}
    if microphone.lower().endswith(".wav"):
        return {**rate, "source": "file", "file": microphone}
    return {**rate, "device": microphone}


def texture(value, node, task):
    side = value["texture"].removesuffix("_wrist")
    looks = {
        **task,
        **{"robot": value["robot"], "camera": value["texture"], "frame_id": f"{value['texture']}_optical_frame"},
        **{"width": COLUMNS, "height": ROWS, "points": False, "surface": value["surface"]},
        "surface_position": [0.75, -0.2 if side == "right" else 0.2, 0.93],
    }
    topics = {f"camera/{topic}": f"wrist_camera/{topic}" for topic in TOPICS}
    return [
        node("sim_camera", looks, "texture_camera", topics),
        # a rock's face is smaller than what is scanned elsewhere
        node("texture_scan", {"side": side, "square": 0.055 if value["rehearsal"] == "rocks" else 0.1}),
    ]


def generate_launch_description():
    return extended_simulation(OWN, nodes, passed=("rehearsal", "rehearsal_seed", "boxes"))
