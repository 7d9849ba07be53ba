"""What goes wrong with a device is told at once, also where something else is wrong already."""

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticStatus

from hardware.link import State
from nodes.devices.device_node import DeviceNode


class Node(DeviceNode):
    """The part of a node that looks at its device; `told` holds what stood when a message was sent before its time."""

    def __init__(self):
        self.device = SimpleNamespace(state=State.STREAMING, faults={}, warnings={})
        self.told, self._looking = [], threading.RLock()
        self.diagnostics = SimpleNamespace(stand=lambda level, sentence: None, beat=self._beat)

    context = SimpleNamespace(ok=lambda: True)

    def _beat(self, force):
        self.told.append((sorted(self.device.faults), sorted(self.device.warnings)))

    def _health(self):
        return DiagnosticStatus.WARN if self.device.warnings else DiagnosticStatus.OK, "; ".join(self.device.warnings)

    def _log_change(self, level, sentence):
        pass

    def diagnose(self):
        pass


def test_a_second_warning_does_not_wait_for_the_first_to_end():
    node = Node()
    node._look()
    node.device.warnings["hot"] = "it is hot"
    node._look()
    node._look()
    assert node.told == [([], []), ([], ["hot"])]
    node.device.warnings["frozen"] = "it repeats one image"
    node._look()
    assert node.told[2:] == [([], ["frozen", "hot"])]
    del node.device.warnings["frozen"]
    node._look()
    assert len(node.told) == 3, "what has gone can wait for the next beat"
    node.device.warnings["frozen"] = "again"
    node._look()
    assert len(node.told) == 4
