"""The force_torque node before emulated sensors: wrenches, bias, tool, validity, and what becomes of them when things fail."""

import os

import numpy as np
import pytest

pytest.importorskip("rclpy")

from action_msgs.msg import GoalStatus
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TransformStamped, WrenchStamped
from rclpy.action import ActionClient
from refit_interfaces.action import IdentifyTool
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage

from hardware.emulation.process import EmulatorProcess
from nodes.devices.force_torque import ForceTorqueConfig
from nodes.framework.qos import LATCHED, STATE

WRENCH = [1.0, -2.0, 3.0, 0.1, -0.2, 0.3]
# Of this process alone: tests may run side by side.
IP = f"127.34.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
NODE = "ft_sensor"


@pytest.fixture(scope="module")
def netft():
    with EmulatorProcess(
        "netft",
        "--ip",
        IP,
        "--http-port",
        8080,
        "--wrench",
        *WRENCH,
        "--noise-force",
        0.02,
        "--noise-torque",
        0.001,
        "--rate",
        1000,
    ) as emulator:
        yield emulator


@pytest.fixture
def sensor(netft):
    netft.clear()
    netft.set(wrench=WRENCH, threshold=None)
    yield netft
    netft.clear()


def start(ros, **parameters):
    ros.start("force_torque", **{"address": IP, "http_port": 8080, "bias_samples": 100, **parameters})
    ros.up(NODE)


def values(message):
    f, t = message.wrench.force, message.wrench.torque
    return np.array([f.x, f.y, f.z, t.x, t.y, t.z])


def stamp(message):
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def mean(messages, n=20):
    return np.mean([values(m) for m in messages[-n:]], axis=0)


def after(ros, messages, n=20):
    """The mean of n messages measured after now."""
    now = 1e-9 * ros.node.get_clock().now().nanoseconds + 0.01
    ros.until(lambda: len(messages) >= n and stamp(messages[-n]) > now, 20)
    return mean(messages, n)


def bias(ros):
    """The answer to a request for the bias; asked again where a busy machine let samples wait."""
    answers = []

    def asked():
        answers.append(ros.call(Trigger, f"{NODE}/bias"))
        return "No sample for" not in answers[-1].message

    ros.until(asked, 20, "a bias")
    return answers[-1]


def test_page(documentation):
    assert documentation.missing("force_torque.md", ForceTorqueConfig, "nodes/devices/force_torque.py") == []


def test_wrench_bias_latch_and_validity(ros, sensor):
    raw, wrench, valid = (
        ros.listen(kind, f"{NODE}/{name}", qos)
        for kind, name, qos in (
            (WrenchStamped, "wrench_raw", 10),
            (WrenchStamped, "wrench", 10),
            (Bool, "valid", LATCHED),
        )
    )
    diagnostics = ros.diagnostics(NODE)
    start(ros, max_force=200.0)
    ros.until(lambda: len(raw) > 300 and valid and valid[-1].data, 30)

    # 1000 samples a second, published as means of four; stamps strictly increase, at the time of measurement.
    stamps = np.array([stamp(m) for m in raw])
    assert (np.diff(stamps) > 0).all() and np.median(np.diff(stamps)) == pytest.approx(0.004, rel=0.01)
    np.testing.assert_allclose(mean(raw, 200), WRENCH, atol=0.01)
    np.testing.assert_allclose(mean(wrench, 200), WRENCH, atol=0.01)
    # Means of four halve the noise.
    assert 0.007 < np.std([values(m)[0] for m in raw[-200:]]) < 0.013
    assert raw[-1].header.frame_id == "ft_sensor_link"

    answer = bias(ros)
    assert answer.success and "nobody looked" in answer.message
    np.testing.assert_allclose(after(ros, wrench), np.zeros(6), atol=0.02)
    np.testing.assert_allclose(after(ros, raw), WRENCH, atol=0.02)
    assert ros.call(Trigger, f"{NODE}/clear_bias").success
    np.testing.assert_allclose(after(ros, wrench), WRENCH, atol=0.02)

    # Threshold latch: a condition is no error, and its reset reaches the sensor.
    sensor.set(threshold=1.0)
    ros.until(lambda: "threshold" in diagnostics()[1], 10)
    assert diagnostics()[0] == DiagnosticStatus.WARN[0]
    ros.until(lambda: valid[-1].data, 10)
    sensor.set(threshold=None)
    assert ros.call(Trigger, f"{NODE}/reset_threshold_latch").success
    ros.until(lambda: "threshold" not in diagnostics()[1], 10)

    # Saturation: wrenches go on, validity falls, ERROR.
    ros.until(lambda: valid[-1].data, 10)
    sensor.inject("saturate")
    ros.until(lambda: not valid[-1].data, 10)
    ros.until(lambda: diagnostics()[0] == DiagnosticStatus.ERROR[0] and "exceeds" in diagnostics()[1], 10)
    assert after(ros, raw, 5)[2] == pytest.approx(990.0)
    refused = ros.call(Trigger, f"{NODE}/bias")
    assert not refused.success and "no valid wrench" in refused.message
    sensor.clear()
    ros.until(lambda: valid[-1].data, 10)

    # Silence: no wrench is repeated, validity falls.
    sensor.inject("silence")
    ros.until(lambda: not valid[-1].data, 10)
    ros.until(lambda: diagnostics()[0] == DiagnosticStatus.ERROR[0], 10)
    ros.spin(0.5)  # what was under way arrives
    count = len(raw)
    ros.spin(0.3)
    assert len(raw) == count
    sensor.clear()
    ros.until(lambda: valid[-1].data and len(raw) > count, 20)
    stamps = np.array([stamp(m) for m in raw])
    assert (np.diff(stamps) > 0).all()

    ros.transition(NODE, "deactivate")
    ros.until(lambda: not valid[-1].data, 10)
    ros.until(lambda: diagnostics()[0] == DiagnosticStatus.STALE[0], 10)


