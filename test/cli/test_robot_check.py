"""`refit robot check`: what it says, what it writes, and what it refuses."""

import json
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "sim_core" / "adoption"))
from brought_arms import planar, spatial

from cli.main import main
from config.robot import load_robot
from sim_core.adoption import adopted


@pytest.fixture
def arm(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "workshop.urdf"
    path.write_text(spatial())
    return path


def test_it_shows_what_was_understood_and_leaves_it_to_be_corrected(arm, capfd, tmp_path):
    report, document = tmp_path / "page.html", tmp_path / "all.json"
    assert main(["robot", "check", str(arm), "--report", str(report), "--json", str(document)]) == 0
    said = capfd.readouterr().out
    for words in ("link6  <- joint6   [payload body]", "flange   [tool]", "Joint motion tells all 10", "derived"):
        assert words in said
    found = json.loads(document.read_text())
    assert [joint["joint"] for joint in found["joints"]] == [f"joint{k}" for k in range(1, 7)]
    assert sum(link["mass, kg"] for link in found["links"]) == pytest.approx(14.0)
    assert found["identifiable"] == {**found["identifiable"], "rank": 10, "of": 10}
    assert "workshop" in report.read_text() and "What joint motion tells" in report.read_text()
    side = arm.with_name("workshop.refit.yaml")
    text = side.read_text()
    assert yaml.safe_load(text)["payload_body"] == "link6"
    # What it wrote is read again, and says the same robot.
    before = found
    assert main(["robot", "check", str(arm), "--json", str(document)]) == 0
    again = json.loads(document.read_text())
    assert again["derived"] == before["derived"] and side.read_text() == text
    assert "is left as it is" in capfd.readouterr().out
    side.write_text(text.replace("title: workshop", "title: Corrected"))
    assert load_robot(adopted(str(arm))).title == "Corrected"


def test_what_is_no_robot_is_refused_in_one_line(arm, capfd):
    arm.write_text(planar(effort=0.0))
    assert main(["robot", "check", str(arm)]) == 2
    said = capfd.readouterr()
    assert "expected an effort limit of every driven joint, found none of shoulder, elbow" in said.err
    assert said.err.count("\n") == 1 and not arm.with_name("workshop.refit.yaml").exists()
    assert main(["robot", "check", "nowhere.urdf"]) == 2
    assert "expected a .urdf, .xacro or .xml file, found nowhere.urdf" in capfd.readouterr().err


def test_xacro_is_expanded(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = spatial().replace('<robot name="anything">', '<robot name="x" xmlns:xacro="http://www.ros.org/wiki/xacro">')
    text = text.replace('<mass value="3.0"/>', '<mass value="${2 * 1.5}"/>')
    path = tmp_path / "built.urdf.xacro"
    path.write_text(text)
    assert main(["robot", "check", str(path)]) == 0
    assert path.with_name("built.refit.yaml").is_file()
    path.write_text(text.replace("${2 * 1.5}", "${2 * nothing}"))
    path.with_name("built.refit.yaml").unlink()
    capfd.readouterr()
    assert main(["robot", "check", str(path)]) == 2
    assert "xacro refuses it" in capfd.readouterr().err
