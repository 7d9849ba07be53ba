"""A controller whose joints are told by several drivers: a cycle for each leading part that is due, with everything that was told."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from nodes.control.joint_controller import JointController
from nodes.framework.control_beat import ControlBeat
from nodes.framework.joint_state_parts import JointStateParts
from nodes.framework.messages import set_stamp

ARM, NECK = ("arm1", "arm2"), ("neck",)


class Controller(SimpleNamespace):
    """What `_on_joint_state` needs of a controller, without a graph; its law is to remember."""

    def __init__(self):
        self.cycles, self.refusals = [], []
        super().__init__(
            is_active=True,
            config=SimpleNamespace(several_drivers=True, lockstep=False, control_period=0.01),
            beat=ControlBeat(0.01, False),
            gate=JointStateParts((*ARM, *NECK), 0.1, 0.5),
            diagnostics=SimpleNamespace(tick=lambda name: None, warn=self.refusals.append),
            halt_reason="nothing is sent here",
            _sent=None,
            _told=-np.inf,
            attend=lambda: None,
            tell=lambda stamp: None,
            _tell_status=lambda stamp: None,
            start_over=lambda: self.cycles.append("over"),
        )

    def now(self):
        return self.time

    def respond(self, state, since):
        self.cycles.append((state.stamp, *state.position))

    def hear(self, t, names, position):
        self.time = t
        message = JointState(name=list(names), position=list(position), velocity=[0.0] * len(names))
        set_stamp(message.header.stamp, t)
        JointController._on_joint_state(self, serialize_message(message))


def test_a_slow_neck_beside_a_fast_arm_is_in_every_cycle_and_begins_none():
    controller = Controller()
    for k in range(1, 101):  # the arm at 500 Hz, the neck at 20 Hz and always between two cycles
        t = 1.0 + 0.002 * k
        if k % 25 == 13:
            controller.hear(t - 0.001, NECK, [10.0 + t])
        controller.hear(t, ARM, [t, -t])
    assert "over" not in controller.cycles
    stamps = [cycle[0] for cycle in controller.cycles]
    assert np.diff(stamps) == pytest.approx(np.full(len(stamps) - 1, 0.01), abs=1e-6) and len(stamps) >= 17
    assert all(0.0 <= stamp + 10.0 - neck < 0.06 for stamp, _, _, neck in controller.cycles)
    assert all("told by no driver yet" in why for why in controller.refusals)
    refused = len(controller.refusals)
    for k in range(101, 201):  # the neck says nothing more
        controller.hear(1.0 + 0.002 * k, ARM, [0.0, 0.0])
    assert (
        controller.cycles[-1][0] < 1.3
        and "its driver is silent" in controller.refusals[-1]
        and len(controller.refusals) > refused
    )
