"""The driver on the emulated sensor: through a real pseudo-terminal, in two processes, and what happens when it is disturbed."""

import math
import time

import numpy as np
import pytest
import serial
from urg_bench import GEOMETRY, PATIENCE, recovery, stamps_come_true, wrong_scans

from hardware.link import DeviceClock, State
from hardware.urg.device import Refused, UrgSettings
from hardware.urg.protocol import TIMER_PERIOD, Reply, ReplyStream, Window
from hardware.urg.scene import Room
from hardware.urg.sensor import data_lines, reply

INCREMENT = 2 * math.pi / 1024


FAST = ("--rpm", "2400")  # four times as many scans a second, where a test counts them


def raw(emulator, line, baud=115200):
    """One request by hand."""
    with serial.Serial(str(emulator.link), baud, timeout=0.3) as port:
        port.write(line)
        return port.read(4096)


# ---- start and data ------------------------------------------------------------------------------


def test_from_power_up_to_a_scan_of_the_room(emulate, drive):
    """U4: 682 points, angles, a corner within noise, not mirrored; the laser goes off at the end."""
    emulator = emulate("--no-codes")
    driver = drive(emulator.link).run()
    scan, _ = driver.more(3)[-1]
    assert (driver.identity.model, driver.identity.serial) == ("URG-04LX", "H0614967") and driver.usb
    assert scan.window == Window(44, 725) and len(scan.ranges) == 682 and scan.ranges.dtype == np.float32
    angles = scan.geometry.angle(44) + INCREMENT * np.arange(682)
    np.testing.assert_allclose(angles, (np.arange(44, 726) - 384) * INCREMENT, atol=1e-6)
    truth = Room().cast(angles).distance
    noise = np.where(truth < 1.0, 0.01, 0.01 * truth) + 0.0006  # the specified accuracy, and half a millimetre
    assert (abs(scan.ranges - truth) <= noise).all()
    mirrored = Room().cast(-angles).distance
    assert (abs(scan.ranges - mirrored) > noise).sum() > 50
    corner = np.argmin(abs(angles - math.pi / 4))
    assert abs(scan.ranges[corner] - 1.6 * math.sqrt(2)) < 0.0245 and scan.ranges[corner] > scan.ranges[corner - 60]
    assert emulator.stats()["laser"]
    assert driver.disable() and driver.state is State.READY and not emulator.stats()["laser"]
    driver.enable()
    driver.more(2)
    driver.close()
    assert not emulator.stats()["laser"] and driver.counters.crc_errors == driver.counters.timeouts == 0


def test_strict_rs232_is_found_at_its_rate_and_changed(emulate, drive):
    emulator = emulate("--rs232", "57600")
    driver = drive(emulator.link, baud=250_000).run()
    assert driver.usb is False and emulator.stats()["rate"] == 250_000
    got = driver.more(8)
    assert got[-1][0].timer - got[0][0].timer > 600 and driver.window.width == 3
    assert wrong_scans(got, emulator) == 0
    assert driver.counters.crc_errors == 0


def test_impossible_bandwidth_is_refused(emulate, drive):
    """U8: 10 full scans a second do not go through 115,200 baud; half of them do."""
    emulator = emulate("--rs232", "115200")
    driver = drive(emulator.link)
    driver.start()
    assert driver.wait_for(lambda: bool(driver.refusal), PATIENCE)
    assert "682 points every 0.1 s need 143.5 kbit/s" in driver.refusal and "has 115.2" in driver.refusal
    assert "serial_baud 250000 or skip 1" in driver.refusal
    driver.close()
    half = drive(emulator.link, skip=1).run()
    got = half.more(2)
    assert half.window == Window(44, 725, 1, 1, 3) and abs(np.diff([s.timer for s, _ in got]) - 200).max() <= 1


@pytest.mark.parametrize("before", [b"SCIP2.0\n", b"SCIP2.0\nTM0\n", b"SCIP2.0\nBM\nMD0044072501000\n", b"half a li"])
def test_whatever_the_last_client_left(fast, drive, before):
    """SCIP 2.0 already, adjust mode, a running stream, a broken line."""
    time.sleep(0.2)
    raw(fast, before)
    driver = drive(fast.link).run()
    assert wrong_scans(driver.more(2), fast) == 0


