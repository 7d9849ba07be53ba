"""What a person asks of servos beside the cycle: table access, reboot, scan. They share the bus with it through a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardware.dynamixel.scan import Found, scan
from hardware.dynamixel.tables import Item
from hardware.link import DeviceError

if TYPE_CHECKING:
    from hardware.dynamixel.device import ServoGroup

__all__ = ["ServoServices"]


class ServoServices:
    """Of one ServoGroup; from any thread.

    Args:
        group: the ServoGroup.
    """

    def __init__(self, group: ServoGroup) -> None:
        self.group = group

    def get_item(self, id: int, name: str) -> int:
        """One value of a servo's control table. Raises DeviceError."""
        with self.group.bus() as bus:
            return bus.read_item(id, self._item(id, name))

    def set_item(self, id: int, name: str, value: int) -> None:
        """Write one value of a servo's control table. Raises DeviceError; its text is the servo's own reason."""
        with self.group.bus() as bus:
            try:
                bus.write_item(id, self._item(id, name), value)
            except ValueError as error:
                raise DeviceError(f"{name}: {error}") from None

    def _item(self, id: int, name: str) -> Item:
        joints = self.group.joints
        joint = next((joint for joint in joints if joint.id == id), None)
        if joint is None:
            raise DeviceError(f"no joint has servo {id}: configured are {', '.join(str(j.id) for j in joints)}")
        if name not in joint.model.items:
            raise DeviceError(f"{joint.model.name} has no item '{name}': it has {', '.join(joint.model.items)}")
        return joint.model.items[name]

    def reboot(self, timeout: float = 5.0) -> list[str]:
        """Reboot the servos that report a hardware error; the names of those that are back. Their torque is off.

        Raises:
            DeviceError: not connected, Protocol 1.0, or one does not come back.
        """
        group = self.group
        if group.protocol == 1.0:
            raise DeviceError("Protocol 1.0 knows no reboot: switch the servos' power off and on")
        with group.bus() as bus:
            ill = [k for k, error in enumerate(group.joint_state.hardware_error) if error and group.present(k)]
            for k in ill:
                bus.reboot(group.joints[k].id)
            group.expect_back(ill)
        if not group.wait_for(lambda: all(map(group.present, ill)), timeout):
            raise DeviceError(
                f"{', '.join(group.names[k] for k in ill if not group.present(k))} did not come back within {timeout:g} s"
            )
        return [group.names[k] for k in ill]

    def scan(self) -> list[Found]:
        """Who answers at which rate; only while not streaming, for a scan takes the bus for seconds.

        Raises:
            DeviceError: streaming, or the port cannot be opened.
        """
        with self.group.idle_bus() as bus:
            return scan(bus)
