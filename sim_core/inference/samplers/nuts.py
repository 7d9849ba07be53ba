"""No-U-turn sampler, through numpyro; the density stays compiled C called back from JAX."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from sim_core.inference.samplers.limits import logit, sigmoid, sigmoid_log_slope
from sim_core.inference.samplers.sampler import Run, Sampler, Tail

__all__ = ["NUTS"]


def nuts(
    run: Run,
    iterations: int,
    warmup: int | None = None,
    target_accept: float = 0.8,
    max_tree_depth: int = 10,
    dense_mass: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """One chain of Hamiltonian Monte Carlo with self-tuned length, step and metric, from the centre of the limits.

    Moves in y with z = sigmoid(y), where the limits are at infinity; the map's Jacobian is part of the density. The last
    N points after warm-up are returned; a step whose density vanishes counts as divergent and is rejected.

    Args:
        iterations: warm-up included.
        warmup: iterations in which step size and metric adapt; half of all by default, N draws being left at least.
        max_tree_depth: at most 2^depth - 1 gradients per iteration.
        dense_mass: estimate the metric's off-diagonal entries as well.

    Source: Hoffman & Gelman, JMLR 15, 2014.
    """
    import jax
    import jax.numpy as jnp
    from numpyro.infer import NUTS

    kept = min(run.samples, iterations)
    warmup = min(iterations // 2, iterations - kept) if warmup is None else min(warmup, iterations - kept)

    def evaluate(y: np.ndarray) -> tuple[np.float64, np.ndarray]:
        """Potential and gradient as plain arrays; NumPy alone in here: JAX waiting for itself would never wake up."""
        y = np.asarray(y)
        log_p, grad = run.log_p_and_grad(sigmoid(y)[None])
        log_slope, slope = sigmoid_log_slope(y)
        potential = -(log_p[0] + log_slope.sum())
        gradient = -(grad[0] * np.exp(log_slope) + slope)
        return np.float64(potential), gradient if np.isfinite(potential) else np.zeros_like(y)

    with double_precision(jax):
        shapes = (jax.ShapeDtypeStruct((), jnp.float64), jax.ShapeDtypeStruct((run.n,), jnp.float64))

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
        state = kernel.init(jax.random.PRNGKey(run.seed), warmup, jnp.asarray(logit(run.start())), (), {})
        step = jax.jit(lambda state: kernel.sample(state, (), {}))
        tail = Tail(kept, run.n)
        for i in run.iterate(iterations, "NUTS"):
            state = jax.block_until_ready(step(state))
            y = np.asarray(state.z)
            log_p = -float(state.potential_energy) - sigmoid_log_slope(y)[0].sum()
            if i <= warmup:
                tail = Tail(kept, run.n)  # while it adapts it is no sample; a cancelled run still has its last point
            tail.push(sigmoid(y)[None], np.array([log_p]))
            run.record(
                i,
                *tail.points(),
                leapfrogs=int(state.num_steps),
                accept=float(state.accept_prob),
                step=float(state.adapt_state.step_size),
            )
    return tail.points()


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


NUTS = Sampler(nuts, True, 1000, "no-U-turn sampler, one chain (numpyro)", "inference")
