"""Stein variational gradient descent, plain and constrained."""

from __future__ import annotations

import numpy as np

from sim_core.inference.samplers.checkpoint import Checkpoint
from sim_core.inference.samplers.sampler import Run, Sampler, sobol
from sim_core.inference.samplers.stein import Adam, bounded, stein_direction
from sim_core.inference.samplers.svgd_newton import csvgd_newton, largest_norm

__all__ = ["CSVGD", "SVGD"]

SIGMA_LIM = 0.01  # share of a limit's range that counts as one unit of its violation, as sigma_def does for defects


METRICS = ("adam", "gauss-newton")


def svgd(
    run: Run,
    iterations: int,
    step: float | None = None,
    final_step: float = 0.002,
    metric: str = "adam",
    refresh: int = 1,
    checkpoint=None,
):
    """N particles from Sobol points, moved together: uphill by a kernel's average of their gradients, and apart.

    Deterministic from the start on. A step over a limit ends on it. A particle whose density vanishes has no gradient,
    but is still pushed away by the others.

    Args:
        metric: "adam", one step size per coordinate, as published; "gauss-newton", see stein_newton.py, for densities that
            know their curvature and have one window.
        step, final_step: Adam's step at the start (0.02) and the end, in units of the limits; geometric between. For
            "gauss-newton" `step` is the share of a Newton step (0.5).
        refresh: iterations between two evaluations of the curvature.
        checkpoint: path of a file to go on from, and to leave when stopped.

    Raises:
        ValueError: metric "gauss-newton" for a density without curvature, or with several windows.

    Source: Liu & Wang, NeurIPS 2016; thesis Eq. 4.1.
    """
    if by_newton(run, metric):
        if run.density.windows > 1:
            raise ValueError(
                f"svgd with metric 'gauss-newton' needs one window, found {run.density.windows}; use csvgd"
            )
        return csvgd_newton(run, iterations, 0.5 if step is None else step, refresh, checkpoint=checkpoint)
    step, adam = 0.02 if step is None else step, Adam()
    z = sobol(run.samples, run.n, run.seed)
    identity = {
        "method": "svgd",
        "samples": run.samples,
        "n": run.n,
        "seed": run.seed,
        "iterations": iterations,
        "step": [step, final_step],
    }
    file, first = Checkpoint(checkpoint, identity), 0
    if (resumed := file.load(run)) is not None:
        first, arrays = resumed
        z = arrays["z"]
        adam.t, adam.moments = first, [(arrays["m0"], arrays["v0"])]
    for i in run.iterate(iterations, "SVGD", first):
        log_p, score = run.log_p_and_grad(z)
        phi, h = stein_direction(z, bounded(score))
        run.record(i, z, log_p, bandwidth=h)
        z = np.clip(z + adam.step(decayed(step, final_step, i, iterations), phi)[0], 0.0, 1.0)
        if run.cancelled or file.due(i + 1):
            file.save(run, i + 1, {"z": z, **_moments(adam)})
    return z, run.log_p(z)


