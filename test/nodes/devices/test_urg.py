"""Node `urg` beside an emulated scanner: message, time, health, laser, refusals."""

import math

import numpy as np
import pytest

pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import LaserScan
from std_srvs.srv import SetBool

from hardware.emulation.process import EmulatorProcess
from hardware.urg.device import Scan
from hardware.urg.protocol import Geometry, Window, ranges
from hardware.urg.scene import Room
from nodes.devices.urg import UrgConfig, laser_scan

OK, WARN, ERROR, STALE = (
    level[0] for level in (DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR, DiagnosticStatus.STALE)
)
GEOMETRY = Geometry("URG-04LX", 20, 5600, 1024, 44, 725, 384, 600)


def level(diagnostics):
    return diagnostics()[0]


def test_a_scanner_from_start_to_end(ros):
    """Message as urg_node2's, OK at 10 Hz, laser on request, ERROR within a second of unplugging, back by itself."""
    with EmulatorProcess("urg", "--no-codes") as emulator:
        diagnostics, scans = ros.diagnostics("urg"), ros.listen(LaserScan, "scan")
        process = ros.start(
            "urg",
            serial_port=str(emulator.link),
            frame_id="base_laser",
            publish_intensity=True,
            synchronize_time=True,
            calibrate_time=True,
        )
        ros.transition("urg", "configure")
        ros.until(lambda: level(diagnostics) == STALE, what="STALE while inactive")
        assert not emulator.stats()["laser"] and scans == []
        ros.transition("urg", "activate")
        ros.until(lambda: len(scans) >= 30 and level(diagnostics) == OK, 25.0, "OK")

        first, last = scans[5], scans[29]
        span = stamp(last) - stamp(first)
        assert 24 / span == pytest.approx(10.0, rel=0.01)  # by the device's clock, however late they arrived here
        assert all(b > a for a, b in zip([stamp(m) for m in scans], [stamp(m) for m in scans[1:]], strict=False))
        assert 0.0 < now(ros) - stamp(scans[-1]) < 5.0
        assert last.header.frame_id == "base_laser" and len(last.ranges) == 682 and len(last.intensities) == 0
        assert last.angle_min == pytest.approx(-2.0862, abs=1e-4) and last.angle_max == pytest.approx(2.0923, abs=1e-4)
        assert last.angle_increment == pytest.approx(2 * math.pi / 1024, abs=1e-9)
        assert (last.scan_time, last.time_increment) == (pytest.approx(0.1), pytest.approx(0.1 / 1024))
        assert (last.range_min, last.range_max) == (pytest.approx(0.02), pytest.approx(5.6))
        angles = last.angle_min + last.angle_increment * np.arange(682)
        np.testing.assert_allclose(angles, (np.arange(44, 726) - 384) * 2 * np.pi / 1024, atol=1e-6)
        truth = Room().cast(angles).distance
        assert (abs(np.array(last.ranges) - truth) <= np.where(truth < 1.0, 0.01, 0.01 * truth) + 6e-4).all()

        values = diagnostics()[2]
        assert {
            "state",
            "rate",
            "samples",
            "dropped",
            "crc_errors",
            "timeouts",
            "resyncs",
            "reconnects",
            "last_error",
            "latency_p95_ms",
            "clock_offset_ms",
            "last_byte_to_publish_p95_ms",
            "laser",
        } <= set(values)
        assert values["crc_errors"] == values["reconnects"] == "0" and values["clock_locked"] == "True"

        answer = ros.call(SetBool, "urg/laser", data=False)
        assert answer.success and answer.message == "laser off" and not emulator.stats()["laser"]
        have = len(scans)
        ros.until(lambda: diagnostics()[:2] == (WARN, "laser off on request"), what="WARN")
        assert len(scans) <= have + 1
        assert ros.call(SetBool, "urg/laser", data=True).success and emulator.stats()["laser"]
        ros.until(lambda: len(scans) > have + 3, what="scans again")

        emulator.inject("unplug", 1.0)
        ros.until(lambda: level(diagnostics) == ERROR, what="ERROR")
        have = len(scans)
        ros.until(lambda: len(scans) > have + 3 and int(diagnostics()[2]["reconnects"]) == 1, 15.0, "scans again")
        code, _, output = ros.finish(process)
        assert code == 0 and "Traceback" not in output
        assert "'publish_intensity' is true, but the URG-04LX measures no intensity" in output
        assert not emulator.stats()["laser"]


def test_impossible_bandwidth_is_refused(ros):
    """U8: by the transition, with what would fit."""
    with EmulatorProcess("urg", "--rs232", "115200") as emulator:
        process = ros.start("urg", serial_port=str(emulator.link), encoding=2)
        assert not ros.try_transition("urg", "configure")
        output = ros.finish(process)[2]
    assert "682 points every 0.1 s need 143.5 kbit/s" in output and "serial_baud 250000 or skip 1" in output


def stamp(message):
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def now(ros):
    return 1e-9 * ros.node.get_clock().now().nanoseconds


def test_values_by_rep_117_and_clusters():
    """Error codes are NaN, never millimetres; U9: cluster, skip and sub-range scale angles and times."""
    window = Window(100, 399, 7, 1, 3)
    distances = np.array([0, 6, 19, 1000, 5601, 4000, 20] + [500] * (window.count - 7))
    scan = Scan(distances, ranges(distances, GEOMETRY), window, GEOMETRY, 0, 0.0)
    from builtin_interfaces.msg import Time

    message = laser_scan(scan, Time(sec=7), "laser")
    assert np.isnan(message.ranges[:3]).all() and message.ranges[4] == math.inf
    np.testing.assert_allclose([message.ranges[k] for k in (3, 5, 6)], [1.0, 4.0, 0.02], rtol=1e-6)
    step = 2 * math.pi / 1024
    assert message.angle_min == pytest.approx((100 - 384) * step, abs=1e-6)
    assert message.angle_increment == pytest.approx(7 * step) and len(message.ranges) == 43
    assert message.angle_max == pytest.approx(message.angle_min + 42 * 7 * step, abs=1e-6)
    assert message.time_increment == pytest.approx(7 * 0.1 / 1024) and message.scan_time == pytest.approx(0.2)
    two = Window(44, 725, width=2)
    far = np.full(682, 4095)
    assert laser_scan(
        Scan(far, ranges(far, GEOMETRY, 2), two, GEOMETRY, 0, 0.0), Time(), "laser"
    ).range_max == pytest.approx(4.095)


def test_configuration_that_cannot_work():
    with pytest.raises(ValueError, match="angle_max"):
        UrgConfig(angle_min=0.5, angle_max=0.5)
    defaults = UrgConfig()
    assert (
        defaults.serial_port,
        defaults.serial_baud,
        defaults.ip_address,
        defaults.ip_port,
        defaults.frame_id,
        defaults.angle_min,
        defaults.angle_max,
        defaults.skip,
        defaults.cluster,
        defaults.calibrate_time,
        defaults.synchronize_time,
        defaults.time_offset,
        defaults.error_limit,
        defaults.error_reset_period,
        defaults.diagnostics_tolerance,
        defaults.diagnostics_window_time,
        defaults.publish_intensity,
        defaults.publish_multiecho,
        defaults.encoding,
    ) == (
        "/dev/ttyACM0",
        115200,
        "",
        10940,
        "laser",
        -3.14,
        3.14,
        0,
        1,
        False,
        False,
        0.0,
        4,
        5.0,
        0.05,
        5.0,
        False,
        False,
        "auto",
    )


def test_the_page_names_everything(documentation):
    assert documentation.missing("urg.md", UrgConfig, "nodes/devices/urg.py") == []
