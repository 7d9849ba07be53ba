"""Whether an inferred posterior may be trusted: verdicts, each of one number and one sentence that ends in a remedy.

`judge` takes what a method delivered and holds it against what an exact posterior would show: chains that agree, particles
that satisfy Stein's identity, limits that nothing leans on, predictions that the recording stays within.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reporting.checks import Check
from sim_core.inference.data.density import LogDensity
from sim_core.inference.fit.repetition import independent_share
from sim_core.inference.posterior.chains import chain_check
from sim_core.inference.posterior.particle_posterior import ParticlePosterior
from sim_core.inference.posterior.stein_check import stein_check
from sim_core.inference.samplers import Samples
from sim_core.multibody.model.parameters import is_positive

__all__ = ["Held", "Lean", "Verdict", "explained_share", "judge_prediction", "judge_samples", "leaning"]

#: methods whose particles follow the gradient of the posterior: Stein's identity tells how well they stand for it
STEIN = ("svgd", "csvgd", "sgld", "nuts", "emcee")
#: methods that look for the best particle: the spread of the others is no interval
SEARCHES = ("cem", "cma-es")

# A run whose mean log density rose by more than this [nat] over its last fifth has not arrived.
RISE = 1.0
# Windows whose ends lie farther apart than this [sigma_def] are no trajectory.
DEFECT = 2.0
# Vehtari et al. 2021 ask for 1.01 of chains that are published, which takes ten times as many draws.
R_HAT = 1.05
# Effective draws that an interval of 90 % takes.
EFFECTIVE = 100.0
# Sets of exact draws that are refused in error; variances beyond those of exact draws by this factor are refused.
P_VALUE, VARIANCE = 0.01, 2.0
# A posterior leans on a limit if this share of it lies so close to it (share of the range), and the density rises outwards
# by this much over the range [nat].
LEANING, CLOSE, RISING = 0.2, 0.05, 1.0
# Of the samples of the held-out part, within the band of 95 % that the noise draws about a particle's prediction.
EXPLAINED, BAND = 0.9, 1.96
# Noise that is so many times what the recording shows; what it shows that is so many times the noise.
GENEROUS, NARROW = 3.0, 1.5
# Particles that may diverge where the recording is held out.
LOST = 0.05


@dataclass(frozen=True)
class Verdict:
    """One thing that was looked at.

    Attributes:
        check: number and target. sentence: what it means, and if it speaks against the posterior what to do.
        binding: a posterior that fails is not used; otherwise it is only said.
    """

    check: Check
    sentence: str
    binding: bool = True

    @property
    def passed(self) -> bool:
        return self.check.passed


@dataclass(frozen=True)
class Held:
    """Predictions of the held-out part: R trajectories open loop from their measured first states.

    measured (R, T+1, nx); simulated (N, R, T+1, nx) by every particle, nominal (R, T+1, nx) by the model before.
    scale (nx,): standard deviation of each state over the training part.
    """

    measured: np.ndarray
    simulated: np.ndarray
    nominal: np.ndarray
    scale: np.ndarray

    def residual(self, simulated: np.ndarray) -> np.ndarray:
        """(simulated - measured) / scale after the first state, (..., R, T, nx) for (..., R, T+1, nx)."""
        return ((simulated - self.measured) / self.scale)[..., 1:, :]

    def error(self, simulated: np.ndarray) -> np.ndarray:
        """RMS of the residual over trajectories, time and states; (...,) for (..., R, T+1, nx)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.sqrt(np.mean(self.residual(simulated) ** 2, axis=(-3, -2, -1)))


@dataclass(frozen=True)
class Lean:
    """A quantity whose posterior leans on a limit: its position among the names, and whether it is the upper one."""

    index: int
    upper: bool