@pytest.mark.parametrize(
    "settings, width",
    [
        (dict(cluster=3, encoding="2"), 2),
        (dict(angle_min=-0.5, angle_max=0.25), 3),
        (dict(cluster=99, skip=1, angle_max=1.0), 3),
    ],
)
def test_windows_match_a_reference_decode(fast, drive, settings, width):
    """U9: cluster, skip, sub-range."""
    driver = drive(fast.link, **settings).run()
    scan, _ = driver.more(1)[0]
    low, high, cluster = settings.get("angle_min", -3.14), settings.get("angle_max", 3.14), settings.get("cluster", 1)
    steps = [s for s in range(44, 726) if low <= (s - 384) * INCREMENT <= high]
    turn = np.rint(1000 * Room().cast((np.array(steps) - 384) * INCREMENT).distance).astype(int).tolist()
    groups = [turn[k : k + cluster] for k in range(0, len(turn), cluster)]
    assert scan.distances.tolist() == [min(g) for g in groups] and driver.window.width == width
    assert scan.window.first == steps[0] and scan.window.last == steps[-1]
    if settings.get("skip"):
        timers = [s.timer for s, _ in driver.more(8)]
        assert abs(np.median(np.diff(timers)) - 50) <= 1  # an emulator that a busy machine holds up loses turns


def test_scip_over_tcp(emulate, drive):
    emulator = emulate("--tcp", "0")
    driver = drive("", ip_address="127.0.0.1", ip_port=emulator.stats()["tcp_port"]).run()
    assert wrong_scans(driver.more(3), emulator) == 0
    assert recovery(driver, emulator, lambda: (emulator.inject("unplug", 0.5), time.sleep(0.5))) < 4.0


def test_the_world_of_a_simulated_robot(emulate, drive, tmp_path):
    """Ranges follow the robot: the scanner turns with the joint that carries it."""
    from hardware.emulation.world import SharedWorld

    mjcf = """<mujoco><worldbody><geom type="box" pos="2.1 0 0" size="0.1 9 1"/>
      <body><joint name="turn" type="hinge" axis="0 0 1"/><geom size="0.1"/><site name="urg" pos="0.3 0 0"/></body>
      </worldbody></mujoco>"""
    world = SharedWorld.create(tmp_path / "world", ["turn"], mjcf)
    world.publish(0.0, [0.0], [0.0])
    emulator = emulate("--world", tmp_path / "world", "--no-codes")
    driver = drive(emulator.link).run()
    assert driver.more(1)[0][0].ranges[340] == pytest.approx(1.7, abs=0.02)
    world.publish(0.1, [0.5], [0.0])
    scan, _ = driver.more(3)[-1]
    assert scan.ranges[340] == pytest.approx(2.0 / math.cos(0.5) - 0.3, abs=0.025)
    left, right = 340 + 163, 340 - 163  # 1 rad to either side: left of a scanner turned left there is no wall
    assert np.isfinite(scan.ranges[right]) and not np.isfinite(scan.ranges[left])


# ---- time (U5, U10) ------------------------------------------------------------------------------


@pytest.mark.parametrize("synchronised", [False, True])
def test_stamps_are_the_time_of_the_first_ray(emulate, drive, synchronised):
    """U5: within 3 ms of the truth, through the wrap of the timer. A busy machine delays single arrivals, not the clock."""
    emulator = emulate()
    emulator.set(timer=2**24 - 2000)
    # A sensor that thinks for 5 ms: only a measured latency can know.
    emulator.set(processing=0.005 if synchronised else 0.0)
    driver = drive(emulator.link, calibrate_time=synchronised, synchronize_time=synchronised).run()
    got = driver.more(40)
    timers = [scan.timer for scan, _ in got]
    assert min(timers) < 2000 and max(timers) > 2**24 - 2000  # it did wrap
    # Until an arrival that nothing delayed has been seen, stamps are put right by as much as that one came sooner.
    steps = np.diff([t for _, t in got])[20:]
    ticks = 1e-3 * (np.diff(timers) % 2**24)[20:]
    assert np.percentile(abs(steps - ticks), 90) < 0.002 and abs(steps - ticks).max() < 0.01
    assert stamps_come_true(driver, emulator, 0.003)
    assert driver.clock.resets <= 3 and driver.clock.locked


def test_a_jump_of_the_timer_is_survived(fast, drive):
    driver = drive(fast.link, stale_timeout=5.0).run()
    driver.more(8)
    fast.inject("ts_wrap", before=1.0)
    got = driver.more(25)
    assert stamps_come_true(driver, fast, 0.01)
    assert driver.counters.reconnects == 0
    assert all(t < scan.arrival for scan, t in got) and (np.diff([t for _, t in got]) > 0).all()


