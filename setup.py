"""The ROS 2 package `refit` (ament_python), built by colcon."""

from pathlib import Path

from setuptools import find_namespace_packages, setup

NAME = "refit"
HERE = Path(__file__).resolve().parent
FOLDERS = ("sim_core", "nodes", "hardware", "recording", "reporting", "cli", "demo", "experiments", "benchmarks")


def shared(folder):
    """(destination, files) for every folder below `folder`: share/refit mirrors the checkout."""
    groups = {}
    for path in sorted((HERE / folder).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            relative = path.relative_to(HERE)
            groups.setdefault(f"share/{NAME}/{relative.parent}", []).append(str(relative))
    return sorted(groups.items())


setup(
    name=NAME,
    version="0.1.0",
    description="A robotics stack whose simulator refits itself to the robot.",
    maintainer="refit maintainers",
    maintainer_email="refit@example.org",
    license="Apache-2.0",
    packages=find_namespace_packages(include=[pattern for name in FOLDERS for pattern in (name, f"{name}.*")]),
    # C runtime sources, CUDA text and templates travel beside the modules that read them.
    package_data={"": ["*.c", "*.h", "*.cu", "*.j2", "*.yaml"]},
    python_requires=">=3.11,<3.13",
    install_requires=["setuptools"],
    zip_safe=False,
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        *shared("launch"),
        *shared("config"),
    ],
    entry_points={
        "console_scripts": [
            "sim_plant = nodes.entry:sim_plant",
            "adaptive_mpc = nodes.entry:adaptive_mpc",
            "refit_worker = nodes.entry:refit_worker",
            "stance_controller = nodes.entry:stance_controller",
            "recorder = nodes.entry:recorder",
            "supervisor = nodes.entry:supervisor",
            "robot_state = nodes.entry:robot_state",
            "robotiq = nodes.entry:robotiq",
            "ability_hand = nodes.entry:ability_hand",
            "rangefinder = nodes.entry:rangefinder",
            "estop = nodes.entry:estop",
            "force_torque = nodes.entry:force_torque",
            "static_transform = nodes.entry:static_transform",
            "audio = nodes.entry:audio",
            "augmentation = nodes.entry:augmentation",
            "inference = nodes.entry:inference",
            "dynamixel = nodes.entry:dynamixel",
            "urg = nodes.entry:urg",
            "realsense = nodes.entry:realsense",
        ]
    },
)
