"""Lock files: exact versions, a reason for every direct dependency, no contradiction between them."""

import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from config.tiers import TIERS

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))
#: import name -> name of the package, where they differ
PACKAGES = {"sklearn": "scikit-learn", "cv2": "opencv-python-headless", "pinocchio": "pin"}
#: what a robot that runs drivers and MPC does without
HEAVY = {"torch", "jax", "jaxlib", "numpyro", "distributed", "dask"}


def pins(path):
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def test_there_is_a_lock_per_tier():
    assert [path.name for path in LOCKS] == [
        "requirements-bench.lock", "requirements-calibration.lock", "requirements-docs.lock", "requirements-inference.lock",
        "requirements-learning.lock",
        "requirements-robots.lock", "requirements-ros.lock", "requirements-security.lock", "requirements-telepresence.lock", "requirements-test.lock",
        "requirements-view.lock",
        "requirements.lock",
    ]  # fmt: skip


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_line_is_an_exact_pin(path):
    for line in pins(path):
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line), f"{line}: expected name==version"


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_direct_dependencies_carry_a_reason(path):
    direct, separator, _ = path.read_text().partition("# what these need")
    assert separator
    lines = direct.splitlines()
    for before, line in zip(lines, lines[1:]):
        if "==" in line and not line.startswith("#"):
            assert before.startswith("# ") and len(before) > 4, f"{path.name}: why {line}?"


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_no_package_index_is_named(path):
    assert not re.search(r"https?://|--index|--extra|--find-links", path.read_text())


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def names(path):
    return {normal(line.partition("==")[0]) for line in pins(path)}


def test_lock_files_agree():
    versions = {}
    for path in LOCKS:
        for name, _, version in (line.partition("==") for line in pins(path)):
            assert versions.setdefault(normal(name), version) == version, (
                f"{name}: {versions[normal(name)]} and {version}"
            )


def test_no_package_is_in_two_tiers():
    """Whoever removes or updates a tier touches no other. (ROS's build tools are there with the wheels alone.)"""
    owner = {}
    for path in LOCKS:
        if path.name != "requirements-ros.lock":
            for name in names(path):
                assert owner.setdefault(name, path.name) == path.name, f"{name}: {owner[name]} and {path.name}"


def test_the_base_is_what_a_robot_needs():
    assert not names(ROOT / "requirements.lock") & HEAVY


@pytest.mark.parametrize("tier", TIERS)
def test_tiers_pin_what_the_code_asks_of_them(tier):
    path = ROOT / f"requirements-{tier}.lock"
    direct = path.read_text().partition("# what these need")[0]
    assert {line.partition("==")[0] for line in direct.splitlines() if "==" in line} == {
        PACKAGES.get(name, name) for name in TIERS[tier]
    }


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_locks_are_complete(path):
    """What a package requires is pinned in its own file or in one that is installed before it."""
    before = [ROOT / "requirements.lock", ROOT / "requirements-ros.lock", path]
    if path.name in ("requirements-test.lock", "requirements-bench.lock"):
        before += [ROOT / f"requirements-{tier}.lock" for tier in (*TIERS, "test")]
    if path.name == "requirements-telepresence.lock":  # with which the script installs two others
        before += [ROOT / f"requirements-{tier}.lock" for tier in ("security", "view")]
    pinned = set().union(*map(names, before))
    for name in sorted(names(path)):
        try:
            requirements = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # a tier that is not installed here
        for requirement in map(Requirement, requirements):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert normal(requirement.name) in pinned, f"{path.name}: {name} needs {requirement.name}"


def test_versions_that_must_not_drift():
    text = "\n".join(line for path in LOCKS for line in pins(path))
    for line in ("torch==2.13.0", "ros-rclpy==7.1.6", "pytest==8.3.5", "pin==4.0.0", "example-robot-data==5.0.0"):
        assert line in text.splitlines()
    assert int(re.search(r"^setuptools==(\d+)", text, re.M).group(1)) < 80
