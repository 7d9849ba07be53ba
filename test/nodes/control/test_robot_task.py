"""What controller and refit make of each robot's description."""

from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest

from config.description import RobotError, SwingUp, Track
from config.robot import load_robot, loadable_robots
from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.control.robot_task import (
    blueprint_of,
    control_task,
    free_parameters,
    online_config,
    physical_vector,
    quantities,
    reward_of,
    tool_path,
    upright,
)
from sim_core.augmentation import Blueprint, Network, save_blueprints, save_parameters
from sim_core.control.refit_online import OnlineConfig
from sim_core.control.tasks import DOUBLE, SINGLE
from sim_core.multibody import load_model
from sim_core.multibody.model.parameter_file import ParameterFile
from sim_core.plant import MujocoPlant

ADAPTIVE = [robot.name for robot in loadable_robots() if robot.controller == "adaptive_mpc"]


@pytest.mark.parametrize("name", ADAPTIVE)
def test_every_robot_of_the_controller_has_a_task_and_free_parameters(name):
    robot, model = load_robot(name), load_model(name)
    config = AdaptiveMpcConfig(robot=name)
    task, spec = control_task(robot, model, config), free_parameters(robot, model)
    assert task.ilqr.dt == config.control_period and task.reference(0.0).shape[0] == task.ilqr.horizon + 1
    reported = [entry.name for entry in quantities(robot, spec, spec.prior_mean, np.zeros((spec.n, spec.n)))]
    if isinstance(robot.task, Track):
        assert robot.task.payload_body in model.body_names and robot.task.frame in model.frame_names
        assert tool_path(robot, model, config)(0.0).shape == (3,)
        assert f"{robot.task.payload_body}.payload.mass" in reported
        assert reward_of(robot) is None and not upright(robot, model)(np.zeros(model.nq + model.nv))
    else:
        assert spec.report(spec.prior_mean, np.zeros((spec.n, spec.n)))[0].value == pytest.approx(robot.task.start)
        assert not any("payload" in name for name in reported)
        assert reward_of(robot) is not None and upright(robot, model)(np.zeros(model.nq + model.nv))


@pytest.mark.parametrize(("name", "weights"), [("cartpole", SINGLE), ("double_cartpole", DOUBLE)])
def test_cart_poles_have_the_weights_of_the_published_experiment(name, weights):
    assert asdict(load_robot(name).task_as(SwingUp).weights) == asdict(weights)


def test_a_robot_without_a_task_or_refit_gets_nobody_elses():
    robot, model = load_robot("panda"), load_model("panda")
    for idle in (replace(robot, task=None, refit=None, demo=None, controller=""), load_robot("quadruped")):
        for ask in (
            lambda idle=idle: control_task(idle, model, AdaptiveMpcConfig()),
            lambda idle=idle: free_parameters(idle, model),
            lambda idle=idle: tool_path(idle, model, AdaptiveMpcConfig()),
            lambda idle=idle: online_config(idle, RefitWorkerConfig()),
        ):
            with pytest.raises(RobotError, match=r"robot\.yaml: (expected a task of kind track|refit is missing)"):
                ask()
    with pytest.raises(RobotError, match="expected a task of kind track, found swing_up"):
        tool_path(load_robot("cartpole"), load_model("cartpole"), AdaptiveMpcConfig())
    with pytest.raises(ValueError, match="'start' is for cart-poles, this is panda"):
        physical_vector(robot, model, "start")


def test_the_refit_frees_the_friction_of_gears_only_where_there_is_any():
    arm = load_model("dxl_arm")
    assert [n for n in free_parameters(load_robot("dxl_arm"), arm).names if "friction" in n] == [
        f"{joint}.frictionloss" for joint in arm.joint_names
    ]
    panda = free_parameters(load_robot("panda"), load_model("panda"))
    assert not any("friction" in name for name in panda.names)


def test_coarse_and_late_readings_are_the_servo_arms_alone():
    fine, coarse = (online_config(load_robot(robot), RefitWorkerConfig(robot=robot)) for robot in ("panda", "dxl_arm"))
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
    np.testing.assert_array_equal(physical_vector(load_robot("panda"), model, str(path)), p)
    assert MujocoPlant("panda", params_file=str(path)).world.model.dof_damping[1] == pytest.approx(0.4)
