"""Linear elasticity by hexahedra on a grid that follows a surface: stiffness, and compliance of the surface.

Nodes are those of a grid (i, j, k) bent into the object's shape; layer k = 0 is fixed, layer k = nz is the surface that is touched. Cells
are trilinear with 2 x 2 x 2 Gauss points, each with a Young's modulus of its own (Hughes, The Finite Element Method, chapters 2 and 3).
Slices of equal i meet only their neighbours, so that the stiffness is block tridiagonal and dense Cholesky factors of its slices solve it.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

__all__ = ["cell_corners", "element_stiffness", "surface_compliance"]

#: corners of a cell in the order of their indices (i, j, k)
CORNERS = np.array(list(itertools.product((0, 1), repeat=3)))


def cell_corners(nodes: np.ndarray) -> np.ndarray:
    """Corners (nx, ny, nz, 8, 3) of the cells of a grid of nodes (nx+1, ny+1, nz+1, 3), in the order of CORNERS."""
    nx, ny, nz = (n - 1 for n in nodes.shape[:3])
    return np.stack([nodes[a : a + nx, b : b + ny, c : c + nz] for a, b, c in CORNERS], axis=3)


def elasticity(poisson: float) -> np.ndarray:
    """Stress of strain (6, 6) for a Young's modulus of one, in the order xx, yy, zz, xy, yz, zx; shear strains are doubled."""
    lame = poisson / ((1.0 + poisson) * (1.0 - 2.0 * poisson))
    shear = 0.5 / (1.0 + poisson)
    law = np.diag([2.0 * shear] * 3 + [shear] * 3)
    law[:3, :3] += lame
    return law


def element_stiffness(corners: np.ndarray, young: np.ndarray, poisson: float) -> np.ndarray:
    """Stiffness (c, 24, 24) [N/m] of cells with corners (c, 8, 3) [m] and Young's moduli (c,) [Pa]; rows are (corner, axis).

    Raises:
        ValueError: a cell is turned inside out.
    """
    law, total = elasticity(poisson), np.zeros((len(corners), 24, 24))
    signs = 2.0 * CORNERS - 1.0
    for place in signs / np.sqrt(3.0):
        factors = 1.0 + signs * place
        slopes = np.stack([signs[:, a] * np.prod(np.delete(factors, a, 1), 1) for a in range(3)], 1) / 8.0  # (8, 3)
        jacobian = np.einsum("ba,cbx->cxa", slopes, corners)
        volume = np.linalg.det(jacobian)
        if (volume <= 0.0).any():
            raise ValueError(
                f"cells of a solid are expected to have a volume, and {int((volume <= 0.0).sum())} are turned inside out; "
                "give a surface that lies above its base everywhere"
            )
        gradient = np.einsum("ba,cax->cbx", slopes, np.linalg.inv(jacobian))
        strain = np.zeros((len(corners), 6, 8, 3))
        for row, (a, b) in enumerate(((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (2, 0))):
            strain[:, row, :, a] += gradient[:, :, b]
            if a != b:
                strain[:, row, :, b] += gradient[:, :, a]
        rows = strain.reshape(len(corners), 6, 24)
        total += (rows.transpose(0, 2, 1) @ law * (young * volume)[:, None, None]) @ rows
    return total


def _blocks(nodes: np.ndarray, young: np.ndarray, poisson: float) -> tuple[list[np.ndarray], list[csr_array]]:
    """Diagonal blocks (s, s) of the slices and the blocks (s, s) that couple a slice with the one before, fixed nodes left out."""
    nx, ny, nz = young.shape
    corners = cell_corners(nodes)
    j, k = np.meshgrid(np.arange(ny), np.arange(nz), indexing="ij")
    node = (j.reshape(-1, 1) + CORNERS[:, 1]) * nz + (k.reshape(-1, 1) + CORNERS[:, 2]) - 1
    fixed = np.broadcast_to((k.reshape(-1, 1) + CORNERS[:, 2]) == 0, node.shape)
    size = (ny + 1) * nz * 3
    row = np.where(np.repeat(fixed, 3, 1), size, (3 * node[..., None] + np.arange(3)).reshape(len(node), 24))
    before, after = np.repeat(CORNERS[:, 0] == 0, 3), np.repeat(CORNERS[:, 0] == 1, 3)
    diagonal = [np.zeros((size + 1, size + 1)) for _ in range(nx + 1)]
    coupling = [np.zeros((size + 1, size + 1)) for _ in range(nx)]
    for i in range(nx):
        stiffness = element_stiffness(corners[i].reshape(-1, 8, 3), young[i].reshape(-1), poisson)
        for block, rows, columns in (
            (diagonal[i], before, before),
            (diagonal[i + 1], after, after),
            (coupling[i], after, before),
        ):
            part = stiffness[:, rows][:, :, columns]
            np.add.at(block, (row[:, rows, None], row[:, None, columns]), part)
    return [d[:-1, :-1] for d in diagonal], [csr_array(c[:-1, :-1]) for c in coupling]


def surface_compliance(
    nodes: np.ndarray, young: np.ndarray, poisson: float, directions: np.ndarray, chunk: int = 400
) -> np.ndarray:
    """Displacement of every surface node by a unit force on each.

    Args:
        nodes: (nx+1, ny+1, nz+1, 3) [m], of which layer 0 along the third axis is fixed.
        young: (nx, ny, nz) [Pa].
        poisson: Poisson's ratio, below 0.5.
        directions: (n, 3) of the forces, one for each of the n = (nx+1)(ny+1) nodes of the last layer.
        chunk: forces that are solved for at once, which bounds the memory.

    Returns:
        (n, 3, n) [m/N]: displacement of node, axis, by the force on another.
    """
    nx, ny, nz = young.shape
    diagonal, coupling = _blocks(nodes, young, poisson)
    factors, schur = [], diagonal[0]
    for i in range(nx + 1):
        factors.append(cho_factor(schur, lower=True, overwrite_a=True, check_finite=False))
        if i < nx:
            schur = diagonal[i + 1] - coupling[i] @ cho_solve(
                factors[i], coupling[i].T.toarray(), overwrite_b=True, check_finite=False
            )
    count, wide = (nx + 1) * (ny + 1), ny + 1
    top = (np.arange(wide) * nz + nz - 1)[:, None] * 3 + np.arange(3)  # rows of a slice's surface nodes
    found = np.zeros((count, 3, count))
    for first in range(0, count, chunk):
        columns = np.arange(first, min(first + chunk, count))
        right = np.zeros((nx + 1, len(diagonal[0]), len(columns)))
        right[columns[:, None] // wide, top[columns % wide], np.arange(len(columns))[:, None]] = directions[columns]
        for i in range(nx):  # forward: what earlier slices leave of the load
            right[i] = cho_solve(factors[i], right[i], overwrite_b=True, check_finite=False)
            right[i + 1] -= coupling[i] @ right[i]
        right[nx] = cho_solve(factors[nx], right[nx], overwrite_b=True, check_finite=False)
        for i in reversed(range(nx)):
            right[i] -= cho_solve(factors[i], coupling[i].T @ right[i + 1], check_finite=False)
        found[:, :, columns] = right[:, top].reshape(count, 3, len(columns))
    return found