def leaning(posterior: ParticlePosterior, score: np.ndarray) -> list[Lean]:
    """Limits that the posterior leans on; score (N, M) is d log p / dz. A bound of nature, such as damping of zero, is none."""
    z = (posterior.values - posterior.lower) / (posterior.upper - posterior.lower)
    found = []
    for index, name in enumerate(posterior.names):
        for upper in (False, True):
            if not upper and posterior.lower[index] == 0.0 and is_positive(name):
                continue
            near = z[:, index] > 1.0 - CLOSE if upper else z[:, index] < CLOSE
            outwards = score[near, index] if upper else -score[near, index]
            if near.mean() >= LEANING and np.mean(outwards) > RISING:
                found.append(Lean(index, upper))
    return found


def judge_samples(
    samples: Samples, posterior: ParticlePosterior, density: LogDensity, resumable: bool
) -> Iterator[Verdict]:
    """Whether the method has done its work.

    Args:
        density: of the same quantities over single roll-outs, whatever windows the method had.
        resumable: a run that was stopped goes on from its checkpoint.
    """
    trace = samples.trace
    if samples.cancelled:
        again = " The same command goes on from the checkpoint." if resumable else " Let it run to its end."
        yield Verdict(Check("run completed", 0, 1, "=="), "Stopped before the last iteration." + again)
    else:
        rise = _rise(trace.mean)
        yield Verdict(
            Check("rise of the mean log density over the last fifth", rise, RISE, "<=", "nat"),
            f"Not converged: the mean log density still rose by {rise:.3g} over the last fifth of the iterations; ask for "
            "more (--iterations)."
            if rise > RISE
            else "The log density has stopped rising.",
        )
    defect = trace.extra.get("defect", np.empty(0))
    if len(defect):
        yield Verdict(
            Check("largest defect between windows", float(defect[-1]), DEFECT, "<=", "sigma_def"),
            "The windows join."
            if defect[-1] <= DEFECT
            else f"The windows do not join: defects of {defect[-1]:.3g} sigma_def, {DEFECT:g} at most are expected; ask for "
            "more iterations (--iterations) or fewer windows (--windows).",
        )
    if samples.chains is not None and samples.chains.shape[1] >= 4:
        yield from _judge_chains(samples.chains, posterior.names)
    score = density.log_p_and_grad(samples.z)[1]
    yield from _judge_limits(posterior, score)
    if samples.method in SEARCHES:
        yield Verdict(
            Check("method draws from the posterior", 0, 1, "=="),
            f"{samples.method} looks for the best particle, and the spread of the others is no interval; for intervals ask "
            "for --method csvgd or nuts.",
            binding=False,
        )
    elif samples.method in STEIN:
        yield from _judge_spread(samples.z, score)


def _judge_chains(chains: np.ndarray, names: tuple[str, ...]) -> Iterator[Verdict]:
    found = chain_check(chains)
    worst, poorest = int(np.argmax(found.r_hat)), int(np.argmin(found.size))
    if np.isinf(found.r_hat[worst]):
        said = f"A chain never moved in {names[worst]}: its draws are one point. "
    else:
        said = f"The chains do not agree on {names[worst]}: R-hat {found.r_hat[worst]:.3g}, {R_HAT:g} at most is expected. "
    remedy = "Ask for more iterations (--iterations), narrower --limits, or --method csvgd."
    yield Verdict(
        Check("largest R-hat of the chains", float(found.r_hat[worst]), R_HAT, "<=", "1", "Vehtari et al. 2021"),
        f"The chains agree: R-hat at most {found.r_hat[worst]:.3f}." if found.r_hat[worst] <= R_HAT else said + remedy,
    )
    yield Verdict(
        Check("effective draws, fewest", float(found.size[poorest]), EFFECTIVE, ">=", "", "Vehtari et al. 2021"),
        f"The chains hold {found.size[poorest]:.0f} independent draws or more of every quantity."
        if found.size[poorest] >= EFFECTIVE
        else f"Only {found.size[poorest]:.0f} independent draws of {names[poorest]}; intervals take {EFFECTIVE:.0f}. Ask for "
        "more iterations (--iterations).",
    )


