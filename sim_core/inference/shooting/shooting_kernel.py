"""All windows of all particles simulated, held against the data and differentiated in one call of a compiled kernel.

The parameters' map p(theta) is part of the step, so that constants fold away and the reverse sweep carries theta's
gradient alone; observation map and loss are part of the kernel too. Nothing as long as a trajectory is written to memory.
The same text runs on a CPU's lanes and threads and on a GPU (`shooting_cuda.py`).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import casadi as ca
import numpy as np

from sim_core.codegen import compile_library, cuda
from sim_core.codegen.library import Library, check, pointer
from sim_core.codegen.stages import stages
from sim_core.inference.shooting.job import RUNTIME, Job
from sim_core.inference.shooting.maps import GraphMaps
from sim_core.inference.shooting.observation import observed
from sim_core.inference.shooting.recorded import HUBER, Recorded, pull
from sim_core.multibody.rollout.rollout import Dynamics

__all__ = ["ShootingKernel"]

DEVICES = ("auto", "cpu", "cuda")
#: windows, and more for each thread of the CPU: with fewer an H200 takes longer than the threads do (docs/kernels.md, "GPU")
GPU_FROM, GPU_FROM_A_THREAD = 256, 64
WORTH_A_THREAD = 1e5  # operations on a block of lanes, some 25 us: what starting a thread costs

Rooms = list[np.ndarray]  # arrays side by side in memory
Given = tuple[np.ndarray, np.ndarray | None, np.ndarray | None]  # theta, offsets, multipliers


class ShootingKernel:
    """Misfit and defects of windows, and their gradients.

    Args:
        dynamics: Dynamics; its dtype and threads hold here too.
        parameters: `expression` (SX of p by theta) and n.
        recorded: Recorded.
        observe: CasADi function y = h(x) or h(x, p), or None for the state.
        loss: "gaussian" or "huber".
        device: "cpu"; "cuda", GPU 0; "auto", the GPU where there is one, for calls of so many windows that it is faster than the
            dynamics' threads.

    Raises:
        ValueError: an observation map with other inputs, or another number of observations; an unknown device.
        CudaUnavailable: device "cuda" without NVRTC, driver or GPU.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        parameters: Any,
        recorded: Recorded,
        observe: ca.Function | None = None,
        loss: str = "gaussian",
        device: str = "cpu",
    ) -> None:
        if device not in DEVICES:
            raise ValueError(f"device: expected one of {', '.join(DEVICES)}, found '{device}'")
        self.dynamics, self.n = dynamics, parameters.n
        self._maps = parameters, observe, dynamics.nx, dynamics.np_
        x, u, theta = ca.SX.sym("x", dynamics.nx), ca.SX.sym("u", dynamics.nu), ca.SX.sym("theta", self.n)
        p = parameters.expression(theta)
        self._step = _function("step", [x, u, theta], [dynamics._step(x, u, p)])
        y = observed(observe, x, p, dynamics.np_)
        if y.numel() != recorded.y.shape[-1]:
            raise ValueError(
                f"expected {y.numel()} observations per sample as from the observation map, found {recorded.y.shape[-1]}"
            )
        self._misfit = _misfit(x, theta, y, loss)
        self._stages: dict[int, dict[str, ca.Function]] = {}
        self._libraries: dict[tuple[int, str, bool], Library] = {}
        self.recorded = Recorded(
            recorded.windows, *(np.ascontiguousarray(getattr(recorded, name), dynamics.dtype) for name in Job.DATA)
        )
        self._addresses = {name: pointer(getattr(self.recorded, name)) for name in Job.DATA}
        self._cuda: Any = None
        self._cuda_from = math.inf
        if device == "cuda" or (device == "auto" and cuda.usable()):
            from sim_core.inference.shooting.shooting_cuda import ShootingOnCuda

            self._cuda, self._cuda_from = ShootingOnCuda(self), 0
            if device == "auto":
                self._cuda_from = GPU_FROM + GPU_FROM_A_THREAD * dynamics.threads

    def maps(self) -> GraphMaps:
        """p(theta) and h(x, p(theta)) with their Jacobians."""
        return GraphMaps(*self._maps)

    def __call__(
        self,
        theta: np.ndarray,
        offsets: np.ndarray | None = None,
        multipliers: np.ndarray | None = None,
        damping: float = 1.0,
        form: str = "vector",
        separate: bool = False,
        gradient: bool = True,
    ) -> Rooms:
        """
        Args:
            theta: (N, n).
            offsets: where later windows start, (start - measured) / scale, (N, R, S-1, nx); None: 0.
            multipliers: (N, R, S-1, nx) for form "vector", (N, R, S-1, 1) for "squared"; None: 0.
            separate: gradients of misfit and of the pull on defects apart; else of their sum.

        Returns:
            misfit (N, R): sum of the loss over windows, samples and observations.
            d (N, R, S-1, nx): (next window's start - end) per_defect.
            offsetbar (N, R, S-1, nx, 2) or (.., 1), thetabar (N, R, n, 2 or 1): gradients of misfit, and of the end states'
            part of pull' d with pull = (multipliers + damping g) dg/dd held constant. Undefined without `gradient`.

        Raises:
            ValueError: other shapes.
        """
        N, (W, S), nx, seeds = len(theta), self._windows, self.dynamics.nx, 2 if separate else 1
        joints = (N, W // S, S - 1)
        width = nx if form == "vector" else 1
        given = (
            self._given("theta", theta, (N, self.n)),
            None if offsets is None else self._given("offsets", offsets, (*joints, nx)),
            None if multipliers is None else self._given("multipliers", multipliers, (*joints, width)),
        )
        shapes = ((N, W // S), (*joints, nx), (*joints, nx, seeds), (N, W // S, self.n, seeds))
        out = _rooms(shapes, self.dynamics.dtype)
        if not N:
            return out
        if N * W >= self._cuda_from:
            self._cuda(given, out, float(damping), seeds, form, gradient)
            return out
        library = self._library(seeds, form, N * W == 1)
        (self._on_cpu if library.compiled else self._in_python)(library, given, out, damping, gradient)
        return out

    @property
    def _windows(self) -> tuple[int, int]:
        """W and S."""
        return len(self.recorded.start), self.recorded.windows

    def _given(self, name: str, array: np.ndarray, expected: tuple[int, ...]) -> np.ndarray:
        array = np.ascontiguousarray(array, self.dynamics.dtype)
        if array.shape != expected:
            raise ValueError(f"shooting, argument {name}: expected shape {expected}, found {array.shape}")
        return array

    # ---- what the CPU's and the GPU's form share -----------------------------------------------------------------

    def functions(self, seeds: int, form: str) -> dict[str, ca.Function]:
        """C name -> function, for a reverse sweep in `seeds` columns and a form of the constraints."""
        if seeds not in self._stages:
            names = "prepare", "step", "step_vjp"
            self._stages[seeds] = dict(zip(names, stages(self._step, _step_vjp(self._step, seeds))))
        return self._stages[seeds] | {"misfit": self._misfit, "defect": _defect(self.dynamics.nx, form)}

    def defines(self, seeds: int) -> dict[str, int]:
        """Macros of runtime/shooting.h."""
        return {"SEEDS": seeds, "SUBSTEPS": self.dynamics.substeps}

    def job(self, N: int, damping: float, gradient: bool, addresses: Mapping[str, int | None]) -> Job:
        """What a launch with N particles takes; addresses: name -> address, or None."""
        W, S = self._windows
        return Job(
            particles=N,
            trajectories=W // S,
            windows=S,
            steps=self.recorded.u.shape[1],
            damping=damping,
            gradient=gradient,
            **addresses,
        )

    # ---- CPU -----------------------------------------------------------------------------------------------------

    def _on_cpu(self, library: Library, given: Given, out: Rooms, damping: float, gradient: bool) -> None:
        N, W, dtype = len(out[0]), len(self.recorded.start), self.dynamics.dtype
        each = _rooms([(N, W), (N, W, *out[3].shape[2:])], dtype)
        addresses = self._addresses | {name: None if a is None else pointer(a) for name, a in zip(Job.GIVEN, given)}
        addresses |= dict(zip(Job.EACH, _addresses(each))) | dict(zip(Job.RESULTS, _addresses(out)))
        worth = 1 + int(N * W / library.lanes * self._operations(library) / WORTH_A_THREAD)
        launch = library.symbol("shooting", [ctypes.c_void_p, ctypes.c_int])
        check(launch(ctypes.byref(self.job(N, damping, gradient, addresses)), min(self.dynamics.threads, worth)))

    def _operations(self, library: Library) -> int:
        """Of one window, there and back."""
        step, reverse = (library.functions[name].n_instructions() for name in ("step", "step_vjp"))
        return self.recorded.u.shape[1] * self.dynamics.substeps * (step + reverse)

    def _library(self, seeds: int, form: str, single: bool) -> Library:
        key = seeds, form, single
        if key not in self._libraries:
            self._libraries[key] = compile_library(
                "refit_shooting",
                self.functions(seeds, form),
                [RUNTIME / "shooting.c"],
                dtype=self.dynamics.dtype.name,
                lanes=1 if single else self.dynamics._lanes,
                defines=self.defines(seeds),
            )
        return self._libraries[key]

    def _in_python(self, library: Library, given: Given, out: Rooms, damping: float, gradient: bool) -> None:
        """shooting.h over CasADi's virtual machine."""
        theta, offsets, multipliers = given
        misfit, d, offsetbar, thetabar = out
        data, (W, S), seeds = self.recorded, self._windows, thetabar.shape[-1]
        lead, H = (len(theta), W // S, S), data.u.shape[1]
        of_windows = lambda a: np.broadcast_to(a.reshape(*lead[1:], -1), (*lead, a.shape[-1]))
        theta = np.broadcast_to(theta[:, None, None], (*lead, self.n))
        start = of_windows(data.start).copy()
        start[:, :, 1:] += 0.0 if offsets is None else offsets * data.scale
        (prepared,) = library.call("prepare", theta)
        X, substeps = [start], self.dynamics.substeps
        kept: list[np.ndarray] = []
        for k in range(H * substeps):
            x, *beside = library.call("step", X[-1], of_windows(data.u[:, k // substeps]), theta, prepared)
            X.append(x)
            kept += beside
        lam, total, misfit[...] = np.zeros((*start.shape, seeds)), np.zeros((*theta.shape, seeds)), 0.0
        if S > 1:
            columns = [
                np.zeros((*d.shape[:-1], library.functions["defect"].size1_in(3))),
                np.full((*d.shape[:-1], 1), damping),
            ]
            columns[0][...] = 0.0 if multipliers is None else multipliers
            d[...], lam[:, :, :-1, :, -1] = library.call(
                "defect", X[-1][:, :, :-1], start[:, :, 1:], data.per_defect, *columns
            )
        for k in range(H * substeps, 0, -1):
            if k % substeps == 0:
                rho, xbar, tbar = library.call(
                    "misfit", X[k], theta, of_windows(data.y[:, k // substeps]), data.per_sigma
                )
                misfit += rho[..., 0].sum(axis=2)
                lam[..., 0] += xbar
                total[..., : tbar.shape[-1], 0] += tbar
            if gradient:
                at = X[k - 1], of_windows(data.u[:, (k - 1) // substeps]), theta, prepared, kept[k - 1]
                lam, total = (a.reshape(*lead, -1, seeds) for a in library.call("step_vjp", *at, *_columns(lam, total)))
        offsetbar[...], thetabar[...] = lam[:, :, 1:] * data.scale[:, None], total.sum(axis=2)


def _rooms(shapes: Sequence[tuple[int, ...]], dtype: np.dtype) -> Rooms:
    """Arrays of these shapes, side by side in memory."""
    ends = [*accumulate(map(math.prod, shapes), initial=0)]
    memory = np.empty(ends[-1], dtype)
    return [memory[begin:end].reshape(shape) for begin, end, shape in zip(ends, ends[1:], shapes)]


def _addresses(rooms: Rooms) -> Iterator[int]:
    """Of arrays that lie side by side."""
    return accumulate((a.nbytes for a in rooms[:-1]), initial=pointer(rooms[0]))


def _misfit(x: ca.SX, theta: ca.SX, y: ca.SX, loss: str) -> ca.Function:
    """f(x, theta, measured, per_sigma) -> rho and its gradients with respect to x and theta (empty where y is of x alone)."""
    measured, per_sigma = ca.SX.sym("measured", y.numel()), ca.SX.sym("per_sigma", y.numel())
    r = (y - measured) * per_sigma
    if loss == "huber":
        inner = ca.fmax(ca.fmin(r, HUBER), -HUBER)
        rho = ca.dot(inner, r - inner / 2)
    else:
        rho = ca.dot(r, r) / 2
    by_theta = ca.gradient(rho, theta) if ca.depends_on(y, theta) else ca.SX(0, 1)
    return _function("misfit", [x, theta, measured, per_sigma], [rho, ca.gradient(rho, x), by_theta])


def _step_vjp(step: ca.Function, seeds: int) -> ca.Function:
    """f(x, u, theta, lambda' (nx, seeds), thetabar (n, seeds)) -> lambda, thetabar + this step's share."""
    x, u, theta = step.sx_in()
    after, thetabar = ca.SX.sym("lambda", x.numel(), seeds), ca.SX.sym("thetabar", theta.numel(), seeds)
    gradient = ca.jtimes(step(x, u, theta), ca.vertcat(x, theta), after, True)
    before, share = ca.vertsplit(gradient, [0, x.numel(), x.numel() + theta.numel()])
    return _function("step_vjp", [x, u, theta, after, thetabar], [before, thetabar + share])


def _defect(nx: int, form: str) -> ca.Function:
    """f(end, next, per_defect, multipliers, damping) -> d, and what the reverse sweep starts with at `end`."""
    end, following, per = (ca.SX.sym(name, nx) for name in ("end", "next", "per_defect"))
    multipliers, damping = ca.SX.sym("multipliers", nx if form == "vector" else 1), ca.SX.sym("damping")
    d = (following - end) * per
    return _function(
        "defect", [end, following, per, multipliers, damping], [d, -per * pull(d, multipliers, damping, form)]
    )


def _columns(*arrays: np.ndarray) -> list[np.ndarray]:
    """Matrices of one column as the vectors that functions of one column take."""
    return [np.ascontiguousarray(a[..., 0]) if a.shape[-1] == 1 else a for a in arrays]


def _function(name: str, inputs: list[ca.SX], outputs: list[ca.SX]) -> ca.Function:
    return ca.Function(name, inputs, ca.cse([ca.densify(ca.simplify(ca.SX(y))) for y in outputs]))
