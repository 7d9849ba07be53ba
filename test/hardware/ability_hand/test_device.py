"""The driver against the emulated hand: G5, G6.

The maker's client is not installed: the frames of test_protocol.py, made by its rules, stand for it.
"""

import os
import time

import numpy as np
import pytest

from hardware.ability_hand.device import AbilityHand
from hardware.emulation.process import EmulatorProcess
from hardware.link import State

PATIENCE = 90.0


class Driver(AbilityHand):
    """Keeps its samples."""

    def __init__(self, path, **options):
        self.samples, self.states = [], []
        super().__init__(
            path, **{"reply_timeout": 0.5, **options}, on_sample=lambda sample, t: self.samples.append((t, sample))
        )
        self.on_state = lambda: self.states.append(self.state)
        self.start()

    @property
    def degrees(self):
        return np.degrees(self.samples[-1][1].position)

    def until(self, condition, what=""):
        assert self.wait_for(condition, PATIENCE), (what, self.state, self.last_error, self.counters.as_dict())

    def streaming(self):
        self.enable()
        self.until(lambda: self.samples, "samples")
        return self

    def reach(self, degrees):
        """Repeat a target until the fingers are there."""

        def there():
            self.move(np.radians(degrees))
            return np.max(np.abs(self.degrees - degrees)) < 1.0

        self.until(there, "target")

    def lose(self, act):
        """Do something that costs the link, and wait until it is lost."""
        before = len(self.states)
        act()
        self.until(lambda: State.RECONNECTING in self.states[before:], "the loss")

    def given_up(self):
        """Until a target that is not renewed is no longer pursued."""
        self.until(lambda: self._target is None, "the target given up")


def at_rest(hand):
    """The angles once they have stayed the same for 0.3 s [deg]."""
    end = time.monotonic() + PATIENCE
    angles = hand.stats()["angles"]
    while time.monotonic() < end:
        time.sleep(0.3)
        earlier, angles = angles, hand.stats()["angles"]
        if angles == pytest.approx(earlier, abs=0.01):
            return angles
    raise AssertionError(f"the fingers do not come to rest: {angles}")


@pytest.fixture(scope="module")
def process():
    with EmulatorProcess("ability_hand", seed=5) as emulator:
        yield emulator


@pytest.fixture
def hand(process):
    process.clear()
    process.set(contacts=dict.fromkeys(("index", "middle", "ring", "pinky", "thumb_flexor", "thumb_rotator")))
    process.set(fastest=235.0, api_time=0.3)
    yield process
    process.clear()


@pytest.fixture
def connect(hand, closing):
    return lambda **options: closing(Driver(hand.link, **options))


@pytest.fixture
def driver(connect):
    return connect()


def test_targets_are_reached_and_nothing_is_lost(hand, connect):
    """G5, at 100 commands a second; an answer counts as lost only when it is too late for any machine."""
    driver = connect(reply_timeout=5.0)
    driver.until(lambda: driver.state is State.READY)
    start = hand.stats()["angles"]
    driver.streaming()
    time.sleep(0.2)
    assert hand.stats()["angles"] == pytest.approx(start, abs=0.1)  # enabled, not told anything: it stays
    for target in ([90, 80, 70, 60, 50, -90], [5, 5, 5, 5, 5, -5], [50, 50, 50, 50, 50, -50]):
        driver.reach(np.array(target, float))
        assert hand.stats()["angles"] == pytest.approx(target, abs=1.0)
    driver.until(lambda: driver.sent > 100, "100 commands")
    assert driver.counters.timeouts == driver.counters.crc_errors == 0
    facts = hand.stats()
    assert facts["damaged"] == facts["unknown"] == 0
    stamps = [t for t, _ in driver.samples]
    assert all(b > a for a, b in zip(stamps, stamps[1:], strict=False))


def test_api_mode_lasts_as_long_as_the_driver(hand, connect):
    hand.set(api_time=3.0)  # longer than a busy machine holds up a process
    driver = connect(reply_timeout=5.0).streaming()
    driver.reach(np.array([40.0] * 5 + [-40.0]))
    driver.given_up()
    exits = hand.stats()["api_exits"]
    time.sleep(4.0)  # no new targets: it is held, in API mode
    facts = hand.stats()
    assert facts["api"] and facts["api_exits"] == exits and driver.counters.as_dict()["command_timeouts"] >= 1
    driver.close()
    driver.until(lambda: not hand.stats()["api"], "the end of API mode")
    assert hand.stats()["api_exits"] == exits + 1


def test_a_target_that_is_not_renewed_is_given_up(hand, driver):
    driver.streaming().reach(np.array([5.0] * 5 + [-5.0]))
    hand.set(fastest=20.0)  # the whole way takes 4 s, the life of a target 0.1 s and what a busy machine adds
    driver.move(np.radians([100.0] * 5 + [-100.0]))
    driver.given_up()
    angles = at_rest(hand)
    assert max(angles) < 30.0
    time.sleep(0.3)
    assert hand.stats()["angles"] == pytest.approx(angles, abs=1.0)