def _judge_limits(posterior: ParticlePosterior, score: np.ndarray) -> Iterator[Verdict]:
    on = [posterior.names[lean.index] for lean in leaning(posterior, score)]
    yield Verdict(
        Check("quantities that lean on a limit", len(on), 0, "=="),
        f"At a limit: {', '.join(on)}. The recording asks for values beyond; widen --limits, or leave out what cannot be so."
        if on
        else "Nothing leans on a limit.",
    )


def _judge_spread(z: np.ndarray, score: np.ndarray) -> Iterator[Verdict]:
    N, M = z.shape
    if N < 2 * M:
        yield Verdict(
            Check("particles", N, 2 * M, ">="),
            f"{N} particles are too few to judge their spread in {M} quantities; ask for --particles {2 * M} or more.",
            binding=False,
        )
        return
    found = stein_check(z, score)
    yield Verdict(
        Check(
            "kernel Stein discrepancy, p-value",
            found.p_value,
            P_VALUE,
            ">=",
            "1",
            "Liu, Lee & Jordan 2016",
        ),
        "The particles lie as draws of the posterior would."
        if found.p_value >= P_VALUE
        else f"The particles are no draws of the posterior: their Stein discrepancy is {found.discrepancy:.3g} times that "
        "of exact ones. Ask for more iterations (--iterations) or another --method.",
    )
    low, high = found.expected[0] / VARIANCE, found.expected[1] * VARIANCE
    narrow = found.narrowest < low
    yield Verdict(
        Check(
            "variance of the particles over the posterior's, the ratio farthest off",
            found.narrowest if narrow else found.widest,
            (low, high),
            "in",
            "1",
            "Stein's identity",
        ),
        "The particles are spread as widely as the posterior."
        if low <= found.narrowest and found.widest <= high
        else f"The particles are spread too {'little' if narrow else 'much'}: in one direction their standard deviation is "
        f"{np.sqrt(max(found.narrowest if narrow else found.widest, 0.0)):.2g} times the posterior's. Ask for more "
        "iterations (--iterations), more --particles, or another --method.",
    )


def judge_prediction(held: Held, sigma: float | np.ndarray | None, combine: str) -> Iterator[Verdict]:
    """Whether the posterior predicts what it has not seen, particle by particle.

    Args:
        sigma: of the noise that was assumed, or (R, T, nx) of noise and the simulator's errors as they were fitted, in units of
            `held.scale`; None: neither.
        combine: "sum" where each trajectory may be of another robot.
    """
    errors, nominal = held.error(held.simulated), float(held.error(held.nominal))
    finite = np.isfinite(errors)
    lost = float((~finite).mean())
    if lost > LOST or not finite.any():
        yield Verdict(
            Check("share of the particles that diverge on the held-out part", lost, LOST, "<=", "1"),
            f"{(~finite).sum()} of {len(finite)} particles do not roll out; narrow --limits.",
        )
    if not finite.any():
        return
    error = float(np.median(errors[finite]))
    residual, nominals = held.residual(held.simulated[finite]), held.residual(held.nominal)[None]
    ratio = error / nominal if nominal > 0.0 else np.inf
    better = Check("held-out prediction error, posterior / nominal", ratio, 1.0, "<=", "1")
    if better.passed:
        yield Verdict(
            better, f"The posterior predicts the held-out part with {ratio:.3g} of the nominal model's error."
        )
    elif sigma is not None and error <= (rms := _rms(sigma)) and explained_share(nominals, sigma, combine) >= EXPLAINED:
        yield Verdict(
            Check("held-out prediction error, posterior / noise", error / rms, 1.0, "<=", "1"),
            "The nominal model was right already: it predicts the held-out part within the noise, and so does the posterior.",
        )
    else:
        yield Verdict(
            better,
            f"The posterior predicts the held-out part worse than the nominal model ({ratio:.3g} times its error): the robot "
            "changed, or something else moves it. Take a stretch without changes (--from, --to), or free what else may differ.",
        )
    if sigma is None:
        return
    share, fitted = explained_share(residual, sigma, combine), isinstance(sigma, np.ndarray)
    if share >= EXPLAINED:
        told = (
            f"{'Noise and fitted errors account' if fitted else 'The noise accounts'} for what the particles do not predict "
            f"({100 * share:.0f} % within the band of 95 %)."
        )
    elif fitted:
        told = (
            f"The model does not explain the recording, even with the errors that were fitted: {100 * share:.0f} % of the held-out "
            "samples lie within the 95 % band. Take a stretch in which nothing changes (--from, --to), or free what else may differ."
        )
    else:
        wanted = float(np.quantile(np.abs(residual[np.argmin(errors[finite])]), 0.95)) / BAND
        told = (
            f"The model does not explain the recording: {100 * share:.0f} % of the held-out samples lie within the 95 % band "
            f"of a particle's prediction. Take a stretch in which nothing changes (--from, --to), free what else may differ, say "
            f"--sigma-obs {wanted:.2g}, or have the errors fitted (--errors fitted)."
        )
    yield Verdict(Check("held-out samples within a particle's 95 % band", share, EXPLAINED, ">=", "1"), told)
    if not fitted and combine != "sum":  # of one particle, trajectories of several robots differ for another reason
        yield from _judge_noise(float(sigma), error, residual[np.argmin(errors[finite])])


