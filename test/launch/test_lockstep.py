"""A lock-step run through topics is the offline library's run, and its bag holds every refit of it.

Three episodes of a cart-pole that starts from all parameters at 2 and refits: the first two as they
come, the third while time is paused and stepped through every interface there is for it. The plant
waits for each command, so none of this may change a number.
"""

import launch_pytest
import numpy as np
import pytest
from launch import LaunchDescription
from launched import Processes, include, seconds, settled, until
from refit_interfaces.action import RunEpisode
from refit_interfaces.msg import JointCommand, ParameterSet
from sensor_msgs.msg import JointState
from simulation_interfaces.action import SimulateSteps
from simulation_interfaces.msg import Result, SimulationState
from simulation_interfaces.srv import ResetSimulation, StepSimulation

from nodes.control.refit_session import config_from, replay
from nodes.framework.joint_state_gate import JointStateGate
from nodes.framework.qos import LEDGER, STATE
from recording import BagReader
from sim_core.control.ampc import AdaptiveMpc, AmpcConfig
from sim_core.control.episodes import AdaptiveRun
from sim_core.control.refit import Refit, RefitConfig
from sim_core.control.tasks import cartpole_swing_up
from sim_core.multibody import load_model
from sim_core.multibody.model.cartpole_parameters import cartpole_spec
from sim_core.plant import MujocoPlant

SEED, STEPS, PERIOD = 3, 140, 0.02


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    return tmp_path_factory.mktemp("lockstep")


@launch_pytest.fixture(scope="module")
def lockstep(domain, run_directory):
    processes = Processes()
    return LaunchDescription(
        [
            *processes.handlers(),
            include(
                "sim.launch.py",
                robot="cartpole",
                lockstep=True,
                real_time_factor=0.0,
                seed=SEED,
                prior="start",
                record=True,
                run_directory=run_directory,
            ),
        ]
    ), processes


@pytest.fixture(scope="module")
def offline():
    """The same three episodes without ROS."""
    model = load_model("cartpole")
    refit = Refit(
        model,
        cartpole_spec(model),
        RefitConfig(segment_length=1, initial_state="measured", time_budget=np.inf, max_evaluations=60),
    )
    plant = MujocoPlant("cartpole", tick=PERIOD, initial_q_std=0.01, initial_v_std=0.01)
    mpc = AdaptiveMpc(cartpole_swing_up(model, dt=PERIOD), AmpcConfig(), refit.spec.to_physical(refit.spec.prior_mean))
    run = AdaptiveRun(plant, mpc, refit, steps=STEPS)
    return [run.episode(SEED) for _ in range(3)]


@pytest.fixture(scope="module")
def watched(probe):
    """Joint states, commands and parameter sets from the very first."""
    return (
        probe.watch(JointState, "joint_states", STATE),
        probe.watch(JointCommand, "joint_command", STATE),
        probe.watch(ParameterSet, "refit/parameters", LEDGER),
    )


def start_episode(probe, feedback=None):
    return probe.send_goal(RunEpisode, "run_episode", RunEpisode.Goal(steps=STEPS, refit_at_end=True), feedback)


def reset(probe):
    assert probe.call(ResetSimulation, "reset_simulation").result.result == Result.RESULT_OK


@pytest.mark.launch(fixture=lockstep)
def test_score_of_the_offline_library(lockstep, probe, watched, offline):
    probe.wait_active("sim_plant", "adaptive_mpc", "refit_worker", "supervisor", "recorder")
    probe.wait_hears("refit_worker", "recorder")
    for number in range(2):
        reset(probe)
        result = probe.result(start_episode(probe))
        assert result.success, result.message
        assert abs(result.score - offline[number].score) <= 0.01, number
        assert result.refits == sum(r.accepted for _, r in offline[number].refits), number
    lockstep[1].assert_running()


@pytest.mark.launch(fixture=lockstep)
def test_pause_and_steps_change_nothing(lockstep, probe, watched, offline):
    states, commands, _ = watched
    reset(probe)
    probe.set_state(SimulationState.STATE_PAUSED)
    started = settled(commands)
    steps = []
    handle = start_episode(probe, lambda message: steps.append(message.feedback.step))

    def time():
        return round(seconds(states[-1].header.stamp) / PERIOD)

    def at(tick):
        """The plant is at this tick, and the command for it is there: one for each tick so far."""
        until(lambda: time() == tick and len(commands) - started == tick + 1, f"command {tick + 1} at tick {tick}")
        # Feedback travels by another topic than commands, so either may come first.
        until(lambda: steps and steps[-1] == tick, f"feedback of step {tick}")

    at(0)
    for tick in (1, 2):
        assert (
            probe.call(StepSimulation, "step_simulation", StepSimulation.Request(steps=1)).result.result
            == Result.RESULT_OK
        )
        at(tick)
    assert (
        probe.call(StepSimulation, "step_simulation", StepSimulation.Request(steps=28)).result.result
        == Result.RESULT_OK
    )
    at(30)
    progress = []
    stepping = probe.send_goal(
        SimulateSteps,
        "simulate_steps",
        SimulateSteps.Goal(steps=25),
        lambda message: progress.append(message.feedback.completed_steps),
    )
    # First the feedback, then the result: rclpy drops what feedback is still under way once it has read the result.
    until(lambda: progress and progress[-1] == 25, "the last feedback")
    assert probe.result(stepping).result.result == Result.RESULT_OK
    at(55)
    assert progress == sorted(progress)
    probe.set_state(SimulationState.STATE_PLAYING)
    result = probe.result(handle)
    assert result.success, result.message
    assert abs(result.score - offline[2].score) <= 0.01
    # The probe reads one message of each topic in turn, so the result overtakes the commands that came before it.
    until(lambda: len(commands) - started >= STEPS, "a command for each step")
    settled(commands)  # and not one more
    assert [seconds(c.header.stamp) for c in commands[started:]] == pytest.approx(PERIOD * np.arange(STEPS))
    lockstep[1].assert_running()


@pytest.mark.launch(fixture=lockstep)
def test_bag_replays_every_revision(lockstep, watched, run_directory):
    """Bit for bit, from nothing but the bag."""
    published = watched[2]
    yield
    lockstep[1].assert_ended_well()
    bag = BagReader(run_directory / "bag")
    info = bag.run_info()
    model = load_model(info["robot"])
    assert info["model_hash"] == model.hash
    gate = JointStateGate(model.joint_names)
    samples = [gate.read(message)[0] for _, message in bag.messages("joint_states")]
    recorded = [message for _, message in bag.messages("refit/parameters")]
    until(lambda: len(published) >= len(recorded), "every recorded set has been heard here too")
    assert len(recorded) == len(published) >= 5
    rounds = list(replay(model, config_from(info["parameters"]["/refit_worker"]), samples, recorded))
    assert len(rounds) == len(recorded)
    for message, again in rounds:
        assert np.array_equal(np.array(message.vector), again.p)
        assert (message.revision, message.accepted) == (again.revision, again.accepted)
        assert (message.window_start, message.window_end) == (again.window_start, again.window_end)
    assert len({bytes(np.array(m.vector)) for m in recorded if m.accepted}) >= 2
