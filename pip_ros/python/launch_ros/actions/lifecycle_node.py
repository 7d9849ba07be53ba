"""Run a lifecycle node."""

from lifecycle_msgs.msg import Transition

from ..utilities.lifecycle_event_manager import LifecycleEventManager
from .lifecycle_transition import LifecycleTransition
from .node import Node


class LifecycleNode(Node):
    """A Node that reports its transitions as StateTransition and obeys ChangeState.

    Args:
        name, namespace: required, the namespace may be ''.
        autostart: configure and activate it. Jazzy knows True and False only; to
            decide at run time, use an OpaqueFunction or two actions with conditions.
    """

    def __init__(self, *, name, namespace, autostart=False, **kwargs):
        if not isinstance(autostart, bool):
            raise TypeError(
                f"LifecycleNode: autostart has to be True or False, found {autostart!r}; "
                "Jazzy takes every substitution for True"
            )
        super().__init__(name=name, namespace=namespace, **kwargs)
        self.__autostart = autostart
        self.__manager = None

    @property
    def node_autostart(self):
        return self.__autostart

    @property
    def is_lifecycle_node(self):
        return True

    def get_lifecycle_event_manager(self):
        return self.__manager

    def execute(self, context):
        self._perform_substitutions(context)
        if self.UNSPECIFIED_NODE_NAME in self.node_name:
            raise RuntimeError("node_name unexpectedly incomplete for lifecycle node")
        self.__manager = LifecycleEventManager(self)
        self.__manager.setup_lifecycle_manager(context)
        entities = super().execute(context) or []
        if self.__autostart:
            entities = [
                *entities,
                LifecycleTransition(
                    lifecycle_node_names=[self.node_name],
                    transition_ids=[Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE],
                ),
            ]
        return entities
