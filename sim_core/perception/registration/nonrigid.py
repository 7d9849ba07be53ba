"""Bending a surface onto a cloud: an affine map at each vertex, neighbours alike, first stiff and then softer.

Source: Amberg, Romdhani and Vetter, Optimal Step Nonrigid ICP Algorithms for Surface Registration, CVPR 2007, eqs. (5) to (12). The
schedule of the stiffness is a choice. Correspondences are rejected by distance and by normals, not at the scan's boundary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree

__all__ = ["STIFFNESS", "edges_of", "nonrigid_register"]

#: from nearly rigid to what a body needs
STIFFNESS = (50.0, 20.0, 8.0, 3.0, 1.2, 0.5)


def edges_of(faces: np.ndarray) -> np.ndarray:
    """Edges (e, 2) of triangles (f, 3), each once."""
    pairs = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    return np.unique(np.sort(pairs, axis=1), axis=0)


def nonrigid_register(
    vertices: np.ndarray,
    faces: np.ndarray,
    vertex_normals: np.ndarray,
    cloud: np.ndarray,
    cloud_normals: np.ndarray,
    stiffness: Sequence[float] = STIFFNESS,
    inner: int = 4,
    gamma: float = 0.1,
    farthest: float = 0.04,
    least_cosine: float = 0.5,
) -> np.ndarray:
    """Vertices (v, 3) [m] on the cloud.

    Args:
        vertices, faces, vertex_normals: of the surface, rigidly fitted already: (v, 3), (f, 3), (v, 3).
        cloud, cloud_normals: (m, 3) each.
        inner: correspondences of each stiffness. gamma: weight of the linear part against the translation [m].
        farthest: of a correspondence [m]. least_cosine: between its normals.
    """
    v, edges, tree = len(vertices), edges_of(faces), cKDTree(cloud)
    incidence = sparse.coo_array(
        (np.tile([-1.0, 1.0], len(edges)), (np.repeat(np.arange(len(edges)), 2), edges.ravel())), (len(edges), v)
    )
    smooth = sparse.kron(incidence, sparse.diags_array([1.0, 1.0, 1.0, gamma]), format="csr")
    homogeneous = np.column_stack([vertices, np.ones(v)])
    rows = np.repeat(np.arange(v), 4)
    D = sparse.coo_array((homogeneous.ravel(), (rows, np.arange(4 * v))), (v, 4 * v)).tocsr()
    laplace = (smooth.T @ smooth).tocsc()
    X = np.tile(np.vstack([np.eye(3), np.zeros(3)]), (v, 1))
    # Lengths are measured in the surface's own size, so that one schedule serves all units.
    scale = np.linalg.norm(np.ptp(vertices, axis=0)) / 10.0
    for alpha in stiffness:
        for _ in range(inner):
            moved = D @ X
            normals = _turned(vertex_normals, X)
            distance, near = tree.query(moved)
            weight = (distance < farthest) & ((normals * cloud_normals[near]).sum(1) > least_cosine)
            W = sparse.diags_array(weight.astype(float))
            A = (laplace * (alpha * scale) ** 2 + D.T @ W @ D + 1e-10 * sparse.eye_array(4 * v)).tocsc()
            new = splu(A).solve(D.T @ (W @ cloud[near]))
            step = np.abs(new - X).max()
            X = new
            if step < 1e-4:
                break
    return D @ X


def _turned(normals: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Normals (v, 3) after the maps' linear parts, by the inverse transpose."""
    linear = X.reshape(-1, 4, 3)[:, :3].transpose(0, 2, 1)
    turned = np.einsum("vij,vj->vi", np.linalg.inv(linear).transpose(0, 2, 1), normals)
    return turned / np.linalg.norm(turned, axis=1, keepdims=True)