def test_touch_and_current_of_a_finger_that_meets_something(hand, driver):
    driver.streaming().reach(np.array([10.0] * 5 + [-10.0]))
    hand.set(contacts={"middle": 40.0})
    driver.reach_target = np.radians([60.0] * 5 + [-10.0])

    def touched():
        driver.move(driver.reach_target)
        return driver.samples[-1][1].touch[1].min() > 2.0

    driver.until(touched, "touch")
    feedback = driver.samples[-1][1]
    assert np.degrees(feedback.position[1]) == pytest.approx(40.0, abs=0.1) and feedback.current[1] == pytest.approx(
        1.2, abs=0.01
    )
    assert feedback.touch[0].max() < 0.5 * feedback.touch[1].min()


def test_velocity_in_place_of_touch(hand, connect):
    driver = connect(touch=False).streaming()
    driver.reach(np.array([5.0] * 5 + [-5.0]))
    begin, goal = len(driver.samples), 90.0

    def moving():
        """To and fro: a busy machine may let no question through during one way."""
        nonlocal goal
        if abs(driver.degrees[0] - goal) < 1.0:
            goal = 95.0 - goal
        driver.move(np.radians([goal] * 5 + [-5.0]))
        return any(np.degrees(sample.velocity[0]) > 200.0 for _, sample in driver.samples[begin:])

    driver.until(moving, "speed")
    assert np.isnan(driver.samples[-1][1].touch).all()


def test_the_stop_is_read_back(hand, driver):
    driver.streaming().reach(np.array([5.0] * 5 + [-5.0]))
    hand.set(fastest=20.0)  # the whole way takes 4 s

    def under_way():
        driver.move(np.radians([100.0] * 5 + [-100.0]))
        return driver.degrees[0] > 8.0

    driver.until(under_way)
    assert driver.disable(PATIENCE) and not driver.warnings
    angles = hand.stats()["angles"]
    time.sleep(0.2)
    assert hand.stats()["angles"] == pytest.approx(angles, abs=0.5) and max(angles) < 60.0


def test_unplugged_and_back_without_a_jump(hand, driver):
    driver.streaming().reach(np.array([50.0] * 5 + [-50.0]))
    count = len(driver.samples)
    driver.lose(lambda: hand.inject("unplug", 0.5))
    driver.until(lambda: driver.state is State.STREAMING and len(driver.samples) > count + 10, "the return")
    assert hand.stats()["angles"] == pytest.approx([50.0] * 5 + [-50.0], abs=1.0)
    assert driver.counters.reconnects == 1


def test_corruption_passes_no_wrong_value(hand, connect):
    driver = connect(reply_timeout=0.02).streaming()
    driver.reach(np.array([50.0] * 5 + [-50.0]))
    start = len(driver.samples)
    for fault in ("corrupt", "truncate", "garbage", "duplicate"):
        hand.inject(fault, p=0.2)
        count = len(driver.samples)
        driver.until(
            lambda fault=fault, count=count: (
                hand.stats()["faults"].get(fault, 0) >= 4 and len(driver.samples) > count + 8
            ),
            fault,
        )
        hand.clear(fault)
    worst = max(
        np.max(np.abs(np.degrees(s.position) - np.array([50.0] * 5 + [-50.0]))) for _, s in driver.samples[start:]
    )
    assert worst < 1.5 and driver.counters.crc_errors > 0


@pytest.mark.parametrize("fault, parameters", [("silence", {}), ("wrong_baud", {"baud": 115200})])
def test_a_hand_that_does_not_answer(hand, connect, fault, parameters):
    driver = connect(reply_timeout=0.05).streaming()
    driver.lose(lambda: hand.inject(fault, **parameters))
    assert "no Ability Hand answered" in driver.counters.last_error
    hand.clear(fault)
    driver.until(lambda: driver.state is State.STREAMING, "the return")


def test_heat_is_a_warning(hand, driver):
    driver.streaming()
    hand.inject("overtemp")
    driver.until(lambda: "protects itself" in driver.warnings.get("protection", ""))
    hand.clear("overtemp")
    driver.until(lambda: not driver.warnings)


def test_no_target_that_is_none(driver):
    for wrong in ([0.0] * 5, [0.0] * 5 + [float("nan")], [[0.0] * 6]):
        with pytest.raises(ValueError, match="six finite angles"):
            driver.move(wrong)


@pytest.mark.hardware
def test_a_real_hand():
    """REFIT_ABILITY_HAND_PORT=/dev/serial/by-id/... pytest -m hardware: nothing in the hand, fingers free."""
    port = os.environ.get("REFIT_ABILITY_HAND_PORT")
    if not port:
        pytest.skip("REFIT_ABILITY_HAND_PORT names no port")
    driver = Driver(port, reply_timeout=0.05).streaming()
    try:
        for target in ([30.0] * 5 + [-30.0], [10.0] * 5 + [-10.0]):

            def near(target=np.array(target)):
                driver.move(np.radians(target))
                return np.max(np.abs(driver.degrees - target)) < 5.0

            driver.until(near, "target")
        assert (driver.counters.timeouts + driver.counters.crc_errors) / driver.sent <= 0.005
        assert driver.disable() and not driver.warnings
    finally:
        driver.close()
