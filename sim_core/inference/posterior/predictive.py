"""How well a posterior's simulations match recordings it has not seen.

Which trajectories are compared decides what the numbers mean. A set of simulations belongs to one particle (the source's
D^sim(theta), from every recorded start state), and what is reported is the mean over the particles: the expectation under
the posterior. Pooled over particles, the nearest neighbours of a simulation would be those of other particles from the
same start: the better the particles agree, the worse d_KL(sim || real) would become.

For the same reason every recorded window is taken four times, its start moved by one frame each (`replicas`). With ten
windows alone the third neighbour of a recording is another window, so that distances are resolved no finer than windows
differ, and simulations that all end up near the middle look best. With replicas they are resolved to a few frames' motion.
`test_predictive.py` holds both claims.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sim_core.inference.data.trajectories import Trajectories
from sim_core.inference.posterior.metrics import kl_knn, mmd
from sim_core.inference.shooting.maps import ParameterMap
from sim_core.system import System

__all__ = ["Discrepancy", "discrepancy", "replicas", "simulated"]


@dataclass(frozen=True)
class Discrepancy:
    """Simulations against recordings, means over particles.

    Attributes:
        kl_real_sim, kl_sim_real: d_KL(real || sim), d_KL(sim || real) [nats].   mmd: squared MMD.
        log_p: log p_obs of the set (sum over trajectories), single shooting, sigma_obs = 0.2.
        rms: root mean square error, in standard deviations of each state, median over particles.
        finite: share of the particles whose simulations all are; the others are left out. Below one half every number is
            NaN: the method has failed.
    """

    kl_real_sim: float
    kl_sim_real: float
    mmd: float
    log_p: float
    rms: float
    finite: float


def replicas(starts: Iterable[tuple[str, int]], copies: int = 4, shift: int = 1) -> list[tuple[str, int]]:
    """Windows (name, first frame) each `copies` times, `shift` frames apart."""
    return [(name, first + shift * k) for name, first in starts for k in range(copies)]


def simulated(dynamics: System, parameters: ParameterMap, theta: np.ndarray, recorded: Trajectories) -> np.ndarray:
    """Roll-outs (N, R, T+1, nx) of theta (N, M) from the first states of R recorded trajectories."""
    p = parameters.to_physical(theta)
    return dynamics.rollout(recorded.x[:, 0], recorded.u, p[:, None, :])


def discrepancy(
    X: np.ndarray, recorded: Trajectories, scale: np.ndarray | None = None, sigma_obs: float = 0.2, k: int = 3
) -> Discrepancy:
    """Compare simulations X (N, R, T+1, nx) with R recorded trajectories; the known first states are left out.

    Args:
        scale: units of the states (nx,); default their standard deviation in the recordings.
    """
    scale = recorded.scale if scale is None else scale
    real = recorded.x[:, 1:] / scale
    sim = X[:, :, 1:] / scale
    # Beyond 1e6 standard deviations distances overflow and nothing is told apart.
    good = (np.isfinite(sim) & (np.abs(np.where(np.isfinite(sim), sim, 0)) < 1e6)).all((1, 2, 3))
    if good.mean() < 0.5:
        return Discrepancy(np.nan, np.nan, np.nan, np.nan, np.nan, float(good.mean()))
    real_flat, rows = real.reshape(len(real), -1), []
    for one in sim[good]:
        flat = one.reshape(len(one), -1)
        squared = ((one - real) ** 2).sum((1, 2))
        log_each = -0.5 * squared / sigma_obs**2 - real[0].size * np.log(np.sqrt(2 * np.pi) * sigma_obs)
        rows.append(
            (
                kl_knn(real_flat, flat, k),
                kl_knn(flat, real_flat, k),
                mmd(flat, real_flat, unbiased=False),
                np.logaddexp.reduce(log_each) - np.log(len(log_each)),
                np.sqrt(np.mean((one - real) ** 2)),
            )
        )
    table = np.array(rows)
    kl_real_sim, kl_sim_real, distance, log_p = table[:, :4].mean(0).tolist()
    return Discrepancy(kl_real_sim, kl_sim_real, distance, log_p, float(np.median(table[:, 4])), float(good.mean()))
