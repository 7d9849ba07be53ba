"""What the reports say is computed right: timing, episodes, re-learning, from made-up recordings."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from cli.demo import arm, cartpole
from cli.demo.judged import Judged
from cli.demo.recordings import Recording
from config.robot import load_robot


def recording(t, received=None, commands=((), (), ()), q=None, status=(), parameters=(), info=None):
    t = np.asarray(t, float)
    q = np.zeros((len(t), 2)) if q is None else np.asarray(q, float)
    return Recording(
        Path("bag"),
        info or {"parameters": {}},
        ("a", "b"),
        t,
        t if received is None else np.asarray(received, float),
        q,
        np.zeros_like(q),
        np.zeros_like(q),
        tuple(np.asarray(c, float) for c in commands),
        list(status),
        list(parameters),
        [],
    )


def stamped(stamp, **fields):
    header = SimpleNamespace(stamp=SimpleNamespace(sec=int(stamp), nanosec=round((stamp % 1) * 1e9)))
    return SimpleNamespace(header=header, **fields)


def test_a_late_and_a_missing_command_are_both_missed():
    t = np.arange(0, 1.0, 0.002)
    stamps = np.arange(0, 0.98, 0.02)
    stamps = np.delete(stamps, 10)  # this period has no command at all
    delay = np.full(len(stamps), 0.003)
    delay[20] = 0.025  # and this command comes after its period
    timing = recording(t, commands=(stamps, stamps + delay, np.zeros((len(stamps), 2)))).timing(0.02)
    assert timing.missed == 2 and timing.met == pytest.approx(47 / 49)
    assert timing.percentiles()["latency p50"] == pytest.approx(3.0)
    assert timing.factor == pytest.approx(1.0)


def test_the_factor_is_simulated_over_wall_time():
    t = np.arange(0, 1.0, 0.002)
    stamps = np.arange(0, 0.98, 0.02)
    received = 2.0 * t
    received[0] = -3.0  # the first state was there before time ran
    timing = recording(t, received, (stamps, 2.0 * stamps + 0.001, np.zeros((len(stamps), 2)))).timing(0.02)
    assert timing.factor == pytest.approx(0.5) and timing.rate == pytest.approx(50.0)


def test_episodes_are_cut_where_a_stamp_repeats_with_another_state():
    steps, dt = cartpole.STEPS, cartpole.PERIOD
    rng = np.random.default_rng(0)
    t, q = [0.0], [rng.normal(size=2)]  # the state before the first reset
    for episode in range(3):
        start = episode * steps * dt
        for k in range(steps + 1):
            t.append(start + k * dt)
            q.append(rng.normal(size=2))
        if episode == 1:  # lock-step says an unanswered state again
            t.append(t[-1])
            q.append(q[-1])
    t.append(t[-1] + dt)  # the tick in which the graph stops
    q.append(rng.normal(size=2))
    stamps = np.arange(3 * steps) * dt
    episodes = cartpole.episodes_of(recording(t, q=q, commands=(stamps, stamps, np.ones((len(stamps), 2)))))
    assert [len(e.X) for e in episodes] == [steps + 1] * 3
    assert [e.t[0] for e in episodes] == pytest.approx([0, steps * dt, 2 * steps * dt])
    np.testing.assert_array_equal(episodes[0].X[0, :2], q[1])
    np.testing.assert_array_equal(episodes[2].X[-1, :2], q[-2])
    assert all(np.all(e.U == 1.0) for e in episodes)


def mass(value):
    return SimpleNamespace(parameters=[SimpleNamespace(name="hand.payload.mass", value=value)])


@pytest.mark.parametrize(
    "used, expected",
    [
        ([(1.0, mass(0.0)), (5.3, mass(1.99)), (5.6, mass(2.01))], 0.3),
        ([(5.3, mass(1.99)), (5.6, mass(1.5)), (7.0, mass(2.05))], 2.0),  # it has to stay learnt
        ([(4.0, mass(2.0))], np.inf),  # luck before the change is no learning
        ([(5.5, mass(1.5))], np.inf),
    ],
)
def test_relearnt_means_learnt_for_good(used, expected):
    changed = [Judged("payload mass", "kg", {}, {"hand.payload.mass": 2.0}, {"hand.payload.mass": 2.0}, 0.05)]
    assert arm._relearnt(used, 5.0, changed) == pytest.approx(expected)


def test_the_path_is_where_the_controller_had_it_while_it_waited_for_the_arm():
    def said(t, path_time, state=1):
        stamp = SimpleNamespace(sec=int(t), nanosec=round(1e9 * (t % 1)))
        return SimpleNamespace(header=SimpleNamespace(stamp=stamp), state=state, path_time=path_time, STATE_IDLE=0)

    t = np.array([10.0, 10.5, 11.0, 11.25, 11.5])
    status = [said(9.0, 0.0, state=0), said(10.0, 0.0), said(11.0, 0.0), said(11.5, 0.5)]
    run = recording(t, status=status)
    assert arm._path_times(run, t, 10.0) == pytest.approx([0.0, 0.0, 0.0, 0.25, 0.5])
    # A bag from before controllers said so: a path that has not waited.
    for message in status:
        del message.path_time
    assert arm._path_times(run, t, 10.0) == pytest.approx(t - 10.0)


def test_a_set_counts_from_its_first_use():
    sets = [SimpleNamespace(accepted=True, revision=r) for r in (1, 2, 3)]
    status = [
        stamped(0.1, parameters_revision=0),
        stamped(0.2, parameters_revision=1),
        stamped(0.3, parameters_revision=3),
    ]
    used = arm._used(recording([0.0], status=status, parameters=sets))
    assert [(round(t, 3), m.revision) for t, m in used] == [(0.2, 1), (0.3, 3)]


@pytest.mark.parametrize("change", [("pole_mass", 10.0), ("gain", 0.6)])
def test_the_changed_truth_is_the_plants(change):
    from sim_core.multibody import load_model
    from sim_core.multibody.rollout.rollout import Dynamics
    from sim_core.plant import MujocoPlant

    robot, model = load_robot("double_cartpole"), load_model("double_cartpole")
    scenario = f"[{cartpole._event(robot, change, 0.0)}]"
    plant = MujocoPlant("double_cartpole", tick=0.02, initial_q_std=0.3, initial_v_std=0.3, scenario=scenario)
    p = cartpole.changed_truth(robot, model, change)
    dynamics = Dynamics(model, dt=0.02, substeps=2)
    x = np.concatenate([plant.true_q, plant.true_v])
    for k in range(20):
        u = np.array([30.0 * np.sin(k)])
        plant.step(u)
        x = dynamics.step(x, u, p)
    np.testing.assert_allclose(x, np.concatenate([plant.true_q, plant.true_v]), rtol=1e-8, atol=1e-8)
