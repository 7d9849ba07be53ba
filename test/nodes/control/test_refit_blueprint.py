"""The refit around networks: what they explain is not absorbed into the physics, and what is published has no weights in it."""

import numpy as np
import pytest

from nodes.control.refit_session import RefitSession
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.framework.joint_state_gate import JointSample
from sim_core.augmentation import Blueprint, Network, augment, open_parameters, save_blueprints, save_parameters
from sim_core.multibody import load_model
from sim_core.multibody.model.cartpole_parameters import base_parameters
from sim_core.multibody.model.parameter_file import ParameterFile, ParameterValue
from sim_core.plant import MujocoPlant

DAMPING = 4.0


@pytest.fixture(scope="module")
def model():
    return load_model("cartpole")


@pytest.fixture(scope="module")
def friction():
    """The damping that the robot has and the model has not, as a network of one weight."""
    return Blueprint(
        "friction", "slider.passive_torque", "slider.velocity", Network((), biases=False), weights=[-DAMPING]
    )


@pytest.fixture(scope="module")
def samples():
    """Joint states of MuJoCo's cart-pole with the damping."""
    plant, rng, u, found = (
        MujocoPlant("cartpole", initial_q=[0.0, 0.4], parameters={"slider.damping": DAMPING}),
        np.random.default_rng(0),
        0.0,
        [],
    )
    while plant.t < 0.6:
        found.append(JointSample(plant.t, plant.q, plant.v, plant.effort))
        u = 0.9 * u + 3.0 * rng.standard_normal()
        plant.step([u])
    return found


def session(model, samples, **config):
    made = RefitSession(
        model,
        RefitWorkerConfig(
            robot="cartpole", sample_period=model.timestep, schedule="episodic", max_evaluations=40, **config
        ),
    )
    for sample in samples:
        made.see(sample)
    return made


def error(model, p):
    """Largest relative error of what the motion depends on."""
    true, found = base_parameters(model, model.parameters.nominal), base_parameters(model, p)
    return max(abs(found[name] - true[name]) / max(abs(true[name]), 0.1) for name in true)


def test_what_a_file_says_of_other_parameters_stays(tmp_path):
    panda = load_model("panda")
    p = panda.parameters.values({"joint2.damping": 3.5, "hand.mass": 1.2})
    values = {
        name: ParameterValue(float(v), float("nan"), unit)
        for name, v, unit in zip(panda.parameters.names, p, panda.parameters.units)
    }
    path = ParameterFile(robot="panda", model_hash=panda.hash, parameters=values).save(tmp_path / "panda.yaml")
    made = RefitSession(panda, RefitWorkerConfig(robot="panda", physical_parameters=str(path)))
    assert made.p[panda.parameters.index("joint2.damping")] == 3.5
    assert made.p == pytest.approx(p, rel=1e-9, abs=1e-12)


def test_a_damping_that_a_network_explains_is_not_absorbed(model, friction, samples, tmp_path):
    blueprint = str(save_blueprints(tmp_path / "friction.yaml", [friction]))
    around, without = session(model, samples, blueprint=blueprint), session(model, samples)
    fitted, absorbed = around.round(), without.round()
    assert fitted.accepted and fitted.p.shape == (model.np_,)
    assert error(model, fitted.p) < 0.01
    assert error(model, absorbed.p) > 0.1  # the same samples, without the network
    assert around.hybrid.parameters.names[: model.np_] == model.parameters.names
    np.testing.assert_array_equal(around.online.p[model.np_ :], [-DAMPING])  # held

    # At run time: the samples at hand are fitted anew around the network, and a person's vector has no weights either.
    revision = without.online.revision
    without.exchange(blueprint, without.around(blueprint))
    assert without.blueprint == blueprint and without.online.revision == revision
    assert error(model, without.round().p) < 0.01
    without.set_parameters(np.array(model.parameters.nominal))
    assert error(model, without.p) < 1e-6


