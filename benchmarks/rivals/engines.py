"""Engines that roll out a robot, each behind the same two calls.

    engine.arguments(x0 (B, nx), U (B, H, nu), P (B, np_)) -> arguments in the engine's own layout
    engine.forward(arguments)  -> X (B, H, nx), the states after each step
    engine.gradient(arguments) -> loss, dloss/dx0 (B, nx), dloss/dp (B, np_) of loss = sum X^2 / 2

Converting to that layout is not timed. Calls return the engine's own arrays; `numpy_*` converts for comparison.
"""

import numpy as np

from benchmarks.rivals.tree import make_step, tree
from sim_core.multibody import Dynamics


class Ours:
    """Compiled kernels; `gradient` includes dloss/dU, which the others leave out."""

    def __init__(self, model, dtype="float64", threads=1, lanes="auto"):
        self.dynamics = Dynamics(model, dtype=dtype, threads=threads, lanes=lanes)

    def arguments(self, x0, U, P):
        return tuple(np.ascontiguousarray(a, self.dynamics.dtype) for a in (x0, U, P))

    def forward(self, arguments):
        return self.dynamics.rollout(*arguments)

    def gradient(self, arguments):
        X = self.dynamics.rollout(*arguments)
        # loss = sum X^2 / 2 has dloss/dX = X; the start is not part of it, so its own share is taken off again.
        x0bar, _, pbar = self.dynamics.rollout_vjp(*arguments, X, X)
        return X, x0bar - X[..., 0, :], pbar

    def numpy_forward(self, X):
        return np.asarray(X[:, 1:], float)

    def numpy_gradient(self, found):
        X, x0bar, pbar = (np.asarray(a, float) for a in found)
        return 0.5 * (X[:, 1:] ** 2).sum(), x0bar, pbar


class Mujoco:
    """mujoco.rollout (C, its own threads): one mj_step per step; contacts and constraints off, no gradient."""

    def __init__(self, model, threads=1):
        import mujoco
        from mujoco import rollout

        self.mj = copy_without_constraints(model.mj_model)
        self.threads = threads
        self.runner = rollout.Rollout(nthread=threads if threads > 1 else 0)
        self.data = [mujoco.MjData(self.mj) for _ in range(max(threads, 1))]
        self.size = mujoco.mj_stateSize(self.mj, mujoco.mjtState.mjSTATE_FULLPHYSICS)

    def arguments(self, x0, U, P):
        """Physical parameters are the model's own; P is not looked at."""
        state = np.zeros((len(x0), self.size))
        state[:, 1 : 1 + x0.shape[1]] = x0
        return state, np.ascontiguousarray(U)

    def forward(self, arguments):
        return self.runner.rollout(self.mj, self.data, *arguments)[0]

    def numpy_forward(self, states):
        return states[:, :, 1 : 1 + self.mj.nq + self.mj.nv]

    def close(self):
        self.runner.close()


def copy_without_constraints(mj_model):
    import copy

    import mujoco

    mj = copy.copy(mj_model)
    off = mujoco.mjtDisableBit
    mj.opt.disableflags |= int(off.mjDSBL_CONTACT | off.mjDSBL_CONSTRAINT)
    return mj


class Jax:
    """jit + scan, double precision, on as many threads as XLA takes (all cores, unless told otherwise).

    remat: recompute each step in the reverse sweep (jax.checkpoint), as ours does, instead of storing its
    intermediates. `forward` is the same either way.
    """

    def __init__(self, model, remat=False):
        import jax

        jax.config.update("jax_enable_x64", True)
        jnp = jax.numpy
        step, inertias = make_step(tree(model), jnp, jnp.asarray)
        once = jax.checkpoint(step) if remat else step

        def rollout(x0, U, p):
            inertia = inertias(p)

            def advance(x, u):
                x = once(x, u, p, inertia)
                return x, x

            return jax.lax.scan(advance, x0, U)[1]

        def loss(x0, U, p):
            return 0.5 * (rollout(x0, U, p) ** 2).sum()

        self.ready = jax.block_until_ready
        self._rollout = jax.jit(rollout)
        self._gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 2)))

    def arguments(self, x0, U, P):
        import jax

        # ours: batch first; here: batch last
        return tuple(jax.device_put(np.ascontiguousarray(np.moveaxis(a, 0, -1))) for a in (x0, U, P))

    def forward(self, arguments):
        return self.ready(self._rollout(*arguments))

    def gradient(self, arguments):
        return self.ready(self._gradient(*arguments))

    def numpy_forward(self, X):
        return np.moveaxis(np.asarray(X), -1, 0)

    def numpy_gradient(self, found):
        loss, (x0bar, pbar) = found
        return float(loss), np.asarray(x0bar).T, np.asarray(pbar).T


