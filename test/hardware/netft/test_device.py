"""The link to a Net F/T before an emulated one: nothing lost, everything counted, the stream regained."""

import os
import time

import NetFT
import numpy as np
import pytest

from hardware import show_wrench
from hardware.emulation.process import EmulatorProcess
from hardware.link import Backoff, State
from hardware.netft.device import NetFtDevice

IP = f"127.36.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
WRENCH = np.array([1.5, -2.25, 3.0, 0.125, -0.5, 0.75])
PATIENCE = 90.0


@pytest.fixture(scope="module")
def process():
    with EmulatorProcess("netft", "--ip", IP, "--http-port", 8080, "--wrench", *WRENCH, seed=4) as emulator:
        yield emulator


@pytest.fixture
def box(process):
    process.clear()
    process.set(wrench=WRENCH.tolist(), amplitude=[0.0] * 6, threshold=None)
    yield process
    process.clear()


class Listener:
    """What a device hands over."""

    def __init__(self):
        self.blocks, self.verdicts, self.device = [], [], None

    def sample(self, block, t):
        assert t == block.t[-1]
        self.blocks.append((block, time.monotonic()))

    def valid(self, valid, reason, t):
        self.verdicts.append((valid, reason, t, self.device.last_sample, self.device._arrived))

    @property
    def t(self):
        return np.concatenate([block.t for block, _ in self.blocks])

    @property
    def wrench(self):
        return np.concatenate([block.wrench for block, _ in self.blocks])


@pytest.fixture
def streaming():
    """A function that starts a device and waits for its first samples."""
    devices = []

    def start(**options):
        listener = Listener()
        device = listener.device = NetFtDevice(
            IP,
            **{"rate": 1000, "http_port": 8080, **options},
            on_sample=listener.sample,
            on_valid=listener.valid,
            backoff=Backoff(0.1, cap=0.3, seed=0),
            stale_timeout=0.05,
        )
        devices.append(device)
        device.start()
        device.enable()
        assert device.wait_for(lambda: device.counters.samples > 100 and device.valid, PATIENCE), device.last_error
        return device, listener

    yield start
    for device in devices:
        device.close()


def test_wrenches_in_si_with_their_times(box, streaming):
    device, listener = streaming()
    assert device.wait_for(lambda: device.counters.samples > 1000, PATIENCE)
    device.close()
    assert device.identity.serial == "FT00001" and device.nominal_rate == 1000.0
    np.testing.assert_allclose(listener.wrench, np.tile(WRENCH, (len(listener.t), 1)), atol=1e-6)
    # The sensor's own counter gives the spacing, however the datagrams were delayed; the clock's slew is below 1e-3.
    steps = np.diff(listener.t)
    assert (steps > 0).all() and abs(np.median(steps[200:]) - 1e-3) < 2e-6
    # Stamps lie before the arrival, by little at best.
    ages = np.array([now - block.t[-1] for block, now in listener.blocks])
    assert ages.min() > -1e-3 and np.percentile(ages, 10) < 2e-3


def account_of(box, device):
    """(what the network did, what the driver counted)."""
    hit = box.stats()["faults"]
    did = tuple(hit.get(name, 0) for name in ("udp_loss", "reorder", "dup", "seq_reset"))
    c = device.counters
    return np.array(did), np.array([c.dropped, c.late, c.duplicates, c.restarts])


def test_counters_equal_what_was_injected(box, streaming):
    """F4. All at once, and each alone."""
    device, _ = streaming()
    for faults in (["udp_loss"], ["reorder"], ["dup"], ["udp_loss", "reorder", "dup"]):
        for _attempt in range(3):
            repeated = device.counters.repeated_requests
            did0, counted0 = account_of(box, device)
            for fault in faults:
                box.inject(fault, p=0.05)
            n = device.counters.samples
            assert device.wait_for(
                lambda: device.counters.samples > n + 400 and (account_of(box, device)[0] - did0)[:3].sum() > 10,
                PATIENCE,
            )
            for fault in faults:
                box.clear(fault)
            n = device.counters.samples
            assert device.wait_for(lambda: device.counters.samples > n + 100, PATIENCE)
            did, counted = account_of(box, device)
            # Where this machine stood still for 50 ms the stream was asked for anew, which ends an account: once more.
            if device.counters.repeated_requests == repeated:
                break
        else:
            pytest.fail("the stream was interrupted in each of three attempts")
        np.testing.assert_array_equal(did - did0, counted - counted0, f"{faults}")
        assert (did - did0)[:3].sum() > 10


