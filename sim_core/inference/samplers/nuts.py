"""No-U-turn sampler, through numpyro; the density stays compiled C called back from JAX."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sim_core.inference.samplers.limits import logit, sigmoid, sigmoid_log_slope
from sim_core.inference.samplers.sampler import Chains, Run, Sampler, sobol

__all__ = ["NUTS"]

STARTS = 64  # Sobol points of which chains other than the first start at one of the better quarter


def nuts(
    run: Run,
    iterations: int,
    warmup: int | None = None,
    target_accept: float = 0.8,
    max_tree_depth: int = 10,
    dense_mass: bool = False,
    chains: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Hamiltonian Monte Carlo with self-tuned length, step and metric, in one chain or several, one after the other.

    Moves in y with z = sigmoid(y), where the limits are at infinity; the map's Jacobian is part of the density. The last
    N points after warm-up are returned, an equal share of each chain; a step whose density vanishes counts as divergent
    and is rejected. The first chain starts at the centre of the limits, others at some of the better Sobol points.

    Args:
        iterations: of each chain, warm-up included.
        warmup: iterations in which step size and metric adapt; half of all by default, its share of N draws being left.
        max_tree_depth: at most 2^depth - 1 gradients per iteration.
        dense_mass: estimate the metric's off-diagonal entries as well.

    Source: Hoffman & Gelman, JMLR 15, 2014.
    """
    import jax
    import jax.numpy as jnp

    share = min(-(-run.samples // chains), iterations)
    warmup = min(iterations // 2, iterations - share) if warmup is None else min(warmup, iterations - share)

    def evaluate(y: np.ndarray) -> tuple[np.float64, np.ndarray]:
        """Potential and gradient as plain arrays; NumPy alone in here: JAX waiting for itself would never wake up."""
        y = np.asarray(y)
        log_p, grad = run.log_p_and_grad(sigmoid(y)[None])
        log_slope, slope = sigmoid_log_slope(y)
        potential = -(log_p[0] + log_slope.sum())
        gradient = -(grad[0] * np.exp(log_slope) + slope)
        return np.float64(potential), gradient if np.isfinite(potential) else np.zeros_like(y)

    with double_precision(jax), _asking(evaluate):
        kernel, step = _transition(run.n, warmup, target_accept, max_tree_depth, dense_mass)
        drawn = Chains(chains, run.n)
        for i in run.iterate(chains * iterations, "NUTS"):
            chain, k = divmod(i, iterations)
            if k == 0:
                begin = jnp.asarray(logit(_start(run, chain)))
                state = kernel.init(jax.random.PRNGKey(run.seed + chain), warmup, begin, (), {})
            state = jax.block_until_ready(step(state))
            y = np.asarray(state.z)
            log_p = -float(state.potential_energy) - sigmoid_log_slope(y)[0].sum()
            drawn.push(chain, sigmoid(y), log_p, sample=k >= warmup)
            run.record(
                i,
                *drawn.last(chain, share),
                leapfrogs=int(state.num_steps),
                accept=float(state.accept_prob),
                step=float(state.adapt_state.step_size),
            )
    run.chains = drawn.equal()
    return drawn.tail(share, run.samples)


_Evaluate = Callable[[np.ndarray], tuple[np.float64, np.ndarray]]
_asked: list[_Evaluate] = []


@contextlib.contextmanager
def _asking(evaluate: _Evaluate) -> Iterator[None]:
    """What compiled transitions ask for potential and gradient: that of one run at a time, see `double_precision`."""
    _asked[:] = [evaluate]
    try:
        yield
    finally:
        _asked.clear()


@functools.lru_cache(maxsize=8)
def _transition(
    n: int, warmup: int, target_accept: float, max_tree_depth: int, dense_mass: bool
) -> tuple[Any, Callable[[Any], Any]]:
    """numpyro's kernel, and its transition compiled, which takes a second or two and knows nothing of the density it asks."""
    import jax
    import jax.numpy as jnp
    from numpyro.infer import NUTS

    shapes = (jax.ShapeDtypeStruct((), jnp.float64), jax.ShapeDtypeStruct((n,), jnp.float64))

    def evaluate(y: np.ndarray) -> tuple[np.float64, np.ndarray]:
        return _asked[0](y)

    @jax.custom_vjp
    def potential(y: Any) -> Any:
        return jax.pure_callback(evaluate, shapes, y)[0]

    # The gradient comes with the value, and waits for the backward sweep.
    potential.defvjp(lambda y: jax.pure_callback(evaluate, shapes, y), lambda gradient, bar: (bar * gradient,))

    kernel = NUTS(
        potential_fn=potential,
        target_accept_prob=target_accept,
        max_tree_depth=max_tree_depth,
        dense_mass=dense_mass,
    )
    return kernel, jax.jit(lambda state: kernel.sample(state, (), {}))


def _start(run: Run, chain: int) -> np.ndarray:
    """Where a chain begins (M,): far from the others, but not where there is no telling the way."""
    if chain == 0:
        return run.start()
    points = sobol(STARTS, run.n, run.seed)
    log_p = run.log_p(points)
    better = np.argsort(-log_p, kind="stable")[: STARTS // 4]
    return points[better[np.isfinite(log_p[better])]][(chain * 7919) % max(1, np.isfinite(log_p[better]).sum())]


_ONE_AT_A_TIME = threading.Lock()


@contextlib.contextmanager
def double_precision(jax: Any) -> Iterator[None]:
    """JAX in 64 bits. A setting of the whole process, because callbacks arrive on threads of JAX's own, which know nothing
    of the caller's context; so one chain runs at a time, and the former setting comes back."""
    with _ONE_AT_A_TIME:
        before = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", True)
        try:
            yield
        finally:
            jax.config.update("jax_enable_x64", before)


NUTS = Sampler(nuts, True, 1000, "no-U-turn sampler (numpyro)", "inference")
