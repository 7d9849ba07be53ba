"""What emulated force-torque sensors feel."""

import argparse

import numpy as np
import pytest

from hardware.emulation.world import SharedWorld
from hardware.emulation.wrench_source import WrenchSource


def test_constant_sine_and_drift():
    source = WrenchSource(
        wrench=[1, 2, 3, 0, 0, 0], amplitude=[2, 0, 0, 0, 0, 0], frequency=0.5, drift=[0, 0, 0, 0.1, 0, 0]
    )
    t = source._began + np.array([0.0, 1.0, 10.0])
    felt = source.at(t)
    np.testing.assert_allclose(felt[:, 0], 1.0 + 2.0 * np.sin(np.pi * t), atol=1e-9)
    np.testing.assert_allclose(felt[:, 3], [0.0, 0.1, 1.0], atol=1e-9)
    np.testing.assert_allclose(felt[:, 1:3], [[2, 3]] * 3)


def test_noise_is_of_its_size_and_repeats_under_its_seed():
    felt = [WrenchSource(seed=5, noise_force=0.5, noise_torque=0.02).at(np.zeros(20000)) for _ in range(2)]
    np.testing.assert_array_equal(*felt)
    np.testing.assert_allclose(felt[0].std(axis=0), [0.5] * 3 + [0.02] * 3, rtol=0.03)


def test_a_world_replaces_constant_and_sine(tmp_path):
    plant = SharedWorld.create(tmp_path / "world", ["a"], "<mujoco/>")
    parser = argparse.ArgumentParser()
    WrenchSource.arguments(parser)
    options = parser.parse_args(["--wrench", *"999999"])
    options.world, options.seed = tmp_path / "world", 0
    source = WrenchSource.from_options(options)
    plant.publish(0.0, [0.0], [0.0], [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(source.at(np.zeros(2)), [[1, 2, 3, 4, 5, 6]] * 2)
    plant.publish(0.1, [0.0], [0.0], [0, 0, 0, 0, 0, 7])
    assert source.at(np.zeros(1))[0, 5] == 7.0


@pytest.mark.parametrize("values", [{"wrench": [1, 2]}, {"weight": 3}])
def test_impossible_values_are_refused(values):
    with pytest.raises(ValueError):
        WrenchSource().set(**values)
