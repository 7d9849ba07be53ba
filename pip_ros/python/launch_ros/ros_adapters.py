"""The launch's own ROS node, for talking to lifecycle nodes."""

import os
import threading

from launch.event_handlers import OnShutdown


class ROSAdapter:
    """A node `launch_ros_<pid>` in a context of its own, spun by a thread."""

    def __init__(self, *, argv=None, autostart=True):
        self.__argv = argv or []  # not None, for which rclpy takes the launch's own words
        self.__context = self.__node = self.__executor = self.__thread = None
        if autostart:
            self.start()

    @property
    def ros_context(self):
        return self.__context

    @property
    def ros_node(self):
        return self.__node

    @property
    def ros_executor(self):
        return self.__executor

    @property
    def is_running(self):
        return self.__thread is not None

    def start(self):
        import rclpy
        from rclpy.executors import SingleThreadedExecutor

        if self.is_running:
            raise RuntimeError("Cannot start a ROS adapter that is already running")
        self.__context = rclpy.Context()
        rclpy.init(args=self.__argv, context=self.__context)
        self.__node = rclpy.create_node(f"launch_ros_{os.getpid()}", context=self.__context)
        self.__executor = SingleThreadedExecutor(context=self.__context)
        self.__executor.add_node(self.__node)
        self.__thread = threading.Thread(target=self.__spin, name="launch_ros", daemon=True)
        self.__thread.start()

    def __spin(self):
        from rclpy.executors import ExternalShutdownException, ShutdownException

        try:
            self.__executor.spin()
        except (ExternalShutdownException, ShutdownException):
            pass

    def run_in_spin_thread(self, function):
        """Call the function where it cannot race with the executor; return a future."""
        return self.__executor.create_task(function)

    def shutdown(self):
        import rclpy

        if not self.is_running:
            raise RuntimeError("Cannot shutdown a ROS adapter that is not running")
        self.__executor.shutdown(timeout_sec=1.0)
        self.__thread.join(timeout=2.0)
        self.__thread = None
        self.__node.destroy_node()
        rclpy.try_shutdown(context=self.__context)


def get_ros_adapter(context):
    """Return the launch's adapter, started on first use and stopped at shutdown."""
    adapter = context.get_locals_as_dict().get("ros_adapter")
    if adapter is None or not adapter.is_running:
        adapter = ROSAdapter()
        context.extend_globals({"ros_adapter": adapter})
        context.register_event_handler(
            OnShutdown(on_shutdown=lambda event, context: adapter.shutdown(), handle_once=True)
        )
    return adapter


def get_ros_node(context):
    """Return the launch's ROS node."""
    return get_ros_adapter(context).ros_node