def _judge_noise(sigma: float, error: float, residual: np.ndarray) -> Iterator[Verdict]:
    """Whether the posterior is as wide as the recording allows. What a prediction misses it by repeats itself from sample to sample, and
    says as much as independent noise would that is larger by the root of the autocorrelation time.

    Args:
        error: RMS, residual: (R, T, nx) of a particle.
    """
    worth = error / np.sqrt(independent_share(residual / max(_rms(residual), np.finfo(float).tiny)))
    if sigma > GENEROUS * worth:
        yield Verdict(
            Check("noise assumed over error found", sigma / worth, GENEROUS, "<=", "1"),
            f"The noise is assumed {sigma / worth:.2g} times larger than what the particles miss the recording by is worth, and the "
            f"posterior is that much wider; say --sigma-obs {worth:.2g} for what the recording can tell.",
            binding=False,
        )
    elif worth > NARROW * sigma:
        yield Verdict(
            Check("error found over noise assumed", worth / sigma, NARROW, "<=", "1"),
            "What the particles miss the recording by repeats itself from sample to sample, and says as little as independent noise of "
            f"{worth:.2g}: intervals are about {worth / sigma:.2g} times too narrow. Say --sigma-obs {worth:.2g}, or have the errors "
            "fitted (--errors fitted).",
            binding=False,
        )


def _rms(sigma: float | np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(sigma))))


def explained_share(residual: np.ndarray, sigma: float | np.ndarray, combine: str) -> float:
    """Share of the residuals (N, R, T, nx) within the band of 95 %: of the particle in the middle, or, where each trajectory
    may be of another robot, of the best for each."""
    inside = (np.abs(residual) <= BAND * sigma).mean(axis=(-2, -1))
    return float(inside.max(axis=0).mean() if combine == "sum" else np.median(inside.mean(axis=1)))


def _rise(mean: np.ndarray) -> float:
    """By how much a straight line through the last fifth of the values rises; 0 if they scatter as much about it."""
    last = np.asarray(mean)[-(-len(mean) * 4 // 5) :]
    if len(last) < 5 or not np.isfinite(last).all():
        return 0.0
    at = np.linspace(0.0, 1.0, len(last))
    slope, start = np.polyfit(at, last, 1)
    return float(slope) if slope > 2.0 * np.std(last - start - slope * at) else 0.0
