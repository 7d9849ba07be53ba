"""Stochastic gradient Langevin dynamics: gradient steps with noise of matching size."""

from __future__ import annotations

import numpy as np

from sim_core.inference.samplers.limits import reflect
from sim_core.inference.samplers.sampler import Run, Sampler, Tail, sobol

__all__ = ["SGLD"]


def sgld(
    run: Run,
    iterations: int,
    step: float = 1e-4,
    final_step: float | None = None,
    precondition: bool = True,
    beta: float = 0.95,
    epsilon: float = 1e-8,
    chains: int = 1,
    longest: float = 0.05,
) -> tuple[np.ndarray, np.ndarray]:
    """z <- z + alpha/2 A d log p/dz + N(0, alpha A), reflected at the limits.

    With preconditioning A = 1 / (epsilon + sqrt(V)), V <- beta V + (1 - beta) grad^2 (the thesis' variant, without the
    curvature term of Li et al., so only approximately invariant); without, A = 1 (Welling and Teh).
    One chain starts at the centre of the limits, several at Sobol points; the last N points are returned, of all chains.
    A step into a place of zero density is not taken.

    Args:
        step: alpha at the start, in units of the limits: variance of the noise where A = 1.
        final_step: alpha at the end, reached geometrically; None keeps it.
        chains: side by side, in one evaluation.
        longest: bound on the drift of one coordinate in one step; far from the data gradients are far above any that
            the step size is meant for.

    Source: Welling & Teh, ICML 2011; thesis, section 3.2.4.2, Alg. 9.
    """
    z = run.start()[None] if chains == 1 else sobol(chains, run.n, run.seed)
    log_p, grad = run.log_p_and_grad(z)
    V = grad**2
    decay = 1.0 if final_step is None else (final_step / step) ** (1 / max(iterations - 1, 1))
    tail = Tail(run.samples, run.n)
    for i in run.iterate(iterations, "SGLD"):
        alpha = step * decay**i
        if precondition:
            V = beta * V + (1 - beta) * grad**2
        A = 1 / (epsilon + np.sqrt(V)) if precondition else np.ones_like(V)
        # Without any gradient (zero density at the start) the preconditioner would be infinite.
        A = np.where(V > 0, A, 1.0)
        noise = np.minimum(np.sqrt(alpha * A), longest) * run.rng.standard_normal(z.shape)
        trial = reflect(z + np.clip(0.5 * alpha * A * grad, -longest, longest) + noise)
        log_trial, grad_trial = run.log_p_and_grad(trial)
        taken = np.isfinite(log_trial) | ~np.isfinite(log_p)
        z, grad = (np.where(taken[:, None], new, old) for new, old in ((trial, z), (grad_trial, grad)))
        log_p = np.where(taken, log_trial, log_p)
        tail.push(z, log_p)
        run.record(i, *tail.points(), step=alpha)
    points, log_p = tail.points()
    rounds = len(points) // chains
    run.chains = points[len(points) - rounds * chains :].reshape(rounds, chains, run.n).swapaxes(0, 1)
    return points, log_p


SGLD = Sampler(sgld, True, 2000, "stochastic gradient Langevin dynamics, preconditioned by the gradient's size")
