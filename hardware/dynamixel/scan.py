"""Who is on a bus, whatever its baud rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hardware.dynamixel.bus import Bus
from hardware.dynamixel.tables import BAUD_RATES, model_by_number
from hardware.link import DeviceError, NotAnswering, SerialPort

__all__ = ["Found", "scan"]


class Found(NamedTuple):
    """A servo that answered."""

    baud: int
    protocol: float
    id: int
    model: str
    firmware: int

    def __str__(self) -> str:
        return f"id {self.id}: {self.model}, firmware {self.firmware}, protocol {self.protocol:g}, {self.baud} baud"


def scan(
    port: SerialPort,
    protocol: float,
    latency: float = 0.02,
    bauds: Iterable[int] | None = None,
    likely_ids: Iterable[int] = range(1, 21),
    progress: Callable[[int], None] = lambda baud: None,
) -> list[Found]:
    """Ask at every rate. The port's own rate comes first, and ends up set on whatever was tried last.

    Args:
        protocol: 2.0 asks everybody at once; 1.0, which cannot, asks `likely_ids` one by one.
        latency: beyond the time on the wire [s].
        progress: called with each rate before it is tried.
    """
    found = []
    for baud in dict.fromkeys((port.baud, *(bauds or BAUD_RATES))):
        progress(baud)
        try:
            port.set_baud(baud)
        except DeviceError:
            continue  # the adapter does not know this rate
        bus = Bus(port, protocol, latency=latency)
        for who in bus.ping_all() if protocol == 2.0 else _one_by_one(bus, likely_ids):
            model = model_by_number(who.model)
            found.append(
                Found(baud, protocol, who.id, model.name if model else f"model number {who.model}", who.firmware)
            )
    return found


def _one_by_one(bus: Bus, ids: Iterable[int]):
    for id in ids:
        try:
            yield bus.ping(id)
        except (NotAnswering, DeviceError):
            continue
