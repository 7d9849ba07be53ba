"""Roll-outs of a model and their derivatives, for one robot or a batch, in compiled kernels.

Kernels are made when first asked for and kept on disk (`sim_core.codegen`): the step alone for `rollout`, its
reverse for `rollout_vjp`, Jacobians for `linearize`, `sensitivity` and `rollout_sensitivity`. Without a compiler the
same loops run in Python over CasADi's virtual machine; they are also the oracle that the C loops are tested against.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from config.tiers import require
from sim_core.codegen import compile_library
from sim_core.codegen.dense import DenseBlock
from sim_core.codegen.graph import read
from sim_core.codegen.library import Batch, Library, check, pointer, pointers
from sim_core.multibody.model import build
from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.rollout import derivatives, linearization
from sim_core.system import Derivatives

if TYPE_CHECKING:
    import torch

__all__ = ["Dynamics"]

RUNTIME = Path(__file__).parent / "runtime"
P = 2  # p among the arguments of a step
_POINTER, _INT64, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int


class Dynamics:
    """Discrete-time dynamics x[k+1] = f(x[k], u[k], p) with u held over dt: rigid bodies as a `System`.

    Arrays are numpy of `dtype`, with any leading batch dimensions; x0, U and p may each be given without them and
    are then shared by the batch. Results carry the batch dimensions. A robot's result depends neither on its
    neighbours in the batch nor on the number of threads, to the bit. (A batch of one uses scalar kernels, whose
    rounding differs.)

    Args:
        model: RobotModel.
        dt: period [s]; default the model's timestep.
        integrator: see integrators.py; default the model's own.
        substeps: integrator steps per period.
        dtype: "float64" or "float32" (twice the lanes, seven digits).
        threads: CPU threads over slices of a batch.
        step: f(x, u, p) -> x' over dt / substeps, in place of the model's equations.
        lanes: see `compile_library`.

    Raises (all methods):
        TypeError, ValueError: expected and found dtype or shape; NaN or infinity in x, u or p.
    """

    def __init__(
        self,
        model: RobotModel,
        dt: float | None = None,
        integrator: str | None = None,
        substeps: int = 1,
        dtype: DTypeLike = "float64",
        threads: int = 1,
        *,
        step: ca.Function | None = None,
        lanes: int | str = "auto",
    ) -> None:
        if int(substeps) != substeps or substeps < 1:
            raise ValueError(f"Expected a whole number of substeps >= 1, found {substeps}.")
        self.model, self.substeps, self.threads = model, int(substeps), threads
        self.dt = float(model.timestep if dt is None else dt)
        self.integrator = integrator or getattr(model, "integrator", None)
        self.dtype, self._lanes = np.dtype(dtype), lanes
        self._step = build.step(model, self.dt / self.substeps, integrator) if step is None else step
        self._given = step is not None
        self.nx, self.nu, self.np_ = (self._step.size1_in(i) for i in range(3))
        self._libraries: dict[tuple[str, bool, bool, tuple[int, ...] | None], Library] = {}
        self._made: dict[tuple[str, tuple[int, ...] | None], tuple[dict[str, ca.Function], list[str]]] = {}
        self._active: tuple[int, ...] = ()

    # ---- as a System --------------------------------------------------------------------------------------------

    #: Of the step as it is computed; docs/gradients.md says where its own laws are smoothed.
    derivatives = Derivatives.EXACT

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model.name

    @property
    def nominal(self) -> np.ndarray:
        """Physical vector (np_,) of the model file."""
        return self.model.parameters.nominal

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the physical parameters, (np_,)."""
        return self.model.parameters.names

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of positions and rates, (nx,)."""
        return (*self.model.q_names, *(f"{name}.rate" for name in self.model.v_names))

    @property
    def control_names(self) -> tuple[str, ...]:
        """Names of the actuators, (nu,)."""
        return self.model.actuator_names

    @property
    def u_lower(self) -> np.ndarray:
        """Lower limits of the controls (nu,), -inf where there are none."""
        return self.model.u_lower

    @property
    def u_upper(self) -> np.ndarray:
        """Upper limits of the controls (nu,), inf where there are none."""
        return self.model.u_upper

    @property
    def graph(self) -> ca.Function:
        """CasADi function f(x, u, p) -> x' over dt / substeps, which iLQR and likelihoods compile into their kernels."""
        return self._step

    @property
    def given_graph(self) -> ca.Function | None:
        """`graph` where it was given in place of the model's equations, else None."""
        return self._step if self._given else None

    # ---- one period ---------------------------------------------------------------------------------------------

    def step(self, x: ArrayLike, u: ArrayLike, p: ArrayLike) -> np.ndarray:
        """x' (..., nx) from x (..., nx), u (..., nu), p (np_,) or (..., np_)."""
        batch = self._one_period("step", x, u, p)
        (x_next,) = self._call("step", batch, x, u, p)
        for _ in range(1, self.substeps):
            (x_next,) = self._call("step", batch, x_next, u, p)
        return x_next

    def linearize(self, X: ArrayLike, U: ArrayLike, p: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """A = dx'/dx (..., nx, nx) and B = dx'/du (..., nx, nu) at every x of X (..., nx), u of U (..., nu)."""
        A, B = self._jacobians("xu", X, U, p)
        return A, B

    def sensitivity(self, X: ArrayLike, U: ArrayLike, p: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, B as `linearize`, and C = dx'/dp (..., nx, np_)."""
        A, B, C = self._jacobians("xup", X, U, p)
        return A, B, C

    def _one_period(self, owner: str, x: ArrayLike, u: ArrayLike, p: ArrayLike) -> Batch:
        return self._batch(owner, [("x", x), ("u", u), ("p", p)], [(self.nx,), (self.nu,), (self.np_,)])

    def _jacobians(self, of: str, x: ArrayLike, u: ArrayLike, p: ArrayLike) -> tuple[np.ndarray, ...]:
        batch = self._one_period("sensitivity" if "p" in of else "linearize", x, u, p)
        x_next, *total = self._call_jacobian(of, batch, x, u, p)
        for _ in range(1, self.substeps):
            # Chain rule; u and p act in every substep, x only through the state.
            x_next, A, *rest = self._call_jacobian(of, batch, x_next, u, p)
            total = [A @ total[0], *(A @ J + own for J, own in zip(total[1:], rest))]
        return tuple(total)

    def _call_jacobian(self, of: str, batch: Batch, x: ArrayLike, u: ArrayLike, p: ArrayLike) -> tuple[np.ndarray, ...]:
        x_next, *J = self._call(f"step_jac_{of}", batch, x, u, p)
        columns = {"x": self.nx, "u": self.nu, "p": self.np_}
        return x_next, *(j.reshape(*batch.lead, self.nx, columns[name]) for j, name in zip(J, of))

    # ---- horizons -----------------------------------------------------------------------------------------------

    def rollout(self, x0: ArrayLike, U: ArrayLike, p: ArrayLike) -> np.ndarray:
        """States X (..., H+1, nx) from x0 (..., nx) under controls U (..., H, nu) with parameters p (..., np_)."""
        batch, steps = self._horizon("rollout", x0, U, p)
        X = batch.empty((steps + 1, self.nx))
        library = self._library("rollout", batch, self._same_networks(batch))
        if library.compiled and batch.size:
            symbol = library.symbol("rollout", [_POINTER, _POINTER, _INT64, _INT64, _INT, _INT])
            check(symbol(batch.rows(), pointer(X), batch.size, steps, self.substeps, self.threads))
        elif batch.size:
            self._rollout_in_python(library, batch, X)
        return X

    def rollout_vjp(
        self, x0: ArrayLike, U: ArrayLike, p: ArrayLike, X: ArrayLike, Xbar: ArrayLike, summed: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradient of a scalar L(X) from Xbar = dL/dX, by a reverse sweep over a roll-out's states.

        Args:
            x0, U, p: as given to `rollout`.   X: what it returned.   Xbar: (..., H+1, nx).
            summed: dL/dp of the whole batch in place of each robot's, where it shares p. Networks of many weights are then
                quicker and need a fraction of the memory.

        Returns:
            dL/dx0 (..., nx), dL/dU (..., H, nu), dL/dp (..., np_), one per robot even where inputs were shared;
            `summed`: dL/dp (np_,), not finite where any robot's is not.

        Raises:
            ValueError: `summed`, and p differs between the robots.
        """
        batch, steps = self._horizon("rollout_vjp", x0, U, p, ("X", X), ("Xbar", Xbar))
        if summed and not batch.shared[P]:
            raise ValueError(
                f"rollout_vjp, summed: expected one p ({self.np_},) for the whole batch, found {np.shape(p)}; "
                "sum the gradients of different p yourself."
            )
        together = summed and batch.size > 1 and self._weights is not None
        library = self._library("reverse", batch, together)
        together = together and library.compiled
        rows = (-(-batch.size // library.lanes),) if together else batch.lead
        out = [batch.empty((self.nx,)), batch.empty((steps, self.nu)), np.empty((*rows, self.np_), self.dtype)]
        if library.compiled and batch.size:
            symbol = library.symbol("reverse", [_POINTER, _POINTER, _INT64, _INT64, _INT, _INT])
            check(symbol(batch.rows(slice(1, None)), pointers(out), batch.size, steps, self.substeps, self.threads))
        elif batch.size:
            self._reverse_in_python(library, batch, out)
        if summed:
            out[2] = out[2].sum(axis=tuple(range(out[2].ndim - 1)))
        return out[0], out[1], out[2]

    def rollout_sensitivity(
        self, x0: ArrayLike, U: ArrayLike, p: ArrayLike, dpdxi: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray]:
        """States and their derivative with respect to the initial state and coordinates xi of p = p(xi).

        Kernels are compiled for the parameters that xi moves (rows of dpdxi that are not zero), once.

        Args:
            x0, U, p: as for `rollout`.   dpdxi: dp/dxi (np_, n), or one per robot.

        Returns:
            X (..., H+1, nx) and S (..., H+1, nx, nx+n) with S[k] = d x[k] / d [x0, xi].
        """
        dpdxi = np.asarray(dpdxi)
        if dpdxi.ndim < 2 or dpdxi.shape[-2] != self.np_:
            raise ValueError(
                f"rollout_sensitivity, argument dpdxi: expected shape (..., {self.np_}, n), found {dpdxi.shape}"
            )
        moved = np.flatnonzero(dpdxi.reshape(-1, *dpdxi.shape[-2:]).any(axis=(0, 2)))
        if not set(moved) <= set(self._active):
            # Grows only: an entry that happens to vanish at some xi does not ask for another kernel.
            self._active = tuple(sorted({*self._active, *map(int, moved)}))
        D = np.ascontiguousarray(dpdxi[..., list(self._active), :])
        batch, steps = self._horizon("rollout_sensitivity", x0, U, p, ("dpdxi", D))
        n = D.shape[-1]
        X, Z = batch.empty((steps + 1, self.nx)), batch.empty((steps + 1, self.nx, self.nx + n))
        library = self._library("sensitivity", batch, self._same_networks(batch))
        if library.compiled and batch.size:
            symbol = library.symbol("sensitivity", [_POINTER, _POINTER, _INT64, _INT64, _INT64, _INT, _INT])
            check(symbol(batch.rows(), pointers([X, Z]), n, batch.size, steps, self.substeps, self.threads))
        elif batch.size:
            self._sensitivity_in_python(library, batch, X, Z)
        return X, Z

    def torch_rollout(self, x0: torch.Tensor, U: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        """`rollout` on torch CPU tensors, differentiable once with respect to x0, U and p.

        Raises:
            MissingTierError: torch is not installed.
        """
        require("learning", "torch_rollout")
        from sim_core.multibody.rollout.torch_face import rollout

        return rollout(self, x0, U, p)

    # ---- kernels ------------------------------------------------------------------------------------------------

    def prepare(self, *kinds: str) -> None:
        """Compile ahead of use: any of "step", "rollout", "reverse", "linearize", "sensitivity"; default the first
        four, for one robot and for batches."""
        names = {"linearize": "step_jac_xu", "sensitivity": "step_jac_xup"}
        for kind in kinds or ("step", "rollout", "reverse", "linearize"):
            for single in (True, False):
                self._get_library(names.get(kind, kind), single)

    def _library(self, kind: str, batch: Batch, shared: bool = False) -> Library:
        # One robot alone gains nothing from lanes, and scalar kernels move less memory.
        return self._get_library(kind, batch.size == 1, shared)

    def _get_library(self, kind: str, single: bool, shared: bool = False) -> Library:
        """shared: a kernel that reads the networks' weights from the first row of p, for all (`emitter.emit`)."""
        key = (kind, single, shared, self._active if kind == "sensitivity" else None)
        if key not in self._libraries:
            functions, sources = self._parts_of(kind, key[3])
            self._libraries[key] = compile_library(
                "refit_" + kind,
                functions,
                [RUNTIME / s for s in sources],
                dtype=self.dtype.name,
                lanes=1 if single else self._lanes,
                shared=dict.fromkeys(functions, P) if shared else {},
                defines={"SUMMED": 1} if shared and kind == "reverse" else {},
            )
        return self._libraries[key]

    @functools.cached_property
    def _weights(self) -> slice | None:
        """Where p holds the weights of networks that are evaluated as blocks (slice), or None; None for scalar kernels."""
        if self._lanes == 1 or not self._step.find_functions():
            return None
        graph = read(self._step)
        elements = [
            graph.values[w].args
            for call in graph.values
            if call.op == "call" and DenseBlock.of_call(call.args[0])
            for w in call.args[2]
            if graph.values[w].op == "input"
        ]
        return slice(min(elements)[1], max(elements)[1] + 1) if elements else None

    def _same_networks(self, batch: Batch) -> bool:
        """Whether every robot of a batch has the same weights in its networks of many."""
        if batch.size == 1 or self._weights is None:
            return False
        p = batch.arrays[P]
        return batch.shared[P] or bool((p[..., self._weights] == p.reshape(-1, self.np_)[0, self._weights]).all())

    def _parts_of(self, kind: str, active: tuple[int, ...] | None) -> tuple[dict[str, ca.Function], list[str]]:
        """`_parts`, made once for one robot, for batches and for weights that they share."""
        found = self._made.get((kind, active))
        if found is None:
            found = self._made[kind, active] = self._parts(kind)
        return found

    def _parts(self, kind: str) -> tuple[dict[str, ca.Function], list[str]]:
        """Emitted functions and C sources of a library."""
        if kind == "step":
            return {"step": self._step}, []
        if kind == "rollout":
            return {"step": self._step}, ["rollout.c"]
        if kind == "reverse":
            return {"step": self._step, "step_vjp": derivatives.step_vjp(self._step)}, ["reverse.c"]
        if kind == "sensitivity":
            return {"step_jac": self._step_jacobian("xp", self._active)}, ["sensitivity.c"]
        return {kind: self._step_jacobian(kind.removeprefix("step_jac_"))}, []

    def _step_jacobian(self, of: str, parameters: Sequence[int] | None = None) -> ca.Function:
        if self._given:
            return derivatives.step_jacobian(self._step, of, parameters)
        dt = self.dt / self.substeps
        return linearization.step_jacobian(self.model, self._step, dt, self.integrator, of, parameters)

    def _call(self, kind: str, batch: Batch, *arguments: ArrayLike) -> tuple[np.ndarray, ...]:
        return self._library(kind, batch).call(kind, *arguments, threads=self.threads)

    def _batch(self, owner: str, arguments: Sequence[tuple[str, ArrayLike]], cores: Sequence[tuple[int, ...]]) -> Batch:
        batch = Batch(owner, self.dtype, arguments, cores)
        for (name, _), a in zip(arguments, batch.arrays):
            # A sum is the cheapest look at every element; only a suspicious one is looked at closely.
            if name in ("x", "x0", "u", "U", "p") and not math.isfinite(a.sum()) and not np.isfinite(a).all():
                where = tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0])
                raise ValueError(f"{owner}, argument {name}: expected finite numbers, found {a[where]} at {where}")
        return batch

    def _horizon(
        self, owner: str, x0: ArrayLike, U: ArrayLike, p: ArrayLike, *others: tuple[str, ArrayLike]
    ) -> tuple[Batch, int]:
        shape = np.shape(U)
        if len(shape) < 2 or shape[-1] != self.nu:
            raise ValueError(f"{owner}, argument U: expected shape (..., H, {self.nu}), found {shape}")
        steps = shape[-2]
        cores = {"X": (steps + 1, self.nx), "Xbar": (steps + 1, self.nx)}
        arguments = [("x0", x0), ("U", U), ("p", p), *others]
        return self._batch(
            owner,
            arguments,
            [(self.nx,), (steps, self.nu), (self.np_,), *(cores.get(name, np.shape(a)[-2:]) for name, a in others)],
        ), steps

    # ---- the same loops without a compiler ----------------------------------------------------------------------

    def _rollout_in_python(self, library: Library, batch: Batch, X: np.ndarray) -> None:
        x, U, p = (batch.flat(i) for i in range(3))
        X = X.reshape(batch.size, -1, self.nx)
        X[:, 0] = x
        for k in range(U.shape[1]):
            for _ in range(self.substeps):
                (x,) = library.call("step", x, U[:, k], p)
            X[:, k + 1] = x

    def _reverse_in_python(self, library: Library, batch: Batch, out: Sequence[np.ndarray]) -> None:
        _, U, p, X, Xbar = (batch.flat(i) for i in range(5))
        x0bar, Ubar, pbar = (y.reshape(batch.size, *y.shape[len(batch.lead) :]) for y in out)
        lam, total = Xbar[:, -1], np.zeros_like(pbar)
        for k in reversed(range(U.shape[1])):
            states = [X[:, k]]
            for _ in range(1, self.substeps):
                states += library.call("step", states[-1], U[:, k], p)
            Ubar[:, k] = 0
            for x in reversed(states):
                lam, ubar, total = library.call("step_vjp", x, U[:, k], p, lam, total)
                Ubar[:, k] += ubar
            lam = lam + Xbar[:, k]
        x0bar[...], pbar[...] = lam, total

    def _sensitivity_in_python(self, library: Library, batch: Batch, X: np.ndarray, Z: np.ndarray) -> None:
        x, U, p, D = (batch.flat(i) for i in range(4))
        X, Z = X.reshape(batch.size, *X.shape[-2:]), Z.reshape(batch.size, *Z.shape[-3:])
        X[:, 0], z = x, np.zeros(Z[:, 0].shape, self.dtype)
        z[:, :, : self.nx] = np.eye(self.nx)
        Z[:, 0] = z
        for k in range(U.shape[1]):
            for _ in range(self.substeps):
                x, A, C = library.call("step_jac", x, U[:, k], p)
                C = C.reshape(batch.size, self.nx, -1)
                z = A @ z
                z[..., self.nx :] += C @ D
            X[:, k + 1], Z[:, k + 1] = x, z
