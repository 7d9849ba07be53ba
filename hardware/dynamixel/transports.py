"""The transports that a group's options name. The maker's library is imported only where its transport is asked for."""

from __future__ import annotations

import importlib.util

from hardware.dynamixel.bus import Bus
from hardware.dynamixel.transport import Transport
from hardware.link import DeviceError

__all__ = ["TRANSPORTS", "transport_named"]

TRANSPORTS = ("refit", "dynamixel_sdk")


def transport_named(name: str) -> type[Transport]:
    """The class, whose `open` makes a bus.

    Raises:
        DeviceError: no such transport, or the package that it needs is not installed.
    """
    if name == "refit":
        return Bus
    if name != "dynamixel_sdk":
        raise DeviceError(f"transport is '{name}': use {' or '.join(TRANSPORTS)}")
    if importlib.util.find_spec("dynamixel_sdk") is None:
        raise DeviceError(
            "transport dynamixel_sdk needs the maker's library, which is not installed: "
            "pip install dynamixel-sdk==4.1.0, or set transport to refit"
        )
    from hardware.dynamixel.sdk_transport import SdkTransport

    return SdkTransport
