"""The inference node: bags to a latched posterior, feedback, cancel and resume, roll-outs, and particles in a controller."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from refit_interfaces.action import InferParameters
from refit_interfaces.msg import ParticleSet
from refit_interfaces.srv import LoadBlueprint, RolloutPosterior, SetSimParameters

from nodes.framework.qos import LATCHED
from nodes.learning.inference import InferenceConfig
from sim_core.augmentation import Blueprint, Network, augment, save_blueprints
from sim_core.multibody import Dynamics, load_model

sys.path.insert(0, str(Path(__file__).parents[2] / "cli"))
from test_identify import drive, write

LIMITS = "{slider.damping: [-3000, 1500]}"  # particles below zero fly apart


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    return write(tmp_path_factory.mktemp("bags") / "run", drive(2.0))


@pytest.fixture(scope="module")
def node(shared_ros, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inference")
    process = shared_ros.start("inference", checkpoints=str(folder), length=0.4)
    shared_ros.up("/inference")
    shared_ros.folder = folder
    shared_ros.client = ActionClient(shared_ros.node, InferParameters, "/inference/infer_parameters")
    yield shared_ros
    shared_ros.client.destroy()
    if process in shared_ros.processes:
        code, _, output = shared_ros.finish(process)
        assert code == 0 and "Traceback" not in output, output


def ask(ros, bag, feedback=None, **fields):
    """The future of the answer to a goal."""
    goal = InferParameters.Goal(
        **{
            "bags": [str(bag)],
            "limits": "{slider.damping: [0, 1]}",
            "method": "csvgd",
            "particles": 16,
            "iterations": 30,
            "windows": 2,
            **fields,
        }
    )
    ros.until(ros.client.server_is_ready, what="the action server")
    return ros.client.send_goal_async(
        goal, feedback_callback=lambda m: feedback.append(m.feedback) if feedback is not None else None
    )


def send(ros, bag, feedback=None, **fields):
    """The handle of a goal that has been answered."""
    future = ask(ros, bag, feedback, **fields)
    ros.until(future.done, what="the goal's answer")
    return future.result()


def result(ros, handle):
    future = handle.get_result_async()
    ros.until(future.done, what="the result")
    return future.result()


@pytest.fixture(scope="module")
def controller(node):
    """A controller that takes particles."""
    node.start("adaptive_mpc", robot="cartpole", mode="episode", particles=2, lockstep=True)
    node.up("/adaptive_mpc")


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """Half of the slider's damping of 0.5 N s/m, as a network of one weight."""
    net = Blueprint("half", "slider.passive_torque", "slider.velocity", Network((), biases=False), weights=[-0.25])
    return save_blueprints(tmp_path_factory.mktemp("networks") / "half.yaml", [net])


@pytest.fixture(scope="module")
def inferred(node, bag):
    """One goal to its end, with what was said on the way."""
    feedback, heard = [], node.listen(ParticleSet, "/inference/posterior", LATCHED)
    # The second leaves before the first is answered, so that the first cannot have ended when the second comes.
    first, second = ask(node, bag, feedback, output_directory=str(node.folder / "out")), ask(node, bag)
    node.until(lambda: first.done() and second.done(), what="the answers to two goals")
    assert first.result().accepted and not second.result().accepted  # one at a time
    answer = result(node, first.result())
    node.until(lambda: heard, what="the posterior")
    # Feedback and results are topics of their own, which may overtake each other.
    node.until(lambda: any(f.stage == "csvgd" and f.iteration == 30 for f in feedback), what="the last iteration")
    return answer, feedback, heard


def test_a_bag_becomes_a_latched_posterior_with_feedback_and_report(node, inferred):
    answer, feedback, heard = inferred
    assert answer.status == GoalStatus.STATUS_SUCCEEDED and answer.result.success, answer.result.message
    found = answer.result.posterior
    assert list(found.names) == ["slider.damping"] and list(found.units) == ["N s/m"] and found.method == "csvgd"
    model = load_model("cartpole")
    assert found.model_hash == model.hash and len(found.values) == len(found.log_lik) == 16
    P = np.reshape(found.vectors, (16, model.np_))
    np.testing.assert_allclose(P[:, model.parameters.index("slider.damping")], found.values)
    assert {"report.html", "posterior.npz"} <= {p.name for p in (node.folder / "out").iterdir()}
    assert answer.result.report == str(node.folder / "out" / "report.html")
    metrics = dict(zip(answer.result.metrics, answer.result.values))
    assert metrics["held-out error, posterior / nominal"] < 1.0
    steps = [f for f in feedback if f.stage == "csvgd"]
    assert [f.iteration for f in steps] == sorted(f.iteration for f in steps) and steps[-1].iteration == 30
    assert (
        np.isfinite(steps[-1].best_log_p) and steps[-1].best_log_p >= steps[-1].mean_log_p and steps[-1].max_defect > 0
    )
    assert list(heard[-1].values) == list(found.values)
    late = node.listen(ParticleSet, "/inference/posterior", LATCHED)  # a late joiner hears it too
    node.until(lambda: late, what="the latched posterior")


