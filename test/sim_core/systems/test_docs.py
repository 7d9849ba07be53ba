"""The example of docs/systems.md runs, and finds what it looks for."""

import re
from pathlib import Path

import numpy as np

from sim_core.control.plan import IlqrStatus
from sim_core.system import System

PAGE = Path(__file__).parents[3] / "docs" / "systems.md"


def test_the_pages_example():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    found = {"__name__": "example"}
    exec(compile(code, str(PAGE), "exec"), found)
    room, plan, theta, verdict, truth = (found[name] for name in ("room", "plan", "theta", "verdict", "truth"))
    assert isinstance(room, System)
    assert plan.status is IlqrStatus.CONVERGED and abs(plan.X[-1, 0] - 15.0) < 0.5 and plan.U.max() == 3.0
    assert (np.abs(theta.mean(0) - truth) < 3 * theta.std(0) + 2e-3).all()
    std = np.sqrt(np.diag(verdict.covariance))
    assert verdict.accepted and (np.abs(verdict.xi - truth) < 4 * std + 1e-3).all() and (std < 0.02).all()
    assert [e.unit for e in verdict.estimates] == ["kW/K", "-"]