def test_seven_kilohertz_without_loss_at_little_cost(box, streaming):
    """F5, shortened: every record that was sent is handed on, for less than a quarter of a core."""
    device, listener = streaming(rate=7000)
    n, cpu = device.counters.samples, time.process_time()
    began = time.monotonic()
    assert device.wait_for(lambda: device.counters.samples >= n + 14_000, 40)
    cpu, seconds = (time.process_time() - cpu), time.monotonic() - began
    assert device.counters.dropped == device.counters.malformed == 0
    device.disable()
    device.close()
    # 2 s of stream.
    assert cpu / 2.0 < 0.25, f"{cpu / 2.0:.2f} of a core over {seconds:.1f} s"
    if device.counters.repeated_requests == 0:
        assert np.median(np.diff(listener.t)) == pytest.approx(1 / 7000, rel=0.01)
    # Blocks, not single records: several per wake-up.
    assert np.mean([len(block.t) for block, _ in listener.blocks]) > 4


def test_one_kilohertz_is_delivered_whole(box, streaming):
    """F5: 99.9 % of the records reach the link, at the rate within 1 %. 60 s with REFIT_RDT_SECONDS=60; in the suite 3."""
    seconds = float(os.environ.get("REFIT_RDT_SECONDS", "3"))
    device, listener = streaming(rate=1000)
    first, n, cpu, began = listener.blocks[-1][0].t[-1], device.counters.samples, time.process_time(), time.monotonic()
    assert device.wait_for(lambda: device.counters.samples >= n + 1000 * seconds, 2.0 * seconds + 30.0)
    cpu, wall = time.process_time() - cpu, time.monotonic() - began
    t = np.concatenate([block.t for block, _ in listener.blocks])
    t = t[t > first]
    device.close()
    print(f"{len(t)} records in {np.ptp(t):.1f} s, {device.counters.dropped} lost, {cpu / wall:.3f} of a core")
    assert device.counters.dropped <= 1e-3 * len(t) and device.counters.malformed == 0
    if device.counters.repeated_requests == 0:  # else the machine stood still, and the sensor was asked anew
        assert (len(t) - 1) / np.ptp(t) == pytest.approx(1000.0, rel=0.01)


def test_buffered_mode_hands_over_the_same(box, streaming):
    device, listener = streaming(rate=7000, buffered=True, buffer_size=20)
    assert device.wait_for(lambda: device.counters.samples > 4000, PATIENCE)
    device.close()
    assert device.counters.dropped == 0
    np.testing.assert_allclose(listener.wrench[-1], WRENCH, atol=1e-6)
    assert (np.diff(listener.t) > 0).all()


def test_stolen_client_is_regained(box, streaming):
    """F6: by a fault, and by the unmodified client that takes the stream for itself."""
    device, listener = streaming()
    for steal in (lambda: box.inject("client_stolen"), _take_the_stream):
        gaps = []
        for _ in range(3):  # of which the best counts, as this machine may be busy elsewhere
            n, repeated = device.counters.samples, device.counters.repeated_requests
            steal()
            assert device.wait_for(lambda: device.counters.repeated_requests > repeated, PATIENCE)
            assert device.wait_for(lambda: device.counters.samples > n + 200 and device.valid, PATIENCE)
            box.clear()
            gaps.append(np.diff(listener.t[n - 50 :]).max())
            if gaps[-1] <= 0.2:
                break
        assert min(gaps) <= 0.2
        assert "another client" in device.warnings["stream"]
    assert device.counters.reconnects == 0


def _take_the_stream():
    thief = NetFT.Sensor(IP)
    thief.startStreaming(handler=False)
    for _ in range(3):
        thief.receive()
    thief.sock.close()


def test_validity_falls_with_the_first_saturated_sample_and_after_20_ms_of_silence(box, streaming):
    """F10."""
    device, listener = streaming()
    delays = []
    for fault in ("saturate", "silence"):
        for _ in range(3):
            count = len(listener.verdicts)
            box.inject(fault)
            assert device.wait_for(lambda: len(listener.verdicts) > count, PATIENCE)
            valid, reason, t, sample, arrived = listener.verdicts[count]
            assert not valid and ("exceeds" if fault == "saturate" else "No sample") in reason
            box.clear()
            assert device.wait_for(lambda: device.valid, PATIENCE)
            if fault == "silence":
                # Not before 20 ms of silence, and then at once.
                assert t - arrived >= 0.02
                delays.append(t - arrived - 0.02)
            else:
                # The verdict comes with the block, before it is handed on.
                block, handed = next((b, now) for b, now in listener.blocks if b.saturated.any() and now >= t)
                assert handed >= t
                delays.append(t - block.t[np.argmax(block.saturated)])
        # The best of three: this machine may be busy elsewhere.
        assert min(delays) <= (0.02 if fault == "saturate" else 0.005)
        delays.clear()
    # It rises only after RECOVERY without a reason against it.
    falls, rises = ([v[2] for v in listener.verdicts if v[0] is b] for b in (False, True))
    assert all(min(r - f for r in rises if r > f) >= device.RECOVERY for f in falls[:-1])


