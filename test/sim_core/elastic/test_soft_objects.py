"""Soft objects: what a camera sees of them, how pokes go, and the analytic truth against its law."""

import numpy as np
import pytest

from sim_core.elastic.objects.figures import FIGURES, figure
from sim_core.elastic.objects.soft_object import SoftObject, camera_offset, noisy, rounded_tip
from sim_core.elastic.rigid_body import probe_pose
from sim_core.elastic.truth.analytic import AnalyticSolid
from sim_core.elastic.truth.solid import surface_faces

pytestmark = pytest.mark.pure


@pytest.fixture(autouse=True)
def _own_files(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("REFIT_CACHE", str(tmp_path_factory.getbasetemp() / "solids"))


def sheet(k1=300.0, k3=2e6, coupling=0.01, cells=40):
    """A flat sheet of 0.2 m at z = 0.05 whose law is one everywhere, or k1 of the vertices (n, 3)."""
    x = np.linspace(-0.1, 0.1, cells + 1)
    vertices = np.stack(
        [*(g.reshape(-1) for g in np.meshgrid(x, x, indexing="ij")), np.full((cells + 1) ** 2, 0.05)], 1
    )
    first = k1(vertices) if callable(k1) else np.full(len(vertices), k1)
    return AnalyticSolid(vertices, surface_faces(cells + 1, cells + 1), first, np.full(len(vertices), k3), coupling)


def test_one_point_feels_the_law():
    press = sheet().press(np.array([[0.013, -0.021, 0.043]]))
    assert press.force == pytest.approx([0.0, 0.0, 300.0 * 0.007 + 2e6 * 0.007**3])
    assert press.torque == pytest.approx(np.cross([0.013, -0.021, 0.043], press.force))
    assert press.deepest == pytest.approx(0.007)
    below = np.argmin(np.linalg.norm(sheet().vertices - [0.013, -0.021, 0.05], axis=1))
    assert press.displacement[below, 2] == pytest.approx(-0.007, rel=0.1)


def test_two_points_share():
    # z = d / (1 + g) of both, g = 1 / (1 + (r / c)^2); k3 = 0, so that f = k z
    press = sheet(k3=0.0).press(np.array([[-0.005, 0.0, 0.044], [0.005, 0.0, 0.044]]))
    assert press.force[2] == pytest.approx(2.0 * 300.0 * 0.006 / 1.5, rel=1e-3)
    alone = sheet(k3=0.0).press(np.array([[0.0, 0.0, 0.044], [0.005, 0.0, 0.0499]]))
    assert len(alone.points) == 1  # the deep one has carried the other away


def test_a_finer_grid_of_the_probe_changes_little():
    force = []
    for spacing in (0.002, 0.001, 0.0005):
        x = np.arange(-0.015, 0.01501, spacing)
        force.append(sheet(k3=0.0).press(np.stack([x, 0.0 * x, 0.045 + 0.0 * x], 1)).force[2])
    assert force[1] == pytest.approx(force[2], rel=0.01) and force[0] == pytest.approx(force[2], rel=0.02)


def test_beside_there_is_nothing():
    solid = sheet()
    assert (solid.depths(np.array([[0.2, 0.0, 0.04], [0.0, 0.0, 0.06], [0.0, 0.0, 0.04]])) > 0.0).tolist() == [
        False,
        False,
        True,
    ]
    with pytest.raises(ValueError, match="finite points"):
        solid.press(np.full((1, 3), np.nan))
    with pytest.raises(ValueError, match="a law pushes"):
        sheet(k1=-1.0)


def test_a_poke_stops_within_a_sample_and_begins_where_the_camera_is_off():
    camera = np.eye(4)
    camera[2, 3] = 0.004  # seen 4 mm too high: forces begin at 4 mm
    thing = SoftObject("sheet", "test", sheet(), camera, force_limit=4.0)
    surface = thing.surface(2000, seed=1)
    assert surface.points[:, 2] == pytest.approx(np.full(2000, 0.054))
    poke = thing.poke(surface.features[thing.places(surface, 0.05)[0]])
    assert poke.force[-2] < 4.0 <= poke.force[-1] < 4.02
    assert np.diff(poke.displacement) == pytest.approx(np.full(len(poke) - 1, 8e-6))
    assert poke.displacement[np.argmax(poke.force > 1e-3)] == pytest.approx(0.004, abs=5e-5)
    d = np.maximum(poke.displacement - 0.004, 0.0)
    assert poke.force == pytest.approx(300.0 * d + 2e6 * d**3, abs=0.01)
    assert noisy(poke, np.random.default_rng(0)).force.std() > poke.force.std()


def test_a_probe_that_meets_a_harder_half_feels_a_torque():
    # harder for x > 0: the line along x feels more there, and r x F about the tip has a negative y
    thing = SoftObject("sheet", "test", sheet(k1=lambda v: np.where(v[:, 0] > 0.0, 600.0, 200.0), k3=0.0), travel=0.01)
    line = np.stack([np.linspace(-0.015, 0.015, 31), np.zeros(31), np.zeros(31)], 1)
    feature = np.array([0.0, 0.0, 0.05, 0.5, 0.5, 0.5, 0.0, 0.0, 1.0])
    trial = thing.probe(line, feature, "line")
    assert trial.torque[-1, 1] < -1e-3 and abs(trial.torque[-1, 0]) < 1e-9
    turned = thing.probe(line, feature, "line", roll=np.pi / 2.0)
    assert abs(turned.torque[-1, 1]) < 0.1 * abs(trial.torque[-1, 1])
    assert trial.displacement[-1] == pytest.approx(0.01) and np.diff(trial.displacement).std() < 1e-12


def test_poses_of_probes_and_cameras():
    rng = np.random.default_rng(4)
    for _ in range(20):
        outward = rng.standard_normal(3)
        pose = probe_pose(rng.standard_normal(3), outward, rng.uniform(-3.0, 3.0))
        assert pose[:3, :3] @ pose[:3, :3].T == pytest.approx(np.eye(3)) and np.linalg.det(pose[:3, :3]) > 0.0
        assert pose[:3, 2] == pytest.approx(outward / np.linalg.norm(outward))
        camera = camera_offset(rng, np.array([0.0, 0.0, 0.05]))
        assert np.linalg.norm(camera[:3, :3] @ [0.0, 0.0, 0.05] + camera[:3, 3] - [0.0, 0.0, 0.05]) <= 0.004 + 1e-12
        assert np.trace(camera[:3, :3]) >= 1.0 + 2.0 * np.cos(np.radians(1.0)) - 1e-12


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name):
    thing = figure(name, fineness=0.5)
    surface = thing.surface(1500)
    index = thing.places(surface, 0.03)
    stiff = [thing.poke(surface.features[k]) for k in index[:: max(1, len(index) // 6)]]
    assert all(p.force[-1] >= thing.force_limit or p.displacement[-1] > 0.0199 for p in stiff)
    slope = [p.force[-1] / p.displacement[-1] for p in stiff]
    assert max(slope) > 1.3 * min(slope)  # uneven
    onset = [p.displacement[np.argmax(p.force > 0.02)] for p in stiff]
    assert np.abs(onset).max() < 0.006 and np.abs(onset).max() > 1e-4


def test_figures_by_seed():
    one, other = figure("bird", seed=1, fineness=0.4), figure("bird", seed=2, fineness=0.4)
    assert one.truth.vertices[:, 2].max() != other.truth.vertices[:, 2].max()
    assert (figure("bird", seed=1, fineness=0.4).truth.vertices == one.truth.vertices).all()
    with pytest.raises(ValueError, match="no figure"):
        figure("cat")
    assert rounded_tip()[:, 2].min() == 0.0
