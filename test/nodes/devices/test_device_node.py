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
        self.device = SimpleNamespace(state=State.STREAMING, faults={}, warnings={}, last_error="")
        self.told, self.logged, self._looking = [], [], threading.RLock()
        self.diagnostics = SimpleNamespace(stand=lambda level, sentence: None, beat=self._beat)

    context = SimpleNamespace(ok=lambda: True)

    def _beat(self, force):
        self.told.append((sorted(self.device.faults), sorted(self.device.warnings)))

    def _health(self):
        if self.device.state is not State.STREAMING:
            return DiagnosticStatus.ERROR, self.device.last_error or "no answer yet"
        return DiagnosticStatus.WARN if self.device.warnings else DiagnosticStatus.OK, "; ".join(self.device.warnings)

    def get_name(self):
        return "sensor"

    def get_logger(self):
        return SimpleNamespace(warning=self.logged.append, info=self.logged.append)

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


def test_a_device_that_is_missing_from_the_start_is_logged_once_and_so_is_its_return():
    node = Node()
    node.device.state = State.CONNECTING
    node._look()
    assert node.logged == [], "it was just asked"
    node.device.last_error = "there is no port"
    node._look()
    node._look()
    assert node.logged == ["sensor: there is no port"]
    node.device.state = State.STREAMING
    node._look()
    node._look()
    assert node.logged[1:] == ["sensor: all is well again"]