def test_the_networks_of_a_parameter_file_are_taken_unless_others_are_named(model, friction, tmp_path):
    p = np.array(model.parameters.nominal)
    path = str(
        save_parameters(
            tmp_path / "p.yaml", ParameterFile.from_vector(model, p, np.zeros((len(p), len(p)))), [friction]
        )
    )
    other = str(save_blueprints(tmp_path / "other.yaml", [friction]))
    assert session(model, (), physical_parameters=path).blueprint == str(tmp_path / "blueprint.yaml")
    assert session(model, (), physical_parameters=path, blueprint=other).blueprint == other
    plain = session(model, ())
    with pytest.raises(ValueError, match="nowhere.yaml"):
        plain.around("/nowhere.yaml")
    assert plain.blueprint == "" and plain.hybrid is model


def test_the_worker_exchanges_its_networks_while_it_runs(ros, friction, samples, tmp_path):
    from rclpy.action import ActionClient
    from refit_interfaces.action import Refit
    from refit_interfaces.srv import LoadBlueprint
    from sensor_msgs.msg import JointState

    from nodes.framework.qos import STATE

    blueprint = str(save_blueprints(tmp_path / "friction.yaml", [friction]))
    newest = ros.diagnostics("/refit_worker")
    ros.start(
        "refit_worker",
        robot="cartpole",
        schedule="episodic",
        sample_period=load_model("cartpole").timestep,
        run_directory=str(tmp_path / "run"),
    )
    ros.up("/refit_worker")
    answer = ros.call(LoadBlueprint, "/refit_worker/load_blueprint", blueprint=blueprint)
    assert answer.success and answer.weights == 1 and answer.revision == 1, answer.message
    ros.until(lambda: newest()[2].get("blueprint") == blueprint, what="the exchange")
    refused = ros.call(LoadBlueprint, "/refit_worker/load_blueprint", blueprint="/nowhere.yaml")
    assert not refused.success and "the model before stays" in refused.message and refused.revision == 1

    states = ros.node.create_publisher(JointState, "joint_states", STATE)

    def known():
        """Whether the worker hears this publisher: it counts what it refuses."""
        states.publish(JointState(name=["nobody"]))
        return int(newest()[2].get("states_refused", 0)) > 0

    ros.until(known, what="the worker's subscription")
    for sample in samples:
        message = JointState(
            name=["slider", "hinge"],
            position=sample.position.tolist(),
            velocity=sample.velocity.tolist(),
            effort=sample.effort.tolist(),
        )
        message.header.stamp.nanosec = round(sample.stamp * 1e9)
        states.publish(message)
        ros.spin(0.001)
    ros.until(lambda: int(newest()[2].get("states", 0)) == len(samples), what="all samples at the worker")
    client = ActionClient(ros.node, Refit, "refit")
    ros.until(client.server_is_ready, what="the action")
    sent = client.send_goal_async(Refit.Goal(window=0.5, window_end=samples[-1].stamp))
    ros.until(sent.done, what="the goal's answer")
    result = sent.result().get_result_async()
    ros.until(result.done, what="the result")
    found = result.result().result
    client.destroy()
    model = load_model("cartpole")
    assert (
        found.accepted
        and found.parameters.model_hash == augment(model, blueprint).hash
        and len(found.parameters.vector) == model.np_
    )
    # What was fitted around networks names them on disk.
    hybrid, p = open_parameters(tmp_path / "run" / "parameters.yaml", "cartpole")
    assert hybrid.parameters.nominal[-1] == -DAMPING and np.allclose(p[: model.np_], found.parameters.vector)
    assert ParameterFile.load(tmp_path / "run" / "revisions" / "revision-0001.yaml").networks


