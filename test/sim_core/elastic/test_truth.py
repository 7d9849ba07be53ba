"""The finite elements against closed forms: a column, patches, Hertz's sphere, reciprocity, and an exact balance of forces."""

import numpy as np
import pytest

from sim_core.elastic.truth.hexahedra import cell_corners, element_stiffness
from sim_core.elastic.truth.solid import SoftSolid
from sim_core.elastic.truth.unilateral import pushes

pytestmark = pytest.mark.pure


@pytest.fixture(autouse=True)
def _own_files(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("REFIT_CACHE", str(tmp_path_factory.getbasetemp() / "solids"))


def grid(size, cells):
    axes = [np.linspace(-s / 2, s / 2, c + 1) for s, c in zip(size[:2], cells[:2])]
    axes.append(np.linspace(0.0, size[2], cells[2] + 1))
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1)


def block(size, cells, young=2e4, poisson=0.3):
    return SoftSolid(grid(size, cells), np.full(cells, young), poisson)


def test_a_column_between_plates():
    # without lateral strain, sigma = E d / H at every place; the skin takes a thousandth
    solid = block((0.1, 0.08, 0.05), (10, 8, 5), poisson=0.0)
    plate = solid.vertices - [0.0, 0.0, 0.004]
    press = solid.press(plate)
    assert press.force == pytest.approx([0.0, 0.0, 2e4 * 0.1 * 0.08 * 0.004 / 0.05], rel=2e-3, abs=1e-9)
    assert press.displacement == pytest.approx(np.tile([0.0, 0.0, -0.004], (len(solid.vertices), 1)), abs=1e-5)
    assert press.torque == pytest.approx(np.zeros(3), abs=1e-6)


def test_two_layers_are_springs_in_series():
    young = np.full((8, 8, 4), 1e4)
    young[:, :, 2:] = 5e4
    solid = SoftSolid(grid((0.08, 0.08, 0.04), (8, 8, 4)), young, 0.0)
    press = solid.press(solid.vertices - [0.0, 0.0, 0.002])
    assert press.force[2] == pytest.approx(0.08**2 * 0.002 / (0.02 / 1e4 + 0.02 / 5e4), rel=3e-3)


def test_patch_of_bent_cells():
    # a linear displacement is held by forces on the boundary alone, however the cells inside are bent (Irons's patch test)
    rng = np.random.default_rng(0)
    nodes = grid((1.0, 1.0, 1.0), (3, 3, 3))
    nodes[1:-1, 1:-1, 1:-1] += 0.08 * rng.standard_normal((2, 2, 2, 3))
    corners = cell_corners(nodes).reshape(-1, 8, 3)
    number = cell_corners(np.arange(64).reshape(4, 4, 4, 1)).reshape(-1, 8)
    gradient = rng.standard_normal((3, 3))
    stiffness = element_stiffness(corners, np.full(27, 7.0), 0.3)
    forces = np.zeros((64, 3))
    for k, cell in enumerate(number):
        forces[cell] += (stiffness[k] @ (corners[k] @ gradient.T).reshape(-1)).reshape(8, 3)
    inside = np.zeros((4, 4, 4), bool)
    inside[1:-1, 1:-1, 1:-1] = True
    assert np.abs(forces[inside.reshape(-1)]).max() < 1e-12
    strain = 0.5 * (gradient + gradient.T)
    shear = 7.0 / 2.6
    stress = 2.0 * shear * strain + 7.0 * 0.3 / (1.3 * 0.4) * np.trace(strain) * np.eye(3)
    assert forces.reshape(4, 4, 4, 3)[-1].sum((0, 1)) == pytest.approx(stress[:, 0], rel=1e-9)


def test_hertz():
    # F = 4/3 E* sqrt(R) d^(3/2): the exponent within 0.1; a block of finite size on a fixed base is stiffer than the half-space
    radius, size = 0.08, (0.16, 0.16, 0.08)
    solid = block(size, (20, 20, 8), 3e4)
    g = np.stack(np.meshgrid(*[np.arange(-0.03, 0.0301, 0.003)] * 2), -1).reshape(-1, 2)
    rise = radius - np.sqrt(radius**2 - (g**2).sum(1))
    depth = np.array([0.003, 0.0045, 0.006])
    force = np.array([solid.press(np.c_[g, size[2] + rise - d]).force[2] for d in depth])
    hertz = 4.0 / 3.0 * 3e4 / (1.0 - 0.09) * np.sqrt(radius) * depth**1.5
    assert np.polyfit(np.log(depth), np.log(force), 1)[0] == pytest.approx(1.5, abs=0.1)
    assert (force / hertz > 1.0).all() and (force / hertz < 1.35).all()