@pytest.mark.parametrize("skew", [-50e-6, 50e-6])
def test_a_day_of_drift(skew):
    """U10: 24 h of scans of a sensor whose crystal is off by 50 ppm, with delays of up to 20 ms: the stamps hold 5 ms."""
    clock, rng = DeviceClock(wrap=TIMER_PERIOD), np.random.default_rng(1)
    t = 1000.0 + np.arange(0.0, 86_400.0, 0.5)
    timer = np.floor(1e3 * ((1.0 + skew) * t % TIMER_PERIOD)) / 1e3
    arrival = t + rng.exponential(0.002, len(t)).clip(0.0, 0.02)
    stamps = np.array([clock.to_host(d, a) for d, a in zip(timer.tolist(), arrival.tolist(), strict=True)])
    assert abs(stamps - t).max() < 0.005 and abs((stamps - t)[100:]).max() < 0.0035
    assert len(clock._minima) <= 61 and clock.resets == 0 and (np.diff(stamps) > 0).all()


def offline(driver, bytes_per_second):
    """The driver as if it were connected to a line of that speed (inf: USB), for replies handed to it."""
    driver._port = type(
        "Port", (), {"transmission_time": lambda self, n: n / bytes_per_second, "close": lambda self: None}
    )()
    driver.usb, driver.window, driver.geometry = math.isinf(bytes_per_second), Window(44, 725), GEOMETRY
    driver._forget_time()


def test_the_time_on_the_wire_is_no_part_of_a_stamp(drive):
    """At 250,000 baud a scan is 85 ms under way."""
    driver = drive("/nowhere")
    offline(driver, 25_000)
    begin = time.monotonic() - 10.0
    for k in range(20):
        step_0 = begin + 0.1 * k
        driver._take(
            Reply("MD0044072501000", "99", time=1000 + 100 * k, distances=np.full(682, 1000)),
            step_0 + 0.0708 + 2137 / 25_000,
        )
        assert driver.got[-1][1] == pytest.approx(step_0 + 44 / 10_240, abs=1e-3)


def test_a_clock_that_is_lost_while_it_is_calibrated_is_found_again_from_arrivals(drive):
    """The sensor's timer jumped back in the middle of a calibration: the scan is stamped by when it came."""
    driver = drive("/nowhere")
    offline(driver, math.inf)
    driver._calibration = [0.07]
    driver.clock.reset()
    assert driver._to_host(1.0, 50.0) == pytest.approx(50.0 - driver._latency)


def test_memory_is_flat_over_many_scans(drive):
    """U10: thousands of scans through the driver's own handling of the stream."""
    import tracemalloc

    driver = drive("/nowhere")
    offline(driver, math.inf)
    driver.on_sample = lambda scan, t: None
    values, timer, now = np.full(682, 1000), 0, 0.0

    def many(n):
        nonlocal timer, now
        for _ in range(n):
            timer, now = (timer + 100) % 2**24, now + 0.1
            for each in driver._replies.feed(reply("MD0044072501000", "99", data_lines(timer, values, 3))):
                driver._take(each, now)

    many(512)  # histories full
    tracemalloc.start()
    driver.rate.clear()  # its window is of real time, in which these scans come much too fast
    many(100)
    before = tracemalloc.get_traced_memory()[0]
    driver.rate.clear()
    many(1000)
    driver.rate.clear()
    growth = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert driver.counters.samples == 1612 and growth < 30_000


# ---- disturbances (U3, U6, U7) -------------------------------------------------------------------


