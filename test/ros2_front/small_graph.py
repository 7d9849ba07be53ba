"""A graph in a process of its own, with one of each kind; ends with SIGINT."""

import time

import rclpy
from control_msgs.action import GripperCommand
from geometry_msgs.msg import PointStamped
from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor
from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String
from std_srvs.srv import SetBool

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
BEST_EFFORT = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)


class Small(Node):
    """Topics of three qualities of service, a service, an action and parameters."""

    def __init__(self):
        super().__init__("small", namespace="robot")
        group = ReentrantCallbackGroup()
        limits = FloatingPointRange(from_value=0.0, to_value=10.0)
        self.declare_parameter("gain", 2.5, ParameterDescriptor(description="of it", floating_point_range=[limits]))
        self.declare_parameter("arm.name", "left")
        self.declare_parameter("fixed", 3, ParameterDescriptor(read_only=True))
        self._latched = self.create_publisher(String, "/latched", LATCHED)
        self._latched.publish(String(data="kept"))
        self._points = self.create_publisher(PointStamped, "/points", BEST_EFFORT)
        self._heard = self.create_publisher(String, "/heard", LATCHED)
        self.create_subscription(String, "/said", self._hear, LATCHED)
        self.create_timer(0.05, self._point)
        self.create_service(SetBool, "switch", self._switch)
        ActionServer(
            self,
            GripperCommand,
            "grip",
            self._grip,
            callback_group=group,
            cancel_callback=lambda goal: CancelResponse.ACCEPT,
        )

    def _point(self):
        message = PointStamped()
        message.header.stamp = self.get_clock().now().to_msg()
        message.header.frame_id = "base"
        message.point.x = 1.5
        self._points.publish(message)

    def _hear(self, message):
        self._heard.publish(String(data=f"heard {message.data}"))

    def _switch(self, request, response):
        response.success, response.message = request.data, "as you wish"
        return response

    def _grip(self, goal):
        feedback = GripperCommand.Feedback(position=0.25)
        goal.publish_feedback(feedback)
        while rclpy.ok() and goal.request.command.position > 1.0:  # for ever
            if goal.is_cancel_requested:
                goal.canceled()
                return GripperCommand.Result(stalled=True)
            time.sleep(0.02)
        goal.succeed()
        return GripperCommand.Result(position=goal.request.command.position, reached_goal=True)


def main():
    """Run until SIGINT."""
    rclpy.init()
    executor = MultiThreadedExecutor(4)
    for node in (Small(), LifecycleNode("managed", namespace="robot")):
        executor.add_node(node)
    print("ready", flush=True)
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass


if __name__ == "__main__":
    main()
