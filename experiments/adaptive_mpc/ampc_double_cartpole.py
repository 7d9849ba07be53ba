"""Double cart-pole: swing-up by adaptive MPC from a model with every parameter at 2, and hidden changes.

    ./refit experiment ampc_double_cartpole          # 10 seeds
    ./refit experiment ampc_double_cartpole --quick  # 2 seeds

As ampc_cartpole with H = 40, plus two changes that nobody tells the controller of: the first pole's
mass x10, and the actuator's gain x0.6, each at the start of the fourth episode.

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
    score=0.75,
    kept=True,
    prototype={
        "adaptive": "0.81 to 0.84 from episode 2 (4 seeds)",
        "exact model": "0.83 (1 seed)",
        "frozen at 2": "0.07, 0.00",
        "adaptive, noise and delay": ">= 0.81 from episode 2 (noise alone, 2 seeds)",
        "literal recipe (L-BFGS, Euler, no gate)": "best 0.70 and 0.68 on two seeds, <= 0.37 on two",
    },
)


def run(
    size: str = "full", seed: int = 0, progress: Progress = SilentProgress(), executor: Executor | None = None
) -> Result:
    """10 seeds (full) or 2 (quick), from `seed` on."""
    count = 10 if size == "full" else 2
    records = study("double_cartpole", range(seed, seed + count), True, min(count, 4), progress, executor)
    result = Result("ampc_double_cartpole", seed=seed, size=size)
    _ampc_report.check_all(result, lab_of("double_cartpole"), records, TARGETS)
    return result


def report(result: Result) -> Report:
    return _ampc_report.report(result, "Double cart-pole: adaptive MPC from a wrong model")
