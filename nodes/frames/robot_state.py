"""What a robot's description and its joint states say together: its frames, on a robot without a plant.

    robot_state --ros-args -p robot:=dxl_arm

Page: docs/nodes/robot_state.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from nodes.frames.description import description_messages
from nodes.frames.robot_frames import RobotFrames
from nodes.framework.config import setting
from nodes.framework.joint_state_gate import JointStateGate
from nodes.framework.lifecycle import RefitNode, spin_main
from nodes.framework.polled import create_polled_subscription, take
from nodes.framework.qos import LATCHED, STATE
from sim_core.plant.scene import robot_mjcf

__all__ = ["RobotState", "RobotStateConfig", "main"]


@dataclass(frozen=True)
class RobotStateConfig:
    """Parameters of `robot_state`."""

    robot: str = setting("panda", "", None, "name in config/robots, or path of an MJCF file", read_only=True)
    frame_prefix: str = setting("", "", None, "put before every TF frame name", read_only=True)
    tf_period: float = setting(0.02, "s", (0.005, 1.0), "spacing of /tf", read_only=True)


class RobotState(RefitNode):
    """See the module's docstring."""

    name = "robot_state"
    Config = RobotStateConfig
    _entities: tuple = ()
    _states = _timer = None

    def configure(self) -> None:
        _, self._mjcf = robot_mjcf(self.config.robot)
        self._model = mujoco.MjModel.from_xml_string(self._mjcf)
        self._data = mujoco.MjData(self._model)
        scalar = {int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)}
        joints = [j for j in range(self._model.njnt) if int(self._model.jnt_type[j]) in scalar]
        self._qpos = np.array([self._model.jnt_qposadr[j] for j in joints])
        self._gate = JointStateGate([self._model.joint(j).name for j in joints])
        self._frames = RobotFrames(self._model, self.config.frame_prefix)
        self._tf = self.create_publisher(TFMessage, "/tf", STATE)
        self._tf_static = self.create_publisher(TFMessage, "/tf_static", LATCHED)
        self._descriptions = [
            self.create_publisher(String, "robot_description", LATCHED),
            self.create_publisher(String, "robot_description_mjcf", LATCHED),
        ]
        self._entities = (self._tf, self._tf_static, *self._descriptions)

    def activate(self) -> None:
        for publisher, message in zip(self._descriptions, description_messages(self._mjcf)):
            publisher.publish(message)
        mujoco.mj_kinematics(self._model, self._data)
        _, static = self._frames.fill(self._data, self.stamp_now())
        self._tf_static.publish(static)
        self._states = create_polled_subscription(self, JointState, "joint_states", STATE)
        self._timer = self.create_timer(self.config.tf_period, self._publish, clock=self.steady_clock)

    def _publish(self) -> None:
        """The frames as the newest joint state has them; nothing without a new one."""
        newest = None
        for message, _ in take(self._states):
            newest = message
        if newest is None:
            return
        sample, why = self._gate.read(newest)
        if sample is None:
            self.diagnostics.tick("states_refused")
            self.diagnostics.warn(why)
            return
        self._data.qpos[self._qpos] = sample.position
        mujoco.mj_kinematics(self._model, self._data)
        moving, _ = self._frames.fill(self._data, newest.header.stamp)
        self._tf.publish(moving)
        self.diagnostics.tick("transforms")

    def deactivate(self) -> None:
        if self._timer is not None:
            self.destroy_timer(self._timer)
        if self._states is not None:
            self.destroy_subscription(self._states)
        self._timer = self._states = None

    def cleanup(self) -> None:
        self.deactivate()
        for entity in self._entities:
            self.destroy_publisher(entity)
        self._entities = ()


def main(args=None) -> int:
    return spin_main(RobotState, args)
