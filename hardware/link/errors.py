"""What can go wrong with a device. Each text is one sentence: expected, found, what to do."""

__all__ = ["DeviceError", "Disconnected", "NotAnswering", "WrongDevice"]


class DeviceError(Exception):
    """A device does not do its part."""


class Disconnected(DeviceError):
    """The port is gone or was never there: unplugged, wrong path, no permission.

    Attributes:
        path: of the port, where it is a file; when it appears, another attempt makes sense at once.
    """

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.path = path


class NotAnswering(DeviceError):
    """The port is there, the device is silent beyond its time-out."""


class WrongDevice(DeviceError):
    """Another model or serial number answers than the one expected."""
