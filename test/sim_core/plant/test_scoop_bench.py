"""The closed loop on grains: observe, choose, scoop, measure; what is measured is what lies in the scoop."""

import os

import numpy as np
import pytest

from sim_core.plant.granular_tray import TrayFill
from sim_core.plant.scoop_bench import ScoopBench, collect
from sim_core.scooping.arm.execution import ExecutionConfig, Outcome
from sim_core.scooping.arm.primitive import PrimitiveConfig
from sim_core.scooping.bed.actions import Actions

pytestmark = [
    pytest.mark.pure,
    pytest.mark.skipif(os.environ.get("MUJOCO_GL", "disable") == "disable", reason="no headless OpenGL here"),
]

#: twice as fast as on the robot, and grains of 2 cm, of which few make a pile
QUICK = ExecutionConfig(primitive=PrimitiveConfig(speed=0.16, turning=1.2), transit=0.8, turning=3.0, rising=0.4)
FILL = TrayFill(count=300, size=(0.018, 0.022), patch=(0.32, 0.15), stiffness=1e5)


@pytest.fixture(scope="module")
def bench():
    with ScoopBench(FILL, config=QUICK) as made:
        yield made


def test_a_pile_is_seen_scooped_and_measured(bench):
    grid = np.linspace(-0.08, 0.08, 9), (-0.01, 0.01), np.arange(4) * np.pi / 2
    x, y, yaw = (part.ravel() for part in np.meshgrid(*grid, indexing="ij"))
    actions = Actions(np.column_stack([x, y]), yaw, np.full(x.size, 0.025), np.ones(x.size, bool))
    (attempt,) = collect(bench, actions, threshold=60e-6, budget=1)
    assert attempt.outcome is Outcome.SCOOPED and 1.0 < attempt.peak < QUICK.limit
    assert attempt.load > 30e-6 and 0.4 < attempt.load / attempt.heap < 0.8
    assert attempt.volume == pytest.approx(attempt.heap, rel=0.05, abs=3e-6)
    weight = 9.81 * bench.tray.world.mass[bench.tray.held].sum()
    rotation = bench.arm.pose(bench.plant.q).rotation
    felt = np.mean([_felt(bench, rotation) for _ in range(40)], axis=0)
    assert felt[2] == pytest.approx(-weight, abs=0.1 * weight)
    bench.empty()
    assert bench.tray.load == 0.0 and not bench.plant.gate.refused


def _felt(bench, rotation):
    bench.cycle()
    return bench.felt.external(bench.plant.wrench(), rotation)
