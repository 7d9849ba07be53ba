"""The augmentation node: trained from a bag, swapped at run time here and in a controller, judged on live joint states."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from refit_interfaces.action import TrainAugmentation
from refit_interfaces.msg import PredictionError
from refit_interfaces.srv import LoadBlueprint, PredictRollout
from sensor_msgs.msg import JointState

from nodes.framework.joint_state_gate import JointSample
from nodes.framework.qos import STATE
from nodes.learning.augmentation import AugmentationConfig
from nodes.learning.prediction_watch import PredictionWatch
from sim_core.augmentation import augment, load_blueprints
from sim_core.multibody import Dynamics, load_model

sys.path.insert(0, str(Path(__file__).parents[2] / "cli"))
from test_identify import drive, write

# A slider that the model knows no damping of: one weight from its velocity to its torque.
BLUEPRINT = """
blueprints:
  friction:
    outputs: [slider.passive_torque]
    inputs: [slider.velocity]
    network: {hidden: [], activation: identity, biases: [false]}
"""


@pytest.fixture(scope="module")
def states():
    return drive(2.0)


@pytest.fixture(scope="module")
def bag(states, tmp_path_factory):
    return write(tmp_path_factory.mktemp("bags") / "run", states)


@pytest.fixture(scope="module")
def node(shared_ros, tmp_path_factory):
    process = shared_ros.start("augmentation", robot="cartpole", horizon=0.2, length=0.4, targets=["/adaptive_mpc"])
    shared_ros.up("/augmentation")
    shared_ros.folder = tmp_path_factory.mktemp("trained")
    shared_ros.client = ActionClient(shared_ros.node, TrainAugmentation, "/augmentation/train_augmentation")
    shared_ros.states = shared_ros.node.create_publisher(JointState, "joint_states", STATE)
    yield shared_ros
    shared_ros.client.destroy()
    if process in shared_ros.processes:
        code, _, output = shared_ros.finish(process)
        assert code == 0 and "Traceback" not in output


@pytest.fixture(scope="module")
def trained(node, bag):
    feedback = []
    goal = TrainAugmentation.Goal(
        bags=[str(bag)],
        blueprint=BLUEPRINT,
        loss="trajectory",
        horizon=100,
        iterations=30,
        output_directory=str(node.folder / "out"),
    )
    node.until(node.client.server_is_ready, what="the action server")
    sent = node.client.send_goal_async(goal, feedback_callback=lambda m: feedback.append(m.feedback))
    node.until(sent.done, what="the goal's answer")
    future = sent.result().get_result_async()
    node.until(future.done, what="the result")
    # Feedback and results are topics of their own, which may overtake each other.
    node.until(lambda: any(f.stage in ("lbfgs", "adam") for f in feedback), what="feedback on the training")
    return future.result(), feedback


def test_a_bag_trains_a_blueprint(trained):
    answer, feedback = trained
    assert answer.status == GoalStatus.STATUS_SUCCEEDED and answer.result.success, answer.result.message
    metrics = dict(zip(answer.result.metrics, answer.result.values))
    assert metrics["roll-out error, with / without networks"] < 0.8  # noise and delay of the sensor are left
    (blueprint,) = load_blueprints(answer.result.blueprint)
    # 4 ms of delay in the recording cost a few percent.
    assert blueprint.weights[0] * blueprint.output_scale[0] / blueprint.input_scale[0] == pytest.approx(-0.5, rel=0.15)
    steps = [f for f in feedback if f.stage in ("lbfgs", "adam")]
    # Some feedback may never come: whoever listens slowly hears the newest ten.
    assert steps and 0 < steps[-1].progress <= 1 and steps[-1].horizon in (50, 100) and np.isfinite(steps[-1].loss)
    assert [f.iteration for f in steps] == sorted(f.iteration for f in steps)
    assert Path(answer.result.report).exists()


def publish(ros, states, errors):
    """Joint states, and every sixty of them what the node says of its prediction."""
    for k, s in enumerate(states):
        message = JointState(name=list(s.joints), position=list(s.q), velocity=list(s.v), effort=list(s.effort))
        message.header.stamp.sec, message.header.stamp.nanosec = int(s.t), round((s.t % 1.0) * 1e9)
        ros.states.publish(message)
        if k % 60 == 59:
            said = len(errors)
            ros.until(lambda said=said: len(errors) > said, what="a prediction error")


def test_networks_are_swapped_while_joint_states_come(node, trained, states):
    errors = node.listen(PredictionError, "/augmentation/prediction_error", STATE)
    newest = node.diagnostics("/augmentation")

    def known():
        """Whether the node hears this publisher: it counts what it refuses."""
        node.states.publish(JointState(name=["nobody"]))
        return int(newest()[2].get("states_refused", 0)) > 0

    node.until(known, what="the node's subscription")
    publish(node, states[:400], errors)
    node.until(lambda: errors and np.isfinite(errors[-1].at_horizon_rms), what="an error over the horizon")
    plain = errors[-1]
    assert (
        plain.blueprint == ""
        and len(plain.one_step) == 4
        and len(plain.one_step_plain) == 0
        and np.isnan(plain.one_step_rms_plain)
    )
    refused = node.call(LoadBlueprint, "/augmentation/load_blueprint", blueprint="/nowhere.yaml")
    assert not refused.success and "the one before stays" in refused.message
    answer = node.call(LoadBlueprint, "/augmentation/load_blueprint", blueprint=trained[0].result.blueprint)
    assert answer.weights == 1 and answer.revision == 1
    assert (
        not answer.success and "is it running" in answer.message
    )  # the controller is not there yet, the predictor has it
    publish(node, states[400:900], errors)
    node.until(lambda: errors[-1].blueprint and np.isfinite(errors[-1].at_horizon_rms), what="an error with networks")
    judged = [e for e in errors if e.blueprint and np.isfinite(e.at_horizon_rms)]
    assert np.mean([e.at_horizon_rms for e in judged]) < 0.8 * np.mean([e.at_horizon_rms_plain for e in judged])
    assert (
        judged[-1].horizon == pytest.approx(0.2) and len(judged[-1].at_horizon) == len(judged[-1].one_step_plain) == 4
    )


def test_a_rollout_is_predicted_with_the_networks_in_use(node, trained):
    state, U = [0.1, 0.4, 1.0, 0.0], np.linspace(-3, 3, 15)
    answer = node.call(PredictRollout, "/augmentation/predict_rollout", state=state, controls=U.tolist(), step=0.01)
    assert answer.success and answer.blueprint == trained[0].result.blueprint
    model = augment(load_model("cartpole"), trained[0].result.blueprint)
    dynamics = Dynamics(model, dt=0.01, substeps=round(0.01 / model.timestep))
    np.testing.assert_array_equal(
        np.reshape(answer.states, (16, 4)), dynamics.rollout(state, U[:, None], model.parameters.nominal)
    )
    wrong = node.call(PredictRollout, "/augmentation/predict_rollout", state=[0.0])
    assert not wrong.success and "4 numbers" in wrong.message


def test_a_running_controller_takes_the_networks_too(node, trained):
    node.start("adaptive_mpc", robot="cartpole", mode="episode", lockstep=True)
    node.up("/adaptive_mpc")
    newest = node.diagnostics("/adaptive_mpc")
    for blueprint, weights in ((trained[0].result.blueprint, 1), ("", 0)):
        answer = node.call(LoadBlueprint, "/augmentation/load_blueprint", blueprint=blueprint)
        assert answer.success and answer.weights == weights, answer.message
        node.until(lambda: newest()[2].get("blueprint") == (blueprint or "none"), what="the swap")
    refused = node.call(LoadBlueprint, "/adaptive_mpc/load_blueprint", blueprint="/nowhere.yaml")
    assert not refused.success and "the model before stays" in refused.message


def test_the_watch_predicts_exactly_with_the_true_model_and_forgets_gaps():
    model = load_model("cartpole")
    dt, u = model.timestep, np.sin(np.arange(60) * 0.3)[:, None]
    dynamics, p = Dynamics(model), model.parameters.nominal
    X = dynamics.rollout([0.0, 0.4, 0.0, 0.0], u, p)
    watch = PredictionWatch(model, lambda effort: effort[:1], horizon=20 * dt)
    for k, x in enumerate(X):
        watch.see(JointSample(k * dt, x[:2], x[2:], np.array([u[k - 1, 0] if k else 0.0, 0.0])))
    assert watch.full and watch.steps == 20
    one, far = watch.errors(dynamics, p)
    assert np.abs(one).max() < 1e-12 and np.abs(far).max() < 1e-12
    watch.see(JointSample(61.5 * dt, X[-1, :2], X[-1, 2:], np.zeros(2)))
    assert not watch.ready


def test_the_page_names_everything(documentation):
    assert documentation.missing("augmentation.md", AugmentationConfig, "nodes/learning/augmentation.py") == []
