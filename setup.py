"""The ROS 2 package `refit` (ament_python), built by colcon."""

import runpy
from pathlib import Path

from setuptools import find_namespace_packages, setup

NAME = "refit"
HERE = Path(__file__).resolve().parent
#: import packages; of `config`, whose folders are data, only the modules in it
FOLDERS = (
    "sim_core",
    "nodes",
    "hardware",
    "recording",
    "reporting",
    "identification",
    "scripting",
    "cli",
    "experiments",
    "benchmarks",
)
#: what travels beside modules: C runtime sources, CUDA text, templates, and the operator's page
FILES = [
    *("*.c", "*.h", "*.cu", "*.j2", "*.yaml", "py.typed"),
    *("*.html", "*.js", "*.css", "*.json", "*.woff2", "*.glb", "*.svg", "*.png", "*.txt"),
]
NODES = runpy.run_path(str(HERE / "nodes" / "table.py"))["NODES"]


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
    packages=find_namespace_packages(
        include=["config", *(pattern for name in FOLDERS for pattern in (name, f"{name}.*"))]
    ),
    package_data={"": FILES},
    python_requires=">=3.11,<3.13",
    install_requires=["setuptools"],
    zip_safe=False,
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        *shared("launch"),
        *shared("config"),
        *shared("data"),
    ],
    entry_points={"console_scripts": [f"{name} = nodes.framework.entry:{name}" for name in NODES]},
)
