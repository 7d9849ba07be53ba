"""Choose where nodes write their log files."""

from launch.actions import SetEnvironmentVariable


class SetROSLogDir(SetEnvironmentVariable):
    """Sets ROS_LOG_DIR for what is visited later in the same scope."""

    def __init__(self, new_log_dir, **kwargs):
        super().__init__("ROS_LOG_DIR", new_log_dir, **kwargs)

    @property
    def log_dir(self):
        return self.value
