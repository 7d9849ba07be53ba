"""Cart-pole: swing-up by adaptive MPC from a model with every parameter at 2.

    ./refit experiment ampc_cartpole          # 10 seeds
    ./refit experiment ampc_cartpole --quick  # 2 seeds

H = 20, 140 steps of 20 ms, +-200 N; refit after 50 steps of the first episode and after each. Beside
it: the exact model, the frozen start, the published recipe taken literally, and the adaptive
controller under noise and a modelled delay of one step.

Source: Heiden et al., Interactive Differentiable Simulation (2019), adaptive MPC.
"""

from __future__ import annotations

from concurrent.futures import Executor

from experiments.problems import ampc_report as _ampc_report
from experiments.problems.ampc_study import lab_of, study
from reporting.checks import Result
from reporting.html import Report
from reporting.progress import Progress, SilentProgress

TARGETS = _ampc_report.Targets(
    score=0.85,
    kept=False,
    prototype={
        "adaptive": "0.52 in episode 1, 0.89 from episode 2 (4 seeds)",
        "exact model": "0.91 (Euler model, 1 seed)",
        "frozen at 2": "0.001, 0.002",
        "literal recipe (L-BFGS, Euler, no gate)": ">= 0.89 in episode 3, 5 and 2 (3 seeds)",
    },
)


def run(
    size: str = "full", seed: int = 0, progress: Progress = SilentProgress(), executor: Executor | None = None
) -> Result:
    """10 seeds (full) or 2 (quick), from `seed` on."""
    count = 10 if size == "full" else 2
    records = study("cartpole", range(seed, seed + count), False, min(count, 3), progress, executor)
    result = Result("ampc_cartpole", seed=seed, size=size)
    _ampc_report.check_all(result, lab_of("cartpole"), records, TARGETS)
    return result


def report(result: Result) -> Report:
    return _ampc_report.report(result, "Cart-pole: adaptive MPC from a wrong model")
