"""A robot that listens to a person, in simulation: `sim.launch.py` with a camera, a stethoscope and the node that plans an exam.

    ros2 launch refit auscultation.launch.py
    ros2 launch refit auscultation.launch.py patient:=11 view:=true record:=true
    ros2 service call /auscultation/register_patient refit_interfaces/srv/RegisterPatient "{side: front}"
    ros2 action send_goal --feedback /auscultation/run_exam refit_interfaces/action/RunExam "{regions: [heart/front]}"

On a robot the camera's driver, a force-torque sensor's and an audio node under the name `stethoscope` take the places of what is
simulated here. Without a ROS distribution: `./refit launch auscultation.launch.py ...`.
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
from nodes.framework.launching import ARGUMENTS, number, parameter_files, shield, typed
from nodes.framework.security import enclave_arguments, variables
from nodes.planning.auscultation_config import AuscultationConfig

LAUNCH = Path(__file__).resolve().parent

#: passed on to sim.launch.py, where their meaning is the same
SHARED = (
    *("namespace", "secure", "keystore", "params_file", "autostart", "log_level", "arm", "lockstep"),
    *("view", "view_port", "record", "profile", "run_directory", "scenario", "seed"),
)
#: what an exam changes in them
HERE = {"arm": dict(default_value="auto"), "profile": dict(default_value="exam")}
OWN = [
    DeclareLaunchArgument(
        "robot",
        default_value=next((robot.name for robot in loadable_robots() if robot.controller == "placement"), ""),
        description="name in config/robots; its controller is placement",
    ),
    DeclareLaunchArgument(
        "real_time_factor", default_value="1.0", description="simulated seconds per second; 0: as fast as possible"
    ),
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


def robot_and_exam(context):
    names = [*SHARED, *(argument.name for argument in OWN)]
    value = {name: LaunchConfiguration(name).perform(context) for name in names}
    files = [str(node_parameters(value["robot"])), *parameter_files(value["params_file"]).ros]
    patient = {"patient": number("patient", value["patient"], int), "patient_side": value["patient_side"]}
    directory = value["directory"] or value["run_directory"]

    def node(executable, name, parameters):
        return LifecycleNode(
            package="refit",
            executable=executable,
            name=name,
            exec_name=name,
            namespace=value["namespace"],
            autostart=value["autostart"] == "true",
            output="screen",
            parameters=[*files, {**parameters, "use_sim_time": True}],
            remappings=[("/clock", "clock"), ("/tf", "tf"), ("/tf_static", "tf_static")],
            ros_arguments=["--log-level", value["log_level"], *enclave_arguments(value, name)],
            prefix=shield(),
        )

    planning = typed(AuscultationConfig, {name: value[name] for name in ("readings", "duration")})
    exam = node("auscultation", "auscultation", {**planning, **({"directory": directory} if directory else {})})
    hopeless = RegisterEventHandler(
        OnStateTransition(
            target_lifecycle_node=exam,
            start_state="configuring",
            goal_state="unconfigured",
            entities=[Shutdown(reason="the exam's node cannot be configured, see above")],
        )
    )
    simulation = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(LAUNCH / "sim.launch.py")),
        launch_arguments=[
            (name, value[name]) for name in (*SHARED, "robot", "real_time_factor", "patient", "patient_side")
        ],
    )
    camera = node("sim_camera", "sim_camera", {"robot": value["robot"], "camera": "scan", **patient})
    stethoscope = node("sim_stethoscope", "stethoscope", patient)
    guarded = [SetEnvironmentVariable(name, given) for name, given in variables(value).items()]
    return [*guarded, simulation, camera, stethoscope, hopeless, exam]


def generate_launch_description():
    return LaunchDescription(
        [
            *OWN,
            *(DeclareLaunchArgument(name, **{**ARGUMENTS[name], **HERE.get(name, {})}) for name in SHARED),
            OpaqueFunction(function=robot_and_exam),
        ]
    )
