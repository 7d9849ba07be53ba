"""The example of docs/systems.md runs, and finds what it looks for; what that page says of rigid bodies holds."""

import re
from pathlib import Path

import numpy as np
import pytest

from sim_core.control.plan import IlqrStatus
from sim_core.control.refit import Refit, RefitConfig
from sim_core.inference.data.window import Window
from sim_core.multibody import Dynamics, FreeParameters, load_model
from sim_core.multibody.model.parameter_blocks import JointDamping
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


def test_rigid_bodies_are_refitted_alike_as_a_model_and_as_a_system():
    model = load_model("cartpole")
    spec = FreeParameters(model, [JointDamping(name) for name in model.joint_names])
    t = 0.01 * np.arange(151)
    dt = float(np.median(np.diff(t)))  # what the refit takes for the period, to the bit
    system = Dynamics(model, dt=dt, substeps=round(dt / model.timestep))
    U = 3 * np.sin(0.15 * np.arange(150))[:, None]
    X = system.rollout([0.0, 3.0, 0.0, 0.0], U, spec.to_physical(spec.prior_mean + 0.3 * spec.prior_std))
    X = X + 1e-5 * np.random.default_rng(0).standard_normal(X.shape)
    window = Window(t, X[:, :2], X[:, 2:], U)
    config = RefitConfig(time_budget=np.inf)
    found, expected = (Refit(simulator, spec, config).fit(window) for simulator in (system, model))
    assert expected.accepted and np.array_equal(found.xi, expected.xi) and found.reason == expected.reason
    assert found.terms == expected.terms
    with pytest.raises(ValueError, match="belong to cartpole"):
        Refit(system, spec, RefitConfig(substeps=2))
