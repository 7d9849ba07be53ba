"""The frame of launch files that add nodes to `sim.launch.py`: a page for a person, an exam, a search.

    def nodes(value, node):
        return [node("auscultation", {"duration": value["duration"]}), node("sim_camera", {...})]

    def generate_launch_description():
        return extended_simulation(OWN, nodes, passed=("patient",), here={"profile": dict(default_value="exam")})

Launch files alone import this module, so that nodes stay free of `launch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from nodes.framework.launching import ARGUMENTS, parameter_files, shield
from nodes.framework.respawning import respawned
from nodes.framework.security import enclave_arguments, variables

__all__ = ["REAL_TIME_FACTOR", "extended_simulation", "robot_of"]

LAUNCH = Path(__file__).resolve().parents[2] / "launch"

#: passed on to sim.launch.py, where their meaning is the same
SHARED = (
    *("namespace", "secure", "keystore", "params_file", "autostart", "log_level", "arm", "lockstep"),
    *("view", "view_port", "record", "profile", "run_directory", "scenario", "seed"),
)
REAL_TIME_FACTOR = DeclareLaunchArgument(
    "real_time_factor", default_value="1.0", description="simulated seconds per second; 0: as fast as possible"
)

Values = Mapping[str, str]
MakeNode = Callable[..., LifecycleNode]


def robot_of(controller: str) -> DeclareLaunchArgument:
    """The argument `robot` of a launch file for robots that a controller runs: the first of them, unless another is named."""
    return DeclareLaunchArgument(
        "robot",
        default_value=next((robot.name for robot in loadable_robots() if robot.controller == controller), ""),
        description=f"name in config/robots; its controller is {controller}",
    )


def extended_simulation(
    own: Sequence[DeclareLaunchArgument],
    nodes: Callable[[Values, MakeNode], Sequence[LifecycleNode]],
    passed: Sequence[str] = (),
    here: Mapping[str, dict[str, Any]] = {},
) -> LaunchDescription:
    """`sim.launch.py` with more nodes.

    Args:
        own: arguments of the launch file itself; `robot` and `real_time_factor` are among them.
        nodes: arguments by name, and a function `node(executable, parameters, name="", topics={}, respawn=False)` -> the nodes that are
            added, with those of their topics called otherwise, and whether each starts again where it has died; everything ends if the
            first of them cannot be configured.
        passed: those of its own arguments that sim.launch.py takes as well. here: what it changes in shared ones.
    """
    changed: dict[str, dict[str, Any]] = {"arm": dict(default_value="auto"), **here}

    def build(context: Any) -> list:
        names = [*SHARED, *(argument.name for argument in own)]
        value = {name: LaunchConfiguration(name).perform(context) for name in names}
        files = [str(node_parameters(value["robot"])), *parameter_files(value["params_file"]).ros]

        def node(
            executable: str,
            parameters: dict[str, Any],
            name: str = "",
            topics: Mapping[str, str] = {},
            respawn: bool = False,
        ) -> LifecycleNode:
            name, autostart = name or executable, value["autostart"] == "true"

            def make(**options: Any) -> LifecycleNode:
                return LifecycleNode(
                    package="refit",
                    executable=executable,
                    name=name,
                    exec_name=name,
                    namespace=value["namespace"],
                    output="screen",
                    parameters=[*files, {**parameters, "use_sim_time": True}],
                    # A namespace has its own time and its own frames; without one these are the usual names.
                    remappings=[("/clock", "clock"), ("/tf", "tf"), ("/tf_static", "tf_static"), *topics.items()],
                    ros_arguments=["--log-level", value["log_level"], *enclave_arguments(value, name)],
                    prefix=shield(),
                    **options,
                )

            return respawned(make, autostart) if respawn else make(autostart=autostart)

        first, *others = nodes(value, node)
        hopeless = RegisterEventHandler(
            OnStateTransition(
                target_lifecycle_node=first,
                start_state="configuring",
                goal_state="unconfigured",
                entities=[Shutdown(reason="a node of this launch file cannot be configured, see above")],
            )
        )
        simulation = IncludeLaunchDescription(
            PythonLaunchDescriptionSource(str(LAUNCH / "sim.launch.py")),
            launch_arguments=[(name, value[name]) for name in (*SHARED, "robot", "real_time_factor", *passed)],
        )
        guarded = [SetEnvironmentVariable(name, given) for name, given in variables(value).items()]
        return [*guarded, simulation, *others, hopeless, first]

    return LaunchDescription(
        [
            *own,
            *(DeclareLaunchArgument(name, **{**ARGUMENTS[name], **changed.get(name, {})}) for name in SHARED),
            OpaqueFunction(function=build),
        ]
    )
