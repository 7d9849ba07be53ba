"""The signature against integrals that are known."""

from math import factorial

import numpy as np
import pytest

from sim_core.inference.bayessim import path_signature


def levels(S, d):
    """The signature's levels as tensors."""
    out, k = [], 1
    while S.size:
        out.append(S[: d**k].reshape((d,) * k))
        S, k = S[d**k :], k + 1
    return out


def test_a_straight_line_has_powers_over_factorials():
    D = np.array([0.5, -1.5, 2.0])
    x = np.linspace(0, 1, 7)[:, None] * D + 3.0
    for k, level in enumerate(levels(path_signature(x, 4), 3), 1):
        power = D
        for _ in range(k - 1):
            power = np.multiply.outer(power, D)
        np.testing.assert_allclose(level, power / factorial(k), atol=1e-12)


def test_a_parabola_has_polynomial_integrals():
    # x = (t, t^2) on [0, 1]; dx1 = dt, dx2 = 2 t dt
    t = np.linspace(0, 1, 4001)
    one, two, three = levels(path_signature(np.stack([t, t**2], 1), 3), 2)
    np.testing.assert_allclose(one, [1, 1], atol=1e-12)
    np.testing.assert_allclose(two, [[1 / 2, 2 / 3], [1 / 3, 1 / 2]], atol=1e-6)
    # (1,1,2): int t^2/2 2t dt = 1/4; (1,2,1): int (2/3 t^3) dt = 1/6; (2,1,1): int (1/3) t^3 dt = 1/12
    np.testing.assert_allclose([three[0, 0, 1], three[0, 1, 0], three[1, 0, 0]], [1 / 4, 1 / 6, 1 / 12], atol=1e-6)


def test_the_area_of_a_circle():
    t = np.linspace(0, 2 * np.pi, 2001)
    _, two = levels(path_signature(np.stack([np.cos(t), np.sin(t)], 1), 2), 2)
    assert (two[0, 1] - two[1, 0]) / 2 == pytest.approx(np.pi, rel=1e-5)


def test_shuffles_reparametrisation_and_joining():
    x = np.random.default_rng(0).standard_normal((5, 30, 3)).cumsum(1)
    S = path_signature(x, 3)
    for s, path in zip(S, x):
        one, two, three = levels(s, 3)
        np.testing.assert_allclose(np.multiply.outer(one, one), two + two.T, atol=1e-9)  # S_i S_j = S_ij + S_ji
        i, j, k = 0, 1, 2
        assert one[i] * two[j, k] == pytest.approx(three[i, j, k] + three[j, i, k] + three[j, k, i])
        np.testing.assert_allclose(path_signature(np.repeat(path, 3, 0) + 7, 3), s, atol=1e-9)
        # Chen: the signature of a joined path is the product of the pieces' signatures
        a, b = (levels(path_signature(piece, 2), 3) for piece in (path[:12], path[11:]))
        np.testing.assert_allclose(two, a[1] + np.multiply.outer(a[0], b[0]) + b[1], atol=1e-9)


def test_a_depth_below_one_is_refused():
    with pytest.raises(ValueError, match="depth"):
        path_signature(np.zeros((3, 2)), 0)
