"""What a device has only while its link is open: a port, a socket, what speaks over them."""

from __future__ import annotations

from typing import Generic, TypeVar, overload

from hardware.link.errors import Disconnected

__all__ = ["WhileOpen"]

Resource = TypeVar("Resource")


class WhileOpen(Generic[Resource]):
    """An attribute that is there from `_open` on until it is set to None.

        class Thermometer(Device):
            _port = WhileOpen[SerialPort]()

    Raises:
        Disconnected: it is read while it is not there.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, device: None, owner: type) -> WhileOpen[Resource]: ...
    @overload
    def __get__(self, device: object, owner: type) -> Resource: ...
    def __get__(self, device: object | None, owner: type) -> WhileOpen[Resource] | Resource:
        if device is None:
            return self
        resource = self.of(device)
        if resource is None:
            raise Disconnected(f"the link of {owner.__name__} is not open: start the device, or wait until it is ready")
        return resource

    def of(self, device: object) -> Resource | None:
        """It, or None while it is not there: `Thermometer._port.of(self)`."""
        return device.__dict__.get(self._name)

    def __set__(self, device: object, resource: Resource | None) -> None:
        device.__dict__[self._name] = resource
