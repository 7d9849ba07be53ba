"""Where a camera comes from: USB, a recording, an emulator."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyrealsense2 as rs

from hardware.link.errors import DeviceError, Disconnected

if TYPE_CHECKING:
    from hardware.realsense.software_camera import SoftwareCamera

__all__ = ["Camera", "Source", "emulated", "info", "recording", "unused_recording", "usb"]


class Camera(Protocol):
    """A camera that is open.

    Attributes:
        device: of the SDK, with its sensors.
        playback: of the SDK if it is a recording, else None.
        connected: False once it has vanished.
    """

    @property
    def device(self) -> Any: ...
    @property
    def playback(self) -> Any: ...
    @property
    def connected(self) -> bool: ...

    def reset(self) -> None:
        """Hardware reset; it vanishes and comes back.

        Raises:
            DeviceError: it refuses.
        """

    def still(self) -> AbstractContextManager[Any]:
        """While this lasts no thread of Python hands frames to the SDK, so that its streams may be started and stopped.

        The SDK takes a frame with Python's interpreter held and waits for its own lock, which a stop holds while it waits
        for the interpreter.
        """

    def close(self) -> None:
        """Let go of every reference."""


Source = Callable[[], Camera]  # raises DeviceError where there is no camera

_INFOS = {
    "name": rs.camera_info.name,
    "serial": rs.camera_info.serial_number,
    "firmware": rs.camera_info.firmware_version,
    "usb": rs.camera_info.usb_type_descriptor,
    "port": rs.camera_info.physical_port,
    "update_id": rs.camera_info.firmware_update_id,
}


def info(device: rs.device, what: str) -> str:
    """ "name", "serial", "firmware", "usb", "port" or "update_id" of an SDK device; "" if it does not say."""
    key = _INFOS[what]
    return device.get_info(key) if device.supports(key) else ""


def usb(serial_no: str = "", usb_port_id: str = "", device_type: str = "") -> Source:
    """The first camera on USB that fits.

    Args:
        serial_no: serial number, with or without the leading underscore that keeps YAML from reading a number.
        usb_port_id: such as "2-1".
        device_type: regular expression for the name, such as "d435(?!i)".
    """
    return lambda: _UsbCamera(serial_no.lstrip("_"), usb_port_id, device_type)


def emulated(link: str | os.PathLike[str]) -> Callable[[], SoftwareCamera]:
    """The emulator at `link`."""

    def source() -> SoftwareCamera:
        from hardware.realsense.software_camera import SoftwareCamera

        return SoftwareCamera(link)

    return source


def recording(path: str | os.PathLike, real_time: bool = True) -> Source:
    """A recording, .db3 or .bag; `real_time` false: as fast as it can be read, without losing a frame."""
    return lambda: _Recording(Path(path).expanduser(), real_time)


def unused_recording(path: str | os.PathLike) -> Path:
    """Where to record: `path` with the one ending that the SDK writes (.db3), numbered if it exists."""
    path = Path(path).expanduser().with_suffix(".db3")
    path.parent.mkdir(parents=True, exist_ok=True)
    unused, number = path, 1
    while unused.exists():
        unused, number = path.with_stem(f"{path.stem}-{number}"), number + 1
    return unused


class _UsbCamera:
    playback = None

    def __init__(self, serial_no: str, usb_port_id: str, device_type: str) -> None:
        self._lost = False
        try:
            self._context = rs.context()
            found = list(self._context.query_devices())
        except RuntimeError as error:
            raise Disconnected(f"the SDK finds no USB: {error}") from error
        fitting = [
            device
            for device in found
            if serial_no in ("", info(device, "serial"))
            and (not usb_port_id or _on_port(info(device, "port"), usb_port_id))
            and re.search(device_type, info(device, "name"), re.IGNORECASE)
        ]
        if not fitting:
            wanted = " ".join(
                f"{k} {v}"
                for k, v in (("serial number", serial_no), ("on port", usb_port_id), ("of type", device_type))
                if v
            )
            there = ", ".join(f"{info(d, 'name')} {info(d, 'serial')}" for d in found) or "none"
            raise Disconnected(
                f"no RealSense camera {wanted}".rstrip() + f" on USB (found: {there}): check the cable, the "
                "udev rules and the parameters serial_no, usb_port_id, device_type"
            )
        self.device = fitting[0]
        device = self.device

        def changed(event: rs.event_information) -> None:
            self._lost = self._lost or event.was_removed(device)

        self._context.set_devices_changed_callback(changed)

    @property
    def connected(self) -> bool:
        return not self._lost

    def reset(self) -> None:
        try:
            self.device.hardware_reset()
        except RuntimeError as error:
            raise DeviceError(f"the camera refused a hardware reset: {error}") from error

    def still(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        self._context.set_devices_changed_callback(lambda event: None)
        self.device = self._context = None


def _on_port(physical_port: str, usb_port_id: str) -> bool:
    """Whether a path such as /sys/devices/.../usb2/2-1/2-1:1.0/... goes through port 2-1."""
    return re.search(rf"(^|/){re.escape(usb_port_id)}(:|/|-|$)", physical_port) is not None


class _Recording:
    def __init__(self, path: Path, real_time: bool) -> None:
        if not path.is_file():
            raise Disconnected(f"no recording at {path}: give the path of a .db3 or .bag file in rosbag_filename")
        self._path, self._context = path, rs.context()
        try:
            self.device = self.playback = self._context.load_device(str(path))
        except RuntimeError as error:
            raise DeviceError(f"{path} cannot be played: {error}") from error
        self.playback.set_real_time(real_time)
        self.connected = True

    def reset(self) -> None:
        raise DeviceError("a recording has no hardware reset")

    def still(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        # A .bag stays without index, and a file open, while anything of the playback is referenced.
        self.device = self.playback = None
        try:
            self._context.unload_device(str(self._path))
        except RuntimeError:
            pass
        self._context = None
