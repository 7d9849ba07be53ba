"""Lock files: exact versions, a reason for every direct dependency, no contradiction between them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))


def pins(path):
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def test_there_is_a_lock_per_tier():
    assert [path.name for path in LOCKS] == [
        "requirements-bench.lock", "requirements-ros.lock", "requirements-test.lock", "requirements.lock",
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


def test_lock_files_agree():
    versions = {}
    for path in LOCKS:
        for name, _, version in (line.partition("==") for line in pins(path)):
            key = re.sub(r"[-_.]+", "-", name).lower()
            assert versions.setdefault(key, version) == version, f"{name}: {versions[key]} and {version}"


def test_versions_that_must_not_drift():
    text = "\n".join(line for path in LOCKS for line in pins(path))
    for line in ("torch==2.13.0", "ros-rclpy==7.1.6", "pytest==8.3.5", "pin==4.0.0", "example-robot-data==5.0.0"):
        assert line in text.splitlines()
    assert int(re.search(r"^setuptools==(\d+)", text, re.M).group(1)) < 80
