"""One iteration of CSVGD as a user of JAX would write it: vmap over particles and windows, scan over time, one jit.

The batch is laid out as in `tree.py` (last dimension), which is several times faster on a CPU than vmap of a single robot;
two pull-backs share one roll-out. Everything, kernel matrix, Adam and multipliers included, is inside the one jit.
"""

import numpy as np

from benchmarks.rivals.tree import make_step, tree
from sim_core.inference.samplers.csvgd import SIGMA_LIM
from sim_core.inference.samplers.stein import STEEPEST

FIELDS = ("xx", "yy", "zz", "xy", "xz", "yz")


class JaxCsvgd:
    """The same iteration as `sim_core.inference.samplers.csvgd` on a MultipleShooting of states, one trajectory.

    Args:
        shooting: MultipleShooting without observation map, Gaussian, of one trajectory.
        particles, iterations, step, final_step, damping: as for csvgd.
        remat: recompute each step in the reverse sweep instead of storing its intermediates.
    """

    def __init__(
        self, shooting, particles: int, iterations: int, step=0.02, final_step=0.002, damping=1.0, remat=False
    ):
        import jax

        jax.config.update("jax_enable_x64", True)
        self.jax, self.jnp, self.shooting = jax, jax.numpy, shooting
        self.particles, self.iterations, self.sizes, self.damping, self.remat = (
            particles,
            iterations,
            (step, final_step),
            damping,
            remat,
        )
        self._iterate = jax.jit(self._iteration)

    def start(self, z):
        """State (z, starts, multipliers of defects and limits, Adam's moments) at iteration 0."""
        jnp = self.jnp
        starts = jnp.zeros((self.particles, *self.shooting.starts_shape[1:]))
        z = jnp.asarray(z)
        return (
            z,
            starts,
            jnp.zeros_like(starts),
            jnp.zeros_like(z),
            *(jnp.zeros_like(a) for a in (z, z, starts, starts)),
        )

    def iterate(self, state, i: int):
        """The state after iteration i (from 0), ready."""
        first, last = self.sizes
        size = first * (last / first) ** (i / max(self.iterations - 1, 1))
        return self.jax.block_until_ready(self._iterate(state, size, i + 1.0))

    # ---- inside the jit ------------------------------------------------------------------------------------------------

    def _iteration(self, state, size, t):
        jnp, c = self.jnp, self.damping
        z, starts, on_defects, on_limits, mz, vz, ms, vs = state
        (_, d), pull = self.jax.vjp(self._simulate, jnp.clip(z, 0.0, 1.0), starts)
        score, grad_starts = pull((jnp.ones(len(z)), jnp.zeros_like(d)))
        penalty, penalty_starts = pull((jnp.zeros(len(z)), on_defects + c * d))
        g = (jnp.clip(z, 0.0, 1.0) - z) / SIGMA_LIM
        # clip has no gradient beyond the limits; the constraint's force takes over there, as in ours.
        push = (on_limits + c * g) * (g != 0) / SIGMA_LIM
        gz = self._stein(z, self._bounded(score)) + push - self._bounded(penalty)
        gs = self._bounded(grad_starts - penalty_starts)
        (dz, mz, vz), (ds, ms, vs) = self._adam(gz, mz, vz, size, t), self._adam(gs, ms, vs, size, t)
        pace = jnp.minimum(size / (jnp.sqrt(vs / (1 - 0.999**t)) + 1e-8), size)
        return z + dz, starts + ds, on_defects + pace * d, on_limits + size * g, mz, vz, ms, vs

    def _bounded(self, gradients):
        """None longer than 100 times the median length of those that are not zero."""
        jnp = self.jnp
        length = jnp.sqrt((gradients**2).reshape(len(gradients), -1).sum(1))
        longest = STEEPEST * jnp.nanmedian(jnp.where(length > 0, length, jnp.nan))
        shorter = jnp.where(length > longest, longest / length, 1.0)
        return gradients * shorter.reshape(-1, *(1,) * (gradients.ndim - 1))

    def _stein(self, z, score):
        jnp, n = self.jnp, len(z)
        d2 = ((z[:, None] - z[None]) ** 2).sum(-1)
        h = jnp.median(d2[np.triu_indices(n, 1)]) / np.log(n)
        K = jnp.exp(-d2 / h)
        return (K @ (score - 2 / h * z) + 2 / h * z * K.sum(1)[:, None]) / n

    def _adam(self, g, m, v, size, t):
        m, v = m + 0.1 * (g - m), v + 0.001 * (g * g - v)
        return size * (m / (1 - 0.9**t)) / (self.jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v

    def _simulate(self, z, starts):
        """log p (N,) and defects (N, S-1, nx) of z (N, M) and starts (N, S-1, nx)."""
        jnp, s = self.jnp, self.shooting
        N, (_, S1, nx) = len(z), s.starts_shape
        step, inertias = make_step(tree(s.dynamics.model), jnp, jnp.asarray)
        step = self.jax.checkpoint(step) if self.remat else step
        p = self._physical(s.lower + z * s.width).T  # (np_, N)
        p = jnp.repeat(p, S1 + 1, axis=1)  # (np_, N S): windows of one particle side by side
        at = jnp.broadcast_to(s.recorded.start, (N, S1 + 1, nx)).at[:, 1:].add(starts * s.state_scale)
        inertia, x0 = inertias(p), at.reshape(-1, nx).T
        u, y = (
            jnp.asarray(s.recorded.u.transpose(1, 2, 0)),
            jnp.asarray(s.recorded.y[:, 1:].transpose(1, 2, 0)),
        )  # (H, ., S)

        def advance(carry, inputs):
            x, misfit = carry
            u_k, y_k = (jnp.tile(a, (1, N)) for a in inputs)
            x = step(x, u_k, p, inertia)
            return (x, misfit + 0.5 * (((x - y_k) * s.recorded.per_sigma[:, None]) ** 2).sum(0)), None

        (end, misfit), _ = self.jax.lax.scan(advance, (x0, jnp.zeros(x0.shape[1])), (u, y))
        end = end.T.reshape(N, S1 + 1, nx)
        d = (at[:, 1:] - end[:, :-1]) / (s.state_scale * s.sigma_def)
        return -misfit.reshape(N, -1).sum(1), d

    def _physical(self, theta):
        """Physical vectors (N, np_) of theta (N, M): LimitedParameters' map, written in JAX."""
        jnp, parameters, model = self.jnp, self.shooting.parameters, self.shooting.dynamics.model
        layout = model.parameters
        p = jnp.broadcast_to(jnp.asarray(layout.nominal), (len(theta), model.np_))
        bodies = {}
        for i, quantities in enumerate(parameters._moves.values()):
            for quantity, factor in quantities.items():
                place = parameters._place(quantity)
                if isinstance(place, int):
                    p = p.at[:, place].set(factor * theta[:, i])
                else:
                    body, field = place
                    bodies.setdefault(body, {})[field] = factor * theta[:, i]
        for body, fields in bodies.items():
            part = layout.inertia_slice(body)
            p = p.at[:, part].set(self._ten(p[:, part], fields))
        return p

    def _ten(self, nominal, fields):
        jnp, axes = self.jnp, "xyz"
        m0, c0 = nominal[:, 0], nominal[:, 1:4] / nominal[:, :1]
        m = fields.get("mass", m0)
        c = jnp.stack([fields.get(f"com.{a}", c0[:, k]) for k, a in enumerate(axes)], 1)
        moments = []
        for k, ij in enumerate(FIELDS):
            i, j = (axes.index(a) for a in ij)

            def shift(m, c):
                return m * ((i == j) * (c * c).sum(1) - c[:, i] * c[:, j])

            about_com = fields.get(f"I_com.{ij}", nominal[:, 4 + k] - shift(m0, c0))
            moments.append(fields.get(f"I.{ij}", about_com + shift(m, c)))
        return jnp.concatenate([m[:, None], m[:, None] * c, jnp.stack(moments, 1)], 1)
