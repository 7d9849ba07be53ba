"""The simulated robot: `robot.launch.py` with the MuJoCo plant in place of drivers, and a recorder if asked for.

    ros2 launch refit sim.launch.py
    ros2 launch refit sim.launch.py robot:=double_cartpole lockstep:=true refit:=false
    ros2 launch refit sim.launch.py scenario:='[{time: 5, action: attach, frame: hand, mass: 2.0}]' record:=true
    ros2 launch refit sim.launch.py robot:=quadruped solver:=neural      # then: ros2 topic pub -r 10 cmd_vel geometry_msgs/Twist ...
    ros2 launch refit sim.launch.py namespace:=left & ros2 launch refit sim.launch.py namespace:=right

Without a ROS distribution: `./refit launch sim.launch.py ...`. Ctrl-C ends everything with exit code 0.
"""

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
from launch_ros.actions import LifecycleNode
from launch_ros.event_handlers import OnStateTransition

from config.robot import node_parameters
from nodes.framework.launching import ARGUMENTS, parameter_files, typed, urgent
from nodes.framework.security import enclave_arguments, variables
from nodes.plant.sim_plant_config import REHEARSALS, SimPlantConfig, rehearsed_boxes
from nodes.supervision.launch_check import check_arguments

LAUNCH = Path(__file__).resolve().parent

#: passed on to robot.launch.py, where their meaning is the same
SHARED = (
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
    "view",
    "view_port",
    "view_reference",
    "record",
    "profile",
    "run_directory",
)
#: what a simulation changes in them
HERE = {"use_sim_time": dict(default_value="true"), "arm": dict(default_value="auto")}
OWN = [
    DeclareLaunchArgument(
        "real_time_factor", default_value="1.0", description="simulated seconds per second; 0: as fast as possible"
    ),
    DeclareLaunchArgument(
        "paused",
        default_value="false",
        choices=["true", "false"],
        description="start with time standing still, until set_simulation_state",
    ),
    DeclareLaunchArgument(
        "patient",
        default_value="-1",
        description="number of the simulated person who lies before a robot with a stethoscope; -1: nobody does",
    ),
    DeclareLaunchArgument(
        "patient_side", default_value="front", choices=["front", "back"], description="of that person that is up"
    ),
    DeclareLaunchArgument(
        "tray",
        default_value="",
        description="what lies before a robot with a scoop or a bucket: docs/nodes/sim_plant.md; empty: nothing",
    ),
    DeclareLaunchArgument("tray_seed", default_value="-1", description="of what lies there; -1: that of `seed`"),
    DeclareLaunchArgument(
        "rehearsal",
        default_value="",
        choices=list(REHEARSALS),
        description="task that stands before a robot which a person acts through; empty: none",
    ),
    DeclareLaunchArgument(
        "rehearsal_seed", default_value="-1", description="of where its things are; -1: that of `seed`"
    ),
    DeclareLaunchArgument(
        "object_seed", default_value="0", description="of the soft object before a robot with a probe"
    ),
]
NAMES = (*SHARED, "scenario", "seed")
#: arguments that are parameters of the plant
PLANT = (
    *("robot", "scenario", "seed", "real_time_factor", "lockstep", "patient", "patient_side", "tray", "tray_seed"),
    *("object", "object_seed", "probe", "rehearsal", "rehearsal_seed"),
)


def robot_and_plant(context):
    value = {
        name: LaunchConfiguration(name).perform(context) for name in [*NAMES, *(argument.name for argument in OWN)]
    }
    value = check_arguments(value)
    value["boxes"] = value["boxes"] or rehearsed_boxes(value["rehearsal"])
    given = parameter_files(value["params_file"])
    files = [str(node_parameters(value["robot"])), *given.ros]
    physical = {"params_file": given.physical} if given.physical else {}
    plant = LifecycleNode(
        package="refit",
        executable="sim_plant",
        name="sim_plant",
        exec_name="sim_plant",
        namespace=value["namespace"],
        autostart=value["autostart"] == "true",
        output="screen",
        parameters=[
            *files,
            {
                **typed(SimPlantConfig, {name: value[name] for name in PLANT}),
                "start_paused": value["paused"] == "true",
                **physical,
            },
        ],
        # A namespace has its own time and its own frames; without one these are the usual names.
        remappings=[("/clock", "clock"), ("/tf", "tf"), ("/tf_static", "tf_static")],
        ros_arguments=["--log-level", value["log_level"], *enclave_arguments(value, "sim_plant")],
        prefix=urgent(value["lockstep"] == "true"),
        # Without a plant nothing here makes sense; on a real robot the supervisor judges that instead.
        on_exit=Shutdown(reason="the plant has ended"),
    )
    hopeless = RegisterEventHandler(
        OnStateTransition(
            target_lifecycle_node=plant,
            start_state="configuring",
            goal_state="unconfigured",
            entities=[Shutdown(reason="the plant cannot be configured, see above")],
        )
    )
    robot = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(LAUNCH / "robot.launch.py")),
        launch_arguments=[*((name, value[name]) for name in SHARED), ("drivers", "none")],
    )
    # The recorder in it first: what it misses at the start is lost.
    guarded = [SetEnvironmentVariable(name, given) for name, given in variables(value).items()]
    return [*guarded, GroupAction([robot]), hopeless, plant]


def generate_launch_description():
    return LaunchDescription(
        [
            *(DeclareLaunchArgument(name, **{**ARGUMENTS[name], **HERE.get(name, {})}) for name in NAMES),
            *OWN,
            OpaqueFunction(function=robot_and_plant),
        ]
    )
