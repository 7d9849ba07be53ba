"""What comes through the door of the operator's samples, and what does not."""

import numpy as np
import pytest

from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.operator_sample import OperatorSample, Refused, SampleGate


def hand(x=0.0):
    return Pose(np.array([x, 0.0, 0.0]), np.eye(3))


def sample(sequence, stamp, session="one", right=None, clutch=(True, False), **fields):
    return OperatorSample(stamp, sequence, session, hands=(right or hand(), None), clutch=clutch, **fields)


def test_in_order_and_recent():
    gate = SampleGate()
    for k in range(10):
        taken, why = gate.read(sample(k, 0.01 * k), 0.01 * k + 0.02)
        assert taken is not None and taken.clutch == (True, False) and not why
    assert not gate.refused


@pytest.mark.parametrize(
    ("late", "reason"),
    [
        (sample(8, 0.5), Refused.ORDER),
        (sample(9, 0.5), Refused.ORDER),  # doubled
        (sample(10, 0.2), Refused.OLD),
        (sample(10, 0.9), Refused.FUTURE),
        (sample(10, 3600.0), Refused.FUTURE),  # a headset's clock that nobody has aligned
        (sample(10, -7200.0), Refused.OLD),
    ],
)
def test_what_is_not_taken(late, reason):
    gate = SampleGate()
    assert gate.read(sample(9, 0.49), 0.5)[0] is not None
    taken, why = gate.read(late, 0.55)
    assert taken is None and gate.refused == {reason: 1}
    assert why.startswith("The operator's sample was not taken: ") and reason.value in why
    assert gate.read(sample(11, 0.54), 0.55)[0] is not None  # and the next goes on


def test_a_better_estimate_of_their_clock_loses_no_sample():
    """From the eleventh on the same clock is known to be 60 ms earlier."""
    gate = SampleGate()
    stamps = [gate.read(sample(k, 0.01 * k - (0.06 if k > 10 else 0.0)), 0.01 * k)[0].stamp for k in range(30)]
    assert not gate.refused and stamps[10:17] == pytest.approx([0.1] * 7) and stamps[29] == pytest.approx(0.23)


def test_a_session_that_is_over_moves_nothing():
    gate = SampleGate()
    gate.read(sample(900, 1.0), 1.0)
    assert gate.read(sample(0, 1.1, session="two"), 1.1)[0] is not None
    assert gate.read(sample(901, 1.2), 1.2)[0] is None and gate.refused == {Refused.SESSION: 1}


def test_a_hand_that_jumps_by_a_metre_opens_its_clutch_until_it_is_pressed_again():
    gate = SampleGate()
    gate.read(sample(0, 0.0), 0.0)
    taken, why = gate.read(sample(1, 0.01, right=hand(1.0)), 0.01)
    assert taken.clutch == (False, False) and "right hand jumped by 1.00 m" in why
    taken, why = gate.read(sample(2, 0.02, right=hand(1.0)), 0.02)
    assert taken.clutch == (False, False) and "jumped by 1.00 m" in why  # it is told until it is done
    taken, why = gate.read(sample(3, 0.03, right=hand(1.0), clutch=(False, False)), 0.03)
    assert taken.clutch == (False, False) and why == ""
    assert gate.read(sample(4, 0.04, right=hand(1.0)), 0.04)[0].clutch == (True, False)


def test_a_quick_hand_is_no_jump():
    gate = SampleGate()
    for k in range(50):
        taken, _ = gate.read(sample(k, 0.011 * k, right=hand(0.011 * k * 3.0)), 0.011 * k)  # 3 m/s
        assert taken.clutch[0]


def test_a_hand_that_is_not_tracked_has_no_clutch():
    gate = SampleGate()
    taken, _ = gate.read(OperatorSample(0.0, 0, "one", clutch=(True, True)), 0.0)
    assert taken.clutch == (False, False)


@pytest.mark.parametrize(
    "fields",
    [
        {"trigger": (1.5, 0.0)},
        {"trigger": (np.nan, 0.0)},
        {"stick": (0.0, -1.1, 0.0)},
        {"glove": np.zeros(19)},
        {"glove": np.full(20, np.inf)},
    ],
)
def test_numbers_that_are_none(fields):
    with pytest.raises(ValueError, match="expected"):
        sample(0, 0.0, **fields)
    with pytest.raises(ValueError, match="finite stamp"):
        sample(0, float("nan"))