def test_status_bits_and_a_stream_that_begins_anew(box, streaming):
    device, _ = streaming()
    box.inject("status_bit", bit=28)
    assert device.wait_for(lambda: "analog board" in device.faults.get("status", "") and not device.valid, PATIENCE)
    box.clear()
    assert device.wait_for(lambda: not device.faults and device.valid, PATIENCE)
    box.inject("overtemp")
    assert device.wait_for(lambda: "temperature" in device.faults.get("status", ""), PATIENCE)
    box.clear()
    box.set(threshold=1.0)
    assert device.wait_for(lambda: "condition" in device.warnings, PATIENCE)
    box.set(threshold=None)
    device.reset_latch()
    assert device.wait_for(lambda: "condition" not in device.warnings and device.valid, PATIENCE)
    n, dropped = device.counters.samples, device.counters.dropped
    box.inject("seq_reset")
    assert device.wait_for(lambda: device.counters.restarts >= 1, PATIENCE)
    assert device.wait_for(lambda: device.counters.samples > n + 200, PATIENCE)
    assert device.counters.dropped == dropped


def test_units_changed_under_way_are_noticed_and_followed(box, streaming):
    device, listener = streaming()
    box.inject("units_change", force="lbf", torque="lbf-in")
    assert device.wait_for(lambda: device.counters.reconnects == 1 and device.valid, PATIENCE)
    assert "N/N-m to lbf/lbf-in" in device.counters.last_error
    n = len(listener.blocks)
    assert device.wait_for(lambda: len(listener.blocks) > n + 50, PATIENCE)
    np.testing.assert_allclose(listener.blocks[-1][0].wrench[-1], WRENCH, rtol=2e-6)
    box.inject("units_change", force="N", torque="N-m")
    assert device.wait_for(lambda: device.counters.reconnects == 2, PATIENCE)


@pytest.mark.parametrize("fault, seconds", [("unplug", 1.2), ("power_cycle", 0.4), ("silence", 0.3)])
def test_back_after(box, streaming, withheld, fault, seconds):
    """F11: publishing within 2 s of the return, less what both processes waited for a core; nothing old, stamps increasing."""
    device, listener = streaming()
    verdicts = len(listener.verdicts)
    began = time.monotonic() - withheld() - withheld(box.pid)
    box.inject(fault, seconds)
    # What a busy machine holds up comes late, but with stamps that leave no gap.
    assert device.wait_for(
        lambda: np.diff(listener.t).max() > 0.8 * seconds and device.state is State.STREAMING and device.valid, PATIENCE
    )
    back = time.monotonic() - withheld() - withheld(box.pid) - began - seconds
    assert back <= 2.0
    assert any(not verdict[0] for verdict in listener.verdicts[verdicts:])
    t = listener.t
    assert (np.diff(t) > 0).all()
    gap = np.argmax(np.diff(t))
    assert t[gap + 1] - t[gap] > 0.8 * seconds
    np.testing.assert_allclose(listener.wrench[gap + 1], WRENCH, atol=1e-6)


def test_another_sensor_in_its_place_is_refused(box, streaming):
    device, _ = streaming()
    ip = IP.rpartition(".")[0] + ".254"
    with EmulatorProcess("netft", "--ip", ip, "--http-port", 8080, "--serial", "FT00002") as other:
        other.set(wrench=[0.0] * 6)
        device.address = ip
        box.inject("unplug", 1.1)
        assert device.wait_for(lambda: "expected" in device.last_error and "FT00002" in device.last_error, PATIENCE)
        assert not device.valid


def test_safe_stop_is_confirmed_by_silence(box, streaming):
    device, listener = streaming()
    assert device.disable(5.0) and device.state is State.READY
    n = len(listener.blocks)
    time.sleep(0.1)
    assert len(listener.blocks) == n and not device.valid


def test_a_look_without_ros(box, capsys):
    assert show_wrench.main(["netft", IP, "--http-port", "8080", "--seconds", "0.3"]) == 0
    said = capsys.readouterr().out
    assert "serial FT00001" in said and "1000 Hz promised" in said and "-2.2500  +- 0.0000 N, rated 330" in said
    assert show_wrench.main(["serial", "/nowhere"]) == 2


@pytest.mark.hardware
def test_a_real_sensor():
    """A Net F/T at REFIT_NETFT_ADDRESS, at rest: who it is, 2 s at 1 kHz without loss, a stop that holds."""
    address = os.environ.get("REFIT_NETFT_ADDRESS")
    if not address:
        pytest.skip("REFIT_NETFT_ADDRESS is not set: the address of a Net F/T")
    listener = Listener()
    device = listener.device = NetFtDevice(
        address, rate=1000, on_sample=listener.sample, on_valid=listener.valid, stale_timeout=0.05
    )
    device.start()
    device.enable()
    try:
        assert device.wait_for(lambda: device.counters.samples > 2000, 10.0), device.last_error
        assert device.identity.serial and device.counters.dropped == 0 and device.valid
        assert device.rate.rate(time.monotonic()) == pytest.approx(device.nominal_rate, rel=0.01)
        assert (np.abs(listener.wrench) < device.rated).all() and listener.wrench.std(axis=0).max() < 1.0
        assert device.disable(5.0)
    finally:
        device.close()
