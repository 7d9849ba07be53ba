"""A set of parameters that no robot has, from whoever says that it comes from the refit: control goes on with the last good one."""

import launch_pytest
import numpy as np
import pytest
from launch import LaunchDescription
from launched import Processes, include, until
from refit_interfaces.msg import ControllerStatus, JointCommand, ParameterSet
from refit_interfaces.srv import SetParameterSet

from nodes.framework.qos import COMMAND, LEDGER, STATE
from sim_core.multibody import load_model

# A cart-pole's refits come with its episodes, so here none come but those of the test.
SETTINGS = """
/**/adaptive_mpc:
  ros__parameters: {mode: track}
"""
SERVICES = ("adaptive_mpc/set_physical_parameters", "refit_worker/set", "sim_plant/set")


@pytest.fixture(scope="module")
def model():
    return load_model("cartpole")


def vectors_no_robot_has(model) -> dict[str, np.ndarray]:
    """Sentence -> physical vector."""
    return {
        "cart.mass is 1e+300 kg, expected 0 to 100000 kg": np.full(model.np_, 1e300),
        "pole.mass is -0.1 kg, expected 0 to 100000 kg": model.parameters.values({"pole.mass": -0.1}),
        "gravity.z is -1e+06 m/s^2, expected -1000 to 1000": model.parameters.values({"gravity.z": -1e6}),
        "1 of 31 numbers are not finite": model.parameters.values({"slider.damping": np.nan}),
        "the mass matrix is not positive definite at slider = ": model.parameters.values({"pole.h.z": 50.0}),
    }


def test_these_are_the_sentences(model):
    from sim_core.multibody import PhysicalCheck

    check = PhysicalCheck(model)
    for sentence, p in vectors_no_robot_has(model).items():
        assert sentence in check.objection(p)


@launch_pytest.fixture(scope="module")
def cartpole(domain, tmp_path_factory):
    settings = tmp_path_factory.mktemp("forged") / "settings.yaml"
    settings.write_text(SETTINGS)
    processes = Processes()
    launched = include("sim.launch.py", robot="cartpole", real_time_factor=0.33, params_file=settings)
    return LaunchDescription([*processes.handlers(), launched]), processes


@pytest.mark.launch(fixture=cartpole)
def test_a_forged_set_is_refused_and_control_goes_on(cartpole, probe, model):
    status = probe.watch(ControllerStatus, "controller/status", STATE)
    commands = probe.watch(JointCommand, "joint_command", COMMAND)
    probe.wait_active("sim_plant", "adaptive_mpc", "refit_worker")
    refit = probe.node.create_publisher(ParameterSet, "refit/parameters", LEDGER)
    until(lambda: refit.get_subscription_count() >= 1, "the controller hears the refit")

    def say(p, revision):
        after = len(status)
        refit.publish(
            ParameterSet(
                robot=model.name, model_hash=model.hash, revision=revision, accepted=True, vector=[float(x) for x in p]
            )
        )
        return after

    good = model.parameters.values({"slider.damping": 0.06})
    after = say(good, 5)
    status.wait(
        lambda m: (m.parameters_source, m.parameters_revision) == (ControllerStatus.PARAMETERS_REFIT, 5),
        after=after,
        what="the good set in force",
    )
    for k, (sentence, p) in enumerate(vectors_no_robot_has(model).items()):
        after, sent = say(p, 6 + k), len(commands)
        refused = status.wait(
            lambda m: f"parameter set {6 + k} refused" in m.message,
            after=after,
            what="the refusal",
        )
        assert sentence in refused.message and "the last good set stays" in refused.message
        assert refused.parameters_source == ControllerStatus.PARAMETERS_LAST_GOOD
        assert (refused.parameters_revision, refused.state) == (5, ControllerStatus.STATE_TRACKING)
        until(lambda: len(commands) > sent + 20, "commands go on")
    cartpole[1].assert_running()


@pytest.mark.launch(fixture=cartpole)
def test_a_person_cannot_set_it_either(cartpole, probe, model):
    probe.wait_active("sim_plant", "adaptive_mpc", "refit_worker")
    commands = probe.watch(JointCommand, "joint_command", COMMAND)
    for service in SERVICES:
        for sentence, p in vectors_no_robot_has(model).items():
            told = ParameterSet(robot=model.name, model_hash=model.hash, vector=[float(x) for x in p])
            answer = probe.call(SetParameterSet, service, SetParameterSet.Request(parameters=told))
            assert not answer.success and sentence in answer.message, answer
    sent = len(commands)
    until(lambda: len(commands) > sent + 20, "commands go on")
    cartpole[1].assert_running()
