"""What launch files share: arguments mean the same everywhere, and bad values name themselves."""

import importlib.util
from pathlib import Path

import pytest

from nodes.devices.robot_devices import robot_devices
from nodes.framework.launching import ARGUMENTS, ParameterFiles, is_physical, number, parameter_files, shield, urgent

LAUNCH = Path(__file__).resolve().parents[3] / "launch"


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


def test_devices_of_a_robot_lead_to_their_emulators():
    *sensors, servos = robot_devices("dxl_arm")
    assert servos.node == "dynamixel" and [d.node for d in sensors] == ["urg", "ft_sensor", "camera"]
    placed = servos.placed(folder="/f", world="/w", here="/h", ip="127.1.1.1")
    assert placed.emulated["port_name"] == placed.emulator[placed.emulator.index("--link") + 1] == "/f/servos"
    assert [d.node for d in robot_devices("dxl_arm", "dynamixel, urg")] == ["urg", "dynamixel"]
    assert robot_devices("panda") == []
    with pytest.raises(ValueError, match="has no toaster, only urg, ft_sensor, camera, dynamixel"):
        robot_devices("dxl_arm", "toaster")
    with pytest.raises(ValueError, match="panda has no toaster, and no other device either"):
        robot_devices("panda", "toaster")


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


def test_several_parameter_files_are_taken_in_order(tmp_path):
    tool, servos, physical, other = (
        tmp_path / name for name in ("ft_sensor.yaml", "dynamixel.yaml", "parameters.yaml", "other.yaml")
    )
    tool.write_text("/**/ft_sensor:\n  ros__parameters: {tool.mass: 0.2}\n")
    servos.write_text("left:\n  dynamixel:\n    ros__parameters: {update_rate: 200.0}\n")
    physical.write_text("robot: panda\nmodel_hash: 5f0c\nparameters: {}\n")
    assert parameter_files("") == ParameterFiles((), "")
    assert parameter_files(f"{tool}") == ParameterFiles((str(tool),), "")
    assert parameter_files(f"{servos}, {physical},{tool},") == ParameterFiles((str(servos), str(tool)), str(physical))
    other.write_text(physical.read_text())
    for text, said in (
        (f"{tool},{tmp_path}/none.yaml", "none.yaml: cannot be read"),
        (f"{tool},{servos},{tool}", "ft_sensor.yaml comes twice"),
        (f"{physical},{other}", "both hold physical parameters"),
    ):
        with pytest.raises(ValueError, match=f"^params_file:=.*{said}"):
            parameter_files(text)
    for content, said in (
        ("a: [1\n", "is no YAML .line 2"),
        ("", "holds neither"),
        ("[1, 2]", "holds neither"),
        ("dynamixel: {update_rate: 5}", "holds neither"),
        ("a: {ros__parameters: {x: 1}}\nb: 3\n", "holds neither"),
    ):
        other.write_text(content)
        with pytest.raises(ValueError, match=f"other.yaml: {said}"):
            parameter_files(f"{tool},{other}")


def test_of_several_files_the_last_one_wins(ros, tmp_path):
    """As the launch files hand them to a node."""
    arguments = []
    for name, values in (
        ("profile", "{translation: {x: 1.0, y: 1.0, z: 1.0}}"),
        ("first", "{translation.x: 2.0, translation.y: 2.0}"),
        ("second", "{translation.x: 3.0}"),
    ):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"/**/static_transform:\n  ros__parameters: {values}\n")
        arguments += [] if name == "profile" else [str(path)]
    given = parameter_files(",".join(arguments)).ros
    files = [x for path in (tmp_path / "profile.yaml", *given) for x in ("--params-file", str(path))]
    ros.start("static_transform", *files, frame_id="a", child_frame_id="b")
    values = ros.parameters("static_transform", "translation.x", "translation.y", "translation.z")
    assert [value.double_value for value in values] == [3.0, 2.0, 1.0]


@pytest.mark.process
def test_what_moves_a_robot_comes_first_but_in_lock_step():
    assert urgent() == f"{shield()} nice -n -10".lstrip() and urgent(lockstep=True) == shield()
    assert urgent().split()[0] in ("env", "nice")
