"""A robot of one's own, in a folder anywhere: everything works with it, and no code changes."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy")

from cli.demo.arm_change import arm_change
from cli.demo.command import _payload, _robot
from cli.doctor_devices import expectations
from cli.errors import CommandError
from config.description import PayloadDemo, Track
from config.robot import load_robot, robot_folder
from nodes.control import robot_task
from nodes.control.adaptive_mpc_config import AdaptiveMpcConfig
from nodes.control.refit_session import RefitSession
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.control.robot_task import control_task, quantities
from nodes.devices.robot_devices import robot_devices
from nodes.framework.launching import ARGUMENTS
from sim_core.inference.fit.free_names import FreeNameError, default_names, free_parameters
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant

ROOT = Path(__file__).resolve().parents[2]
NAME = "arm6"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The Panda under another name, with another payload body, gains, sensors and devices."""
    folder = tmp_path_factory.mktemp("robots") / NAME
    folder.mkdir()
    panda = robot_folder("panda")
    text = (panda / "panda.xml").read_text().replace('<mujoco model="panda"', f'<mujoco model="{NAME}"')
    (folder / f"{NAME}.xml").write_text(text.replace('body name="hand"', 'body name="gripper"'))
    (folder / "nodes.yaml").write_text((panda / "nodes.yaml").read_text())
    document = yaml.safe_load((panda / "robot.yaml").read_text())
    document["title"] = "Sixth"
    document["task"] |= {"payload_body": "gripper", "weights": document["task"]["weights"] | {"rate": 0.7}}
    document["refit"]["bridge"] = 2.5
    document["identify"]["free"] = ["gripper.mass_com"]
    document["devices"] = [{"node": "urg", "emulator": ["urg", "--link", "{folder}/urg"]}]
    document["demo"] |= {"mass": 1.0, "mass_range": [0.5, 1.5]}
    (folder / "robot.yaml").write_text(yaml.safe_dump(document))
    return folder


def launched(robot: str, **arguments: str) -> dict[str, dict]:
    """{node: parameters} that robot.launch.py starts."""
    spec = importlib.util.spec_from_file_location("robot_launch", ROOT / "launch" / "robot.launch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    defaults = {name: ARGUMENTS[name].get("default_value", "") for name in module.ALL}
    return module.started(load_robot(robot), defaults | {"robot": robot} | arguments)


def test_it_is_loaded_planned_refitted_and_simulated(folder, monkeypatch):
    robot, model = load_robot(folder), load_model(str(folder))
    assert robot.name == model.name == NAME and robot.title == "Sixth"
    assert control_task(robot, model, AdaptiveMpcConfig()).name == f"{NAME}_tracking"
    with monkeypatch.context() as patch:
        patch.setattr(robot_task, "frame_tracking", lambda *_, **given: given)
        mine, theirs = (control_task(each, model, AdaptiveMpcConfig()) for each in (robot, load_robot("panda")))
    assert {name for name in mine if mine[name] != theirs[name]} == {"rate"} and mine["rate"] == 0.7
    session = RefitSession(model, RefitWorkerConfig(robot=str(folder)))
    assert session.online.config.bridge == 2.5
    spec = session.spec
    names = [entry.name for entry in quantities(robot, spec, spec.prior_mean, np.zeros((spec.n, spec.n)))]
    assert "gripper.payload.mass" in names and not any(name.startswith("hand.") for name in names)
    assert MujocoPlant(str(folder)).name == NAME


def test_launch_files_take_it(folder):
    assert str(folder) in ARGUMENTS["robot"]["choices"] and "/nowhere" not in ARGUMENTS["robot"]["choices"]
    nodes = launched(str(folder))
    assert list(nodes) == ["adaptive_mpc", "refit_worker", "supervisor"]
    assert all(parameters["robot"] == str(folder) for parameters in nodes.values())
    assert [device.node for device in robot_devices(str(folder), "urg")] == ["urg"]
    assert [expected.kind for expected in expectations(str(folder))] == ["urg"]


def test_each_robot_is_run_by_its_own_controller():
    assert list(launched("quadruped")) == ["stance_controller", "supervisor"]
    assert launched("quadruped")["supervisor"]["refit_age_limit"] == 0.0
    without = launched("cartpole", refit="false")
    assert list(without) == ["adaptive_mpc", "supervisor"] and without["adaptive_mpc"]["refit"] == "off"
    with pytest.raises(ValueError, match="controller is missing in .*swimmer3/robot.yaml"):
        launched("swimmer3")


def test_the_demo_takes_it(folder):
    robot = _robot(str(folder))
    assert arm_change(str(folder), [], None, None).events[0]["mass"] == 1.0 and robot.demo_as(PayloadDemo).com == (
        0.03,
        0.02,
        0.08,
    )
    assert robot.task_as(Track).payload_body == "gripper"
    with pytest.raises(CommandError, match=f"{NAME} takes 0.5 to 1.5 kg"):
        _payload(robot, 2.0)


def test_identify_frees_what_it_says(folder, monkeypatch):
    assert (
        default_names(folder) == ["gripper.mass_com"] and free_parameters(str(folder), default_names(folder))[1].n == 4
    )
    assert default_names(NAME) == ["*.mass_com", "*.damping"]  # a recording of a robot that nobody knows here
    monkeypatch.setenv("REFIT_ROBOTS", str(folder.parent))
    assert default_names(NAME) == ["gripper.mass_com"]


@pytest.mark.process
def test_commands_list_it_by_name(folder):
    environment = {**os.environ, "REFIT_ROBOTS": str(folder.parent), "COLUMNS": "200"}
    for words in (["demo", "--help"], ["launch", "sim.launch.py", "--show-args"]):
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", *words],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0 and NAME in done.stdout, done.stderr


def test_a_broken_one_is_refused_in_one_sentence_wherever_it_is_named(folder, monkeypatch):
    broken = folder.parent / "broken"
    broken.mkdir()
    (broken / "broken.xml").write_text((folder / f"{NAME}.xml").read_text().replace(f'"{NAME}"', '"broken"'))
    (broken / "nodes.yaml").write_text((folder / "nodes.yaml").read_text())
    (broken / "robot.yaml").write_text((folder / "robot.yaml").read_text().replace("rate:", "rite:"))
    said = r"broken/robot.yaml: task.weights.rite is no key here; did you mean rate\?$"
    for ask in (
        lambda: load_robot(broken),
        lambda: robot_devices(broken),
        lambda: expectations(str(broken)),
        lambda: RefitSession(load_model(str(broken)), RefitWorkerConfig(robot=str(broken))),
    ):
        with pytest.raises(ValueError, match=said):
            ask()
    with pytest.raises(CommandError, match=said):
        _robot(str(broken))
    with pytest.raises(FreeNameError, match=said):
        default_names(broken)
    (broken / "robot.yaml").write_text((folder / "robot.yaml").read_text().replace("  weights:", "  weights_:"))
    with pytest.raises(CommandError, match="broken/robot.yaml: task.weights_ is no key here; did you mean weights"):
        _robot(str(broken))
