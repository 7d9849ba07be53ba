"""The hand's node beside an emulated hand: targets in, joint states and touch out, the loss of either side."""

import signal

import numpy as np
import pytest

pytest.importorskip("rclpy")

from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from hardware.ability_hand.emulator import FASTEST
from hardware.emulation.process import EmulatorProcess
from nodes.devices.ability_hand import AbilityHandConfig
from nodes.framework.qos import COMMAND, SENSOR

ERROR = 2


@pytest.fixture(scope="module")
def emulator():
    with EmulatorProcess("ability_hand", seed=7) as process:
        yield process


@pytest.fixture(scope="module")
def node(shared_ros, emulator):
    ros = shared_ros
    ros.process = ros.start(
        "ability_hand",
        port_name=str(emulator.link),
        reply_timeout=0.5,
        command_timeout=0.3,
        require_supervisor=False,
    )
    ros.health = ros.diagnostics("ability_hand")
    ros.joints = ros.listen(JointState, "joint_states")
    ros.touch = ros.listen(Float64MultiArray, "ability_hand/touch", SENSOR)
    targets = ros.node.create_publisher(Float64MultiArray, "hand/l/motor_targets", COMMAND)
    ros.aim = lambda degrees: targets.publish(Float64MultiArray(data=[float(a) for a in np.radians(degrees)]))
    ros.up("ability_hand")
    ros.until(lambda: targets.get_subscription_count() and ros.joints, 20, "the node")
    return ros


def reach(ros, degrees):
    """Repeat a target at 60 Hz and more until the joint states are there."""

    def there():
        ros.aim(degrees)
        ros.spin(0.005)
        return np.max(np.abs(np.degrees(ros.joints[-1].position) - degrees)) < 1.0

    ros.until(there, 20, "target")


def test_targets_are_reached(node, emulator):
    for target in ([80, 70, 60, 50, 40, -80], [10, 10, 10, 10, 10, -10]):
        reach(node, target)
        assert emulator.stats()["angles"] == pytest.approx(target, abs=1.5)
    message = node.joints[-1]
    assert (
        message.name == ["index_q1", "middle_q1", "ring_q1", "pinky_q1", "thumb_q2", "thumb_q1"]
        and not message.velocity
    )
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in node.joints]
    assert all(b > a for a, b in zip(stamps, stamps[1:], strict=False))
    node.until(lambda: float(node.health()[2].get("loss_percent", 100)) <= 0.5, 5, "diagnostics")


def test_touch(node, emulator):
    reach(node, [10, 10, 10, 10, 10, -10])
    emulator.set(contacts={"ring": 30.0})

    def touched():
        node.aim([10, 10, 60, 10, 10, -10])
        node.spin(0.005)
        return node.touch and min(node.touch[-1].data[12:18]) > 2.0

    node.until(touched, 20, "touch")
    message = node.touch[-1]
    assert [(d.label, d.size) for d in message.layout.dim] == [("finger", 5), ("sensor", 6)] and len(message.data) == 30
    assert max(message.data[:12]) < 0.5 * min(message.data[12:18])
    emulator.set(contacts={"ring": None})


def test_targets_that_are_none_are_refused(node, emulator):
    reach(node, [20, 20, 20, 20, 20, -20])
    node.aim([50] * 5)
    node.aim([50, 50, 50, 50, 50, float("nan")])
    node.until(lambda: int(node.health()[2].get("targets_refused", 0)) >= 1, 10, "diagnostics")
    assert emulator.stats()["angles"] == pytest.approx([20] * 5 + [-20], abs=1.5)


def test_unplugged_and_back(node, emulator):
    reach(node, [40, 40, 40, 40, 40, -40])
    emulator.inject("unplug", 1.0)
    node.until(lambda: node.health()[0] == ERROR, 10, "ERROR")
    node.until(
        lambda: node.health()[2]["state"] == "streaming" and int(node.health()[2]["reconnects"]) == 1, 20, "the return"
    )
    assert emulator.stats()["angles"] == pytest.approx([40] * 5 + [-40], abs=1.5)
    reach(node, [20, 20, 20, 20, 20, -20])


def test_deactivation_stops_and_the_end_is_clean(node, emulator):
    def angles(wait=0.0):
        node.spin(wait)
        return emulator.stats()["angles"]

    reach(node, [5, 5, 5, 5, 5, -5])
    emulator.set(fastest=5.0)  # nobody needs the twenty seconds in which fingers come to their targets
    node.aim([100, 100, 100, 100, 100, -100])
    node.spin(0.1)
    node.transition("ability_hand", "deactivate")
    node.until(lambda: angles() == angles(0.5), 20, "standing fingers")
    stand = angles()
    node.aim([5, 5, 5, 5, 5, -5])
    assert angles(0.3) == pytest.approx(stand, abs=1.0) and max(stand) < 95
    emulator.set(fastest=FASTEST)
    code, _, output = node.finish(node.process, signal.SIGINT)
    assert code == 0 and "Traceback" not in output, output
    node.until(lambda: not emulator.stats()["api"], 5, "the end of the API mode")


def test_the_page_names_everything(documentation):
    assert documentation.missing("ability_hand.md", AbilityHandConfig, "nodes/devices/ability_hand.py") == []
