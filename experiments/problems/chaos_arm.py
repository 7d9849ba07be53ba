"""The arms that are put to the test: what their graphs consist of, what their models allow, what their hands shall do."""

from __future__ import annotations

from dataclasses import dataclass, field

import mujoco
import numpy as np

from config.description import Track
from config.robot import load_robot, node_settings
from experiments.problems.chaos_judge import Limits
from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.robot_task import tool_path
from sim_core.gate.motion_bound import BRAKING
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant, joint_limits

__all__ = ["ARMS", "Arm", "Hand", "limits_of"]

#: points of the path's curve
POINTS = 400


@dataclass(frozen=True)
class Arm:
    """One robot with the graph that its launch file starts.

    Attributes:
        launch, arguments: of the launch file; a recorder comes with it.
        essential: processes without which the graph ends, or has to be started anew.
        others: those whose loss it bears.
        simulated: whether its nodes live in the plant's time.
    """

    robot: str
    launch: str
    arguments: dict[str, object]
    essential: tuple[str, ...]
    others: tuple[str, ...]
    simulated: bool
    #: whose end or standstill takes the torque from the motors: the servos' own watchdog does
    limp: tuple[str, ...] = field(default=())

    @property
    def processes(self) -> tuple[str, ...]:
        """All of them."""
        return self.essential + self.others


ARMS = {
    arm.robot: arm
    for arm in (
        Arm(
            "panda",
            "sim.launch.py",
            {},
            essential=("supervisor", "adaptive_mpc", "sim_plant"),
            others=("refit_worker", "recorder"),
            simulated=True,
        ),
        Arm(
            "dxl_arm",
            "robot.launch.py",
            {"use_emulators": True, "devices": "dynamixel"},
            essential=("supervisor", "adaptive_mpc", "dynamixel", "emulator", "sim_plant"),
            others=("refit_worker", "recorder", "robot_state"),
            simulated=False,
            limp=("dynamixel", "emulator"),
        ),
    )
}


def limits_of(robot: str) -> Limits:
    """The limits of the robot's model, read off its MJCF."""
    limits = joint_limits(MujocoPlant(robot).world)
    return Limits(
        limits.joints,
        limits.lower,
        limits.upper,
        limits.velocity,
        limits.effort,
        BRAKING * limits.effort / limits.inertia[1],
    )


class Hand:
    """Where an arm's hand is, and the curve that it shall follow.

    Attributes:
        curve: (POINTS, 3) [m].
        hash, parameters: of the model, and its vector of physical parameters, for who forges parameter sets.
    """

    def __init__(self, robot: str) -> None:
        described, model = load_robot(robot), load_model(robot)
        settings = {"robot": robot, **node_settings(robot, "adaptive_mpc")}
        config = AdaptiveMpcConfig(**settings)
        path = tool_path(described, model, config)
        begin, period = 2.0 * config.path_period, config.path_period
        self.curve = np.array([path(begin + period * k / POINTS) for k in range(POINTS)])
        self.hash, self.parameters = model.hash, np.array(model.parameters.nominal, float)
        self._model, self._data = model.mj_model, mujoco.MjData(model.mj_model)
        self._site = mujoco.mj_name2id(model.mj_model, mujoco.mjtObj.mjOBJ_SITE, described.task_as(Track).frame)

    def __call__(self, q: np.ndarray) -> np.ndarray:
        """Position (3,) [m] at joints q (n,)."""
        self._data.qpos[: len(q)] = q
        mujoco.mj_kinematics(self._model, self._data)
        return self._data.site_xpos[self._site].copy()
