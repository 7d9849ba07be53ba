"""Displacements of coupled points: hand-computed cases, published tables, an independent solver, and the sign that is printed wrongly."""

import numpy as np
import pytest

from benchmarks.rivals.plain_contact import solve_exactly
from sim_core.elastic import kernel
from sim_core.elastic.complementarity import coupling_matrix, exact, pruned, shape

pytestmark = pytest.mark.pure
#: every implementation there is, by the name of what it solves
EXACT = {"numpy": exact, "kernel": lambda g, d: kernel.solve(g, d)[0]}
PRUNED = {"numpy": pruned, "kernel": lambda g, d: kernel.solve(g, d, "pruned")[0]}
ALL = [*EXACT.values(), *PRUNED.values()]


def grid(length, width, spacing):
    x, y = (np.linspace(0.0, s, round(s / spacing) + 1) for s in (length, width))
    i, j = np.meshgrid(x, y)
    return np.stack([i.ravel(), j.ravel(), 0.0 * i.ravel()], 1)


def random_contact(rng):
    """Points on a bumpy patch, displacements of a body that is not parallel to it."""
    n = int(rng.integers(2, 40))
    points = rng.uniform(-0.02, 0.02, (n, 3)) * [1.0, 1.0, 0.2]
    return points, rng.uniform(1e-4, 0.01, n), 10.0 ** rng.uniform(-3.0, 0.0)


@pytest.fixture(scope="module")
def contacts():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(3000):
        points, d, c = random_contact(rng)
        found.append((coupling_matrix(points, c), d))
    return found


@pytest.mark.parametrize("solve", ALL)
def test_a_point_alone_takes_all_of_its_displacement(solve):
    assert solve(np.eye(1), np.array([0.004])) == pytest.approx([0.004], abs=1e-15)


@pytest.mark.parametrize("solve", ALL)
@pytest.mark.parametrize("r", [1e-3, 0.01, 0.2])
def test_two_points_share(solve, r):
    g = shape(r, 0.01)
    found = solve(np.array([[1.0, g], [g, 1.0]]), np.array([0.005, 0.005]))
    assert found == pytest.approx([0.005 / (1.0 + g)] * 2, abs=1e-12)


@pytest.mark.parametrize("solve", ALL)
def test_a_point_that_is_dragged_further_than_it_is_pushed_is_free(solve):
    matrix, d = np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([1.0, 0.1])
    z = solve(matrix, d)
    assert z == pytest.approx([1.0, 0.0], abs=1e-12) and matrix @ z - d == pytest.approx([0.0, 0.8], abs=1e-12)


@pytest.mark.parametrize("solve", ALL)
@pytest.mark.parametrize(
    ("c", "published"),
    [
        (0.010, {10.0: 2.204, 5.0: 2.240, 10.0 / 3.0: 2.247, 2.5: 2.249, 1.0: 2.251}),
        (0.005, {10.0: 3.03, 1.0: 3.25}),
        (0.030, {10.0: 1.480, 1.0: 1.482}),
    ],
)
def test_a_flat_patch_hardly_depends_on_how_densely_it_is_sampled(solve, c, published):
    """Sum of z / d of 20 mm x 20 mm, all points displaced alike; figures by spacing in mm."""
    for spacing, total in published.items():
        points = grid(0.02, 0.02, spacing * 1e-3)
        found = solve(coupling_matrix(points, c), np.full(len(points), 0.003)).sum() / 0.003
        assert found == pytest.approx(total, rel=5e-3), spacing


@pytest.mark.parametrize("solve", ALL)
@pytest.mark.parametrize(("spacing", "total"), [(10.0, 2.446), (1.0, 2.533)])
def test_a_line_hardly_either(solve, spacing, total):
    x = np.linspace(0.0, 0.06, round(60.0 / spacing) + 1)
    points = np.stack([x, 0.0 * x, 0.0 * x], 1)
    assert solve(coupling_matrix(points, 0.01), np.ones(len(x))).sum() == pytest.approx(total, rel=5e-3)


@pytest.mark.parametrize("solve", EXACT.values(), ids=EXACT)
def test_exact_answers_leave_no_penetration_pull_nowhere_and_agree_with_another_solver(contacts, solve):
    apart = 0.0
    for k, (matrix, d) in enumerate(contacts):
        z = solve(matrix, d)
        w = matrix @ z - d
        assert z.min() >= 0.0 and w.min() >= -1e-9 * d.max() and abs(w @ z) <= 1e-9 * d.max() ** 2
        assert (z <= d * (1.0 + 1e-9)).all()
        if k % 10 == 0:
            apart = max(apart, float(np.abs(z - solve_exactly(matrix, d)).max() / d.max()))
    assert apart < 1e-8


@pytest.mark.parametrize("solve", PRUNED.values(), ids=PRUNED)
def test_pruning_nearly_always_finds_the_same_and_errs_little(contacts, solve):
    off = []
    for matrix, d in contacts:
        z = solve(matrix, d)
        assert (z >= 0.0).all() and (z <= d * (1.0 + 1e-9)).all()
        off.append(max(0.0, float((d - matrix @ z).max())) / d.max())
    off = np.array(off)
    assert (off <= 0.03).mean() >= 0.99
    # there are contacts in which it does leave a penetration, so that the exact solver is not for nothing
    assert (off > 1e-6).any()


def test_the_kernel_says_what_pruning_leaves(contacts):
    for matrix, d in contacts[:500]:
        z, left = kernel.solve(matrix, d, "pruned")
        assert left == pytest.approx(max(0.0, float((d - matrix @ z).max())), abs=1e-12)
        assert kernel.solve(matrix, d, "exact")[1] == left


@pytest.mark.parametrize("solve", ALL)
def test_the_printed_sign_is_not_used(contacts, solve):
    """With w = d - G z >= 0 no displacement at all would be an answer to d > 0."""
    for matrix, d in contacts[:300]:
        z = solve(matrix, d)
        assert z.max() > 0.0 and (matrix @ z - d).max() >= -1e-12
        assert (d - matrix @ z).min() <= 1e-12


def test_the_kernel_and_numpy_give_the_same(contacts):
    for matrix, d in contacts[:500]:
        assert kernel.solve(matrix, d)[0] == pytest.approx(exact(matrix, d), abs=1e-12)
        assert kernel.solve(matrix, d, "pruned")[0] == pytest.approx(pruned(matrix, d), abs=1e-12)


def test_large_contacts_are_solved(contacts):
    """More points than fit into a panel of the factorisation many times over, in no round number."""
    points = grid(0.04, 0.05, 2e-3) * [1.0, 1.0, 0.0]
    points[:, 2] = 0.002 * np.sin(100.0 * points[:, 0])
    d = np.maximum(0.004 - 10.0 * ((points[:, :2] - 0.02) ** 2).sum(1), 1e-5)
    matrix = coupling_matrix(points, 0.01)
    assert len(d) > 500
    z = kernel.solve(matrix, d)[0]
    assert (matrix @ z - d).min() > -1e-12 and abs((matrix @ z - d) @ z) < 1e-12
    assert z == pytest.approx(exact(matrix, d), abs=1e-10)


def test_what_cannot_be_solved_is_said():
    with pytest.raises(RuntimeError, match="not positive definite"):
        kernel.solve(np.ones((2, 2)) * 1.5, np.ones(2))
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        kernel.solve(np.eye(3), np.ones(2))
    assert kernel.solve(np.eye(3), np.zeros(3))[0] == pytest.approx(np.zeros(3))