def test_networks_that_the_controller_alone_is_asked_to_take_reach_the_worker(ros, model, friction, tmp_path):
    """And a refit of the model before, which may be on its way meanwhile, is never planned with."""
    from refit_interfaces.msg import ControllerStatus, ParameterSet
    from refit_interfaces.srv import LoadBlueprint

    from nodes.framework.qos import LEDGER, STATE

    blueprint = str(save_blueprints(tmp_path / "friction.yaml", [friction]))
    worker, controller = ros.diagnostics("/refit_worker"), ros.diagnostics("/adaptive_mpc")
    ros.start("refit_worker", robot="cartpole", schedule="episodic", sample_period=model.timestep)
    ros.start("adaptive_mpc", robot="cartpole", mode="episode", lockstep=True, refit="episodic")
    ros.up("/refit_worker")
    ros.up("/adaptive_mpc")
    parameters = ros.node.create_publisher(ParameterSet, "refit/parameters", LEDGER)
    status = ros.listen(ControllerStatus, "controller/status", STATE)
    REFIT, LAST_GOOD = ControllerStatus.PARAMETERS_REFIT, ControllerStatus.PARAMETERS_LAST_GOOD

    def in_force():
        """(source, revision) of all parameters that the controller has had since its first refit, in order."""
        pairs = [(said.parameters_source, said.parameters_revision) for said in status]
        changes = [pair for k, pair in enumerate(pairs) if k == 0 or pair != pairs[k - 1]]
        return [pair for pair in changes if pair[1]]

    def offer(revision, model_hash):
        """An accepted set of a model."""
        vector = model.parameters.values({"slider.damping": 0.01 * revision}).tolist()
        parameters.publish(
            ParameterSet(robot="cartpole", model_hash=model_hash, revision=revision, accepted=True, vector=vector)
        )

    def until_in_force(*pairs):
        ros.until(lambda: in_force() == list(pairs), what=f"{pairs}, not {in_force()},")

    ros.until(lambda: parameters.get_subscription_count() > 0, what="the controller's subscription")
    hybrid = augment(model, blueprint)
    offer(1, model.hash)
    until_in_force((REFIT, 1))
    offer(2, hybrid.hash)  # fitted around networks that are not there
    until_in_force((REFIT, 1), (LAST_GOOD, 1))
    offer(3, model.hash)
    until_in_force((REFIT, 1), (LAST_GOOD, 1), (REFIT, 3))
    assert ros.call(LoadBlueprint, "/adaptive_mpc/load_blueprint", blueprint=blueprint).success
    ros.until(lambda: controller()[2].get("blueprint") == blueprint, what="the controller's exchange")
    before = (REFIT, 1), (LAST_GOOD, 1), (REFIT, 3), (LAST_GOOD, 3)
    until_in_force(*before)
    offer(4, model.hash)  # sets arrive in order, so this one has been judged where the next is in force
    offer(5, hybrid.hash)
    until_in_force(*before, (REFIT, 5))
    ros.until(lambda: worker()[2].get("blueprint") == blueprint, what="the worker's exchange")
    assert ros.call(LoadBlueprint, "/adaptive_mpc/load_blueprint", blueprint="").success
    ros.until(lambda: worker()[2].get("blueprint") == "none", what="the way back")


def test_a_worker_that_cannot_follow_says_so_until_both_are_the_same(ros, model, friction, tmp_path):
    from refit_interfaces.msg import PlanningModel
    from refit_interfaces.srv import LoadBlueprint

    from nodes.framework.diagnostics import OK, WARN
    from nodes.framework.qos import LATCHED

    blueprint = str(save_blueprints(tmp_path / "friction.yaml", [friction]))
    newest = ros.diagnostics("/refit_worker")
    planned = ros.node.create_publisher(PlanningModel, "controller/model", LATCHED)
    planned.publish(
        PlanningModel(robot="cartpole", blueprint="/elsewhere/friction.yaml", model_hash=augment(model, blueprint).hash)
    )
    ros.start("refit_worker", robot="cartpole", sample_period=model.timestep)
    ros.up("/refit_worker")

    def warned(text):
        return newest()[0] == WARN[0] and "refuses refits from here" in newest()[1] and text in newest()[1]

    ros.until(lambda: warned("/elsewhere/friction.yaml: cannot be read"), what="the warning")
    assert ros.call(
        LoadBlueprint, "/refit_worker/load_blueprint", blueprint=blueprint
    ).success  # the same networks, found here
    ros.until(
        lambda: newest()[2].get("blueprint") == blueprint and newest()[0] == OK[0], 60.0, "the end of the warning"
    )
    # A file that was trained on since is not what the controller read.
    planned.publish(PlanningModel(robot="cartpole", blueprint=blueprint, model_hash=f"{model.hash}+0123456789abcdef"))
    ros.until(lambda: warned("holds here is another"), what="the warning")
    assert newest()[2]["blueprint"] == blueprint
