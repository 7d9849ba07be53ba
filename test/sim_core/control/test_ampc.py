"""The adaptive controller around the solver: fallback, hand-over, delay, change detection, episodes."""

import threading

import numpy as np
import pytest

from sim_core.control.ampc import AdaptiveMpc, AmpcConfig, CommandSource
from sim_core.control.episodes import AdaptiveRun
from sim_core.control.ilqr import BoxIlqr
from sim_core.control.monitor import PredictionMonitor
from sim_core.control.plan import IlqrStatus
from sim_core.control.refit import Refit, RefitConfig
from sim_core.control.tasks import cartpole_swing_up, swing_up_reward
from sim_core.multibody import load_model
from sim_core.multibody.model.cartpole_parameters import base_parameters, cartpole_spec
from sim_core.plant import MujocoPlant

DT = 0.02


@pytest.fixture(scope="module")
def model():
    return load_model("cartpole")


@pytest.fixture(scope="module")
def task(model):
    return cartpole_swing_up(model)


@pytest.fixture(scope="module")
def solver(model, task):
    return BoxIlqr(model, task.cost, task.ilqr)


@pytest.fixture
def mpc(task, solver):
    return AdaptiveMpc(task, solver=solver)


def hanging(model, seed=0):
    return np.r_[model.q_home, np.zeros(model.nv)] + 0.01 * np.random.default_rng(seed).standard_normal(model.nx)


def simulate(mpc, x, steps, plant=None):
    """Closed loop on the model's own prediction (or plant(x, u)): states, controls, commands."""
    plant = plant or (lambda x, u: mpc.solver.predict(x, u, mpc.task.model.parameters.nominal))
    X, commands = [x], []
    for k in range(steps):
        commands.append(mpc.command(X[-1], k * DT))
        X.append(plant(X[-1], commands[-1].u))
    return np.array(X), commands


def test_swing_up_with_the_true_model(mpc, model):
    X, commands = simulate(mpc, hanging(model), 140)
    assert swing_up_reward(X[1:]).mean() > 0.85
    assert np.cos(X[-30:, 1]).min() > 0.999
    assert max(abs(c.u[0]) for c in commands) <= 200.0
    assert all(c.source is CommandSource.PLAN for c in commands)
    assert not any(c.change_detected for c in commands)


def test_nan_state_uses_the_plans_next_actions_then_stops(mpc, model):
    x = hanging(model)
    X, _ = simulate(mpc, x, 3)
    plan = mpc.solver.U.copy()
    bad = X[-1].copy()
    bad[2] = np.nan
    for k in range(1, len(plan)):
        command = mpc.command(bad, (2 + k) * DT)
        assert command.source is CommandSource.PREVIOUS_PLAN and command.status is IlqrStatus.BAD_INPUT
        assert "NaN" in command.message
        np.testing.assert_array_equal(command.u, plan[k])
        np.testing.assert_array_equal(command.x_ref, mpc._plan.X[k])
    command = mpc.command(bad, (2 + len(plan)) * DT)
    assert command.source is CommandSource.STOP and np.all(command.u == 0)
    assert np.all(np.isfinite(command.K)) and np.all(np.isfinite(command.x_ref))
    recovered = mpc.command(x, (3 + len(plan)) * DT)
    assert recovered.source is CommandSource.PLAN


def test_wrong_state_length_says_so(mpc):
    with pytest.raises(ValueError, match=r"x: expected shape \(4,\)"):
        mpc.command(np.zeros(3), 0.0)


# -- parameters -------------------------------------------------------------------------------------


def test_parameters_take_effect_at_the_next_solve_and_name_their_revision(mpc, model):
    x, p = hanging(model), model.parameters.nominal.copy()
    assert mpc.command(x, 0.0).revision == 0
    p[model.parameters.index("cart.mass")] = 3.0
    mpc.set_parameters(p, 7)
    p[:] = np.nan  # the caller's array is not ours
    assert mpc.revision.number == 0
    command = mpc.command(x, DT)
    assert command.revision == 7 and "revision 7" in command.message
    assert mpc.revision.p[model.parameters.index("cart.mass")] == 3.0
    assert mpc.command(x, 2 * DT).message == ""


