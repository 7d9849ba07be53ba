"""A robot that listens to a person, in simulation: `sim.launch.py` with a camera, a stethoscope and the node that plans an exam.

    ros2 launch refit auscultation.launch.py
    ros2 launch refit auscultation.launch.py patient:=11 view:=true record:=true
    ros2 service call /auscultation/register_patient refit_interfaces/srv/RegisterPatient "{side: front}"
    ros2 action send_goal --feedback /auscultation/run_exam refit_interfaces/action/RunExam "{regions: [heart/front]}"

On a robot the camera's driver, a force-torque sensor's and an audio node under the name `stethoscope` take the places of what is
simulated here. Without a ROS distribution: `./refit launch auscultation.launch.py ...`.
"""

from launch.actions import DeclareLaunchArgument

from nodes.framework.extended_simulation import REAL_TIME_FACTOR, extended_simulation, robot_of
from nodes.framework.launching import number, typed
from nodes.planning.auscultation_config import AuscultationConfig

OWN = [
    robot_of("placement"),
    REAL_TIME_FACTOR,
    DeclareLaunchArgument(
        "patient", default_value="4", description="number of the simulated person; -1: nobody lies there"
    ),
    DeclareLaunchArgument(
        "patient_side", default_value="front", choices=["front", "back"], description="of that person that is up"
    ),
    DeclareLaunchArgument("readings", default_value="4", description="at most in a region"),
    DeclareLaunchArgument("duration", default_value="10.0", description="of a recording [s]"),
    DeclareLaunchArgument(
        "directory",
        default_value="",
        description="where recordings and checkpoints of exams go; empty: run_directory, or runs/auscultation",
    ),
]


def nodes(value, node):
    patient = {"patient": number("patient", value["patient"], int), "patient_side": value["patient_side"]}
    planning = typed(AuscultationConfig, {name: value[name] for name in ("readings", "duration")})
    directory = value["directory"] or value["run_directory"]
    return [
        node("auscultation", {**planning, **({"directory": directory} if directory else {})}),
        node("sim_camera", {"robot": value["robot"], "camera": "scan", **patient}),
        node("sim_stethoscope", patient, name="stethoscope"),
    ]


def generate_launch_description():
    return extended_simulation(
        OWN, nodes, passed=("patient", "patient_side"), here={"profile": dict(default_value="exam")}
    )