def test_the_same_seed_gives_the_same_posterior(node, bag, inferred):
    again = result(
        node, send(node, bag, output_directory=str(node.folder / "again"), checkpoint=str(node.folder / "fresh"))
    )
    assert list(again.result.posterior.values) == list(inferred[0].result.posterior.values)


def test_a_cancelled_goal_goes_on_where_it_was(node, bag):
    """Cancelled in the middle; the same goal goes on from where that was and comes to its end."""
    feedback, goal = [], {"iterations": 400, "seed": 3}
    handle = send(node, bag, feedback, **goal, output_directory=str(node.folder / "part"))
    node.until(lambda: any(f.iteration >= 5 for f in feedback), what="some iterations")
    handle.cancel_goal_async()
    part = result(node, handle)
    assert part.status == GoalStatus.STATUS_CANCELED and "goes on from" in part.result.message
    reached = max(f.iteration for f in feedback)
    feedback.clear()
    rest = result(node, send(node, bag, feedback, **goal, output_directory=str(node.folder / "rest")))
    assert rest.status == GoalStatus.STATUS_SUCCEEDED
    assert min(f.iteration for f in feedback if f.stage == "csvgd") >= reached > 0


def test_particles_that_are_not_finite_are_masked_counted_and_brought_to_the_others(node, bag):
    feedback = []
    answer = result(
        node,
        send(
            node, bag, feedback, limits=LIMITS, method="svgd", iterations=5, output_directory=str(node.folder / "wild")
        ),
    )
    assert answer.status == GoalStatus.STATUS_SUCCEEDED
    assert answer.result.not_finite > 0
    node.until(lambda: any(f.not_finite > 0 for f in feedback), what="feedback that counts them")
    assert np.isfinite(answer.result.posterior.values).all() and np.isfinite(answer.result.posterior.log_lik).all()


def test_a_bag_in_which_the_robot_changes_is_used_from_there_on_and_the_answer_says_so(node, tmp_path):
    changed = drive(4.0, [{"time": 2.0, "action": "set", "target": "slider.damping", "value": 0.15}])
    answer = result(node, send(node, write(tmp_path / "bag", changed), method="emcee", iterations=100, windows=1))
    assert "The robot changed at 2.0" in answer.result.message or "The robot changed at 1.9" in answer.result.message
    damping = np.array(answer.result.posterior.values)
    assert np.median(damping) == pytest.approx(0.15, abs=0.05), answer.result.message


def test_goals_that_cannot_be_are_refused_or_fail_with_a_sentence(node, bag):
    assert not send(node, bag, method="magic").accepted
    assert not send(node, bag, bags=[]).accepted
    answer = result(node, send(node, "/nowhere/bag"))
    assert answer.status == GoalStatus.STATUS_ABORTED and "/nowhere/bag" in answer.result.message
    answer = result(node, send(node, bag, limits="{wheel.damping: [0, 1]}"))
    assert answer.status == GoalStatus.STATUS_ABORTED and "wheel.damping" in answer.result.message


def test_a_posterior_is_rolled_out(node, inferred):
    found, model = inferred[0].result.posterior, load_model("cartpole")
    state, U = [0.0, 0.3, 0.0, 0.0], np.linspace(-5, 5, 20)
    answer = node.call(
        RolloutPosterior,
        "/inference/rollout_posterior",
        timeout=60.0,
        particles=found,
        state=state,
        controls=U.tolist(),
        step=0.01,
    )
    assert answer.success, answer.message
    X = np.reshape(answer.states, (16, 21, 4))
    substeps = round(0.01 / model.timestep)
    expected = Dynamics(model, dt=0.01, substeps=substeps).rollout(
        state, U[:, None], np.reshape(found.vectors, (16, -1))
    )
    np.testing.assert_array_equal(X, expected)
    assert (
        list(answer.names) == ["slider.position", "hinge.position", "slider.velocity", "hinge.velocity"]
        and answer.not_finite == 0
    )
    short = node.call(RolloutPosterior, "/inference/rollout_posterior", state=[0.0], horizon=3)
    assert not short.success and "4 numbers" in short.message