def test_bias_is_refused_while_anything_moves(ros, sensor):
    start(ros)
    joints = ros.node.create_publisher(JointState, "joint_states", STATE)
    valid = ros.listen(Bool, f"{NODE}/valid", LATCHED)
    ros.until(lambda: joints.get_subscription_count() and valid and valid[-1].data, 30)
    speed = [0.02]

    def move():
        now = ros.node.get_clock().now().to_msg()
        message = JointState(name=["a", "b"], position=[0.0, 0.0], velocity=[0.0, speed[0]])
        message.header.stamp = now
        joints.publish(message)

    timer = ros.node.create_timer(0.01, move)
    ros.spin(0.1)
    refused = bias(ros)
    assert not refused.success and "moves: 0.02 rad/s" in refused.message
    speed[0] = 0.005
    ros.spin(0.2)
    taken = bias(ros)
    assert taken.success and "nobody looked" not in taken.message
    sensor.set(amplitude=[2.0, 0, 0, 0, 0, 0], frequency=20.0)
    refused = bias(ros)
    assert not refused.success and "standard deviation is 1." in refused.message
    sensor.set(amplitude=[0.0] * 6)
    ros.node.destroy_timer(timer)
    ros.spin(0.1)
    refused = bias(ros)
    assert not refused.success and "joint states" in refused.message


def rotation(axis, angle):
    """Unit quaternion xyzw."""
    axis = np.asarray(axis, float) / np.linalg.norm(axis)
    return np.concatenate([np.sin(angle / 2) * axis, [np.cos(angle / 2)]])


def matrix(q):
    x, y, z, w = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


POSES = [
    rotation([1, 0, 0], 0.0),
    rotation([1, 0, 0], 0.8),
    rotation([0, 1, 0], 0.8),
    rotation([1, 1, 0], -0.9),
    rotation([1, 0, 0], -1.4),
    rotation([0, 1, 0], -1.2),
    rotation([1, -1, 0], 1.9),
]
MASS, COM, OFFSET = 0.8, np.array([0.01, -0.02, 0.06]), np.array([1.5, -0.7, 4.0, 0.02, 0.05, -0.03])


class Wrist:
    """Tells TF and the emulated sensor the same orientation: a tool of MASS at COM, and the sensor's OFFSET."""

    def __init__(self, ros, sensor):
        self.ros, self.sensor = ros, sensor
        self.publisher = ros.node.create_publisher(TFMessage, "/tf", STATE)
        self.q = POSES[0]
        self.timer = ros.node.create_timer(0.02, self.publish)
        self.turn(POSES[0])

    def publish(self):
        transform = TransformStamped(child_frame_id="ft_sensor_link")
        transform.header.frame_id = "world"
        transform.header.stamp = self.ros.node.get_clock().now().to_msg()
        r = transform.transform.rotation
        r.x, r.y, r.z, r.w = map(float, self.q)
        self.publisher.publish(TFMessage(transforms=[transform]))

    def turn(self, q):
        force = MASS * matrix(q).T @ [0.0, 0.0, -9.81]
        self.q = q
        self.sensor.set(wrench=[*(force + OFFSET[:3]), *(np.cross(COM, force) + OFFSET[3:])])


