"""The synthetic double pendulum of the experiments, and what the tests of inference ask of it."""

import numpy as np

from experiments.problems.point_mass_pendulum import dynamics, lengths, simulated

__all__ = ["central_differences", "dynamics", "lengths", "noisy", "simulated"]


def noisy(trajectories, noise=0.02, seed=0):
    """The same trajectories with Gaussian noise of `noise` standard deviations on all states but the first."""
    from dataclasses import replace

    rng = np.random.default_rng(seed)
    e = noise * trajectories.scale * rng.standard_normal(trajectories.x.shape)
    e[:, 0] = 0.0
    return replace(trajectories, x=trajectories.x + e)


def central_differences(f, z, step=1e-6):
    """df/dz (N, M) of f (N,) at z (N, M)."""
    columns = []
    for i in range(z.shape[1]):
        e = step * np.eye(z.shape[1])[i]
        columns.append((f(z + e) - f(z - e)) / (2 * step))
    return np.stack(columns, axis=1)
