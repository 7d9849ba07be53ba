"""What the profiles say of each robot."""

from types import SimpleNamespace

import numpy as np
import pytest

from config.robot import robot_names
from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.profiles import ARMS, blueprint_of, free_parameters, hand_path, online_config, physical_vector
from nodes.control.refit_session import RefitWorkerConfig
from sim_core.augmentation import Blueprint, Network, save_blueprints, save_parameters
from sim_core.control.refit_online import OnlineConfig
from sim_core.multibody import load_model
from sim_core.multibody.model.parameter_file import ParameterFile
from sim_core.plant import MujocoPlant


def test_every_arm_with_numbers_of_its_own_is_a_robot_with_a_hand():
    assert set(ARMS) <= set(robot_names())
    for name in ARMS:
        model = load_model(name)
        path = hand_path(model, AdaptiveMpcConfig(robot=name))
        assert "hand" in model.body_names and path(0.0).shape == (3,)


def test_the_refit_frees_the_friction_of_gears_only_where_there_is_any():
    arm = load_model("dxl_arm")
    assert [n for n in free_parameters(arm).names if "friction" in n] == [
        f"{joint}.frictionloss" for joint in arm.joint_names
    ]
    assert not any("friction" in name for name in free_parameters(load_model("panda")).names)


def test_coarse_and_late_readings_are_the_servo_arms_alone():
    fine, coarse = (online_config(load_model(robot), RefitWorkerConfig(robot=robot)) for robot in ("panda", "dxl_arm"))
    assert fine.bridge == OnlineConfig.bridge < 2.0 < coarse.bridge
    assert coarse.refit.scale_floor > fine.refit.scale_floor and coarse.change.factor > fine.change.factor


def test_plant_and_nodes_take_a_file_with_networks(tmp_path):
    model = load_model("panda")
    half = Blueprint("half", "joint2.passive_torque", "joint2.velocity", Network((), biases=False), weights=[-0.25])
    p = model.parameters.values({"joint2.damping": 0.4})
    path = save_parameters(tmp_path / "p.yaml", ParameterFile.from_vector(model, p, np.zeros((len(p), len(p)))), [half])
    other = save_blueprints(tmp_path / "other.yaml", [half])

    def config(blueprint="", physical_parameters=str(path)):
        return SimpleNamespace(blueprint=blueprint, physical_parameters=physical_parameters)

    assert blueprint_of(config()) == str(tmp_path / "blueprint.yaml")
    assert blueprint_of(config(str(other))) == str(other)  # a person's word goes before the file's
    assert blueprint_of(config(physical_parameters="")) == blueprint_of(config(physical_parameters="start")) == ""
    np.testing.assert_array_equal(physical_vector(model, str(path)), p)
    assert MujocoPlant("panda", params_file=str(path)).world.model.dof_damping[1] == pytest.approx(0.4)
