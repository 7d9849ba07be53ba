"""Launch arguments that nothing could work with, said before anything is started.

`./refit launch` asks this first and ends with exit code 2; the launch files ask it as well, for those who start them
otherwise. What may be given is said by what takes it: the settings that nodes declare, and the plant, the robot and the
parameter files themselves. There is no second list.
"""

from __future__ import annotations

from collections.abc import Mapping

from rclpy.exceptions import InvalidNamespaceException
from rclpy.validate_namespace import validate_namespace

from config.robot import DEFAULT, load_robot, node_parameters
from nodes.devices.robot_devices import robot_devices
from nodes.framework.launching import is_physical, number, parameter_files, typed
from nodes.framework.security import check_secure
from nodes.plant.sim_plant_config import SimPlantConfig
from sim_core.adoption import AdoptionError, adopted

__all__ = ["check_arguments"]


def check_arguments(value: Mapping[str, str]) -> dict[str, str]:
    """Refuse what would otherwise end a node, or be found out when half of the nodes run.

    Args:
        value: {launch argument: text}; what is missing or "" has its default.

    Returns:
        The same, with the folder of a robot that was given as a model file.

    Raises:
        ValueError: one sentence that names the argument, what was found and what may be.
    """
    try:
        robot, scenario = adopted(value.get("robot") or DEFAULT), value.get("scenario", "")
    except AdoptionError as error:
        raise ValueError(f"robot:={value['robot']}: {error}") from None
    files, prior = parameter_files(value.get("params_file", "")), value.get("prior", "")
    _check_namespace(value.get("namespace", ""))
    check_secure(value)
    typed(SimPlantConfig, value)
    if value.get("view") == "true":
        _check_view(value)
    try:
        node_parameters(robot)
        described = load_robot(robot)
        robot_devices(robot, value.get("devices", ""))
    except FileNotFoundError as error:
        raise ValueError(f"robot:={robot}: {error}") from None
    if prior and prior != "start" and not is_physical("prior", prior):
        raise ValueError(
            f"prior:={prior}: holds no physical parameters; give a parameters.yaml of a demo or identify, or 'start'"
        )
    if files.physical or scenario:
        _check_plant(robot, scenario, files.physical)
    start, free = prior or files.physical, value.get("free", "")
    if free and described.controller != "adaptive_mpc":
        raise ValueError(f"free:={free}: {described.name} is not refitted; leave it out")
    if described.controller == "adaptive_mpc" and (start or free):
        # Only a controller that starts from a file, or a refit of more than usual, needs the articulated model, and CasADi with it.
        from nodes.control.robot_task import free_parameters, physical_vector, robot_model

        try:
            free_parameters(described, model := robot_model(robot, free, start), free=free)
        except (ValueError, KeyError) as error:
            raise ValueError(f"free:={free}: {error}") from None
        physical_vector(described, model, start)
    return {**value, "robot": robot}


def _check_view(value: Mapping[str, str]) -> None:
    """The page needs its packages and its port; a launch that asked for it would go on without it."""
    from nodes.view.stage.page import check_page

    port = number("view_port", value.get("view_port") or "8080", int)
    try:
        check_page(port)
    except (ImportError, OSError, OverflowError) as error:
        raise ValueError(f"view:=true view_port:={port}: {error}") from None


def _check_plant(robot: str, scenario: str, physical: str) -> None:
    """A plant tries every event of its scenario when it is made, and says what is wrong with its parameters."""
    from sim_core.plant import MujocoPlant

    try:
        MujocoPlant(robot, scenario=scenario, params_file=physical)
    except ValueError as error:
        told = " ".join(str(error).split())  # YAML's parser and MuJoCo's compiler take several lines
        raise ValueError(f"{f'scenario:={scenario:.80}: ' if scenario else ''}{told}") from None


def _check_namespace(namespace: str) -> None:
    if not namespace:
        return
    try:
        validate_namespace(f"/{namespace.lstrip('/')}")
    except InvalidNamespaceException:
        raise ValueError(
            f"namespace:={namespace}: expected letters, digits and underscores, not beginning with a digit, in parts "
            "separated by '/'"
        ) from None
