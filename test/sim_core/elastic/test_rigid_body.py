"""Bodies as points: on their surface, evenly, and where a probe's frame says."""

import numpy as np
import pytest
import trimesh

from sim_core.elastic.rigid_body import PROBES, RigidBody, cylinder_probe, line_probe, point_probe, sample_mesh, sphere

pytestmark = pytest.mark.pure


def gaps(body, surface):
    """Largest distance of points on the surface to the nearest of the body's."""
    from scipy.spatial import cKDTree

    return float(cKDTree(body.points).query(surface)[0].max())


def test_a_box_has_its_corners_its_edges_and_grids_on_its_sides():
    size = np.array([0.03, 0.02, 0.01])
    body = sample_mesh(trimesh.creation.box(size))
    p = np.abs(body.points) / (size / 2.0)
    on = np.isclose(p, 1.0)
    assert on.any(1).all() and (p <= 1.0 + 1e-9).all()
    assert (on.sum(1) == 3).sum() == 8
    # edges of 30, 20, 10 mm: 10, 7, 4 intervals of at most 3 mm, four of each
    assert (on.sum(1) == 2).sum() == 4 * (9 + 6 + 3)
    dense = trimesh.sample.sample_surface(trimesh.creation.box(size), 20_000, seed=0)[0]
    assert gaps(body, dense) < 3e-3


def test_sampling_more_finely_gives_as_many_points_as_the_area_asks_for():
    mesh = trimesh.creation.box((0.06, 0.06, 0.06))
    counts = [len(sample_mesh(mesh, s).points) for s in (6e-3, 3e-3)]
    assert counts[1] / counts[0] == pytest.approx(4.0, rel=0.15)


def test_a_finely_divided_mesh_is_thinned():
    mesh = trimesh.creation.icosphere(subdivisions=5, radius=0.02)
    body = sample_mesh(mesh)
    assert len(mesh.vertices) > 10_000 > 3_000 > len(body.points)
    assert np.linalg.norm(body.points, axis=1) == pytest.approx(np.full(len(body.points), 0.02), rel=2e-3)
    distance = np.linalg.norm(body.points[:, None] - body.points[None], axis=-1)
    np.fill_diagonal(distance, 1.0)
    assert distance.min() >= 0.7 * 3e-3 * (1.0 - 1e-6) and gaps(body, mesh.vertices) < 3e-3


def test_probes_are_where_their_frame_says():
    assert (point_probe().points == 0.0).all()
    line = line_probe(0.03, 3e-3)
    assert np.ptp(line.points, axis=0) == pytest.approx([0.03, 3e-3, 0.0])
    tip = cylinder_probe(0.02)
    assert (tip.points[:, 2] == 0.0).all() and np.linalg.norm(tip.points, axis=1).max() == pytest.approx(0.01)
    for body in (line, tip):
        assert body.points.mean(0) == pytest.approx(np.zeros(3), abs=3e-4)
    assert sorted(PROBES) == ["cylinder", "line", "point"] and all(make().name == name for name, make in PROBES.items())


def test_a_sphere_is_even():
    ball = sphere()
    assert len(ball.points) == 150 and np.linalg.norm(ball.points, axis=1) == pytest.approx(np.full(150, 0.02))
    assert ball.points.mean(0) == pytest.approx(np.zeros(3), abs=2e-4)
    distance = np.linalg.norm(ball.points[:, None] - ball.points[None], axis=-1)
    np.fill_diagonal(distance, 1.0)
    assert distance.min() > 0.6 * np.sqrt(4.0 * np.pi * 0.02**2 / 150)


def test_a_body_is_placed_by_its_pose():
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = turn, [1.0, 2.0, 3.0]
    body = RigidBody(np.array([[0.1, 0.0, 0.0]]))
    assert body.placed(pose) == pytest.approx(np.array([[1.0, 2.1, 3.0]]))
    assert body.placed(np.stack([pose, np.eye(4)])).shape == (2, 1, 3)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RigidBody(np.zeros((0, 3))), "at least one point"),
        (lambda: RigidBody(np.zeros(3)), "at least one point"),
        (lambda: RigidBody(np.full((2, 3), np.nan), "cup"), "'cup' are finite"),
        (lambda: sample_mesh(trimesh.Trimesh(), name="cup"), "'cup' has none"),
        (lambda: line_probe(0.0), "length is positive"),
        (lambda: sphere(0.04, 2), "at least four"),
        (lambda: sample_mesh(trimesh.creation.box(), 0.0), "spacing is positive"),
    ],
)
def test_what_is_no_body_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
