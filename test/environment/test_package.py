"""package.xml, setup.py and the installed package agree with each other and with the tree."""

import ast
import importlib.metadata
import os
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

from nodes.table import NODES

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = xml.parse(ROOT / "package.xml").getroot()
EXECUTABLES = sorted(NODES)


def ros_imports():
    """Packages of ROS (message packages, client library, launch) that our sources import."""
    found = set()
    for folder in ("nodes", "recording", "launch", "scripting", "cli"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names = [node.module]
                found |= {name.partition(".")[0] for name in names}
    ros = re.compile(r"\w+_(msgs|srvs|interfaces)$|rclpy$|launch(_ros)?$|ament_index_python$")
    return {name for name in found if ros.match(name)}


def test_manifest():
    assert MANIFEST.findtext("name") == "refit" and MANIFEST.findtext("license") == "Apache-2.0"
    assert MANIFEST.findtext("export/build_type") == "ament_python"
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_every_ros_package_used_is_declared():
    declared = {element.text for kind in ("depend", "exec_depend") for element in MANIFEST.findall(kind)}
    assert ros_imports() <= declared, f"add to package.xml: {ros_imports() - declared}"


def test_version_is_the_same_everywhere():
    version = MANIFEST.findtext("version")
    assert re.search(r'version="([\d.]+)"', (ROOT / "setup.py").read_text()).group(1) == version
    assert importlib.metadata.version("refit") == version


def test_console_scripts_lead_to_functions():
    scripts = [
        entry for entry in importlib.metadata.entry_points(group="console_scripts") if entry.dist.name == "refit"
    ]
    assert sorted(entry.name for entry in scripts) == EXECUTABLES
    for entry in scripts:
        assert callable(entry.load())
        assert (ROOT / f"{NODES[entry.name].replace('.', '/')}.py").is_file()


def test_installed_where_ros_looks():
    from ament_index_python.packages import get_package_prefix, get_package_share_directory

    prefix, share = Path(get_package_prefix("refit")), Path(get_package_share_directory("refit"))
    for name in EXECUTABLES:
        path = prefix / "lib" / "refit" / name
        assert os.access(path, os.X_OK)
        # started with the interpreter whose packages it needs
        assert Path(path.read_text().splitlines()[0][2:]).parent == Path(sys.executable).parent
    for folder in ("launch", "config", "data"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                installed = share / path.relative_to(ROOT)
                assert installed.is_file(), f"{installed} is missing: ./refit setup"
                assert installed.read_bytes() == path.read_bytes()


def test_files_beside_modules_are_package_data():
    """Anything else would be missing from an installed package."""
    listed = re.search(r"^FILES = \[\n(.*?)^\]", (ROOT / "setup.py").read_text(), re.M | re.S).group(1)
    known = {".py", ".pyc", *(pattern.removeprefix("*") for pattern in re.findall(r'"(.+?)"', listed))}
    for folder in (
        "sim_core",
        "nodes",
        "recording",
        "reporting",
        "identification",
        "scripting",
        "cli",
        "experiments",
        "benchmarks",
    ):
        for path in (ROOT / folder).rglob("*"):
            assert path.is_dir() or {path.suffix, path.name} & known, (
                f"{path.relative_to(ROOT)}: add its suffix to setup.py"
            )
