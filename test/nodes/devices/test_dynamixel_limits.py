"""What a servo group's gate allows: by its settings, by the servos' data sheets, and for the robot in the house as its model."""

import math

import numpy as np
import pytest

pytest.importorskip("rclpy")

from hardware.dynamixel.device import ServoGroup
from hardware.dynamixel.joints import Joint
from hardware.dynamixel.tables import MODELS
from nodes.devices.dynamixel_config import DynamixelConfig, JointSettings
from nodes.devices.dynamixel_limits import joint_limits

ALL = np.ones(2, bool)


def test_settings_come_before_the_data_sheet():
    xm = MODELS["XM430-W350"]
    group = ServoGroup(
        "",
        1_000_000,
        [
            Joint("set", 1, xm, 0, min_rad=-1.0, max_rad=2.0, max_velocity=1.5, max_effort=2.5),
            Joint("geared", 2, xm, 0, gear_ratio=3.0),
        ],
    )
    limits = joint_limits(group, ALL, [0.02, 0.0], [0.5, 0.0])
    assert limits.joints == ("set", "geared")
    np.testing.assert_allclose([limits.lower[0], limits.upper[0]], [-1.0, 2.0])
    # 12 V: 4.1 N m at 2.3 A, 46 rev/min; behind a gear three times the torque at a third of the speed.
    np.testing.assert_allclose(limits.velocity, [1.5, 46.0 * 2.0 * math.pi / 60.0 / 3.0])
    np.testing.assert_allclose(limits.effort, [2.5, 3.0 * 4.1])
    # J R / (k_t k_e) = 12 ms, seen through the gear; at most ten times that.
    own = 0.012 * (4.1 / 2.3) * (12.0 / (46.0 * 2.0 * math.pi / 60.0)) / (12.0 / 2.3)
    np.testing.assert_allclose(limits.inertia, [[0.02, 9.0 * own], [0.5, 90.0 * own]])


def test_a_gripper_is_passive_for_the_arms_gate():
    group = ServoGroup(
        "", 1_000_000, [Joint("arm", 1, MODELS["XM430-W350"], 0), Joint("grip", 2, MODELS["XM430-W350"], 5)]
    )
    limits = joint_limits(group, np.array([True, False]), [0.0, 0.0], [0.0, 0.0])
    assert limits.effort[1] == 0.0 and np.isinf([limits.lower[1], limits.upper[1], limits.velocity[1]]).all()


def test_the_arms_settings_are_its_models_limits():
    """What the simulated arm's gate allows the real one allows too, and no more."""
    from config.robot import node_settings
    from sim_core.plant import MujocoPlant
    from sim_core.plant import joint_limits as of_the_plant

    settings = {name: JointSettings(**joint) for name, joint in node_settings("dxl_arm", "dynamixel")["joints"].items()}
    config = DynamixelConfig(joints=settings)
    group = ServoGroup("", 1_000_000, config.device_joints())
    arm = [name != "gripper" for name in group.names]
    least, most = ([getattr(settings[name], f"{which}_inertia") for name in group.names] for which in ("min", "max"))
    real, model = joint_limits(group, np.array(arm), least, most), of_the_plant(MujocoPlant("dxl_arm").world)
    assert real.joints[:6] == model.joints
    for name in ("lower", "upper", "velocity", "effort"):
        np.testing.assert_allclose(getattr(real, name)[:6], getattr(model, name), err_msg=name)
    np.testing.assert_allclose(real.inertia[:, :6], model.inertia, rtol=0.01)