def csvgd(
    run: Run,
    iterations: int,
    step: float | None = None,
    final_step: float = 0.002,
    damping: float | None = None,
    multiplier_step: float | None = None,
    sigma_lim: float | None = None,
    form: str = "vector",
    metric: str = "gauss-newton",
    refresh: int = 1,
    checkpoint=None,
):
    """SVGD over theta whose particles carry shooting states of their own; limits and defects are equality constraints.

        dtheta  = phi - (lambda_lim + c g_lim) dg_lim/dtheta - (lambda_def + c g_def) dg_def/dtheta
        dstarts = d log p_obs / dstarts - (lambda_def + c g_def) dg_def/dstarts
        dlambda = eta g,      g_lim = (clamp(theta) - theta) / sigma_lim

    (modified differential method of multipliers). g_def is the vector of defects in units of sigma_def, or with form
    "squared" the squared norm of each, as printed in the source: never negative, so that its multipliers only grow.
    The kernel is over theta only. Simulated is clamp(theta), whose gradient goes on beyond the limits; that is also what
    is returned. Adam's sigma_lim is 1 % of the range: in units of the whole range limits could not hold against likelihoods
    of hundreds of samples.

    This is metric "adam". With metric "gauss-newton" the same Lagrangian is followed by Stein variational Newton steps, the
    shooting states are condensed, and constraint forces go through the kernel (svgd_newton.py); form "vector" only.

    Args:
        run: of a MultipleShooting density (one window: no defects, and SVGD as long as no limit is met).
        damping: c, default 1 for "adam", 100 for "gauss-newton", whose steps stiff penalties do not shorten, and with which
            multipliers settle fast.
        multiplier_step: eta; default Adam's step for limits, as printed, and `adams_pace` for defects; 0:
            penalties alone. For "gauss-newton" step times damping.
        sigma_lim: see above, share of a range; default 1e-2 for "adam", 1e-4 for "gauss-newton", whose steps it does not shorten.
        step, final_step, metric, refresh, checkpoint: as for `svgd`.

    The trace has, besides best and mean log p_obs: `defect`, the largest norm of one defect [sigma_def], and `violation`,
    the largest step over a limit [its range].

    Raises:
        ValueError: a density without shooting windows; an option that the metric does not have.

    Source: Heiden et al., "Probabilistic inference of simulation parameters via parallel differentiable simulation",
    ICRA 2022, Alg. 1 with the shooting states' update and the vector form as docs/inference.md derives them; Platt &
    Barr, "Constrained differential optimization", NeurIPS 1987.
    """
    if not hasattr(run.density, "evaluate"):
        raise ValueError(
            f"csvgd needs a density with shooting windows (MultipleShooting), found {type(run.density).__name__}; use svgd"
        )
    damping = {"adam": 1.0, "gauss-newton": 100.0}.get(metric) if damping is None else damping
    if by_newton(run, metric):
        if form != "vector" or not damping > 0:
            raise ValueError(
                f"metric 'gauss-newton' needs form 'vector' and damping > 0, found '{form}' and {damping}; use metric 'adam'"
            )
        return csvgd_newton(
            run,
            iterations,
            0.5 if step is None else step,
            refresh,
            damping,
            multiplier_step,
            1e-4 if sigma_lim is None else sigma_lim,
            checkpoint,
        )
    sigma_lim = SIGMA_LIM if sigma_lim is None else sigma_lim
    step = 0.02 if step is None else step
    z = sobol(run.samples, run.n, run.seed)
    starts = np.zeros((run.samples, *run.density.starts_shape))
    on_defects = np.zeros(starts.shape if form == "vector" else starts.shape[:-1])
    on_limits = np.zeros_like(z)
    adam = Adam()
    identity = {
        "method": "csvgd",
        "samples": run.samples,
        "n": run.n,
        "seed": run.seed,
        "iterations": iterations,
        "form": form,
        "step": [step, final_step, multiplier_step],
        "damping": damping,
        "sigma_lim": sigma_lim,
        "starts": starts.shape,
    }
    file, first = Checkpoint(checkpoint, identity), 0
    if (resumed := file.load(run)) is not None:
        first, arrays = resumed
        z, starts, on_defects, on_limits = (arrays[name] for name in ("z", "starts", "on_defects", "on_limits"))
        adam.t, adam.moments = first, [(arrays[f"m{k}"], arrays[f"v{k}"]) for k in range(2)]
    for i in run.iterate(iterations, "CSVGD", first):
        now = run.evaluate(np.clip(z, 0.0, 1.0), starts, on_defects, damping, form)
        phi, h = stein_direction(z, bounded(now.grad))
        g_limits = (np.clip(z, 0.0, 1.0) - z) / sigma_lim
        g_defects = now.defects if form == "vector" else np.einsum("nrsi,nrsi->nrs", now.defects, now.defects)
        run.record(
            i,
            z,
            now.log_p,
            bandwidth=h,
            defect=largest_norm(now.defects),
            violation=sigma_lim * float(np.abs(g_limits).max()),
        )
        size = decayed(step, final_step, i, iterations)
        # dg_lim/dtheta is -1 / sigma_lim beyond a limit, and 0 within, where g_lim vanishes but its multiplier may not.
        push = (on_limits + damping * g_limits) * (g_limits != 0) / sigma_lim
        dz, dstarts = adam.step(
            size, phi + push - bounded(now.penalty_grad), bounded(now.grad_starts - now.penalty_grad_starts)
        )
        z, starts = z + dz, starts + dstarts
        on_limits = on_limits + (size if multiplier_step is None else multiplier_step) * g_limits
        on_defects = (
            on_defects + (adams_pace(adam, size, form) if multiplier_step is None else multiplier_step) * g_defects
        )
        if run.cancelled or file.due(i + 1):
            file.save(
                run,
                i + 1,
                {"z": z, "starts": starts, "on_defects": on_defects, "on_limits": on_limits, **_moments(adam)},
            )
    z = np.clip(z, 0.0, 1.0)
    return z, run.evaluate(z, starts).log_p


def adams_pace(adam: Adam, size: float, form: str) -> np.ndarray:
    """Step of the defects' multipliers (as `form` has them): that of Adam for the shooting state each of them holds.

    Multipliers must not run faster than what they constrain. Adam moves a coordinate by size / sqrt(v) times its gradient;
    where gradients are in the hundreds, multipliers that take whole steps of `size` wind up without end (on a real
    pendulum's recording defects then grow from 12 to 22 sigma_def in 600 iterations; so they fall). Those of the limits
    may: they grow only while a particle is beyond one.
    """
    v = adam.moments[1][1] / (1 - adam.beta2**adam.t)
    pace = np.minimum(size / (np.sqrt(v) + adam.epsilon), size)
    return pace if form == "vector" else pace.mean(axis=-1)


def decayed(first: float, last: float, i: int, count: int) -> float:
    """Geometric from `first` at i = 0 to `last` at i = count - 1."""
    return first * (last / first) ** (i / max(count - 1, 1))


def by_newton(run: Run, metric: str) -> bool:
    """Is it "gauss-newton"?

    Raises:
        ValueError: an unknown metric, or a density that knows no curvature.
    """
    if metric not in METRICS:
        raise ValueError(f"metric: expected one of {', '.join(METRICS)}, found '{metric}'")
    if metric == "adam":
        return False
    if not hasattr(run.density, "curvature"):
        raise ValueError(
            f"metric 'gauss-newton' needs a density with a curvature (SingleShooting, MultipleShooting), found "
            f"{type(run.density).__name__}; use metric 'adam'"
        )
    return True


def _moments(adam: Adam) -> dict[str, np.ndarray]:
    return {f"{name}{k}": a for k, pair in enumerate(adam.moments) for name, a in zip("mv", pair)}


SVGD = Sampler(svgd, True, 500, "Stein variational gradient descent (Liu & Wang)")
CSVGD = Sampler(
    csvgd, True, 200, "constrained Stein variational gradient descent over multiple-shooting windows (Heiden et al.)"
)