def test_bad_parameters_are_refused_by_name_and_the_old_ones_stay(mpc, model):
    p = model.parameters.nominal.copy()
    p[model.parameters.index("pole.mass")] = np.nan
    with pytest.raises(ValueError, match="pole.mass.*revision 0 stays in use"):
        mpc.set_parameters(p, 1)
    with pytest.raises(ValueError, match="expected shape"):
        mpc.set_parameters(p[:-1], 1)
    assert mpc.command(hanging(model), 0.0).revision == 0


def test_hand_over_from_another_thread_is_whole(mpc, model):
    """Sets are constant vectors: a torn one would mix two numbers."""
    n, seen, stop = len(model.parameters), [], threading.Event()
    nominal = model.parameters.nominal

    def write():
        k = 1
        while not stop.is_set():
            mpc.set_parameters(nominal * (1 + 1e-6 * k), k)
            k += 1

    thread = threading.Thread(target=write)
    thread.start()
    x, k = hanging(model), 0
    while k < 200 or len(set(seen)) <= 20:  # a busy machine may let the writer run rarely
        k += 1
        seen.append(mpc.command(x, k * DT).revision)
        revision = mpc.revision
        np.testing.assert_array_equal(
            revision.p, nominal * (1 + 1e-6 * revision.number) if revision.number else nominal
        )
    stop.set()
    thread.join()
    assert seen == sorted(seen) and len(set(seen)) > 20 and n == len(mpc.revision.p)


def test_parameters_that_break_the_solver_are_given_up(mpc, model):
    """Last good first; if that one fails too, the nominal ones."""
    x = hanging(model)
    good = model.parameters.nominal.copy()
    good[model.parameters.index("cart.mass")] = 1.1
    mpc.set_parameters(good, 1)
    assert mpc.command(x, 0.0).source is CommandSource.PLAN
    broken = model.parameters.nominal.copy()
    for body in ("cart", "pole"):
        broken[model.parameters.inertia_slice(body)] = 1e-200  # finite, but the roll-out is not
    mpc.set_parameters(broken, 2)
    commands = [mpc.command(x, (k + 1) * DT) for k in range(mpc.config.max_failures)]
    assert all(c.status is not IlqrStatus.CONVERGED and c.source is CommandSource.PREVIOUS_PLAN for c in commands)
    assert "revision 2 given up, back to revision 1" in commands[-1].message
    assert mpc.command(x, 1.0).source is CommandSource.PLAN and mpc.revision.number == 1


# -- time -------------------------------------------------------------------------------------------


def test_one_step_delay_is_predicted_through(task, solver, model):
    """With the delay modelled the score hardly suffers; ignored, it collapses or at least drops."""
    scores = {}
    for steps in (1, 0):
        mpc = AdaptiveMpc(task, AmpcConfig(delay_steps=steps), solver=solver)
        queue = [np.zeros(1)]

        def delayed(x, u):
            queue.append(u)
            return mpc.solver.predict(x, queue.pop(0))

        X, commands = simulate(mpc, hanging(model), 140, delayed)
        scores[steps] = swing_up_reward(X[1:]).mean()
        if steps == 1:
            for k, command in enumerate(commands[:-1]):  # the plan starts where the robot then is
                np.testing.assert_allclose(command.x_ref, X[k + 1], atol=1e-9)
                np.testing.assert_array_equal(commands[k + 1].applied, command.u)
    assert scores[1] > 0.85 > scores[0] + 0.02


def test_time_that_jumps_back_starts_a_new_episode(mpc, model):
    simulate(mpc, hanging(model), 5)
    command = mpc.command(hanging(model), 0.0)
    assert command.source is CommandSource.PLAN and not command.change_detected


def test_missed_cycles_move_the_plan_on_by_as_many_knots(mpc, model):
    X, _ = simulate(mpc, hanging(model), 10)
    ahead = mpc._plan.U[3]
    x = mpc._plan.X[3]
    command = mpc.command(x, 12 * DT)  # the commands of 10 and 11 were missed
    np.testing.assert_allclose(command.u, ahead, atol=1.0)


