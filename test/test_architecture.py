"""Arrows run one way: launch -> nodes -> {sim_core, hardware}. Enforced on what the sources import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROS = {
    "rclpy", "launch", "launch_ros", "launch_pytest", "launch_front", "ament_index_python", "refit_interfaces",
    "simulation_interfaces", "tf2_msgs", "builtin_interfaces", "action_msgs", "rcl_interfaces", "rosgraph_msgs",
    "std_msgs", "std_srvs", "sensor_msgs", "geometry_msgs", "nav_msgs", "trajectory_msgs", "diagnostic_msgs",
    "lifecycle_msgs", "visualization_msgs", "unique_identifier_msgs", "control_msgs", "audio_common_msgs",
    "realsense2_camera_msgs",
}  # fmt: skip
#: folder -> what its modules may not import
FORBIDDEN = {
    "sim_core": ROS | {"hardware", "nodes", "cli", "recording", "experiments", "benchmarks"},
    "hardware": ROS | {"sim_core", "nodes", "cli", "recording", "experiments", "benchmarks"},
    "recording": ROS | {"sim_core", "nodes", "hardware", "cli", "experiments", "benchmarks"},
    "reporting": ROS | {"sim_core", "nodes", "hardware", "cli", "recording", "experiments", "benchmarks"},
    "nodes": {"cli", "experiments", "benchmarks", "launch", "launch_ros"},
    "launch": {"sim_core", "hardware", "cli", "experiments", "benchmarks"},
    "pip_ros": {"sim_core", "hardware", "nodes", "cli", "recording", "reporting", "experiments", "benchmarks"},
}
#: rivals and test robots: extras, never dependencies
EXTRAS = {"crocoddyl", "pinocchio", "example_robot_data", "hypothesis", "pytest"}


def modules(folder):
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if "__pycache__" not in path.parts]


def imports(path):
    """Top-level names of everything a file imports, however deep inside functions."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.partition(".")[0], node.lineno


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_layers(folder):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(folder)
        for name, line in imports(path)
        if name in FORBIDDEN[folder]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "folder", ["sim_core", "hardware", "nodes", "recording", "reporting", "cli", "launch", "experiments"]
)
def test_extras_are_not_dependencies(folder):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(folder)
        for name, line in imports(path)
        if name in EXTRAS
    ]
    assert not wrong, "\n".join(wrong)


def test_algorithms_load_without_ros():
    """Every module of sim_core, with ROS made unimportable."""
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in modules("sim_core")
    ]
    program = f"""
import importlib, importlib.abc, sys
class Wall(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(ROS)!r}:
            raise ModuleNotFoundError("ROS is out of bounds: " + name)
sys.meta_path.insert(0, Wall())
for name in {names!r}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_launch_folder_is_no_package():
    """An __init__.py would shadow ROS's package `launch` for whoever stands in the checkout."""
    assert not (ROOT / "launch" / "__init__.py").exists()


def test_nothing_names_the_machine_it_was_written_on():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    wrong = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in {".png", ".jpg"} or not path.is_file() or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        wrong += [f"{name}: {word}" for word in (f"{ROOT}/", f"{Path.home()}/", "/home/") if word in text]
    assert not wrong, "\n".join(wrong)
