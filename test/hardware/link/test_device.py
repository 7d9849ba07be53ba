"""A line-speaking thermometer behind the common link: loss of the port, silence, another device, mistakes of the driver."""

import itertools
import threading
import time

import pytest

from hardware.emulation.emulator import Emulator, running
from hardware.emulation.pty_port import PtyPort
from hardware.link import (
    Backoff,
    Device,
    DeviceClock,
    DeviceError,
    Disconnected,
    Identity,
    NotAnswering,
    SerialPort,
    State,
)


class EmulatedThermometer(Emulator):
    name = "thermometer"

    def __init__(self, link, baud=115200):
        super().__init__()
        self.port, self.serial, self.sent = PtyPort(link, baud), "T1", 0
        self.streaming, self._due = False, 0.0

    def step(self, timeout):
        for byte in self.port.read(min(timeout, 0.002)):
            if byte == ord("?"):
                self.send(f"id {self.serial}\n".encode())
            self.streaming = {ord("s"): True, ord("x"): False}.get(byte, self.streaming)
        if self.streaming and time.monotonic() >= self._due:
            self._due = time.monotonic() + 0.01
            self.send(f"t {self.sent}\n".encode())
            self.sent += 1


class Thermometer(Device):
    def __init__(self, path, **kwargs):
        super().__init__(**kwargs)
        self.path, self._port, self.mistake, self.stopped = path, None, False, 0

    def _open(self):
        self._port, self._text = SerialPort(self.path, 115200), b""
        self._port.write(b"x?")
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            for line in self._lines(0.05):
                if line.startswith(b"id "):
                    return Identity("thermometer", line[3:].decode())
        raise NotAnswering(f"{self.path}: no thermometer answers")

    def _start(self):
        self._port.write(b"s")

    def _serve(self):
        if self.mistake:
            self.mistake = False
            raise ZeroDivisionError("a mistake of the driver")
        for line in self._lines(0.02):
            if line.startswith(b"t "):
                self._sample(int(line[2:]), time.monotonic())

    def _stop(self):
        self._port.write(b"x")
        self.stopped += 1

    def _close(self):
        if self._port is not None:
            self._port.close()

    def _lines(self, timeout):
        *lines, self._text = (self._text + self._port.read(timeout=timeout)).split(b"\n")
        return lines


@pytest.fixture
def bench(tmp_path):
    emulator = EmulatedThermometer(tmp_path / "port")
    seen = []
    device = Thermometer(
        tmp_path / "port",
        on_sample=lambda value, t: seen.append((value, t)),
        backoff=Backoff(0.02, cap=0.1, seed=1),
        stale_timeout=0.2,
    )
    with running(emulator):
        yield emulator, device, seen
        device.close()


def test_streams_stops_and_streams_again(bench):
    emulator, device, seen = bench
    device.start()
    assert device.wait_for(State.READY, 60.0) and device.identity == Identity("thermometer", "T1")
    assert not seen
    device.enable()
    assert device.wait_for(lambda: len(seen) >= 5, 60.0)
    assert device.disable() and device.state is State.READY and device.stopped == 1
    assert device.wait_for(lambda: not emulator.streaming, 60.0)
    n = len(seen)
    time.sleep(0.1)
    assert len(seen) == n
    device.enable()
    assert device.wait_for(lambda: len(seen) >= n + 5, 60.0)
    assert all(a[1] < b[1] for a, b in zip(seen, seen[1:]))
    assert device.counters.samples == len(seen)


def test_unplugged_and_back(bench):
    emulator, device, seen = bench
    device.start()
    device.enable()
    assert device.wait_for(lambda: len(seen) > 3, 60.0)
    emulator.call(lambda: emulator.inject("unplug"))
    assert device.wait_for(State.RECONNECTING, 60.0)
    assert "unplugged" in device.last_error or "no port" in device.last_error
    n = len(seen)
    time.sleep(0.1)
    assert len(seen) == n
    emulator.call(lambda: emulator.faults.clear())
    assert device.wait_for(lambda: len(seen) > n + 3, 60.0)
    assert device.state is State.STREAMING and device.counters.reconnects == 1 and device.last_error == ""


def test_a_port_that_returns_is_tried_at_once_however_long_it_was_away(bench):
    emulator, device, seen = bench
    device.backoff = Backoff(600.0, cap=600.0)
    device.start()
    device.enable()
    assert device.wait_for(lambda: len(seen) > 3, 60.0)
    emulator.call(lambda: emulator.inject("unplug"))
    assert device.wait_for(State.RECONNECTING, 60.0)
    time.sleep(0.5)
    n = len(seen)
    emulator.call(lambda: emulator.faults.clear())
    assert device.wait_for(lambda: len(seen) > n, 60.0)  # not after ten minutes


