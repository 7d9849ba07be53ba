"""`refit calibrate servos`: torque constants, friction and delay."""

import numpy as np
import pytest
from simulated_bags import ROBOT, arm, found, inside, parameters, run

from experiments.adaptive_mpc.identify_panda import RunWriter, record_fourier
from hardware.dynamixel.tables import MODELS
from nodes.devices.dynamixel_config import DynamixelConfig
from recording import BagWriter
from sim_core.multibody.model.parameter_file import ParameterFile
from sim_core.plant import MujocoPlant

STRONGER, FRICTION, DELAY = ("shoulder", "wrist_pitch"), 0.15, 0.003
DRIVER = {
    f"joints.{joint}.{field}": value
    for joint in ("waist", "shoulder", "elbow", "forearm_roll", "wrist_pitch", "wrist_roll")
    for field, value in (("model", "XM430-W350"), ("torque_constant", 0.0))
} | {"joints.elbow.torque_constant": 1.9}


@pytest.fixture(scope="module")
def servo_bag(tmp_path_factory):
    """Two servos are stronger than their data sheet by 8 %, all gears rub half as much again as the model's, states come 3 ms late."""
    path = tmp_path_factory.mktemp("servos") / "bag"
    plant = MujocoPlant(
        ROBOT,
        seed=3,
        tick=0.004,
        position_noise=4.4e-4,
        velocity_noise=7e-3,
        sensor_delay=DELAY,
        parameters={f"{joint}.frictionloss": FRICTION for joint in arm().joint_names},
    )
    plant.apply([{"action": "actuator_gain", "joints": list(STRONGER), "factor": 1.08}])
    record_fourier(
        path, plant, 8.0, np.random.default_rng(0), {"/dynamixel": DRIVER, "/recorder": {"profile": "calibrate"}}
    )
    return path


def test_servos(servo_bag, tmp_path, capsys):
    assert run(capsys, "servos", servo_bag, "--starts", "2", "--out", tmp_path / "out")[0] == 0
    _, rows = found(tmp_path / "out")
    sheet = MODELS["XM430-W350"].motor.torque_constant
    assert inside(rows["sensor.delay"], DELAY)
    node, values = parameters(tmp_path / "out", "dynamixel.yaml")
    assert node == "/**/dynamixel" and len(values) == 6
    for joint in arm().joint_names:
        assumed = 1.9 if joint == "elbow" else sheet
        constant = rows[f"{joint}.torque_constant"]
        assert constant["assumed"] == pytest.approx(assumed) and constant["unit"] == "N m/A"
        assert inside(constant, assumed * (1.08 if joint in STRONGER else 1.0))
        assert (constant["upper"] - constant["lower"]) < 0.04 * constant["value"]
        assert inside(rows[f"{joint}.frictionloss"], FRICTION) and inside(rows[f"{joint}.damping"], 0.05)
        assert values[f"joints.{joint}.torque_constant"] == pytest.approx(constant["value"], rel=1e-6)
    physical = ParameterFile.load(tmp_path / "out" / "parameters.yaml")
    assert set(physical.parameters) == {
        f"{j}.{kind}" for j in arm().joint_names for kind in ("frictionloss", "damping")
    }
    assert MujocoPlant(ROBOT, params_file=str(tmp_path / "out" / "parameters.yaml")).world.model.dof_frictionloss[
        0
    ] == pytest.approx(rows["waist.frictionloss"]["value"])


def test_torque_constants_are_those_the_driver_knows():
    for name in ("torque_constant", "model"):
        assert name in DynamixelConfig.__dataclass_fields__["joints"].metadata["group"].__dataclass_fields__


def test_a_bag_without_the_drivers_parameters_is_refused_before_the_fit(tmp_path, capsys):
    plant = MujocoPlant(ROBOT, tick=0.004)
    with BagWriter(tmp_path / "bag") as bag:
        writer = RunWriter(bag, plant, arm(), {"/dynamixel": {k: v for k, v in DRIVER.items() if "elbow" not in k}})
        for _ in range(200):
            plant.step(np.zeros(6))
            writer.state(plant)
    code, said = run(capsys, "servos", tmp_path / "bag")
    assert code == 2 and said.count("\n") == 1 and "of a servo driver for elbow:" in said
