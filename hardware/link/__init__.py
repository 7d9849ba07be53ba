"""What every driver needs: ports that report their loss, reconnection, device clocks, counters."""

from hardware.link.backoff import Backoff
from hardware.link.clock import DeviceClock
from hardware.link.counters import Counters, RateMeter
from hardware.link.device import Device, Identity, State
from hardware.link.errors import DeviceError, Disconnected, NotAnswering, WrongDevice
from hardware.link.serial_port import SerialPort
from hardware.link.while_open import WhileOpen

__all__ = [
    "Backoff",
    "Counters",
    "Device",
    "DeviceClock",
    "DeviceError",
    "Disconnected",
    "Identity",
    "NotAnswering",
    "RateMeter",
    "SerialPort",
    "State",
    "WhileOpen",
    "WrongDevice",
]