def test_particles_are_written_into_a_running_controller(node, bag, request):
    # The node's newest posterior is to be this one, and not the wild one of another test.
    goal = send(node, bag, output_directory=str(node.folder / "written"), checkpoint=str(node.folder / "written_anew"))
    found = result(node, goal).result.posterior
    alone = node.call(SetSimParameters, "/inference/set_sim_parameters", which=SetSimParameters.Request.BEST)
    assert not alone.success and "is it running" in alone.message
    request.getfixturevalue("controller")
    said = {}
    for name, fields in {
        "best": {"which": SetSimParameters.Request.BEST},
        "mean": {"which": SetSimParameters.Request.MEAN},
        "third": {"which": SetSimParameters.Request.PARTICLE, "particle": 2},
        "set": {"which": SetSimParameters.Request.SET},
        "file": {"which": SetSimParameters.Request.BEST, "posterior": found.file},
    }.items():
        answer = node.call(SetSimParameters, "/inference/set_sim_parameters", targets=["/adaptive_mpc"], **fields)
        assert answer.success, (name, answer.message)
        said[name] = answer
    assert "2 particles" in said["set"].message
    revisions = [answer.revision for answer in said.values()]
    assert np.all(np.diff(revisions) > 0), revisions  # each was taken
    none = node.call(
        SetSimParameters, "/inference/set_sim_parameters", which=SetSimParameters.Request.PARTICLE, particle=99
    )
    assert not none.success and "16 particles" in none.message


def test_physics_is_inferred_around_networks_and_taken_only_where_they_are(node, bag, half, controller):
    answer = result(
        node,
        send(node, bag, blueprint=str(half), windows=1, iterations=100, output_directory=str(node.folder / "around")),
    )
    assert answer.status == GoalStatus.STATUS_SUCCEEDED, answer.result.message
    found, model = answer.result.posterior, load_model("cartpole")
    hybrid = augment(model, half)
    assert np.mean(found.values) == pytest.approx(0.25, abs=0.06)  # what the network explains is not absorbed
    assert found.blueprint == str(half) and found.model_hash == hybrid.hash and len(found.vectors) == 16 * model.np_
    state, U = [0.0, 0.3, 0.0, 0.0], np.linspace(-5, 5, 20)
    rolled = node.call(
        RolloutPosterior,
        "/inference/rollout_posterior",
        timeout=60.0,
        particles=found,
        state=state,
        controls=U.tolist(),
        step=0.01,
    )
    assert rolled.success, rolled.message
    P = np.column_stack([np.reshape(found.vectors, (16, -1)), np.full(16, -0.25)])
    expected = Dynamics(hybrid, dt=0.01, substeps=round(0.01 / model.timestep)).rollout(state, U[:, None], P)
    np.testing.assert_array_equal(np.reshape(rolled.states, (16, 21, 4)), expected)

    def written(**fields):
        return node.call(SetSimParameters, "/inference/set_sim_parameters", targets=["/adaptive_mpc"], **fields)

    file = {"which": SetSimParameters.Request.BEST, "posterior": found.file}
    for fields in ({"which": SetSimParameters.Request.MEAN}, {"which": SetSimParameters.Request.SET}, file):
        refused = written(**fields)
        assert not refused.success and "here are no networks" in refused.message
    newest = node.diagnostics("/adaptive_mpc")
    assert node.call(LoadBlueprint, "/adaptive_mpc/load_blueprint", blueprint=str(half)).success
    node.until(lambda: newest()[2].get("blueprint") == str(half), what="the swap")
    for fields in ({"which": SetSimParameters.Request.MEAN}, {"which": SetSimParameters.Request.SET}, file):
        taken = written(**fields)
        assert taken.success, taken.message
    content = half.with_suffix(".safetensors").read_bytes()
    try:
        save_blueprints(
            half,
            [Blueprint("half", "slider.passive_torque", "slider.velocity", Network((), biases=False), weights=[-0.3])],
        )
        refused = written(**file)
        assert not refused.success and "trained on since" in refused.message
    finally:
        half.with_suffix(".safetensors").write_bytes(content)


def test_a_blueprint_that_cannot_be_used_ends_the_goal_with_a_sentence(node, bag, inferred, tmp_path):
    heard = node.listen(ParticleSet, "/inference/posterior", LATCHED)
    node.until(lambda: heard, what="the latched posterior")
    wheel = Blueprint("wheel", "wheel.passive_torque", "slider.velocity", Network((), biases=False), weights=[1.0])
    strange = save_blueprints(tmp_path / "wheel.yaml", [wheel])
    damaged = save_blueprints(tmp_path / "damaged.yaml", [wheel])
    damaged.with_suffix(".safetensors").write_bytes(b"half a fi")
    for path, text in (
        (tmp_path / "none.yaml", "none.yaml: cannot be read"),
        (strange, "wheel.passive_torque"),
        (damaged, "its weights damaged.safetensors are damaged"),
    ):
        answer = result(node, send(node, bag, blueprint=str(path), output_directory=str(tmp_path / "out")))
        assert answer.status == GoalStatus.STATUS_ABORTED and not answer.result.success
        assert text in answer.result.message and "\n" not in answer.result.message
        assert not len(answer.result.posterior.values) and not (tmp_path / "out").exists()
    assert len(heard) == 1


def test_the_page_names_everything(documentation):
    assert documentation.missing("inference.md", InferenceConfig, "nodes/learning/inference.py") == []