def test_a_tool_is_identified_and_taken_off(ros, sensor):
    start(ros)
    valid = ros.listen(Bool, f"{NODE}/valid", LATCHED)
    wrist = Wrist(ros, sensor)
    client = ActionClient(ros.node, IdentifyTool, f"{NODE}/identify_tool")
    ros.until(lambda: client.server_is_ready() and valid and valid[-1].data, 30)
    feedback = []
    sent = client.send_goal_async(
        IdentifyTool.Goal(poses=6, min_angle=0.4, timeout=60.0, apply=True),
        feedback_callback=lambda m: feedback.append(m.feedback),
    )
    ros.until(sent.done, 20)
    assert sent.result().accepted
    result = sent.result().get_result_async()
    for number, q in enumerate(POSES[:6]):
        wrist.turn(q)
        ros.until(lambda: result.done() or feedback and feedback[-1].collected > number, 20, f"pose {number}")
    ros.until(result.done, 20)
    found = result.result().result
    assert found.success, found.message
    assert found.mass == pytest.approx(MASS, rel=0.01)
    np.testing.assert_allclose(found.com, COM, atol=0.002)
    np.testing.assert_allclose([*found.force_offset, *found.torque_offset], OFFSET, atol=0.02)
    assert found.residual <= 0.2
    # From now on nothing is left of tool and offsets, in an orientation that was not among the poses either.
    wrench = ros.listen(WrenchStamped, f"{NODE}/wrench", 10)  # only now: reading it delays this thread's transforms
    wrist.turn(POSES[6])
    ros.spin(0.3)
    np.testing.assert_allclose(after(ros, wrench), np.zeros(6), atol=0.05)
    # A bias leaves the tool's weight to the tool.
    assert bias(ros).success
    wrist.turn(POSES[2])
    ros.spin(0.3)
    np.testing.assert_allclose(after(ros, wrench), np.zeros(6), atol=0.05)
    # Too few poses are refused; a goal can be given up.
    refused = client.send_goal_async(IdentifyTool.Goal(poses=3))
    ros.until(refused.done, 20)
    assert not refused.result().accepted
    given_up = client.send_goal_async(IdentifyTool.Goal(poses=6))
    ros.until(given_up.done, 20)
    given_up.result().cancel_goal_async()
    result = given_up.result().get_result_async()
    ros.until(result.done, 20)
    assert result.result().status == GoalStatus.STATUS_CANCELED and not result.result().result.success
    # Without TF the weight is unknown: no wrench rather than a wrong one, and not valid.
    ros.node.destroy_timer(wrist.timer)
    ros.until(lambda: not valid[-1].data, 10)

    def silent():
        count = len(wrench)
        ros.spin(0.2)
        return len(wrench) == count

    ros.until(silent, what="no wrench any more, once those on their way have come")


def test_unplugged_sensor_comes_back(ros, sensor):
    raw, valid = ros.listen(WrenchStamped, f"{NODE}/wrench_raw", 10), ros.listen(Bool, f"{NODE}/valid", LATCHED)
    diagnostics = ros.diagnostics(NODE)
    start(ros, swap_axes="zxy", sign=[-1, 1, -1])
    ros.until(lambda: len(raw) > 50, 30)
    np.testing.assert_allclose(mean(raw, 50), [-3.0, 1.0, 2.0, -0.3, 0.1, 0.2], atol=0.03)
    sensor.inject("unplug", 1.5)
    ros.until(lambda: diagnostics()[0] == DiagnosticStatus.ERROR[0] and not valid[-1].data, 10)
    count = len(raw)
    ros.until(lambda: len(raw) > count + 50 and valid[-1].data, 20)
    ros.until(lambda: int(diagnostics()[2]["reconnects"]) >= 1, 10)
    assert (np.diff([stamp(m) for m in raw]) > 0).all()