def test_silence_is_stale_and_ends(bench):
    emulator, device, seen = bench
    device.start()
    device.enable()
    assert device.wait_for(lambda: len(seen) > 3, 60.0)
    emulator.call(lambda: emulator.inject("silence"))
    assert device.wait_for(State.STALE, 60.0) and device.sample_age > 0.2
    emulator.call(lambda: emulator.faults.clear())
    assert device.wait_for(State.STREAMING, 60.0) and device.counters.reconnects == 0


def test_another_serial_number_is_refused_until_the_right_one_is_back(bench):
    emulator, device, seen = bench
    device.start()
    assert device.wait_for(State.READY, 60.0)
    device.enable()
    assert device.wait_for(lambda: len(seen) > 1, 60.0)
    emulator.call(lambda: (setattr(emulator, "serial", "T2"), emulator.inject("unplug", seconds=0.05)))
    assert device.wait_for(lambda: "expected thermometer T1, found thermometer T2" in device.last_error, 60.0)
    n = len(seen)
    time.sleep(0.2)
    assert len(seen) == n
    emulator.serial = "T1"
    assert device.wait_for(lambda: len(seen) > n, 60.0)


def test_a_mistake_of_the_driver_stops_the_device_and_is_survived(bench):
    emulator, device, seen = bench
    device.start()
    device.enable()
    assert device.wait_for(lambda: len(seen) > 1, 60.0)
    device.mistake = True
    assert device.wait_for(lambda: device.stopped == 1, 60.0)
    assert device.wait_for(lambda: device.counters.reconnects == 1 and device.state is State.STREAMING, 60.0)
    assert "mistake" in device.counters.last_error


def test_gives_up_after_max_attempts(tmp_path):
    device = Thermometer(tmp_path / "nothing", backoff=Backoff(0.01, max_attempts=3, seed=1))
    device.start()
    assert device.wait_for(State.FAILED, 60.0)
    assert "no port" in device.last_error and "gave up after 3 attempts" in device.last_error
    device.close()


def test_backoff_grows_to_its_cap_with_its_jitter():
    backoff = Backoff(0.25, 2.0, 5.0, 0.2, seed=7)
    delays = [backoff.next() for _ in range(10)]
    expected = [min(5.0, 0.25 * 2**k) for k in range(10)]
    assert (
        all(0.8 * e <= d <= 1.2 * e for d, e in zip(delays, expected))
        and len({d / e for d, e in zip(delays, expected)}) == 10
    )
    backoff.reset()
    assert backoff.next() <= 0.3
    with pytest.raises(DeviceError, match="after 1 attempts"):
        limited = Backoff(max_attempts=1)
        limited.next()
        limited.next()


def test_serial_port_says_why(tmp_path):
    with pytest.raises(Disconnected, match="plugged in"):
        SerialPort(tmp_path / "none", 9600)
    port = PtyPort(tmp_path / "port", 57600)
    first = SerialPort(tmp_path / "port", 57600)
    with pytest.raises(Disconnected, match="in use"):
        SerialPort(tmp_path / "port", 57600)
    reader = threading.Thread(target=lambda: (time.sleep(0.05), port.unplug()))
    reader.start()
    with pytest.raises(Disconnected, match="unplugged"):
        first.read(timeout=5.0)
    reader.join()
    with pytest.raises(Disconnected):
        first.write(b"x")
    first.close()
    first.close()
    port.close()


def test_device_clock_follows_drift_through_wraps_without_a_jump():
    """A day of a 24-bit millisecond clock that runs 50 ppm fast, transport 2 to 12 ms late."""
    import random

    rng, clock = random.Random(3), DeviceClock(wrap=2**24 * 1e-3)
    worst, last = 0.0, None
    for k in range(0, 24 * 3600):
        true = 1000.0 + k
        device = (true * (1 + 50e-6) + 123.456) % clock.wrap
        host = clock.to_host(device, true + 0.002 + 0.01 * rng.random())
        if k > 60:
            worst = max(worst, abs(host - true - 0.002))
        assert last is None or host > last
        last = host
    assert worst < 5e-3 and clock.resets == 0 and clock.locked


def test_device_clock_does_not_stick_to_samples_that_were_delayed():
    """A busy machine delivers the first ones 50 ms late. Afterwards no stamp is later than its arrival, and all increase."""
    clock, arrivals = DeviceClock(), [max(1000.0 + 0.01 * k, 1000.2) + 0.002 for k in range(100)]
    stamps = [clock.to_host(50.0 + 0.01 * k, arrival) for k, arrival in enumerate(arrivals)]
    assert all(stamp <= arrival for stamp, arrival in zip(stamps, arrivals, strict=True))
    assert all(a < b for a, b in itertools.pairwise(stamps[20:])) and stamps[-1] == pytest.approx(1000.992, abs=1e-6)


def test_device_clock_starts_anew_when_the_device_restarts():
    clock = DeviceClock()
    for k in range(100):
        clock.to_host(50.0 + k, 1000.0 + k + 0.01)
    assert clock.to_host(0.5, 1200.0) == pytest.approx(1200.0) and clock.resets == 1
