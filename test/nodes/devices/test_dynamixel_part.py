"""A robot's neck on servos of their own: it follows the command of the whole robot, and stays where it looks when that ends."""

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy")

from lender import Lender
from refit_interfaces.msg import JointCommand
from sensor_msgs.msg import JointState

from config.robot import load_robot
from hardware.emulation.process import EmulatorProcess
from nodes.framework.qos import COMMAND, STATE
from sim_core.command import Command, CommandRefused, Mode, part_of
from sim_core.multibody import load_model

ROBOT = "avatar"
SERVOS = [{"id": number, "model": "MX-28", "load_inertia": 0.004} for number in (1, 2, 3)]
JOINTS = ["base_x", "head_yaw", "right_joint1", "head_pitch", "head_roll"]
NECK = ["head_yaw", "head_pitch", "head_roll"]
ME = "test_client"  # the node of the fixture `ros`


def law(yaw, pitch, roll=0.0, coupled=0.0):
    """A whole robot's feedback law, gains (5, 10)."""
    gain = np.hstack([np.diag([9.0, 5.0, 600.0, 5.0, 5.0]), np.diag([1.0, 0.5, 50.0, 0.5, 0.5])])
    gain[1, 2] = coupled
    effort, position = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([0.3, yaw, 0.7, pitch, roll])
    return Command(Mode.FEEDBACK, 1.0, JOINTS, effort, position, np.zeros(5), gain)


def test_the_necks_file_has_the_models_joints_and_limits():
    robot = load_robot(ROBOT)
    said = yaml.safe_load((robot.folder / "neck.yaml").read_text())["/**/neck"]["ros__parameters"]["joints"]
    assert set(said) == set(robot.task.head) == set(NECK)
    model = load_model(robot.folder)
    for name, joint in said.items():
        k = model.joint_index(name)
        assert (joint["min_rad"], joint["max_rad"]) == pytest.approx((model.q_lower[k], model.q_upper[k])), name
    assert sorted(joint["id"] for joint in said.values()) == [1, 2, 3]


def test_a_part_of_a_command_is_what_it_says_to_some_joints():
    part = part_of(law(0.5, -0.2), ["head_pitch", "head_yaw"])
    assert part.joints == ["head_yaw", "head_pitch"] and list(part.position) == [0.5, -0.2]
    assert list(part.effort) == [2.0, 4.0] and list(part.velocity) == [0.0, 0.0]
    assert part.gain.reshape(2, 4) == pytest.approx(np.array([[5.0, 0.0, 0.5, 0.0], [0.0, 5.0, 0.0, 0.5]]))
    with pytest.raises(CommandRefused, match="the gain of head_pitch, head_yaw depends on joints of others"):
        part_of(law(0.5, -0.2, coupled=1.0), ["head_pitch", "head_yaw"])
    short = Command(Mode.POSITION, 1.0, JOINTS, position=np.zeros(3))
    with pytest.raises(CommandRefused, match="position has 3 entries, expected 5"):
        part_of(short, ["head_yaw"])


class Rig:
    """The neck's node and bus, whoever lends the right to command, and the robot's controller."""

    def __init__(self, ros):
        self.ros, self.lender = ros, Lender()
        self.bus = EmulatorProcess("dynamixel", "--servos", str(SERVOS), "--baud", 57600)
        file = load_robot(ROBOT).folder / "neck.yaml"
        # A busy machine's delays are not the bus's; the rest is as the file has it.
        patient = dict(reply_latency_ms=200.0, error_timeout_ms=5000.0, stale_timeout=2.0, command_age_limit=1.0)
        words = ["-r", "__node:=neck", "--params-file", str(file)]
        self.process = ros.start("dynamixel", *words, port_name=str(self.bus.link), **patient)
        self.states = ros.listen(JointState, "joint_states", STATE)
        self.diagnostics = ros.diagnostics("neck")
        self.command = ros.node.create_publisher(JointCommand, "joint_command", COMMAND)
        ros.up("neck")
        ros.until(lambda: len(self.states) > 5 and self.command.get_subscription_count(), what="the node")

    def ask(self, yaw, pitch, roll=0.0):
        wanted = law(yaw, pitch, roll)
        message = JointCommand(mode=int(wanted.mode), commander=ME, joint_names=list(wanted.joints))
        message.header.stamp = self.ros.node.get_clock().now().to_msg()
        message.position, message.velocity = wanted.position.tolist(), wanted.velocity.tolist()
        message.effort, message.gain = wanted.effort.tolist(), wanted.gain.ravel().tolist()
        self.command.publish(message)

    def at(self, name):
        state = next(state for state in reversed(self.states) if name in state.name)
        return state.position[list(state.name).index(name)]

    def leads_to(self, yaw, pitch, roll=0.0):
        def there():
            self.ask(yaw, pitch, roll)
            self.ros.spin(0.02)
            return all(abs(self.at(name) - angle) < 0.03 for name, angle in zip(NECK, (yaw, pitch, roll)))

        self.ros.until(there, what=f"the head looks at {yaw}, {pitch}")

    def counts(self, key, yaw, pitch):
        def grown():
            self.ask(yaw, pitch)
            self.ros.spin(0.05)
            return int(self.diagnostics()[2].get(key, 0) or 0) > 0

        self.ros.until(grown, what=key)


@pytest.mark.graph
def test_the_neck_follows_the_whole_robots_command_and_stays_when_it_ends(ros):
    rig = Rig(ros)
    try:
        rig.counts("refused_disarmed", 0.5, 0.2)  # nobody has lent it the right yet
        rig.lender.lend(ME)
        for pose in ((0.5, 0.2, 0.3), (-1.0, 0.6, -0.4), (1.0, -0.4, 0.0)):
            rig.leads_to(*pose)
        rig.counts("refused_limit", 1.5, 0.0)  # beyond its neck
        rig.leads_to(0.8, 0.1)
        rig.lender.withdraw("stopped by an operator")
        before = len(rig.states)
        ros.until(lambda: len(rig.states) > before + 30, what="states")
        rig.ask(-0.8, 0.0)
        before = len(rig.states)
        ros.until(lambda: len(rig.states) > before + 20, what="states")
        assert abs(rig.at("head_yaw") - 0.8) < 0.05 and abs(rig.at("head_pitch") - 0.1) < 0.05
        code, _, output = ros.finish(rig.process)
        assert code == 0 and "Traceback" not in output, output
    finally:
        rig.lender.stop()
        rig.bus.stop()
