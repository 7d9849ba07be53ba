"""The driver against the emulated gripper: G3, G4, G6."""

import os
import random
import time

import pytest

from hardware.emulation.process import EmulatorProcess
from hardware.link import State
from hardware.robotiq.device import RobotiqGripper
from hardware.robotiq.protocol import Contact

PATIENCE = 90.0


class Driver(RobotiqGripper):
    """Keeps its samples."""

    def __init__(self, path, **options):
        self.samples, self.losses = [], []
        # A busy machine lets an answer wait; what it says is what is tested here.
        super().__init__(
            path, **{"reply_timeout": 0.5, **options}, on_sample=lambda sample, t: self.samples.append((t, sample))
        )
        self.on_state = lambda: self.state is State.RECONNECTING and self.losses.append(self.last_error)
        self.start()

    @property
    def newest(self):
        return self.samples[-1][1] if self.samples else None

    def until(self, condition, what=""):
        assert self.wait_for(condition, PATIENCE), (
            what,
            self.state,
            self.last_error,
            self.newest,
            self.status,
            self.faults,
        )

    def activated(self):
        self.enable()
        self.until(lambda: self.newest is not None and self.status.ready and not self.busy, "activation")
        return self

    def settled(self, command):
        """The first state that answers a command and does not move."""
        self.until(
            lambda: self.newest.command >= command and self.newest.status.contact is not Contact.MOVING,
            "end of a motion",
        )
        return self.newest


@pytest.fixture
def connect(gripper, closing):
    return lambda **options: closing(Driver(gripper.link, **options))


@pytest.fixture
def driver(connect):
    return connect()


def test_grasp_lost_object_and_release(gripper, driver):
    driver.activated()
    gripper.set(object_width=0.040)
    state = driver.settled(driver.go_to(0.0, 0.15, 100.0))
    assert state.status.contact is Contact.CLOSING and state.status.object_detected
    assert state.width == pytest.approx(0.040, abs=0.001) and state.force == pytest.approx(100.0, abs=0.5)
    gripper.inject("lost_object")
    driver.until(lambda: driver.newest.status.contact is Contact.ARRIVED, "the loss")
    assert driver.newest.width == 0.0 and driver.newest.force == 0.0
    # Stopped half-way: where it stopped it stays.
    driver.go_to(0.085, 0.02, 20.0)
    driver.until(lambda: driver.newest.width > 0.030, "opening")
    halt = driver.halt()
    driver.until(lambda: driver.newest.command >= halt and not driver.newest.status.go_to, "the halt")
    width = gripper.stats()["width"]
    time.sleep(0.1)
    assert 0.030 < gripper.stats()["width"] == width < 0.080
    # Automatic release, at 20 mm/s, and the way out of it.
    driver.settled(driver.go_to(0.080, 0.15, 20.0))
    driver.release()
    driver.until(lambda: driver.newest.status.fault == 0x0F, "the release")
    assert "automatic release is complete" in driver.faults["gripper"]
    driver.reactivate()
    driver.until(lambda: not driver.busy and driver.newest.status.ready, "the new activation")
    assert not driver.faults


def test_width_is_the_gripper_s():
    """G4: within 1 mm (half a count of a 2F-140's encoder is 0.3 mm). The 2F-85 has its turn in test_world.py and test/nodes."""
    model, stroke = "2f_140", 0.140
    with EmulatorProcess("robotiq", "--model", model, "--activation-speed", 2.0) as emulator:
        driver = Driver(emulator.link, model=model).activated()
        rng, worst = random.Random(4), 0.0
        for width in [*sorted(rng.uniform(0.3 * stroke, stroke) for _ in range(4)), stroke]:
            state = driver.settled(driver.go_to(width, 1.0, 100.0))
            truth = emulator.stats()["width"]
            worst = max(worst, abs(state.width - truth), abs(truth - width))
        gap = 0.6 * stroke
        emulator.set(object_width=gap)
        worst = max(worst, abs(driver.settled(driver.go_to(0.0, 1.0, 100.0)).width - gap))
        driver.close()
        assert worst <= 0.0004, worst


def test_polls_keep_the_gripper_from_missing_us_and_a_second_without_is_reported(gripper, driver, withheld):
    driver.until(lambda: driver.state is State.READY)
    time.sleep(1.2)  # idle: polled, but nothing moves and nothing is published
    facts = gripper.stats()
    assert facts["state"] == 0 and facts["output"] == [0, 0, 0] and not driver.samples
    assert driver.identity.model == "Robotiq 2F-85"
    driver.activated()
    before, asked = len(driver.samples), gripper.stats()["requests"]
    start = time.monotonic() - withheld() - withheld(gripper.pid)
    driver.until(lambda: len(driver.samples) >= before + 40)
    took = time.monotonic() - withheld() - withheld(gripper.pid) - start  # less what both waited for a core
    assert gripper.stats()["requests"] - asked >= 20.0 * took
    assert driver.counters.as_dict().get("silences", 0) == 0
    stamps = [t for t, _ in driver.samples]
    assert all(b > a for a, b in zip(stamps, stamps[1:], strict=False))
    driver.period = 1.1  # as if this computer were too busy
    driver.until(lambda: driver.counters.as_dict().get("silences", 0) >= 1, "fault 09")
    driver.period = 0.02
    driver.until(lambda: driver.newest.status.fault == 0 and not driver.faults)


