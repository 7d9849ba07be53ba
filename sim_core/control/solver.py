"""The solver that suits a system: compiled where its step is a CasADi graph, batched numpy elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from sim_core.control.cost import Cost, HorizonCost
from sim_core.control.ilqr import BoxIlqr
from sim_core.control.plan import IlqrConfig, PlanSolver
from sim_core.control.system_ilqr import SystemIlqr
from sim_core.multibody.model.model import RobotModel
from sim_core.system import CompiledSystem, System, is_compiled

__all__ = ["solver_for"]


def solver_for(
    system: System | RobotModel,
    cost: HorizonCost,
    config: IlqrConfig,
    *,
    u_lower: np.ndarray | None = None,
    u_upper: np.ndarray | None = None,
    particles: int = 1,
) -> PlanSolver:
    """iLQR for a rigid-body model or any System.

    A RobotModel, or a System with a CasADi graph and a `Cost`, gets BoxIlqr, whose whole solve is compiled C; everything
    else gets SystemIlqr. Both are the same algorithm, with the same settings and outcomes.

    Args:
        system: RobotModel, stepped as `config` says, or System, whose period must be config.dt and whose scheme is its
            own business.
        cost: Cost, or for SystemIlqr any HorizonCost.
        config, u_lower, u_upper, particles: see PlanSolver.

    Raises:
        ValueError: what the system and the settings disagree about, in one sentence.
    """
    limits: dict[str, Any] = {"u_lower": u_lower, "u_upper": u_upper, "particles": particles}
    if not isinstance(cost, Cost) or not (is_compiled(system) or hasattr(system, "parameters")):
        return SystemIlqr(cast(System, system), cost, config, **limits)
    if not is_compiled(system):
        return BoxIlqr(cast(RobotModel, system), cost, config, **limits)
    compiled = cast(CompiledSystem, system)
    if not np.isclose(compiled.dt, config.dt, rtol=1e-9):
        raise ValueError(f"expected knots every {compiled.dt} s as the system steps, found {config.dt} s")
    if config.integrator not in (None, compiled.integrator) or config.substeps not in (1, compiled.substeps):
        raise ValueError(
            f"{compiled.name} integrates by {compiled.integrator} in {compiled.substeps} substeps, and the settings ask "
            f"for {config.integrator} in {config.substeps}; leave them out of IlqrConfig"
        )
    config = replace(config, integrator=compiled.integrator, substeps=compiled.substeps)
    return BoxIlqr(compiled.model, cost, config, step=compiled.given_graph, **limits)
