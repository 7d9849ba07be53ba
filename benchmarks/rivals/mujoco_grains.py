"""Grains in MuJoCo: equal spheres on free joints in a box that is open above.

Of its settings those with which a pile of a thousand simulated fastest of all that were tried, at a penetration like ours: conjugate
gradients (Newton factorises the whole pile, twenty times slower; projected Gauss-Seidel half as fast), at most 20 iterations, an
elliptic cone (no slower than the pyramid), a sparse Jacobian, 2 ms (with 4 ms the box does not bear the grains' weight). No grain sleeps.
"""

from __future__ import annotations

import functools

import mujoco
import numpy as np

STEP, ITERATIONS = 2e-3, 20  # [s], of the solver
#: impedance that leaves the penetration which our springs have at 5e5 N/m^2 under 10 cm of grains
IMPEDANCE = "0.97 0.99 0.001"

OUTSIDE = """
<mujoco>
  <option timestep="{step}" solver="CG" iterations="{iterations}" cone="elliptic" jacobian="sparse" gravity="0 0 -9.81"/>
  <size memory="{memory}"/>
  <default><geom condim="3" friction="{friction} 0 0" solref="{stiff} 1" solimp="{impedance}"/></default>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <geom type="plane" size="1 1 1" pos="{left} 0 0" zaxis="1 0 0"/>
    <geom type="plane" size="1 1 1" pos="{right} 0 0" zaxis="-1 0 0"/>
    <geom type="plane" size="1 1 1" pos="0 {front} 0" zaxis="0 1 0"/>
    <geom type="plane" size="1 1 1" pos="0 {back} 0" zaxis="0 -1 0"/>
    {grains}
  </worldbody>
</mujoco>"""


class MujocoGrains:
    """Equal grains, stepped by MuJoCo.

    Args:
        position: (n, 3) [m]. area: sides of the box (2,) [m]. radius: [m]. mass: of a grain [kg]. friction: Coulomb's coefficient [1].
        threads: of its pool, beside the one that calls.
    """

    step = STEP

    def __init__(
        self,
        position: np.ndarray,
        area: tuple[float, float],
        radius: float,
        mass: float,
        friction: float,
        threads: int = 1,
    ) -> None:
        n = len(position)
        self._model = _model(n, area, radius, mass, friction)
        self._data = mujoco.MjData(self._model)
        if threads > 1:
            mujoco.mju_threadpool(self._data, threads)
        at = self._data.qpos.reshape(n, 7)
        at[:, :3], at[:, 3:] = position, (1.0, 0.0, 0.0, 0.0)

    def run(self, steps: int) -> float:
        """Let time go on; returns the mean force on the box along z [N]."""
        total = 0.0
        for _ in range(steps):
            mujoco.mj_step(self._model, self._data)
            # what constraints give to all grains together comes from the box, since grains give to grains what they take
            total -= float(self._data.qfrc_constraint.reshape(-1, 6)[:, 2].sum())
        return total / max(steps, 1)

    @property
    def position(self) -> np.ndarray:
        """(n, 3) [m]."""
        return self._data.qpos.reshape(-1, 7)[:, :3].copy()

    @property
    def speed(self) -> float:
        """Mean of the grains [m/s]."""
        return float(np.linalg.norm(self._data.qvel.reshape(-1, 6)[:, :3], axis=1).mean())


@functools.cache
def _model(n: int, area: tuple[float, float], radius: float, mass: float, friction: float) -> mujoco.MjModel:
    """Compiled once for all that are made of as many grains: ten thousand take half a minute."""
    grain = f'<body><freejoint/><geom type="sphere" size="{radius}" mass="{mass}"/></body>'
    settings = {
        "step": STEP,
        "iterations": ITERATIONS,
        "friction": friction,
        "stiff": 2.0 * STEP,
        "impedance": IMPEDANCE,
    }
    walls = {"left": -0.5 * area[0], "right": 0.5 * area[0], "front": -0.5 * area[1], "back": 0.5 * area[1]}
    return mujoco.MjModel.from_xml_string(
        OUTSIDE.format(**settings, **walls, memory=f"{64 + n // 20}M", grains=grain * n)
    )
