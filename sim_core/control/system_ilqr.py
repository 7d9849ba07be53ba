"""Box-constrained iLQR over any `System`, in batched numpy: the algorithm of runtime/ilqr.c, step by step.

All knots are linearised in one call of the system, and the eight step lengths of a line search are rolled out side by
side, so that a system whose step is a large batched computation is asked H times for a batch of eight and not 8 H times.
Backward sweep and quadratic programs are small and run knot after knot.

Source: Tassa, Erez, Todorov, IROS 2012; Tassa, Mansard, Todorov, ICRA 2014.
"""

from __future__ import annotations

import time

import numpy as np

from sim_core.control.box_qp import box_qp, solve_free
from sim_core.control.cost import HorizonCost
from sim_core.control.plan import IlqrConfig, IlqrStatus, Outcome, PlanSolver, shaped
from sim_core.system import System, require_derivatives

__all__ = ["SystemIlqr"]

STEP_LENGTHS = np.array([1, 0.5, 0.25, 0.1, 0.03, 0.01, 0.003, 0.001])
ARMIJO = 1e-4  # share of the predicted decrease that a step must deliver


class SystemIlqr(PlanSolver):
    """Trajectory optimiser for one system and cost.

    With several particles x stacks their states, the dynamics are block diagonal, and the mean of their costs counts.
    Where changes of the controls are penalised, the previous control joins the state.

    Args:
        system: System with derivatives; its period is that of the knots.
        cost: HorizonCost.
        config: IlqrConfig without integrator and substeps, which are the system's business.
        u_lower, u_upper: control box (nu,); the system's by default.
        particles: N, hypotheses planned on at once.

    Attributes: see PlanSolver.

    Raises:
        MissingDerivativesError: the system has none.
        ValueError: another period, an empty control box, or fewer than one particle.
    """

    def __init__(
        self,
        system: System,
        cost: HorizonCost,
        config: IlqrConfig,
        *,
        u_lower: np.ndarray | None = None,
        u_upper: np.ndarray | None = None,
        particles: int = 1,
    ) -> None:
        require_derivatives(system, "iLQR")
        if particles < 1:
            raise ValueError(f"particles must be at least 1, found {particles}")
        if not np.isclose(system.dt, config.dt, rtol=1e-9):
            raise ValueError(f"expected knots every {system.dt} s as the system steps, found {config.dt} s")
        if config.integrator is not None or config.substeps != 1:
            raise ValueError(f"integrator and substeps belong to {system.name}; leave them out of IlqrConfig")
        self.system, self._smooth = system, bool(np.any(cost.smoothness > 0))
        super().__init__(
            cost,
            config,
            nx=system.nx,
            nominal=system.nominal,
            parameter_names=system.parameter_names,
            u_lower=shaped(system.u_lower if u_lower is None else u_lower, (system.nu,), "u_lower"),
            u_upper=shaped(system.u_upper if u_upper is None else u_upper, (system.nu,), "u_upper"),
            smooth=self._smooth,
            particles=particles,
            name=system.name,
        )

    def advance(self, x: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        """States (..., nx) one control period after x under u (..., nu) and parameters p (..., np_)."""
        return self.system.step(x, u, p)

    # ---- iterations ---------------------------------------------------------------------------------------------

    def _optimise(self, iterations: int, time_budget: float) -> Outcome:
        began, spent, gradient = time.perf_counter(), 0, np.nan
        self._P = self._for_each(self.p, self.np_, "p")

        def ended(status: IlqrStatus, cost: float) -> Outcome:
            return Outcome(status, cost, spent, gradient, time.perf_counter() - began)

        if not all(np.isfinite(a).all() for a in (self._P, self.U)):
            return ended(IlqrStatus.BAD_INPUT, np.nan)
        cost = self._first_rollout()
        if not np.isfinite(cost):
            return ended(IlqrStatus.DIVERGED, cost)
        moved = True
        while spent < iterations:
            spent += 1
            if moved:
                model = self._linearise()
            while (swept := self._backward_sweep(model)) is None:
                if not self._regularise_more():
                    return ended(IlqrStatus.NOT_CONVEX, cost)
            expected, gradient = swept
            promised = -expected.sum()
            if not np.isfinite(promised):
                return ended(IlqrStatus.NOT_CONVEX, cost)
            worth = self.config.tolerance * (1 + abs(cost))
            if promised <= worth * 1e-3 or gradient <= 1e-10:
                return ended(IlqrStatus.CONVERGED, cost)
            better = self._line_search(cost, expected)
            moved = better is not None
            if better is None and not self._regularise_more():
                return ended(IlqrStatus.STALLED, cost)
            if better is not None:
                self._mu = 0.0 if self._mu * 0.2 < self.config.mu_min else self._mu * 0.2
                before, cost = cost, better
                if before - cost <= worth:
                    return ended(IlqrStatus.CONVERGED, cost)
            if 0 < time_budget <= time.perf_counter() - began:
                return ended(IlqrStatus.TIME_LIMIT, cost)
        return ended(IlqrStatus.ITERATION_LIMIT, cost)

    def _regularise_more(self) -> bool:
        self._mu = max(self._mu * 10, self.config.mu_min)
        return self._mu <= self.config.mu_max

    def _first_rollout(self) -> float:
        """The warm start's controls with and without its feedback about its old states; the cheaper one is kept.

        Feedback follows a moved state, and open loop survives gains that no longer fit.
        """
        gains = np.array([0.0, 1.0]) if self._warm else np.zeros(1)
        X, U, J = self._roll_out(np.zeros(len(gains)), gains)
        winner = len(J) - 1 if np.isfinite(J[-1]) and not J[-1] >= J[0] else 0
        if np.isfinite(J[winner]):
            self.X[:], self.U[:] = X[winner], U[winner]
        return float(J[winner])

    def _line_search(self, cost: float, expected: np.ndarray) -> float | None:
        """Cost after the longest step that delivers its share of the predicted decrease; None: no step does."""
        X, U, J = self._roll_out(STEP_LENGTHS, np.ones(len(STEP_LENGTHS)))
        predicted = STEP_LENGTHS * (expected[0] + STEP_LENGTHS * expected[1])
        with np.errstate(invalid="ignore"):
            good = np.flatnonzero((predicted < 0) & (J - cost <= ARMIJO * predicted))
        if not len(good):
            return None
        self.X[:], self.U[:] = X[good[0]], U[good[0]]
        return float(J[good[0]])

    # ---- roll-outs ----------------------------------------------------------------------------------------------

    def _roll_out(self, alpha: np.ndarray, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """X (L, H+1, N nx), U (L, H, nu) and costs J (L,) of u = clip(U + alpha k + gain K (z - Z)); J is not finite
        where a roll-out is not."""
        L, H, N = len(alpha), self.config.horizon, self.particles
        X, U = np.full((L, H + 1, N * self.nx), np.nan), np.full((L, H, self.nu), np.nan)
        X[:, 0], alive = self._x0.ravel(), np.arange(L)
        for n in range(H):
            u = self.U[n] + alpha[alive, None] * self.k[n]
            if gain.any():
                off = X[alive, n] - self.X[n]
                if self._smooth:
                    off = np.hstack([off, U[alive, n - 1] - self.U[n - 1] if n else np.zeros_like(u)])
                u = u + gain[alive, None] * (off @ self.K[n].T)
            U[alive, n] = u = np.clip(u, self.u_lower, self.u_upper)
            x = X[alive, n].reshape(-1, N, self.nx)
            after = self.system.step(x, np.broadcast_to(u[:, None], (*x.shape[:2], self.nu)), self._P)
            X[alive, n + 1] = after.reshape(-1, N * self.nx)
            alive = alive[np.isfinite(X[alive, n + 1]).all(axis=1)]
            if not len(alive):
                break
        J = np.full(L, np.inf)
        if len(alive):
            J[alive] = self._costs(X[alive], U[alive])
        return X, U, J

    def _costs(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """(L,) of X (L, H+1, N nx) and U (L, H, nu)."""
        x, u, r = X.reshape(*X.shape[:2], self.particles, self.nx), U[:, :, None], self._r[:, None]
        u = np.broadcast_to(u, (*U.shape[:2], self.particles, self.nu))
        with np.errstate(all="ignore"):
            J = self.cost.stage(x[:, :-1], u, self._P, r[:-1]).mean(axis=2).sum(axis=1)
            J = J + self.cost.final(x[:, -1], self._P, r[-1]).mean(axis=1)
            if self._smooth:
                before = np.concatenate([np.broadcast_to(self._u_previous, U[:, :1].shape), U[:, :-1]], axis=1)
                J = J + ((U - before) ** 2 @ self.cost.smoothness).sum(axis=1)
        return J

    # ---- quadratic models and the backward sweep ----------------------------------------------------------------

    def _linearise(self) -> tuple[np.ndarray, ...]:
        """Models of all knots about the plan, over z = [x of all particles; previous control where that counts].

        Returns:
            A (H, nz, nz), B (H, nz, nu), lz (H+1, nz), lu (H, nu), lzz (H+1, nz, nz), luz (H, nu, nz), luu (H, nu, nu).
        """
        H, N, nx, nu, nz = self.config.horizon, self.particles, self.nx, self.nu, self.K.shape[2]
        x, r = self.X.reshape(H + 1, N, nx), self._r[:, None]
        u = np.broadcast_to(self.U[:, None], (H, N, nu))
        A_each, B_each = self.system.linearize(x[:-1], u, self._P)
        lx, lu_each, lxx, lux, luu_each = self.cost.stage_quadratic(x[:-1], u, self._P, r[:-1])
        lx_end, lxx_end = self.cost.final_quadratic(x[-1], self._P, r[-1])
        A, B = np.zeros((H, nz, nz)), np.zeros((H, nz, nu))
        lz, lzz, luz = np.zeros((H + 1, nz)), np.zeros((H + 1, nz, nz)), np.zeros((H, nu, nz))
        for i in range(N):
            own = slice(i * nx, (i + 1) * nx)
            A[:, own, own], B[:, own] = A_each[:, i], B_each[:, i]
            lz[:-1, own], lz[-1, own] = lx[:, i] / N, lx_end[i] / N
            lzz[:-1, own, own], lzz[-1, own, own] = lxx[:, i] / N, lxx_end[i] / N
            luz[:, :, own] = lux[:, i] / N
        lu, luu = lu_each.mean(axis=1), luu_each.mean(axis=1)
        if self._smooth:
            last, S = slice(N * nx, None), 2 * np.diag(self.cost.smoothness)
            change = (self.U - np.vstack([self._u_previous, self.U[:-1]])) @ S
            B[:, last] = np.eye(nu)
            lz[:-1, last], lu = -change, lu + change
            lzz[:-1, last, last], luz[:, :, last], luu = S, -S, luu + S
        return A, B, lz, lu, lzz, luz, luu

    def _backward_sweep(self, model: tuple[np.ndarray, ...]) -> tuple[np.ndarray, float] | None:
        """New k and K from quadratic models of all knots.

        Returns:
            The linear and quadratic part (2,) of the predicted cost change, and the largest step relative to its box;
            None where a control Hessian is not positive definite.
        """
        A, B, lz, lu, lzz, luz, luu = model
        V, v = lzz[-1], lz[-1]
        expected, gradient, width = np.zeros(2), 0.0, self.u_upper - self.u_lower
        for n in reversed(range(self.config.horizon)):
            u, VB = self.U[n], V @ B[n]
            Qz, Qu = lz[n] + A[n].T @ v, lu[n] + B[n].T @ v
            Qzz, Quz, Quu = lzz[n] + A[n].T @ V @ A[n], luz[n] + VB.T @ A[n], luu[n] + B[n].T @ VB
            H = Quu + self._mu * np.eye(self.nu)
            solved = box_qp(H, Qu, self.u_lower - u, self.u_upper - u, self.k[n])
            if solved is None:
                return None
            d, free = solved
            gain = solve_free(H, -Quz, free)
            self.k[n], self.K[n] = d, gain
            expected += d @ Qu, 0.5 * d @ Quu @ d
            gradient = max(gradient, np.max(np.abs(d) / np.where(np.isfinite(width), width, 1 + np.abs(u))))
            v = Qz + gain.T @ (Quu @ d + Qu) + Quz.T @ d
            V = Qzz + gain.T @ (Quu @ gain + 2 * Quz)
            V = 0.5 * (V + V.T)
        return expected, float(gradient)
