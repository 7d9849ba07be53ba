"""Transforms as /tf and /tf_static tell them, for a node that looks poses up.

A module of its own: whoever imports it may listen to both topics (cli/security_endpoints.py).
"""

from __future__ import annotations

from tf2_msgs.msg import TFMessage

from nodes.frames.transforms import TransformBuffer
from nodes.framework.qos import LEDGER, STATE

__all__ = ["TransformListener"]


class TransformListener(TransformBuffer):
    """A buffer that is filled from the graph.

    Args:
        node: that listens.
    """

    def __init__(self, node) -> None:
        super().__init__()
        self._node = node
        self._readers = [
            node.create_subscription(TFMessage, "/tf", self.add, STATE),
            node.create_subscription(TFMessage, "/tf_static", self.add_static, LEDGER),
        ]

    def destroy(self) -> None:
        """Free what it listens with."""
        self._node.discard(*self._readers)
