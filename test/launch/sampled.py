"""What an operator's devices say, as a message."""

from refit_interfaces.msg import OperatorSample

from nodes.control.arm_messages import pose_message
from nodes.framework.messages import set_stamp
from sim_core.telepresence.link_ends import Devices

__all__ = ["sample_message"]


def sample_message(devices: Devices, now: float, number: int, session: str) -> OperatorSample:
    """Of devices in OpenXR's axes; `now` on the robot's clock [s]."""
    message = OperatorSample(sequence=number, session=session, head_tracked=devices.head is not None)
    set_stamp(message.header.stamp, now)
    if devices.head is not None:
        message.head = pose_message(devices.head)
    message.hand_tracked = [hand is not None for hand in devices.hands]
    message.hands = [pose_message(hand) for hand in devices.hands]
    message.clutch, message.trigger = list(devices.clutch), [float(x) for x in devices.trigger]
    message.stick = [float(x) for x in devices.stick]
    return message
