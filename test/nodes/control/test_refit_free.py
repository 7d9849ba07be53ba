"""A refit that may change more than what the hand holds: it recovers what changed, and leaves the rest as it was."""

import numpy as np
import pytest

from config.robot import load_robot
from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.refit_session import RefitSession, session_model
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.control.robot_task import control_task, free_parameters, own_hash, physical_vector, quantities, robot_model
from nodes.framework.joint_state_gate import JointSample
from nodes.supervision.launch_check import check_arguments
from sim_core.multibody import load_model
from sim_core.multibody.model.parameter_file import ParameterFile
from sim_core.plant import MujocoPlant
from sim_core.plant.robot_changes import events_of, free_for, truth_after

NOISE = (1e-5, 1e-3)
GAIN = np.array([1200, 1200, 800, 800, 200, 200, 100.0])


def swing(events, seconds, seed=0):
    """Joint states of a Panda that sways under gravity compensation and a position loop, after events."""
    plant = MujocoPlant("panda", seed=seed, position_noise=NOISE[0], velocity_noise=NOISE[1])
    for event in events:
        plant.apply(event)
    q_home, rng = load_model("panda").q_home, np.random.default_rng(seed)
    amplitude, omega = 0.4 * rng.uniform(0.5, 1, 7), 2 * np.pi * rng.uniform(0.3, 0.7, 7)
    while plant.t < seconds:
        q = q_home + amplitude * (1 - np.cos(omega * plant.t)) / 2
        v = amplitude * omega * np.sin(omega * plant.t) / 2
        plant.step(GAIN * (q - plant.q) + 2 * np.sqrt(GAIN) * (v - plant.v))
        yield JointSample(plant.t, plant.q, plant.v, plant.effort)


@pytest.mark.parametrize(
    "text, error",
    [
        ("friction:joint4=2.5", 0.05),
        ("damping:joint2=x3", 0.1),
        ("gain:joint4=0.8", 0.02),
        ("mass:link3=1.3", 0.2),
        ("tilt:3@y", 0.002),
    ],
)
def test_what_changed_is_found_among_all_of_its_kind(text, error):
    """Within `error` [SI] and 2.6 standard deviations, though nobody says which joint or link it was; no payload is invented."""
    model = load_model("panda")
    events = events_of(text, model, "hand")
    config = RefitWorkerConfig(robot="panda", free=",".join(free_for(events, model, "hand")), max_evaluations=40)
    session = RefitSession(session_model(config), config)
    for sample in swing(events, 1.5):
        session.see(sample)
    done = session.round(1.2)
    assert done.accepted, done.reason
    found = {e.name: e for e in quantities(session.robot, session.spec, done.result.xi, done.result.covariance)}
    for name, true in truth_after(events, model).items():
        assert found[name].value == pytest.approx(true, abs=error)
        assert abs(found[name].value - true) < 2.6 * found[name].std + 1e-9
    load = found["hand.payload.mass"]
    assert abs(load.value) < max(0.02, 2.6 * load.std)
    # What is learnt is what the controller takes: its model has an entry for all of it.
    planning = AdaptiveMpcConfig(robot="panda", free=config.free)
    task = control_task(load_robot("panda"), robot_model("panda", planning.free), planning)
    assert task.model.hash == session.hybrid.hash and done.p.shape == (task.model.np_,)


def test_without_being_told_friction_it_is_no_part_of_the_model():
    plain, rubbing = robot_model("panda"), robot_model("panda", "*.friction")
    assert plain.hash == load_model("panda").hash == robot_model("panda", "*.gear, gravity.tilt").hash
    assert rubbing.np_ == plain.np_ + 7 and rubbing.hash != plain.hash
    # Where every gear has friction anyway, nothing is another model's.
    assert robot_model("dxl_arm", "*.friction").hash == load_model("dxl_arm").hash


def test_names_stand_in_place_of_what_is_usual():
    arm = load_robot("dxl_arm")
    usual, wide = (free_parameters(arm, load_model("dxl_arm"), free=free) for free in ("", "elbow.friction"))
    assert sorted(usual.names) == sorted(wide.names)
    std = dict(zip(wide.names, wide.prior_std))
    assert std["elbow.frictionloss"] == 1.0 and std["waist.frictionloss"] == 0.3
    point = free_parameters(load_robot("panda"), load_model("panda"), free="hand.payload")
    assert point.n == 4 and "hand.payload.mass" in point.names


def test_a_parameter_file_with_friction_is_loaded_by_who_has_none(tmp_path):
    robot, model = load_robot("panda"), robot_model("panda", "*.friction")
    p = np.array(model.parameters.nominal)
    p[model.parameters.index("joint4.frictionloss")] = 2.5
    names = [f"joint{k}.frictionloss" for k in range(1, 8)]
    none = np.zeros((len(p), len(p)))
    path = ParameterFile.from_vector(model, p, none, names, model_hash=own_hash(robot, model)).save(tmp_path / "p.yaml")
    reader = robot_model("panda", physical_parameters=str(path))
    np.testing.assert_array_equal(physical_vector(robot, reader, str(path)), p)
    assert MujocoPlant("panda", params_file=str(path)).world.model.dof_frictionloss[3] == 2.5
    config = RefitWorkerConfig(robot="panda", physical_parameters=str(path))
    assert RefitSession(session_model(config), config).p[
        model.parameters.index("joint4.frictionloss")
    ] == pytest.approx(2.5)
    other = ParameterFile.from_vector(model, p, none, names, model_hash="f" * 64).save(tmp_path / "other.yaml")
    with pytest.raises(ValueError, match="belongs to model ffff"):
        physical_vector(robot, reader, str(other))


@pytest.mark.parametrize(
    "robot, free, words",
    [
        ("panda", "joint9.friction", "free:=joint9.friction: no joint matches 'joint9'; there are joint1"),
        ("panda", "joint4.gaer", "did you mean 'joint4.gear'"),
        ("panda", "link4.density,link4.inertia", "is set by two blocks"),
        ("double_cartpole", "*.damping", "refits the published parameters"),
        ("quadruped", "*.damping", "is not refitted"),
    ],
)
def test_a_launch_refuses_what_cannot_be_freed(robot, free, words):
    with pytest.raises(ValueError, match=words):
        check_arguments({"robot": robot, "free": free})
    assert check_arguments({"robot": "panda", "free": "*.friction"})["free"] == "*.friction"
