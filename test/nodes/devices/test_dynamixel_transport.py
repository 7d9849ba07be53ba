"""The dynamixel node with the maker's library on the bus: the same topics, and the same return after an unplugged adapter."""

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("dynamixel_sdk")

from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from hardware.emulation.process import EmulatorProcess
from nodes.framework.qos import COMMAND, STATE

SERVOS = [{"id": 1, "model": "XM430-W350", "initial": 0.3}, {"id": 2, "model": "XM430-W350", "initial": -0.2}]
PARAMETERS = {
    "transport": "dynamixel_sdk",
    "baud_rate": 1_000_000,
    "require_supervisor": False,
    "update_rate": 50.0,
    "torque_on_activate": True,
    "bus_watchdog_ms": 500.0,
    "reply_latency_ms": 50.0,
    "stale_timeout": 1.0,
    "command_timeout": 10.0,
    "joints.lift.id": 1,
    "joints.swing.id": 2,
}


def test_moves_and_comes_back_after_the_adapter_was_unplugged(ros):
    with EmulatorProcess("dynamixel", "--servos", str(SERVOS), "--baud", 1_000_000) as bus:
        ros.start("dynamixel", port_name=str(bus.link), **PARAMETERS)
        states, diagnostics = ros.listen(JointState, "joint_states", STATE), ros.diagnostics("dynamixel")
        ros.up("dynamixel")
        goals = ros.node.create_publisher(Float64MultiArray, "forward_position_controller/commands", COMMAND)

        def positions():
            """Of states in which both servos answered: on a busy machine, not all of them are such."""
            return [np.array(state.position) for state in states if len(state.name) == 2]

        def there(goal):
            goals.publish(Float64MultiArray(data=goal))
            return np.abs(positions()[-1] - goal).max() < 0.02

        ros.until(lambda: len(positions()) > 10 and goals.get_subscription_count(), what="the node")
        assert next(state.name for state in states if len(state.name) == 2) == ["lift", "swing"]
        assert np.abs(positions()[0] - [0.3, -0.2]).max() < 0.01
        ros.until(lambda: there([0.5, 0.1]), what="the goal")
        before = int(diagnostics()[2].get("reconnects", 0))
        bus.inject("unplug")
        ros.until(lambda: diagnostics()[0] == 2 and "reconnecting" in diagnostics()[1], what="the loss")
        bus.clear("unplug")
        ros.until(lambda: int(diagnostics()[2]["reconnects"]) > before, what="the return")
        count = len(positions())
        ros.until(lambda: len(positions()) > count + 50, what="data after the return")
        ros.until(lambda: there([0.2, 0.0]), what="another goal")


def test_a_transport_that_is_unknown_is_refused(ros):
    process = ros.start("dynamixel", transport="usb")
    assert process.wait(120) != 0
