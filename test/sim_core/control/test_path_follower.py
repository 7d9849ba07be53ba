"""The way back to a path: who is led, what waits meanwhile, and what is done about a hand that stays off it."""

import numpy as np
import pytest

from sim_core.control.ampc import AdaptiveMpc
from sim_core.control.path_clock import PathClock
from sim_core.control.path_follower import PathFollower, PathSettings
from sim_core.control.tasks import cartpole_swing_up, figure_eight, frame_tracking
from sim_core.multibody import load_model
from sim_core.multibody.model import build

DT, LIMIT = 0.02, 0.1
MODEL = load_model("panda")
AWAY = np.array([0.8, -0.2, 0.5, -1.6, 0.4, 2.0, -0.5])


@pytest.fixture(scope="module")
def task():
    home, _ = build.frame_pose(MODEL, "hand_site")(MODEL.q_home, MODEL.parameters.nominal)
    return frame_tracking(MODEL, figure_eight(np.asarray(home).ravel()), horizon=10, dt=DT)


def state(q, v=0.0):
    return np.r_[q, np.full(MODEL.nv, v)]


def on_path(task, t):
    return state(task.hand.posture(t))


def follow(follower, task, x, begin, end):
    """Steps of states x (or x(path time)) stamped from begin to end [s]."""
    steps, time = [], follower._path.time
    for t in np.arange(begin, end, DT):
        steps.append(follower.advance(task, x(time) if callable(x) else x, t))
        time = steps[-1].time
    return steps


def test_an_arm_that_begins_on_its_path_is_left_alone(task):
    follower, clock = PathFollower(PathSettings(), 0.0, LIMIT), PathClock(0.0, LIMIT)
    for k in range(100):
        step = follower.advance(task, on_path(task, clock.time), k * DT)
        time = clock.advance(k * DT)
        assert (step.time, step.clock, step.aim, step.led, step.message) == (time, time, None, False, "")


def test_the_posture_has_the_hand_on_the_path(task):
    for t in (0.0, 1.3, 2.9):
        q = task.hand.posture(t)
        distance, turn = task.hand.errors(q, t)
        assert distance < 1e-3 and turn < 0.02
        assert np.all((q > MODEL.q_lower) & (q < MODEL.q_upper))
    assert task.hand.errors(AWAY, 0.0)[0] > 0.1 and task.hand.errors(AWAY, 0.0)[1] > 0.3


def test_a_path_that_is_halted_before_it_begins_begins_as_any_other(task):
    """A supervisor that arms late must not cost a path half a second, by which a judge would take it for elsewhere."""
    late, clock = PathFollower(PathSettings(), 0.0, LIMIT), PathClock(0.4, LIMIT)
    late.advance(task, on_path(task, 0.0), 0.0)
    late.resume(0.4)
    for k in range(100):
        step = late.advance(task, on_path(task, clock.time), 0.4 + k * DT)
        assert (step.time, step.led) == (clock.advance(0.4 + k * DT), False)


def test_a_hand_that_is_there_but_turned_is_led_too(task):
    q = MODEL.q_home + np.array([0, 0, 0, 0, 0, 0, 0.7])  # the last joint turns the hand about itself
    assert task.hand.errors(q, 0.0) == pytest.approx((0.0, 0.7), abs=1e-6)
    assert PathFollower(PathSettings(), 0.0, LIMIT).advance(task, state(q), 0.0).led


def test_an_arm_that_is_away_is_led_while_the_path_waits(task):
    follower = PathFollower(PathSettings(), 0.0, LIMIT)
    before = follow(follower, task, lambda t: on_path(task, t), 0.0, 1.0)[-1]
    follower.resume(60.0)
    q, stamp, references = AWAY, 60.0, []
    while (step := follower.advance(task, state(q), stamp)).led:
        assert step.time == before.time and "led to the path" in step.message
        aim = step.aim(0.0)
        X = aim.reference[:, task.cost.slices["state"]]
        assert np.all(np.abs(X[:, MODEL.nq :]) <= 0.3 * MODEL.v_limit * (1 + 1e-9))
        np.testing.assert_allclose(step.aim(DT).reference[:-1], aim.reference[1:], atol=1e-12)
        references.append(X[0])
        q, stamp = X[1, : MODEL.nq], stamp + DT
        assert stamp < 90.0
    np.testing.assert_allclose(references[0], state(AWAY))
    np.testing.assert_allclose(references[-1], on_path(task, before.time), atol=1e-3)
    # It goes on from rest, and the controller's own clock has never stood still.
    after = [step, *follow(follower, task, lambda t: on_path(task, t), stamp + DT, stamp + 3.0)]
    times = np.array([s.time for s in after])
    assert np.all(np.diff(times) >= 0) and times[3] - before.time < 3 * DT / 10
    assert times[-1] - times[-2] == pytest.approx(DT)
    assert after[-1].clock - before.clock == pytest.approx(
        after[-1].time - before.time + len(references) * DT, abs=1.5 * DT
    )
    np.testing.assert_array_equal(after[-1].aim(0.0).reference, task.reference(after[-1].time))