def test_damaged_blocks_cost_only_their_scans(fast, drive):
    """U6: 1 % of all blocks damaged: nothing wrong is delivered, at least 98 % of the good scans are."""
    driver = drive(fast.link, stale_timeout=5.0).run()
    fast.inject("block_sum", p=0.01)
    before = fast.stats()["port"]["overflow"]
    time.sleep(0.3)
    have, begin = len(driver.got), time.monotonic() - 1.0
    first = driver.more(1)[0][0].timer
    driver.more(70)
    stats = fast.stats()
    got = driver.got[have:]
    last = got[-1][0].timer
    sent = {timer for timer, step_0, _ in stats["scans"] if first <= timer <= last and step_0 > begin}
    good = sent - set(stats["damaged"])
    kept = {scan.timer for scan, _ in got}
    assert len(good) < len(sent) > 50, "nothing was damaged"
    # A driver that gets no processor for a tenth of a second lets the terminal's buffer spill: scans of 2 kB, cut at both ends.
    spilled = -(-(stats["port"]["overflow"] - before) // 1000)
    assert wrong_scans(got, fast) == 0 and len(kept & good) >= 0.98 * len(good) - spilled
    assert driver.counters.crc_errors >= len(sent) - len(good) - 1 and driver.counters.reconnects == 0


def test_damage_in_large_numbers():
    """U6 on 3000 scans: block sums, lost line feeds and noise between the scans."""
    from hardware.emulation.faults import Faults
    from hardware.urg.emulator import UrgEmulator

    class Nowhere:
        baud, stats = None, {}

        def close(self):
            pass

    emulator = UrgEmulator(Nowhere(), Room(), faults=Faults(7), scip1=False)
    for name, p in (("block_sum", 0.01), ("lost_lf", 0.05)):
        emulator.inject(name, p=p)
    rng, reader, kept = np.random.default_rng(8), ReplyStream(), {}
    for timer in range(3000):
        values = rng.integers(0, 5600, 682)
        kept[timer] = values
        emulator.sensor.history.append((timer, 0.0, 0))
        frame = emulator._damage(reply("MD0044072501000", "99", data_lines(timer, values, 3)))
        noise = rng.bytes(10) if timer % 50 == 0 else b""
        for got in reader.feed(noise + frame):
            assert (got.distances == kept.pop(got.time)).all()
    damaged = set(emulator.damaged)
    lost = set(kept) - damaged
    assert 600 < len(damaged) and len(lost) <= 0.02 * (3000 - len(damaged))


def test_unplugged_and_plugged_in_again(emulate, drive):
    """U7, and who comes back must be the same."""
    emulator = emulate(*FAST)
    driver = drive(emulator.link, stale_timeout=5.0).run()
    assert recovery(driver, emulator, lambda: (emulator.inject("unplug", 0.6), time.sleep(0.6))) < 3.0
    assert driver.counters.reconnects == 1 and "plugged" in driver.losses[0]
    assert (np.diff([t for _, t in driver.got]) > 0).all()
    emulator.set(serial="H9999999")
    emulator.inject("unplug", 0.3)
    assert (
        driver.wait_for(lambda: "H9999999" in driver.last_error, PATIENCE)
        and "plug the same device in" in driver.last_error
    )


def test_a_reboot_into_scip_1_1_without_a_trace_on_the_line(emulate, drive):
    """U7: the sensor's power fails, the USB port stays."""
    emulator = emulate(*FAST)
    driver = drive(emulator.link).run()
    driver.more(3)
    assert recovery(driver, emulator, lambda: (emulator.inject("power_cycle", 0.5), time.sleep(0.5))) < 3.0
    assert driver.counters.reconnects >= 1 and stamps_come_true(driver, emulator, 0.01)


def test_broken_hardware_is_reported_reset_and_used_again(fast, drive):
    """U3: 50-97 is a fault until the next scan; more than error_limit of them lead to a reconnection."""
    driver = drive(fast.link, stale_timeout=5.0, error_reset_period=60.0).run()
    fast.inject("laser_fault", code=52)
    assert driver.wait_for(lambda: "hardware" in driver.faults, PATIENCE)
    assert "hardware trouble" in driver.faults["hardware"] or "laser is faulty" in driver.faults["hardware"]
    assert driver.wait_for(lambda: driver.counters.reconnects >= 1, PATIENCE)  # five resets did not help
    assert "; 5 errors within 60 s" in driver.losses[0]
    fast.clear("laser_fault")
    driver.more(2)
    assert driver.faults == {}


def test_a_check_is_waited_for(fast, drive):
    """U3: 21-49 is a warning, no reason to reconnect; 98 ends it."""
    driver = drive(fast.link, stale_timeout=5.0).run()
    fast.inject("laser_fault", code=21)
    assert driver.wait_for(lambda: "checking" in driver.warnings, PATIENCE) and "(21)" in driver.warnings["checking"]
    time.sleep(0.6)
    assert driver.state is State.STREAMING and driver.sample_age == 0.0
    fast.clear("laser_fault")
    driver.more(2)
    assert driver.warnings == {} and driver.counters.reconnects == driver.counters.timeouts == 0


def test_refusals_are_said_in_words(emulate, drive):
    """U3: what the sensor answers to the driver's own requests reaches the reader."""
    emulator = emulate("--scip", "2.0")
    emulator.set(firmware_update=True)
    driver = drive(emulator.link)
    driver.start()
    assert driver.wait_for(lambda: "firmware update mode" in driver.last_error, PATIENCE)
    emulator.set(firmware_update=False)
    driver.enable()
    driver.more(1)
    driver.disable()
    emulator.inject("status", code="0A")
    driver.enable()
    assert driver.wait_for(lambda: any("could not make the reply (0A)" in loss for loss in driver.losses), PATIENCE)
    driver.more(1)


def test_every_status_of_a_stream_is_reported(drive):
    """U3: 21-49 as warnings, 50-97 and refusals as faults, each with its number; 98 ends a warning."""
    driver = drive("/nowhere", error_limit=1000)
    driver.geometry, driver.window = GEOMETRY, Window(44, 725)
    resets = []
    driver._ask, driver._find = lambda command, parameters="": resets.append(command), lambda: None
    driver._forget_time = lambda: None
    for code in range(21, 50):
        driver._take(Reply("MD0044072501000", f"{code}"), 0.0)
        assert f"({code})" in driver.warnings["checking"]
    driver._take(Reply("MD0044072501000", "98"), 0.0)
    assert driver.warnings == {} and resets == []
    codes = [f"{n:02}" for n in (*range(1, 8), *range(50, 98))] + ["0A"]
    for code in codes:
        driver._take(Reply("MD0044072501000", code), 0.0)
        assert f"({code})" in driver.faults["hardware"] and "unknown" not in driver.faults["hardware"]
    assert resets == ["RS"] * len(codes)


def test_a_line_that_changes_its_rate(emulate, drive):
    """wrong_baud: silence, until both agree again."""
    emulator = emulate("--rs232", "250000")
    driver = drive(emulator.link, baud=250_000, angle_min=-0.5, angle_max=0.5).run()
    emulator.inject("wrong_baud", baud=115200)
    assert driver.wait_for(lambda: driver.counters.timeouts > 0 and driver.state is not State.STREAMING, PATIENCE)
    emulator.clear("wrong_baud")
    assert recovery(driver, emulator, lambda: None) < 10.0


def test_a_slow_motor_shows_in_the_rate(fast, drive):
    driver = drive(fast.link).run()
    fast.inject("motor_slow", rpm=1920)
    got = driver.more(20)
    assert np.median(np.diff([t for _, t in got[3:]])) == pytest.approx(0.03125, abs=0.001)


def test_laser_on_request(fast, drive):
    driver = drive(fast.link, stale_timeout=5.0).run()
    assert driver.laser(False, PATIENCE) and not fast.stats()["laser"]
    have = len(driver.got)
    time.sleep(0.6)
    assert len(driver.got) == have and driver.state is State.STREAMING and driver.sample_age == 0.0
    assert driver.laser(True, PATIENCE) and fast.stats()["laser"]
    driver.more(2)
    assert driver.counters.timeouts == driver.counters.reconnects == 0


COMMON = {
    "delay": (dict(by=0.05), lambda c: True),
    "jitter": (dict(by=0.03), lambda c: True),
    "corrupt": (dict(p=0.3), lambda c: c.crc_errors + c.resyncs > 0),
    "truncate": (dict(p=0.3), lambda c: c.crc_errors + c.resyncs > 0),
    "garbage": (dict(p=0.5), lambda c: c.resyncs > 0),
    "duplicate": (dict(p=0.5), lambda c: c.dropped > 0),
}


def test_common_faults_one_after_the_other(fast, drive):
    """None delivers a wrong scan, each is counted, and scans go on after each."""
    driver = drive(fast.link).run()
    for name, (parameters, counted) in COMMON.items():
        fast.inject(name, **parameters)
        driver.more(4)
        assert driver.wait_for(lambda counted=counted: counted(driver.counters), PATIENCE), (
            name,
            driver.counters.as_dict(),
        )
        fast.clear(name)
        driver.more(2)
    fast.inject("silence")
    assert driver.wait_for(
        lambda: driver.state in (State.STALE, State.RECONNECTING) and driver.counters.timeouts > 0, PATIENCE
    )
    fast.clear("silence")
    driver.more(2)
    fast.inject("overtemp")
    assert driver.wait_for(lambda: "hardware" in driver.faults, PATIENCE)
    fast.clear("overtemp")
    driver.more(2)
    assert wrong_scans(driver.got, fast) == 0 and (np.diff([t for _, t in driver.got]) > 0).all()


def test_no_port(drive):
    driver = drive("/dev/no-such-port")
    driver.start()
    assert driver.wait_for(lambda: "no port /dev/no-such-port" in driver.last_error, PATIENCE)
    assert UrgSettings().port == "/dev/ttyACM0" and issubclass(Refused, Exception)
