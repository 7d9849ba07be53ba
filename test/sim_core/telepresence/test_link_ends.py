"""Joining, alignment, ages and joining again, between two ends and a channel each way."""

import numpy as np
import pytest

from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.link_ends import Devices, Hello, OperatorEnd, RobotEnd, Sample, Welcome
from sim_core.telepresence.operator_link import Channel, LinkConditions

HAND = Pose(np.zeros(3), np.eye(3))
DEVICES = Devices(HAND, (HAND, HAND))
STEP = 0.002


class Ends:
    def __init__(self, conditions=LinkConditions(), seed=0, **operator):
        self.robot, self.operator = RobotEnd(), OperatorEnd(**operator)
        self.there, self.back = Channel(conditions, [seed, 1]), Channel(conditions, [seed, 2])
        self.now, self.taken = 0.0, []

    def until(self, end):
        while self.now < end - 1e-9:
            for message in self.there.receive(self.now):
                sample, answers = self.robot.hear(message, self.now)
                self.taken += [] if sample is None else [(self.now, sample)]
                for answer in answers:
                    self.back.send(answer, self.now)
            for message in self.robot.speak(self.now):
                self.back.send(message, self.now)
            for message in self.back.receive(self.now):
                for answer in self.operator.hear(message, self.now):
                    self.there.send(answer, self.now)
            for message in self.operator.speak(DEVICES, self.now):
                self.there.send(message, self.now)
            self.now = round(self.now + STEP, 9)
        return self


@pytest.mark.parametrize("ahead", [0.0, 7.0 * 3600.0, -1e6])
def test_ages_are_true_whatever_the_operators_clock_says(ahead):
    ends = Ends(LinkConditions(0.08, 0.003), ahead=ahead, drift=1e-4).until(5.0)
    ages, true = np.array(ends.robot.ages), np.array(ends.robot.true_ages)
    assert len(ages) > 300
    # Half of the difference of the two ways' jitter in the shortest trip, and a step of this loop.
    assert ages == pytest.approx(true, abs=0.004)
    assert np.percentile(true, 50) == pytest.approx(0.08 + 0.003 * np.log(2.0), abs=STEP)


def test_samples_come_at_their_rate_and_in_order():
    ends = Ends(LinkConditions(0.05, 0.01, 0.02, 0.1)).until(8.0)
    numbers = [sample.sequence for _, sample in ends.taken]
    assert numbers == sorted(set(numbers))
    assert ends.operator._seq == pytest.approx(90.0 * (8.0 - ends.operator.joined[0]), abs=2)


def test_beyond_the_age_limit_nothing_passes_and_the_sentence_says_so():
    ends = Ends(LinkConditions(0.3)).until(4.0)
    assert not ends.taken and ends.robot.session
    assert "older than its age limit (300 ms old, limit 250 ms)" in ends.robot.refusal


def test_a_lost_link_is_dialled_again_by_itself_into_a_new_session():
    ends = Ends(LinkConditions(0.05, outages=((2.0, 6.0),))).until(9.0)
    first, second = ends.operator.joined
    assert first < 0.2 and 6.0 < second <= 6.0 + 1.0 + 2 * 0.05 + 2 * STEP
    assert ends.robot.session == "session 2" == ends.operator.session
    silent = np.diff([now for now, _ in ends.taken]).max()
    assert 4.0 < silent < 6.0


def test_a_blip_shorter_than_the_silence_limit_keeps_the_session():
    ends = Ends(LinkConditions(0.05, outages=((2.0, 3.5),))).until(6.0)
    assert len(ends.operator.joined) == 1
    assert np.diff([now for now, _ in ends.taken]).max() == pytest.approx(1.5, abs=0.02)


def test_a_hello_that_comes_twice_joins_once_and_an_old_session_says_nothing_any_more():
    robot = RobotEnd()
    assert robot.hear(Hello(1), 0.0)[1] == robot.hear(Hello(1), 0.1)[1] == [Welcome(1, "session 1")]
    robot.hear(Hello(2), 0.2)
    assert robot.hear(Sample(1, 0.2, "session 1", DEVICES, 0.2), 0.2) == (None, [])
    assert robot.hear(Sample(1, 0.2, "session 2", DEVICES, 0.2), 0.2) == (None, [])
    assert "not known yet" in robot.refusal
