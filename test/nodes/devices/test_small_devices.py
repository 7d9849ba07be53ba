"""Rangefinder and emergency stop: their nodes beside their emulators."""

import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
sys.path.insert(0, str(Path(__file__).parents[2]))  # for what all tests share

from sensor_msgs.msg import Range
from std_msgs.msg import Bool
from witness import Witness

from hardware.emulation.process import EmulatorProcess
from nodes.devices.estop import EstopConfig
from nodes.devices.rangefinder import RangefinderConfig
from nodes.framework.qos import LATCHED

ERROR = 2


def test_rangefinder(ros):
    with EmulatorProcess("rangefinder", "--range", 2.0, seed=1) as emulator:
        process = ros.start("rangefinder", port_name=str(emulator.link), frame_id="front")
        health, ranges = ros.diagnostics("rangefinder"), ros.listen(Range, "rangefinder/range")
        ros.up("rangefinder")
        ros.until(lambda: len(ranges) >= 5, what="ranges")
        message = ranges[-1]
        assert message.range == pytest.approx(2.0, abs=0.006) and message.header.frame_id == "front"
        assert message.radiation_type == Range.ULTRASOUND and (message.min_range, message.max_range) == pytest.approx(
            (0.3, 5.0)
        )
        emulator.set(range=None)
        ros.until(lambda: ranges[-1].range == float("inf"), what="no echo")
        emulator.inject("silence")
        ros.until(lambda: health()[0] == ERROR and "no data" in health()[1], what="ERROR")
        emulator.clear("silence")
        count = len(ranges)
        ros.until(lambda: len(ranges) > count, what="the return")
        code, _, output = ros.finish(process, signal.SIGINT)
        assert code == 0 and "Traceback" not in output, output


def test_emergency_stop(ros):
    with EmulatorProcess("estop") as emulator:
        arrivals = []
        process = ros.start("estop", port_name=str(emulator.link))
        health = ros.diagnostics("estop")
        ros.node.create_subscription(
            Bool, "estop", lambda message: arrivals.append((time.monotonic(), message.data)), LATCHED
        )
        ros.transition("estop", "configure")
        ros.until(lambda: arrivals, what="a first word")
        assert arrivals[-1][1]  # not listened to yet: stop
        ros.transition("estop", "activate")
        ros.until(lambda: not arrivals[-1][1], what="permission")
        late = ros.listen(Bool, "estop", LATCHED)
        ros.until(lambda: late, what="the latched state")
        assert not late[0].data
        emulator.set(pressed=True)
        ros.until(lambda: arrivals[-1][1] and "pressed" in health()[1], what="the stop")
        emulator.set(pressed=False)
        ros.until(lambda: not arrivals[-1][1], what="permission")
        with Witness() as witness:
            permitted = len(arrivals)
            emulator.inject("silence")
            ros.until(lambda: any(data for _, data in arrivals[permitted:]), what="the stop")
            first = next(t for t, data in arrivals[permitted:] if data)
            # 0.1 s of silence; node, emulator and this test may each have waited for a processor.
            assert first - emulator.stats()["last"] < 0.3 + 3.0 * witness.lost
        emulator.clear("silence")
        ros.until(lambda: not arrivals[-1][1], what="permission")
        emulator.kill()
        ros.until(lambda: arrivals[-1][1] and health()[0] == ERROR, what="the stop")
        # It says so again and again: who hears nothing knows that this node is gone.
        count = len(arrivals)
        ros.until(lambda: len(arrivals) > count + 5, what="repetition")
        code, _, output = ros.finish(process, signal.SIGINT)
        assert code == 0 and "Traceback" not in output, output


@pytest.mark.parametrize("node, config", [("rangefinder", RangefinderConfig), ("estop", EstopConfig)])
def test_the_page_names_everything(documentation, node, config):
    assert documentation.missing(f"{node}.md", config, f"nodes/devices/{node}.py") == []
