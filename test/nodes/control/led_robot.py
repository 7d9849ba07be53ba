"""A robot's servos and sensors in a test's own process, led through time as a plant in lock-step would, for a controller that is a node."""

import time
from dataclasses import replace

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rclpy.action import ActionClient
from refit_interfaces.msg import ControllerStatus, JointCommand, SupervisorStatus
from sensor_msgs.msg import JointState

from config.robot import node_settings
from nodes.framework.messages import command_from_message, set_stamp
from nodes.framework.qos import COMMAND, LATCHED, SENSOR, STATE
from sim_core.gate import CommandGate
from sim_core.plant import MujocoPlant, joint_limits

PERIOD, TICK = 0.016, 0.002


class LedRobot:
    """The robot, its supervisor, and a client of the controller's action; `around` is what the plant has before the robot.

    Attributes:
        push: force that the test puts onto the wrist's sensor, in the world's axes (3,) [N]. deaf: no wrench comes. frame: of the wrench.
        now: time [s]. commanded: joint positions that were told last (n,) [rad].
    """

    def __init__(self, ros, robot, action, name, **around):
        self.ros = ros
        own = node_settings(robot, "sim_plant")
        noise = {key: own[key] for key in ("servo_bandwidth", "stop_state", "position_noise", "velocity_noise")}
        self.plant = MujocoPlant(robot, tick=TICK, wrench_site="wrist", seed=1, **noise, **around)
        self.plant.gate = CommandGate(joint_limits(self.plant.world), TICK, supervised=False)
        self.now, self.feedback = 1.0, []
        self.calm()
        self.supervisor = ros.rclpy.create_node("supervisor", context=ros.context)
        self.says = self.supervisor.create_publisher(SupervisorStatus, "supervisor/status", LATCHED)
        self.states = ros.node.create_publisher(JointState, "joint_states", COMMAND)
        self.wrenches = ros.node.create_publisher(WrenchStamped, "wrench", SENSOR)
        self.commands = ros.listen(JointCommand, "joint_command", COMMAND)
        self.status = ros.listen(ControllerStatus, "controller/status", STATE)
        self.client = ActionClient(ros.node, action, name)
        ros.until(lambda: self.states.get_subscription_count() and self.wrenches.get_subscription_count())
        ros.until(self.client.server_is_ready)

    def calm(self):
        """A good day."""
        self.push, self.deaf, self.frame = np.zeros(3), False, "wrist"

    def permit(self, state, message=""):
        """The supervisor's word, and time for it to arrive; in a halt the servos hold."""
        if state == SupervisorStatus.STATE_HALTED:
            self.plant.release_command()
            for _ in range(50):
                self.plant.tick()
        self.says.publish(SupervisorStatus(state=state, message=message))
        wanted = (
            ControllerStatus.STATE_TRACKING if state == SupervisorStatus.STATE_READY else ControllerStatus.STATE_STOPPED
        )
        self.ros.until(lambda: self.tell() or (self.status and self.status[-1].state == wanted), what="permission")

    def tell(self):
        """The present state once more, in a time that goes on a little: nothing answers it in a halt."""
        self.now += 0.06
        self._publish()
        self.ros.spin(0.02)

    def _publish(self):
        felt = self.plant.wrench()
        wrist = self.plant.world.data.site("wrist").xmat.reshape(3, 3)
        felt[:3] += wrist.T @ self.push
        wrench = WrenchStamped()
        wrench.header.frame_id = self.frame
        wrench.wrench.force.x, wrench.wrench.force.y, wrench.wrench.force.z = map(float, felt[:3])
        wrench.wrench.torque.x, wrench.wrench.torque.y, wrench.wrench.torque.z = map(float, felt[3:])
        state = JointState(name=list(self.plant.joints), position=self.plant.q.tolist(), velocity=self.plant.v.tolist())
        for message in (wrench, state):
            set_stamp(message.header.stamp, self.now)
        if not self.deaf:
            self.wrenches.publish(wrench)
        self.states.publish(state)

    def step(self):
        """One period: wrench and state, and the command that answers them."""
        self.now += PERIOD
        told = time.monotonic()
        self._publish()
        while not self.commands:
            self.ros.spin(0.001)
            if time.monotonic() > told + 1.0:  # the message was lost on a busy machine
                self._publish()
                told = time.monotonic()
        command = command_from_message(self.commands[-1])
        del self.commands[:]
        self.commanded = command.position
        self.plant.command(replace(command, stamp=self.plant.t))
        for _ in range(round(PERIOD / TICK)):
            self.plant.tick()
        assert not self.plant.stop_reason, self.plant.stop_reason

    def run(self, seconds):
        for _ in range(round(seconds / PERIOD)):
            self.step()
