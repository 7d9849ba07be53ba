"""Estimates with 95 % intervals: made from standard deviations, and written with as many digits as the interval allows."""

from __future__ import annotations

import math

from sim_core.multibody.model.parameters import NamedEstimate

__all__ = ["estimate", "interval_texts", "student"]


def student(freedom: int) -> float:
    """Half-width of the 95 % interval in standard deviations that were estimated from so many degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(max(freedom, 1), 0.975))


def estimate(name: str, unit: str, value: float, std: float, quantile: float = 1.96) -> NamedEstimate:
    """value with the interval of so many standard deviations to both sides."""
    return NamedEstimate.of(name, unit, float(value), float(std), quantile)


def interval_texts(e: NamedEstimate) -> tuple[str, str, str]:
    """Value, lower and upper end of its interval, to two digits of the interval's half-width."""
    half = 0.5 * (e.upper - e.lower)
    decimals = min(max(1 - math.floor(math.log10(half)), 0), 9) if half > 0.0 else 6
    value, lower, upper = (f"{x:.{decimals}f}" for x in (e.value, e.lower, e.upper))
    return value, lower, upper