def test_time_budget_is_kept(task, solver, model):
    mpc = AdaptiveMpc(task, AmpcConfig(time_budget=1e-9), solver=solver)
    _, commands = simulate(mpc, hanging(model), 5)
    assert all(c.iterations == 1 for c in commands[1:])


# -- change detection -------------------------------------------------------------------------------


def test_monitor_declares_once_within_its_window():
    monitor, rng = PredictionMonitor(np.full(2, 1e-3)), np.random.default_rng(0)
    zero, declared = np.zeros(2), []
    for k in range(100):
        error = rng.standard_normal(2) * (2e-3 if k < 60 else 2e-2)
        declared.append(monitor.update(zero, zero[:1], error, zero))
    assert [k for k, d in enumerate(declared) if d] == [69]  # the tenth of twenty


def test_monitor_ignores_single_outliers_and_errors_below_resolution():
    monitor, zero = PredictionMonitor(np.full(2, 1e-3)), np.zeros(2)
    for k in range(200):
        size = 1.0 if k % 10 == 0 else 1e-8 * (1 + 100 * (k > 100))
        assert not monitor.update(zero, zero[:1], np.full(2, size), zero)


def test_monitor_compares_anew_under_new_parameters():
    monitor, zero = PredictionMonitor(np.full(1, 1e-3)), np.zeros(1)
    for k in range(100):
        monitor.update(zero, zero, np.ones(1) * (0.01 if k < 70 else 0.1), zero)
    assert monitor.changed
    monitor.rejudge(lambda X, U: np.full((len(X), 1), 0.1 - 1e-6))
    assert not monitor.changed and monitor.baseline == 1.0


def test_a_hidden_change_is_noticed_and_a_wrong_guess_is_none(task, solver, model):
    nominal = model.parameters.nominal
    heavy = nominal.copy()
    heavy[model.parameters.inertia_slice("pole")] *= 10

    def robot(x, u, k=[0]):
        k[0] += 1
        return solver.predict(x, u, nominal if k[0] <= 60 else heavy)

    _, commands = simulate(AdaptiveMpc(task, solver=solver), hanging(model), 140, robot)
    assert not any(c.change_detected for c in commands[:60])
    guess = AdaptiveMpc(task, p=heavy, solver=solver)  # a first guess, wrong from the start
    _, commands = simulate(guess, hanging(model), 100)
    assert not any(c.change_detected for c in commands)


# -- episodes ---------------------------------------------------------------------------------------


def test_learns_to_swing_up_from_a_wrong_model(model, task, solver):
    """All parameters at 2; after one episode it scores like the exact model, on MuJoCo."""
    refit = Refit(
        model, cartpole_spec(model), RefitConfig(segment_length=1, initial_state="measured", time_budget=np.inf)
    )
    plant = MujocoPlant("cartpole", tick=DT, initial_q_std=0.01, initial_v_std=0.01)
    p = refit.spec.to_physical(refit.spec.prior_mean)
    run = AdaptiveRun(plant, AdaptiveMpc(task, p=p, solver=solver), refit)
    episodes = [run.episode(seed) for seed in range(2)]
    step, first = episodes[0].first_accepted
    assert step <= 100 and first.loss_after < 0.1 * first.loss_before
    assert episodes[1].score > 0.85 and episodes[1].upright()
    truth, found = (base_parameters(model, v) for v in (model.parameters.nominal, episodes[1].p))
    for name in truth:
        assert found[name] == pytest.approx(truth[name], rel=1e-3, abs=1e-4)
    assert np.abs(episodes[0].U).max() <= 200 and episodes[0].fallbacks == 0


def test_episodes_repeat_to_the_bit(task, solver):
    def play():
        plant = MujocoPlant("cartpole", tick=DT, initial_q_std=0.01, position_noise=0.002, velocity_noise=0.002)
        return AdaptiveRun(plant, AdaptiveMpc(task, solver=solver), steps=40).episode(3)

    np.testing.assert_array_equal(play().X, play().X)
