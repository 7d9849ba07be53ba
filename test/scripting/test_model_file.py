"""A graph of a robot of which there is nothing but a URDF."""

import sys
from pathlib import Path

import pytest

from scripting import Robot, UsageError

sys.path.insert(0, str(Path(__file__).parents[1] / "sim_core" / "adoption"))
from brought_arms import spatial

pytestmark = pytest.mark.graph


def test_it_follows_its_path(domain, patient, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = tmp_path / "workshop.urdf"
    model.write_text(spatial())
    with Robot.start(
        model, real_time_factor=0.5, params_file=patient(state_age_limit=5.0, command_age_limit=2.0)
    ) as robot:
        assert robot.name == "workshop"
        done = robot.follow_path(1.5)
        done.check()
        assert done.tracking_error < 0.02  # by then the path has led further away than that
    model.write_text(spatial().replace("revolute", "fixed"))
    with pytest.raises(UsageError, match="workshop.urdf"):
        Robot.start(model)
