"""`refit calibrate tool`: mass and centre behind a sensor, its offsets, and what is refused."""

import json
import shutil

import numpy as np
import pytest
from simulated_bags import (
    OFFSET,
    POSES,
    found,
    inside,
    parameters,
    run,
    write_tool_bag,
)

from identification.calibrate.tool import missing_sides, orientations
from nodes.devices.force_torque import ForceTorqueConfig


@pytest.fixture(scope="module")
def tool_bag(tmp_path_factory):
    """Path, mass, centre."""
    path = tmp_path_factory.mktemp("tool") / "bag"
    return path, *write_tool_bag(path)


def test_tool(tool_bag, tmp_path, capsys):
    path, mass, com = tool_bag
    assert run(capsys, "tool", path, "--out", tmp_path / "out", "--json", tmp_path / "checks.json")[0] == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "report.html",
        "result.json",
        "run.json",
        "ft_sensor.yaml",
    }
    assert json.loads((tmp_path / "checks.json").read_text())["passed"]
    document, rows = found(tmp_path / "out")
    assert document["details"]["poses"] == len(POSES) and document["details"]["orientations"] >= 8
    assert rows["tool.mass"]["value"] == pytest.approx(mass, rel=0.01) and inside(rows["tool.mass"], mass)
    for k, axis in enumerate("xyz"):
        assert rows[f"tool.com.{axis}"]["value"] == pytest.approx(com[k], abs=0.002)
        assert rows[f"offset.force.{axis}"]["value"] == pytest.approx(OFFSET[k], abs=0.05)
        assert rows[f"offset.torque.{axis}"]["value"] == pytest.approx(OFFSET[3 + k], abs=0.002)
    node, values = parameters(tmp_path / "out", "ft_sensor.yaml")
    assert node == "/**/ft_sensor"
    config = ForceTorqueConfig(tool_mass=values.pop("tool.mass"), tool_com=tuple(values.pop("tool.com")))
    assert not values and config.tool_mass == pytest.approx(rows["tool.mass"]["value"], rel=1e-6)


def test_a_sensor_that_drifts_fails_the_check_and_writes_no_parameters(tmp_path, capsys):
    """0.1 N/s over 18 s: half a newton of standard deviation that no tool explains."""
    write_tool_bag(tmp_path / "bag", drift=0.1)
    assert run(capsys, "tool", tmp_path / "bag", "--out", tmp_path / "out")[0] == 1
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"report.html", "result.json", "run.json"}
    missed = [check for check in found(tmp_path / "out")[0]["checks"] if not check["passed"]]
    assert missed[0]["name"].startswith("force left unexplained") and missed[0]["value"] > 0.3


def test_the_sensors_frame_is_the_wrenches_own_unless_named(tmp_path, capsys):
    mass, com = write_tool_bag(tmp_path / "bag", frame="some_sensor")
    code, said = run(capsys, "tool", tmp_path / "bag", "--out", tmp_path / "out")
    assert code == 2 and "No frame 'some_sensor'" in said and "ft_sensor" in said
    assert run(capsys, "tool", tmp_path / "bag", "--frame", "ft_sensor", "--out", tmp_path / "out")[0] == 0
    assert found(tmp_path / "out")[1]["tool.com.z"]["value"] == pytest.approx(com[2], abs=0.002)


def test_orientations_that_are_missing_are_named():
    g = np.array([[0, 0, -9.81], [0, 0.5, -9.8], [0, 9.81, 0]])
    assert orientations(g) == 2 and missing_sides(g) == ["+x", "-x", "-y", "+z"]


def test_a_cut_off_bag_is_used_only_when_asked(tool_bag, tmp_path, capsys):
    shutil.copytree(tool_bag[0], tmp_path / "bag")
    file = next((tmp_path / "bag").glob("*.mcap"))
    file.write_bytes(file.read_bytes()[:-300])
    code, said = run(capsys, "tool", tmp_path / "bag", "--out", tmp_path / "out")
    assert code == 2 and "--allow-truncated" in said
    assert run(capsys, "tool", tmp_path / "bag", "--allow-truncated", "--out", tmp_path / "out")[0] == 0