def test_unplugged_and_back(gripper, driver):
    driver.activated()
    gripper.set(object_width=0.030)
    driver.settled(driver.go_to(0.0, 0.15, 50.0))
    count = len(driver.samples)
    gripper.inject("unplug", 0.5)
    driver.until(lambda: driver.losses, "the loss")
    assert "gone" in driver.losses[0] or "closed" in driver.losses[0] or "no port" in driver.losses[0]
    driver.until(lambda: driver.state is State.STREAMING and len(driver.samples) > count + 5, "the return")
    # It kept its grip, was not activated again, and the command from before was not given again.
    assert driver.newest.status.object_detected and driver.newest.width == pytest.approx(0.030, abs=0.001)
    assert driver.counters.reconnects == 1 and not driver.faults


@pytest.mark.parametrize("automatic", [False, True])
def test_power_failure(gripper, connect, automatic):
    driver = connect(auto_reactivate=automatic, reply_timeout=0.05).activated()
    driver.settled(driver.go_to(0.060, 0.15, 50.0))
    before = len(driver.losses)
    gripper.inject("power_cycle", 0.7)
    driver.until(lambda: len(driver.losses) > before, "the loss")
    if automatic:
        driver.until(
            lambda: driver.state is State.STREAMING and driver.status.ready and not driver.busy, "the new activation"
        )
    else:
        driver.until(lambda: "lost its activation" in driver.faults.get("gripper", ""), "the report")
        width = gripper.stats()["width"]
        count = len(driver.samples)
        time.sleep(0.3)
        assert gripper.stats()["width"] == width and len(driver.samples) == count  # unmoved, and no width pretended
        driver.reactivate()
        driver.until(lambda: driver.status.ready and not driver.busy)
    assert not driver.faults


def test_corruption_and_garbage_pass_no_wrong_value(gripper, connect):
    driver = connect(reply_timeout=0.03).activated()
    driver.settled(driver.go_to(0.060, 0.15, 50.0))
    expected, start = driver.newest.status, len(driver.samples)
    for fault in ("corrupt", "truncate", "garbage", "duplicate"):
        gripper.inject(fault, p=0.2)
        count = len(driver.samples)
        driver.until(
            lambda fault=fault, count=count: (
                gripper.stats()["faults"].get(fault, 0) >= 4 and len(driver.samples) > count + 8
            ),
            fault,
        )
        gripper.clear(fault)
    assert {state.status for _, state in driver.samples[start:]} == {expected}
    assert driver.counters.crc_errors + driver.counters.timeouts + driver.counters.resyncs > 0
    assert gripper.stats()["faults"].keys() >= {"corrupt", "truncate", "garbage", "duplicate"}


@pytest.mark.parametrize("fault, parameters", [("silence", {}), ("wrong_baud", {"baud": 57600})])
def test_a_gripper_that_does_not_answer(gripper, connect, fault, parameters):
    driver = connect(reply_timeout=0.05).activated()
    gripper.inject(fault, **parameters)
    driver.until(lambda: driver.state is State.RECONNECTING, "the loss")
    assert "did not answer" in driver.counters.last_error
    gripper.clear(fault)
    driver.until(lambda: driver.state is State.STREAMING, "the return")


@pytest.mark.parametrize("fault, sentence", [("overtemp", "too hot"), ("low_voltage", "supply voltage")])
def test_faults_are_said(gripper, driver, fault, sentence):
    driver.activated()
    gripper.inject(fault)
    driver.until(lambda: sentence in driver.faults.get("gripper", ""), fault)
    gripper.clear(fault)
    if fault != "overtemp":
        driver.reactivate()
    driver.until(lambda: not driver.faults and not driver.busy and driver.status.ready, "the end of it")


def test_an_activation_that_fails_says_so(gripper, driver):
    gripper.set(object_width=0.030)
    driver.enable()
    driver.until(lambda: "activation failed" in driver.faults.get("gripper", ""))
    gripper.set(object_width=None)
    driver.reactivate()
    driver.until(lambda: not driver.faults and driver.status.ready)


@pytest.mark.parametrize("policy", ["stop", "open"])
def test_the_stop_is_read_back(gripper, connect, policy):
    driver = connect(stop_policy=policy).activated()
    driver.go_to(0.0, 0.03, 50.0)
    driver.until(lambda: driver.newest.width < 0.075, "closing")
    assert driver.disable(10.0)
    facts = gripper.stats()
    assert facts["output"][0] == 0x0100 and not driver.warnings
    assert facts["width"] == pytest.approx(0.085, abs=0.0005) if policy == "open" else 0.01 < facts["width"] < 0.076
    driver.close()
    assert driver.state is State.CLOSED


@pytest.mark.hardware
def test_a_real_gripper():
    """REFIT_ROBOTIQ_PORT=/dev/serial/by-id/... pytest -m hardware: fingers must be free to move, with nothing between them."""
    port = os.environ.get("REFIT_ROBOTIQ_PORT")
    if not port:
        pytest.skip("REFIT_ROBOTIQ_PORT names no port")
    driver = Driver(port, model=os.environ.get("REFIT_ROBOTIQ_MODEL", "2f_85"), reply_timeout=0.1).activated()
    try:
        stroke = driver.model.stroke
        for width in (0.5 * stroke, stroke):
            state = driver.settled(driver.go_to(width, driver.model.speed[0], driver.model.force[0]))
            assert state.width == pytest.approx(width, abs=0.003) and state.status.contact is Contact.ARRIVED
        assert driver.rate.rate(time.monotonic()) == pytest.approx(50.0, rel=0.05)
        assert driver.counters.crc_errors == 0
        assert driver.disable() and not driver.warnings
    finally:
        driver.close()
