"""Fits of a surface to points: known motions, stretches and bends come back."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from sim_core.auscultation.torso import Torso
from sim_core.perception.registration.cloud import checked, normals, thinned
from sim_core.perception.registration.nonrigid import edges_of, nonrigid_register
from sim_core.perception.registration.rigid import rigid_register
from sim_core.perception.registration.stretched import stretched_register

TORSO = Torso()
SEEN = TORSO.normals[:, 2] > 0.1
POINTS, NORMALS = TORSO.vertices[SEEN], TORSO.normals[SEEN]


@pytest.mark.parametrize("turn", [[0.0, 0.0, 0.0], [0.3, -0.2, 0.1], [-0.4, 0.1, 0.4]])
def test_a_rigid_motion_is_found(turn):
    R, t = Rotation.from_rotvec(turn).as_matrix(), np.array([0.1, -0.3, 0.8])
    fit = rigid_register(POINTS, POINTS @ R.T + t, NORMALS @ R.T)
    np.testing.assert_allclose(fit.rotation, R, atol=1e-6)
    np.testing.assert_allclose(fit.translation, t, atol=1e-6)
    assert fit.residual < 1e-6


def test_a_stretch_is_found():
    R, t, scales = (
        Rotation.from_rotvec([0.1, 0.05, -0.1]).as_matrix(),
        np.array([0.02, 0.0, 0.5]),
        np.array([1.1, 0.95, 0.9]),
    )
    cloud = (POINTS * scales) @ R.T + t
    planes = NORMALS / scales @ R.T
    planes /= np.linalg.norm(planes, axis=1, keepdims=True)
    fit = stretched_register(POINTS, NORMALS, cloud, planes, rigid_register(POINTS, cloud, planes), iterations=200)
    np.testing.assert_allclose(fit.scales, scales, atol=0.01)  # their prior pulls a little towards 1
    assert np.linalg.norm(fit(POINTS) - cloud, axis=1).max() < 0.004
    np.testing.assert_allclose(fit.turned(NORMALS), planes, atol=0.02)


def test_a_bend_is_found_where_stiffness_lets_it():
    number = np.where(SEEN, np.cumsum(SEEN) - 1, -1)
    faces = number[TORSO.faces][(number[TORSO.faces] >= 0).all(1)]
    bent = POINTS + np.column_stack([np.zeros((len(POINTS), 2)), 0.02 * np.exp(-((POINTS[:, 1] / 0.08) ** 2))])
    planes = normals(bent, np.array([0.0, 0.0, 1.0]))
    inner = NORMALS[:, 2] > 0.6  # at the sides the surface may slide along itself

    def apart(found):
        near = cKDTree(bent).query(found)[1]
        return np.abs(((found - bent[near]) * planes[near]).sum(1))[inner].max()

    left = {
        alpha: apart(nonrigid_register(POINTS, faces, NORMALS, bent, planes, stiffness=alpha))
        for alpha in ((500.0,), (50.0, 20.0, 8.0, 3.0, 1.2, 0.5))
    }
    stiff, soft = left.values()
    assert soft < 0.004 and stiff > 2.0 * soft


def test_a_stiff_surface_follows_an_affine_map_exactly():
    """Equal maps at all vertices cost nothing, however stiff; correspondences are given by moving hardly at all."""
    number = np.where(SEEN, np.cumsum(SEEN) - 1, -1)
    faces = number[TORSO.faces][(number[TORSO.faces] >= 0).all(1)]
    A = np.eye(3) + 0.004 * np.array([[1.0, 0.5, 0.0], [0.0, -1.0, 0.3], [0.2, 0.0, 1.0]])
    cloud = POINTS @ A.T
    found = nonrigid_register(POINTS, faces, NORMALS, cloud, NORMALS, stiffness=(1000.0,), inner=10)
    assert np.abs(found - cloud).max() < 2e-5


def test_clouds_are_thinned_and_have_normals():
    rng = np.random.default_rng(0)
    plane = np.column_stack([rng.uniform(0, 0.3, (20000, 2)), np.zeros(20000)])
    thin = thinned(plane, 0.01)
    assert 800 <= len(thin) <= 1000 and np.allclose(thin[:, 2], 0.0)
    np.testing.assert_allclose(
        normals(thin, np.array([0.1, 0.1, -1.0])), np.tile([0.0, 0.0, -1.0], (len(thin), 1)), atol=1e-9
    )
    sphere = rng.standard_normal((5000, 3))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    upper = sphere[sphere[:, 2] > 0.3]
    assert ((normals(upper, np.array([0.0, 0.0, 10.0])) * upper).sum(1) > 0.97).mean() > 0.98
    with pytest.raises(ValueError, match="at least 50 finite points"):
        checked(np.full((60, 3), np.nan))


def test_edges_are_each_there_once():
    edges = edges_of(TORSO.faces)
    assert len(edges) == len(np.unique(edges, axis=0)) == 3 * len(TORSO.faces) // 2