class Torch:
    """Eager torch on one thread: the same array program as JAX, step by step, reversed by autograd."""

    def __init__(self, model):
        import torch

        torch.set_num_threads(1)
        self.torch = torch
        self.step, self.inertias = make_step(tree(model), torch, torch.tensor)

    def arguments(self, x0, U, P):
        return tuple(self.torch.tensor(np.ascontiguousarray(np.moveaxis(a, 0, -1))) for a in (x0, U, P))

    def _states(self, x, U, p):
        inertia, X = self.inertias(p), []
        for u in U:
            x = self.step(x, u, p, inertia)
            X.append(x)
        return self.torch.stack(X)

    def forward(self, arguments):
        with self.torch.no_grad():
            return self._states(*arguments)

    def gradient(self, arguments):
        x0, U, p = arguments
        x0, p = x0.detach().requires_grad_(), p.detach().requires_grad_()
        loss = 0.5 * self._states(x0, U, p).square().sum()
        return loss, *self.torch.autograd.grad(loss, (x0, p))

    def numpy_forward(self, X):
        return np.moveaxis(X.numpy(), -1, 0)

    def numpy_gradient(self, found):
        loss, x0bar, pbar = (t.detach().numpy() for t in found)
        return float(loss), x0bar.T, pbar.T


class Pinocchio:
    """ABA in a Python loop (nominal parameters); analytic derivatives for the Jacobians. The implicit damping of the
    integrator enters as armature + h damping, as in ours."""

    def __init__(self, model):
        import pinocchio

        from benchmarks.rivals.pinocchio import pinocchio_model

        self.pin, p, t = pinocchio, model.parameters.nominal, tree(model)
        self.model = pinocchio_model(model, p)
        self.model.gravity.linear = p[t.gravity]
        self.model.armature = p[t.armature] + t.h * p[t.damping]
        self.data = self.model.createData()
        self.h, self.n, self.damping, self.gear = t.h, t.n, p[t.damping], p[t.gear]

    def arguments(self, x0, U, P):
        return x0, U

    def forward(self, arguments):
        x0, U = arguments
        n, h, aba = self.n, self.h, self.pin.aba
        X = np.empty((len(x0), U.shape[1], 2 * n))
        for b in range(len(x0)):
            q, v = x0[b, :n].copy(), x0[b, n:].copy()
            for k, u in enumerate(U[b]):
                v = v + h * aba(self.model, self.data, q, v, self.gear * u - self.damping * v)
                q = q + h * v
                X[b, k, :n], X[b, k, n:] = q, v
        return X

    def numpy_forward(self, X):
        return X

    def derivatives(self, Q, V, T):
        """computeABADerivatives at every row, and nothing else: less than a Jacobian pair."""
        compute, model, data = self.pin.computeABADerivatives, self.model, self.data
        for q, v, tau in zip(Q, V, T):
            compute(model, data, q, v, tau)

    def jacobian_pairs(self, X, U):
        """A (B, nx, nx), B (B, nx, nu) of the integrated step, with the chain rule in numpy."""
        n, h, one = self.n, self.h, np.eye(self.n)
        A, B = np.empty((len(X), 2 * n, 2 * n)), np.empty((len(X), 2 * n, n))
        for k, (x, u) in enumerate(zip(X, U)):
            tau = self.gear * u - self.damping * x[n:]
            dq, dv, M_inv = self.pin.computeABADerivatives(self.model, self.data, x[:n], x[n:], tau)
            M_inv = np.triu(M_inv) + np.triu(M_inv, 1).T
            A[k, n:, :n], A[k, n:, n:] = h * dq, one + h * (dv - M_inv * self.damping)
            B[k, n:] = h * M_inv * self.gear
            A[k, :n, :n], A[k, :n, n:], B[k, :n] = one + h * A[k, n:, :n], h * A[k, n:, n:], h * B[k, n:]
        return A, B
