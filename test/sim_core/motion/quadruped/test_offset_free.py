"""References that leave no lasting error, on loops that are not the model."""

import numpy as np
import pytest

from sim_core.motion.quadruped.offset_free import OffsetFree, OffsetFreeConfig

DT = 1 / 160
ASKED = np.array([0.3, -0.1, 0.4, 0.27])


def run(loop, seconds, asked=ASKED, lag=(0.1, 0.1, 0.1, 0.2), gain=1.0, push=0.0, start=np.zeros(4)):
    """Measured values (T, 4) of a lag with another gain and a constant push."""
    y, trace = np.array(start, float), []
    for _ in range(round(seconds / DT)):
        r = loop.reference(DT, asked, y + push)
        y = y + (1 - np.exp(-DT / np.array(lag))) * (gain * r - y)
        trace.append(y + push)
    return np.array(trace)


@pytest.mark.parametrize(
    "lag, gain, push",
    [((0.1, 0.1, 0.1, 0.2), 1.0, 0.04), ((0.25, 0.05, 0.2, 0.4), 0.9, -0.02), ((0.1, 0.1, 0.1, 0.2), 1.2, 0.0)],
)
def test_nothing_lasting_is_left_whatever_the_loops_lag_gain_and_push(lag, gain, push):
    trace = run(OffsetFree(), 12.0, lag=lag, gain=gain, push=push)
    np.testing.assert_allclose(trace[-1], ASKED, atol=1e-4)
    assert (
        np.abs(
            run(OffsetFree(OffsetFreeConfig(gain=(0, 0, 0, 0))), 12.0, lag=lag, gain=gain, push=push)[-1] - ASKED
        ).min()
        > 5e-3
    )


def test_where_the_loop_is_the_model_a_step_is_no_disturbance():
    loop = OffsetFree()
    trace = run(loop, 3.0)
    # An integrator of the error alone would take the step for a disturbance of 1.5 / s times the lag, 0.045 m/s.
    assert np.abs(loop.disturbance).max() < 1e-12 and (np.diff(np.abs(trace), axis=0) >= 0).all()


def test_a_robot_held_fast_does_not_run_off():
    loop = OffsetFree()
    for _ in range(16000):
        r = loop.reference(DT, ASKED, np.zeros(4))
    limit = np.array(OffsetFreeConfig().limit)
    assert (np.abs(r - ASKED) <= limit + 1e-12).all() and np.abs(r - ASKED).max() > 0.09
    loop.reset()
    assert (loop.reference(DT, ASKED, ASKED) == ASKED).all()


def test_what_is_not_finite_changes_nothing():
    loop = OffsetFree()
    run(loop, 3.0, push=0.05)
    before = loop.disturbance.copy()
    assert (loop.reference(DT, ASKED, np.array([0.1, np.nan, 0.0, 0.2])) == ASKED - before).all()
    assert (loop.disturbance == before).all()
    with pytest.raises(ValueError, match="lag must be positive"):
        OffsetFreeConfig(lag=(0.1, 0.0, 0.1, 0.1))
