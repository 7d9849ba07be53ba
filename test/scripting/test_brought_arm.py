"""A robot that is nothing but a URDF: its graph starts, follows its path, and learns what it picks up."""

import sys
import time
from pathlib import Path

import pytest

from scripting import Robot, UsageError

sys.path.insert(0, str(Path(__file__).parents[1] / "sim_core" / "adoption"))
from brought_arms import planar, spatial

pytestmark = pytest.mark.graph


@pytest.fixture
def urdf(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "workshop_arm.urdf"
    path.write_text(spatial())
    return path


def test_it_follows_its_path_and_learns_its_payload(urdf, domain, patient):
    limits = patient(state_age_limit=5.0, future_limit=5.0, command_age_limit=5.0)
    with Robot.start(str(urdf), params_file=limits, lockstep=True, real_time_factor=0) as arm:
        arm.wait_until_ready()
        assert arm.name == "workshop_arm"
        before = arm.follow_path(3.0)
        assert before and before.tracking_error < 0.02, before
        arm.change_world([{"action": "attach", "frame": "link6", "mass": 0.8}])
        mass, deadline = None, time.monotonic() + 300.0  # a busy machine may get to the refit late
        while mass is None or abs(mass.value - 0.8) > 0.04:
            assert time.monotonic() < deadline, str(arm.learnt())
            assert arm.follow_path(1.0)
            mass = arm.learnt().get("link6.payload.mass")
        assert mass.unit == "kg" and mass.interval[0] < mass.value < mass.interval[1]


def test_what_cannot_be_used_is_refused_before_anything_starts(urdf):
    urdf.write_text(planar(effort=0.0))
    with pytest.raises(UsageError, match="expected an effort limit of every driven joint"):
        Robot.start(str(urdf))
