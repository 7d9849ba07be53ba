"""Gripper and hand behind their gates: no motion while disarmed, anybody's commands while armed, a stop as the lease ends."""

import numpy as np
import pytest

pytest.importorskip("rclpy")

from action_msgs.msg import GoalStatus
from control_msgs.action import GripperCommand
from lender import Lender
from rclpy.action import ActionClient
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from hardware.emulation.process import EmulatorProcess
from nodes.framework.qos import COMMAND


@pytest.fixture
def lender():
    made = Lender()
    yield made
    made.stop()


def gate(ros, health, text):
    ros.until(lambda: text in health()[2].get("gate", ""), what=f"a gate that says '{text}'")


def test_a_gripper_waits_for_the_supervisor_and_stops_with_it(ros, lender):
    with EmulatorProcess("robotiq", "--activation-speed", 1.7, seed=8) as emulator:
        ros.start("robotiq", port_name=str(emulator.link), speed=0.02, reply_timeout=0.5, goal_timeout=60.0)
        health, client = ros.diagnostics("robotiq"), ActionClient(ros.node, GripperCommand, "robotiq/gripper_cmd")
        ros.up("robotiq")
        ros.until(client.server_is_ready, what="the action server")

        def send(width):
            goal = GripperCommand.Goal()
            goal.command.position = width
            future = client.send_goal_async(goal)
            ros.until(future.done, what="the server's answer")
            return future.result()

        # Even its activation moves the fingers: it waits, and says why.
        gate(ros, health, "not armed yet")
        ros.until(lambda: health.said("not activated yet, as that moves the fingers: not armed yet"), what="the reason")
        width = emulator.stats()["width"]
        assert not send(0.02).accepted and not ros.call(Trigger, "robotiq/reactivate_gripper").success
        ros.until(lambda: health()[2].get("refused_disarmed") == "1", what="the refusal")
        ros.spin(1.0)
        assert emulator.stats()["width"] == width

        lender.lend("whoever")
        gate(ros, health, "open to whoever")
        joints = ros.listen(JointState, "joint_states")
        ros.until(lambda: joints, what="the end of the activation")
        refused = send(0.2)
        assert not refused.accepted
        ros.until(lambda: health()[2].get("refused_limit") == "1", what="the refusal")
        open_wide = send(0.085)
        assert open_wide.accepted
        result = open_wide.get_result_async()
        ros.until(result.done, what="the result")

        # 85 mm at 20 mm/s: under way for four seconds. The supervisor withdraws, and later hangs.
        for end, why in (
            (lambda: lender.withdraw("a test disarms"), "a test disarms"),
            (lender.pause, "nobody has renewed"),
        ):
            lender.lend("whoever")
            gate(ros, health, "open to whoever")
            start = emulator.stats()["width"]
            handle = send(0.0 if start > 0.04 else 0.085)
            assert handle.accepted
            result = handle.get_result_async()
            ros.until(lambda start=start: abs(emulator.stats()["width"] - start) > 0.005, what="motion")
            end()
            ros.until(result.done, what="the result")
            assert result.result().status == GoalStatus.STATUS_ABORTED
            gate(ros, health, why)
            width = emulator.stats()["width"]
            assert 0.002 < width < 0.083
            ros.spin(0.5)
            assert emulator.stats()["width"] == pytest.approx(width, abs=1e-3)
        lender.resume()


def test_a_hand_follows_targets_only_while_the_supervisor_lends(ros, lender):
    with EmulatorProcess("ability_hand", seed=9) as emulator:
        ros.start("ability_hand", port_name=str(emulator.link), reply_timeout=0.5, command_timeout=10.0)
        health = ros.diagnostics("ability_hand")
        joints = ros.listen(JointState, "joint_states")
        targets = ros.node.create_publisher(Float64MultiArray, "hand/l/motor_targets", COMMAND)
        ros.up("ability_hand")
        ros.until(lambda: targets.get_subscription_count() and joints, what="the node")

        def aim(*degrees):
            targets.publish(Float64MultiArray(data=[float(a) for a in np.radians(degrees)]))

        def refused(key, do):
            before = int(health()[2].get(key, 0))

            def grown():
                do()
                ros.spin(0.05)
                return int(health()[2].get(key, 0)) > before

            ros.until(grown, what=key)

        gate(ros, health, "not armed yet")
        here = emulator.stats()["angles"]
        refused("refused_disarmed", lambda: aim(80, 80, 80, 80, 80, -80))
        assert emulator.stats()["angles"] == pytest.approx(here, abs=1.5)

        lender.lend("whoever")
        gate(ros, health, "open to whoever")
        refused("refused_limit", lambda: aim(120, 80, 80, 80, 80, -80))
        assert emulator.stats()["angles"] == pytest.approx(here, abs=1.5)
        aim(50, 50, 50, 50, 50, -50)
        ros.until(lambda: min(np.abs(emulator.stats()["angles"])) > 48.0, what="the target")
        # The target is young still, and the fingers are where it says; only a withdrawal gives it up.
        lender.withdraw("a test disarms")
        gate(ros, health, "a test disarms")
        ros.until(lambda: int(health()[2].get("targets_withdrawn", 0)) == 1, what="the withdrawal")
        refused("refused_disarmed", lambda: aim(10, 10, 10, 10, 10, -10))
        assert min(np.abs(emulator.stats()["angles"])) > 48.0

        lender.lend("whoever")
        gate(ros, health, "open to whoever")
        aim(10, 10, 10, 10, 10, -10)
        ros.until(lambda: max(np.abs(emulator.stats()["angles"])) < 12.0, what="the target")
        lender.pause()
        gate(ros, health, "nobody has renewed the lease")
        refused("refused_disarmed", lambda: aim(80, 80, 80, 80, 80, -80))
        assert max(np.abs(emulator.stats()["angles"])) < 12.0
        lender.resume()
