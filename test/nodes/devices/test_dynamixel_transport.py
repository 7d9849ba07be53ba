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
    "update_rate": 50.0,
    "torque_on_activate": True,
    "bus_watchdog_ms": 500.0,
    "reply_latency_ms": 50.0,
    "stale_timeout": 0.2,
    "command_timeout": 10.0,
    "joints.lift.id": 1,
    "joints.swing.id": 2,
}


def test_moves_and_comes_back_after_the_adapter_was_unplugged(ros):
    with EmulatorProcess("dynamixel", "--servos", str(SERVOS), "--baud", 1_000_000) as bus:
        ros.start("dynamixel", port_name=str(bus.link), **PARAMETERS)
        states = ros.listen(JointState, "joint_states", STATE)
        ros.up("dynamixel")
        goals = ros.node.create_publisher(Float64MultiArray, "forward_position_controller/commands", COMMAND)
        ros.until(lambda: len(states) > 10 and goals.get_subscription_count(), 40, "the node")
        assert states[-1].name == ["lift", "swing"]

        def there(goal):
            goals.publish(Float64MultiArray(data=goal))
            return len(states[-1].position) == 2 and np.abs(np.array(states[-1].position) - goal).max() < 0.02

        assert np.abs(np.array(states[0].position) - [0.3, -0.2]).max() < 0.01
        ros.until(lambda: there([0.5, 0.1]), 40, "the goal")
        bus.inject("unplug", seconds=1.0)
        count = len(states)
        ros.until(lambda: len(states) > count + 50, 40, "data after the return")
        ros.until(lambda: there([0.2, 0.0]), 40, "another goal")


def test_a_transport_that_is_unknown_is_refused(ros):
    process = ros.start("dynamixel", transport="usb")
    assert process.wait(40) != 0
