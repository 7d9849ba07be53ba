import numpy as np

from sim_core.inference.fit.definite import solve_definite


def test_equals_the_plain_solution_over_many_orders_of_magnitude():
    rng = np.random.default_rng(0)
    J, B, units = rng.standard_normal((40, 6)), rng.standard_normal((6, 2)), np.logspace(-8, 8, 6)[:, None]
    H, x = J.T @ J, np.linalg.solve(J.T @ J, B)
    np.testing.assert_allclose(solve_definite(units * H * units.T, units * B), x / units, rtol=1e-9)
    both = solve_definite(np.stack([H, 2.0 * H]), np.stack([B, B]))
    np.testing.assert_allclose(both, [x, x / 2.0], rtol=1e-9)


def test_a_direction_below_rounding_is_left_out():
    """Two coordinates of which exact data see the sum alone: beside 1e22 a prior of 1 is lost."""
    H = np.array([[1e22, 1e22, 0.0], [1e22, 1e22, 0.0], [0.0, 0.0, 4.0]])
    x = solve_definite(H, np.array([[1e22], [1e22], [8.0]]))[:, 0]
    np.testing.assert_allclose(x, [0.5, 0.5, 2.0], rtol=1e-9)