def test_after_an_outage_on_the_way_it_begins_anew_where_the_arm_is(task):
    follower = PathFollower(PathSettings(), 0.0, LIMIT)
    follow(follower, task, state(AWAY), 0.0, 1.0)
    elsewhere = AWAY + 0.1
    step = follower.advance(task, state(elsewhere), 3.0)
    np.testing.assert_allclose(step.aim(0.0).reference[0, task.cost.slices["state"]], state(elsewhere))


def test_the_path_catches_up_with_an_outage_in_which_the_arm_was_displaced(task):
    follower = PathFollower(PathSettings(), 0.0, LIMIT)
    follow(follower, task, lambda t: on_path(task, t), 0.0, 1.0)
    stamp, q = 2.0, off(task, 1.0)[: MODEL.nq]
    while (step := follower.advance(task, state(q), stamp)).led:
        q, stamp = step.aim(0.0).reference[1, task.cost.slices["state"]][: MODEL.nq], stamp + DT
    behind = stamp - step.time
    assert behind > 1.0
    after = follow(follower, task, lambda t: on_path(task, t), stamp + DT, stamp + 6.0)
    times = np.array([step.time, *(s.time for s in after)])
    assert times[1] - times[0] < DT / 10 and np.diff(times).max() == pytest.approx(PathClock.CATCH_UP * DT)
    assert stamp + 6.0 - times[-1] == pytest.approx(0.0, abs=2 * DT)


def off(task, t):
    """A state with the hand 40 to 150 mm off the path."""
    q = task.hand.posture(t) + np.array([0.15, 0, 0, 0, 0, 0, 0])
    assert 0.04 < task.hand.errors(q, t)[0] < 0.15
    return state(q)


@pytest.mark.parametrize("beyond", ["report", "approach", "stop"])
def test_what_is_done_about_a_hand_that_stays_off_its_path(task, beyond):
    follower = PathFollower(PathSettings(path_beyond=beyond, path_tolerance_time=0.5), 0.0, LIMIT)
    follow(follower, task, lambda t: on_path(task, t), 0.0, 1.0)
    early = follow(follower, task, lambda t: off(task, t), 1.0, 1.45)
    assert not any(s.message or s.led or s.stopped for s in early)
    late = follow(follower, task, lambda t: off(task, t), 1.46, 2.0)
    assert "for more than 0.5 s (tolerance 0.03 m)" in "".join(s.message for s in late)
    last = late[-1]
    assert (last.led, last.stopped) == (beyond == "approach", beyond == "stop")
    assert (last.time > late[-10].time) == (beyond == "report")
    if beyond == "stop":
        # It stays so until somebody says go on, and then the arm is led.
        assert follow(follower, task, lambda t: on_path(task, t), 2.0, 3.0)[-1].stopped
        follower.resume(3.0)
        assert follower.advance(task, off(task, last.time), 3.0).led
    if beyond == "report":
        assert not follow(follower, task, lambda t: on_path(task, t), 2.0, 3.0)[-1].message


def test_an_arm_that_cannot_be_led_is_said_and_the_path_waits(task):
    follower = PathFollower(PathSettings(), 0.0, LIMIT)
    last = follow(follower, task, state(AWAY), 0.0, 12.0)[-1]
    assert last.led and last.time == 0.0 and "does not come nearer" in last.message


def test_a_cart_pole_is_given_its_time_and_nothing_else():
    cartpole = cartpole_swing_up(load_model("cartpole"))
    step = PathFollower(PathSettings(path_beyond="stop"), 0.0, LIMIT).advance(
        cartpole, np.array([3.0, 2.0, 0, 0]), 0.05
    )
    assert (step.time, step.clock, step.aim, step.led, step.stopped) == (0.05, 0.05, None, False, False)


def test_an_aim_with_weights_of_its_own_leaves_the_tasks_as_they_were(task):
    own = [w.copy() for w in task.cost.weights()]
    mpc = AdaptiveMpc(task)
    follower = PathFollower(PathSettings(), 0.0, LIMIT)
    x = state(AWAY)
    led = follower.advance(task, x, 0.0)
    stage, final = led.aim(0.0).weights
    assert not np.array_equal(stage, own[0]) and not np.array_equal(final, own[1])
    gentle = mpc.command(x, led.clock, led.aim)
    for w, before in zip(task.cost.weights(), own):
        np.testing.assert_array_equal(w, before)
    mpc.reset()
    hard = mpc.command(x, 0.0)
    # The plan that is led stays near where the arm is; the one that chases the path does not.
    assert np.abs(gentle.x_ref - x).max() < 0.05 and hard.cost != gentle.cost


def test_weights_are_replaced_by_name(task):
    stage, final = task.cost.weights(position=7.0)
    changed = np.flatnonzero(stage != task.cost.stage_weights)
    assert len(changed) == 3 and np.all(stage[changed] == 7.0) and np.sum(final != task.cost.final_weights) == 3
    with pytest.raises(ValueError, match="no cost term named 'positions'; terms: state, control, position"):
        task.cost.weights(positions=1.0)
