"""Tools from wrenches at rest: exact on exact data, within the promised bounds on noisy data, refused where data cannot tell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_core.perception.tool_load import GRAVITY, ToolLoad, identify_tool

OFFSET = np.array([3.0, -1.0, 7.0, 0.2, -0.1, 0.05])


def directions(n, rng):
    """Gravity in the sensor's axes for n orientations drawn at random."""
    g = rng.standard_normal((n, 3))
    return GRAVITY * g / np.linalg.norm(g, axis=1, keepdims=True)


def test_wrench_of_a_hanging_tool():
    """A mass 0.1 m along x, gravity along -z: it pulls down, and turns about -y ... r x f = (0.1, 0, 0) x (0, 0, -mg) = (0, 0.1 mg, 0)."""
    w = ToolLoad(2.0, np.array([0.1, 0.0, 0.0])).wrench(np.array([0.0, 0.0, -GRAVITY]))
    np.testing.assert_allclose(w, [0, 0, -2 * GRAVITY, 0, 0.2 * GRAVITY, 0], atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 20.0), st.integers(6, 12))
def test_exact_data_give_the_tool_exactly(seed, mass, n):
    rng = np.random.default_rng(seed)
    com = rng.uniform(-0.2, 0.2, 3)
    # Axis by axis both ways, then at random: always observable.
    g = np.concatenate([GRAVITY * np.concatenate([np.eye(3), -np.eye(3)]), directions(n - 6, rng)])
    found = identify_tool(g, ToolLoad(mass, com).wrench(g) + OFFSET)
    assert found.tool.mass == pytest.approx(mass, rel=1e-9)
    np.testing.assert_allclose(found.tool.com, com, atol=1e-9)
    np.testing.assert_allclose(found.offset, OFFSET, atol=1e-8)
    assert found.force_residual < 1e-9


def test_noisy_data_stay_within_the_bounds_and_the_deviation_is_honest():
    """F8: eight poses, 1 kg, 0.05 N and 2 mN m of noise on each mean: mass within 1 %, centre within 2 mm, residual below 0.2 N."""
    rng, tool = np.random.default_rng(8), ToolLoad(1.0, np.array([0.02, -0.01, 0.08]))
    masses, z = [], []
    for _ in range(200):
        g = directions(8, rng)
        wrench = tool.wrench(g) + OFFSET + rng.standard_normal((8, 6)) * np.repeat([0.05, 0.002], 3)
        found = identify_tool(g, wrench)
        masses.append(found.tool.mass)
        z.append((found.tool.mass - 1.0) / found.mass_std)
        assert found.force_residual <= 0.2
        assert np.abs(found.tool.com - tool.com).max() <= 0.002
    assert np.abs(np.array(masses) - 1.0).max() <= 0.01
    assert np.std(z) == pytest.approx(1.0, abs=0.15)


def test_poses_that_cannot_tell_are_refused():
    rng, tool = np.random.default_rng(1), ToolLoad(1.0, np.array([0.0, 0.0, 0.1]))
    g = directions(8, rng)
    with pytest.raises(ValueError, match="at least 6"):
        identify_tool(g[:5], tool.wrench(g[:5]))
    # Two directions only: they differ along one line.
    g = GRAVITY * np.array([[0, 0, -1.0], [0.6, 0, -0.8]] * 4)
    with pytest.raises(ValueError, match="along one line"):
        identify_tool(g, tool.wrench(g) + 1e-3 * rng.standard_normal((8, 6)))
    # A plane is enough.
    angles = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    g = GRAVITY * np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    np.testing.assert_allclose(identify_tool(g, tool.wrench(g)).tool.com, tool.com, atol=1e-9)


def test_data_that_no_tool_explains_are_refused():
    rng = np.random.default_rng(2)
    g = directions(8, rng)
    with pytest.raises(ValueError, match="sign"):
        identify_tool(g, -ToolLoad(1.0).wrench(g))
    with pytest.raises(ValueError, match="noise|sign"):
        identify_tool(g, rng.standard_normal((8, 6)))
    with pytest.raises(ValueError, match="finite"):
        identify_tool(g, np.full((8, 6), np.nan))