def test_finer_cells_converge():
    force = []
    for n in (8, 12, 16):
        solid = block((0.12, 0.12, 0.06), (n, n, n // 2))
        pad = np.stack(np.meshgrid(*[np.arange(-0.03, 0.0301, 0.0025)] * 2), -1).reshape(-1, 2)
        force.append(solid.press(np.c_[pad, np.full(len(pad), 0.057)]).force[2])
    assert abs(force[2] - force[1]) < abs(force[1] - force[0])
    assert force[2] == pytest.approx(force[1], rel=0.05)


def test_reciprocity_and_no_pulling():
    rng = np.random.default_rng(1)
    nodes = grid((0.1, 0.08, 0.05), (10, 8, 5))
    nodes[..., 2] *= 1.0 + 0.3 * np.cos(20.0 * nodes[..., 0]) * np.cos(15.0 * nodes[..., 1])
    solid = SoftSolid(nodes, 10.0 ** rng.uniform(np.log10(5e3), 5.0, (10, 8, 5)), 0.3)
    normal = np.einsum("na,nam->nm", solid.normals, solid.compliance)
    assert normal == pytest.approx(normal.T, rel=1e-4, abs=1e-4 * np.abs(normal).max())
    press = solid.press(rng.uniform([-0.05, -0.04, 0.045], [0.05, 0.04, 0.08], (60, 3)))
    assert (np.einsum("ka,ka->k", press.point_forces, [0.0, 0.0, 1.0] * np.ones_like(press.point_forces)) > 0.0).all()
    assert press.torque == pytest.approx(np.cross(press.points, press.point_forces).sum(0))


def test_balance_is_exact():
    rng = np.random.default_rng(2)
    for _ in range(300):
        m = int(rng.integers(1, 40))
        root = rng.standard_normal((m, m + 5))
        compliance = root @ root.T + 0.01 * np.eye(m)
        depth = rng.standard_normal(m)
        force = pushes(compliance, depth)
        gap = compliance @ force - depth
        assert (force >= 0.0).all() and gap.min() > -1e-8 and abs(force @ gap) < 1e-8 * max(1.0, force.sum())


def test_placed_elsewhere():
    solid = block((0.1, 0.08, 0.05), (10, 8, 5))
    c, s = np.cos(0.7), np.sin(0.7)
    pose = np.array([[c, 0.0, s, 0.3], [0.0, 1.0, 0.0, -0.2], [-s, 0.0, c, 0.1], [0.0, 0.0, 0.0, 1.0]])
    points = np.array([[0.0, 0.01, 0.046], [0.004, 0.01, 0.047], [0.02, -0.021, 0.0505]])
    here, there = solid.press(points), solid.placed(pose).press(points @ pose[:3, :3].T + pose[:3, 3])
    assert there.force == pytest.approx(pose[:3, :3] @ here.force)
    assert there.displacement == pytest.approx(here.displacement @ pose[:3, :3].T, abs=1e-8)
    assert there.torque == pytest.approx(pose[:3, :3] @ here.torque + np.cross(pose[:3, 3], pose[:3, :3] @ here.force))


def test_beside_and_above_there_is_nothing():
    press = block((0.1, 0.08, 0.05), (10, 8, 5)).press(
        np.array([[0.2, 0.0, 0.04], [0.0, 0.0, 0.06], [0.053, 0.0, 0.045]])
    )
    assert not press.force.any() and not press.displacement.any() and len(press.points) == 0


def test_what_is_no_solid():
    with pytest.raises(ValueError, match="needs .* nodes"):
        SoftSolid(np.zeros((3, 3, 3, 3)), np.ones((3, 3, 3)))
    with pytest.raises(ValueError, match="positive moduli"):
        SoftSolid(grid((1.0, 1.0, 1.0), (2, 2, 2)), np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="inside out"):
        SoftSolid(grid((1.0, 1.0, -1.0), (2, 2, 2)), np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="finite points"):
        block((0.1, 0.08, 0.05), (4, 4, 2)).press(np.array([[np.nan, 0.0, 0.0]]))
