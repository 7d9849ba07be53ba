"""Actions that concern ROS nodes."""

from .lifecycle_node import LifecycleNode
from .lifecycle_transition import LifecycleTransition
from .node import Node
from .push_ros_namespace import PushROSNamespace, PushRosNamespace
from .set_parameter import SetParameter, SetParametersFromFile, SetUseSimTime
from .set_remap import SetRemap
from .set_ros_log_dir import SetROSLogDir

__all__ = [
    "LifecycleNode",
    "LifecycleTransition",
    "Node",
    "PushROSNamespace",
    "PushRosNamespace",
    "SetParameter",
    "SetParametersFromFile",
    "SetROSLogDir",
    "SetRemap",
    "SetUseSimTime",
]
