"""Soft outlines: how much of a beam meets a body, as a function with a derivative."""

import math

import numpy as np
import pytest

from sim_core.lidar.material import PAPER
from sim_core.lidar.scan import Lidar
from sim_core.lidar.scene import Body, Scene
from sim_core.lidar.settings import LIGHT, LidarSettings
from sim_core.lidar.shapes import box, panel

pytestmark = pytest.mark.pure
SOFT = 0.02


def beside(y, softness=SOFT, shape=None):
    """One beam along x past a body 1 m away whose rim is at y = `y`, with a wall at 1.5 m."""
    near = shape or panel(1.0, 2.0, "paper")
    bodies = (
        Body("near", near, (1.0, y + 0.5, 0, 0, 0, 0), soft=True),
        Body("wall", panel(9.0, 9.0, "paper"), (1.5, 0, 0, 0, 0, 0)),
    )
    settings = LidarSettings(beams=1, rays=1, glint=0.0, softness=softness)
    return Lidar(Scene(bodies, {"paper": PAPER}), settings)


@pytest.mark.parametrize("share", [-0.9, -0.4, 0.0, 0.3, 0.8])
def test_near_and_far_returns_share_the_cone(share):
    """The disc's part beyond a line, by a sum over slices, weighs the near return; the range is the phase of both."""
    y = -math.tan(math.asin(share * SOFT))
    angle = np.linspace(0.0, math.acos(-share), 20001)  # u = cos(angle), from the line to the rim
    covered = np.trapezoid(2.0 * np.sin(angle) ** 2, angle) / math.pi
    near, far = 0.8 / math.pi / 1.0, 0.8 / math.pi / 1.5**2
    bend = math.asin(max(0.0, -share) * SOFT)  # the near ray is led to the rim
    near *= math.cos(bend) ** 3
    phase = [4 * math.pi * 46.55e6 / LIGHT * r for r in (1.0 / math.cos(bend), 1.5)]
    total = covered * near * np.exp(1j * phase[0]) + (1 - covered) * far * np.exp(1j * phase[1])
    assert beside(y).scan().range[0] == pytest.approx(np.angle(total) * LIGHT / (4 * math.pi * 46.55e6), abs=1e-7)


def test_beyond_the_blur_nothing_changes_and_at_its_ends_nothing_jumps():
    rows = np.tan(np.arcsin(SOFT * np.linspace(-1.3, 1.3, 521)))[:, None] + 0.5
    soft, hard = (beside(0.0, s).scans(["near.y"], rows).range[:, 0] for s in (SOFT, 0.0))
    outside = np.abs(rows[:, 0] - 0.5) > 1.01 * math.tan(SOFT)
    assert soft[outside] == pytest.approx(hard[outside], abs=1e-12)
    assert np.abs(np.diff(hard)).max() > 0.49 and np.abs(np.diff(soft)).max() < 0.01


@pytest.mark.parametrize("shape", [None, box((0.1, 1.0, 2.0), "paper")])
def test_a_body_that_a_beam_is_about_to_meet_has_a_derivative(shape):
    names = ("near.y", "near.yaw", "sensor.yaw", "near.x")
    for y in (0.012, 0.004, -0.003, -0.015):
        lidar = beside(y, shape=shape)
        found = lidar.scan(by=names)
        # a rim behind a face that is seen at a grazing angle returns little, and may pull the other way
        assert abs(found.jacobian[0, 0]) > 0.01 and (shape or found.jacobian[0, 0] > 0.1)
        for k, name in enumerate(names):
            ends = lidar.scans([name], lidar.values[name] + np.array([[-1e-6], [1e-6]])).range[:, 0]
            assert found.jacobian[0, k] == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-4, abs=1e-5), (y, name)
        assert beside(y, 0.0, shape).scan(by=names).jacobian[0, 0] == 0.0


def test_with_the_beams_own_half_angle_one_ray_is_the_whole_cone():
    """Softened to its half angle, a beam reads what one of 2000 rays reads, however much of it an outline covers."""
    for share in (-1.2, -0.8, -0.35, 0.05, 0.4, 0.9):
        lidar = beside(math.tan(0.005 * share), 0.0)
        whole = Lidar(lidar.scene, LidarSettings(beams=1, rays=2000, glint=0.0)).scan().range[0]
        one = Lidar(lidar.scene, LidarSettings(beams=1, glint=0.0)).softened(0.005)
        assert one.settings.rays == 1
        assert one.scan().range[0] == pytest.approx(whole, abs=2e-3), share


def test_a_body_that_is_not_soft_or_hidden_leaves_the_scan_as_it_is():
    hidden = Body("hidden", panel(0.2, 0.2, "paper"), (2.0, 0.0, 0.0, 0.0, 0.0, 0.0), soft=True)
    wall = Body("wall", panel(9.0, 9.0, "paper"), (1.5, 0, 0, 0, 0, 0))
    settings = LidarSettings(softness=0.03)
    both, alone = (Lidar(Scene(b, {"paper": PAPER}), settings).scan().range for b in ((wall, hidden), (wall,)))
    assert both == pytest.approx(alone, abs=1e-12, nan_ok=True)
