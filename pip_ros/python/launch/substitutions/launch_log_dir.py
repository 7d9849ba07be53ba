"""The directory of this launch's log files."""

from ..logging import launch_config
from ..substitution import Substitution


class LaunchLogDir(Substitution):
    def describe(self):
        return "LaunchLogDir()"

    def perform(self, context):
        return launch_config.log_dir
