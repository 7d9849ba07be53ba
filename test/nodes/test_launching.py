"""What launch files share: arguments mean the same everywhere, and bad values name themselves."""

import importlib.util
from pathlib import Path

import pytest

from nodes.launching import ARGUMENTS, is_physical, number
from nodes.robot_devices import robot_devices

LAUNCH = Path(__file__).resolve().parents[2] / "launch"


def declared(name):
    spec = importlib.util.spec_from_file_location(name.replace(".", "_"), LAUNCH / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {a.name: a for a in module.generate_launch_description().get_launch_arguments()}


@pytest.mark.parametrize("name", ["robot.launch.py", "sim.launch.py", "record.launch.py", "drivers.launch.py"])
def test_every_argument_is_described_and_means_the_same(name):
    for argument in declared(name).values():
        assert argument.description and argument.description != "no description given"
        assert argument.choices == ARGUMENTS.get(argument.name, {}).get("choices", argument.choices)


def test_a_simulation_takes_whatever_the_robot_takes():
    """Except what leads to devices, in place of which it has a plant."""
    assert set(declared("robot.launch.py")) - {"drivers", "use_emulators", "devices"} < set(declared("sim.launch.py"))


def test_devices_of_a_robot_lead_to_their_emulators(tmp_path):
    *sensors, servos = robot_devices("dxl_arm")
    assert servos.node == "dynamixel" and [d.node for d in sensors] == ["urg", "ft_sensor", "camera"]
    placed = servos.placed(folder="/f", world="/w", here="/h", ip="127.1.1.1")
    assert placed.emulated["port_name"] == placed.emulator[placed.emulator.index("--link") + 1] == "/f/servos"
    assert [d.node for d in robot_devices("dxl_arm", "dynamixel, urg")] == ["urg", "dynamixel"]
    assert robot_devices("panda") == []
    with pytest.raises(ValueError, match="has no toaster, only urg, ft_sensor, camera, dynamixel"):
        robot_devices("dxl_arm", "toaster")
    (tmp_path / "odd.yaml").write_text("servos: {emulater: [dynamixel]}\n")
    with pytest.raises(ValueError, match="servos has emulater, expected only emulated, emulator"):
        robot_devices("odd", folder=tmp_path)


def test_numbers_and_files_name_the_argument_they_came_with(tmp_path):
    assert number("seed", "3", int) == 3 and number("real_time_factor", "0.5") == 0.5
    with pytest.raises(ValueError, match="seed:=1.5: expected a whole number"):
        number("seed", "1.5", int)
    with pytest.raises(ValueError, match="params_file:=.*cannot be read"):
        is_physical("params_file", str(tmp_path / "missing.yaml"))
    ros, physical = tmp_path / "ros.yaml", tmp_path / "physical.yaml"
    ros.write_text("/**:\n  ros__parameters:\n    horizon: 30\n")
    physical.write_text("robot: panda\nmodel_hash: 5f0c\nparameters: {}\n")
    assert is_physical("prior", str(physical)) and not is_physical("prior", str(ros)) and not is_physical("prior", "")
