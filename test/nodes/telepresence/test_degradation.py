"""What is given up where the network carries less, in which order, and when it comes back."""

import pytest

from nodes.telepresence.degradation import LONGEST_QUIET, QUIET, Degradation, Step, is_congested


def run(degradation, congested, begin, seconds):
    """The steps in force, once a second."""
    return [degradation.update(congested, begin + i) for i in range(seconds)]


def test_the_order_is_face_side_cameras_resolution_and_the_sound_last():
    degradation = Degradation()
    assert run(degradation, True, 0.0, 6) == [Step.FACE, Step.SIDE_CAMERAS, Step.RESOLUTION, *[Step.SOUND] * 3]
    assert degradation.steps_down == 4
    quiet = run(degradation, False, 6.0, int(4 * QUIET) + 4)
    assert list(dict.fromkeys(quiet)) == [Step.SOUND, Step.RESOLUTION, Step.SIDE_CAMERAS, Step.FACE, Step.NOTHING]


def test_a_short_congestion_costs_one_step_which_comes_back():
    degradation = Degradation()
    assert degradation.update(True, 0.0) == Step.FACE
    steps = run(degradation, False, 1.0, 10)
    assert steps == [Step.FACE] * int(QUIET - 1) + [Step.NOTHING] * int(11 - QUIET)


def test_looks_in_quick_succession_are_one_step():
    degradation = Degradation()
    assert [degradation.update(True, 0.1 * i) for i in range(10)] == [Step.FACE] * 10


def test_a_step_up_that_congests_again_waits_twice_as_long():
    degradation, now, waits = Degradation(), 0.0, []
    for _ in range(7):
        while degradation.update(True, now) < Step.FACE:
            now += 1.0
        begin = now
        while degradation.step > Step.NOTHING:
            now += 0.5
            degradation.update(False, now)
        waits.append(now - begin)
        now += 1.0
    assert waits == pytest.approx([QUIET, 2 * QUIET, 4 * QUIET, 8 * QUIET, *[LONGEST_QUIET] * 3], abs=0.51)


def test_after_a_long_quiet_time_all_is_forgotten():
    degradation, now = Degradation(), 0.0
    for _ in range(3):
        degradation.update(True, now)
        while degradation.step > Step.NOTHING:
            now += 1.0
            degradation.update(False, now)
        now += 1.0
    run(degradation, False, now, int(LONGEST_QUIET) + 2)
    now += LONGEST_QUIET + 10.0
    degradation.update(True, now)
    assert degradation.update(False, now + QUIET) == Step.NOTHING


@pytest.mark.parametrize(
    ("loss", "rtt", "best", "congested"),
    [
        (0.0, None, None, False), (0.049, 20.0, 20.0, False), (0.06, 20.0, 20.0, True), (0.0, 139.0, 20.0, False),
        (0.0, 141.0, 20.0, True), (0.0, 600.0, 300.0, False), (0.0, 701.0, 300.0, True),
    ],
)  # fmt: skip
def test_congestion_is_loss_or_a_way_that_got_longer(loss, rtt, best, congested):
    assert is_congested(loss, rtt, best) is congested
