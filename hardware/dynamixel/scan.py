"""Who is on a bus, whatever its baud rate."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from hardware.dynamixel.tables import BAUD_RATES, model_by_number
from hardware.dynamixel.transport import Ping, Transport
from hardware.link import DeviceError

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
    bus: Transport,
    bauds: Iterable[int] | None = None,
    likely_ids: Iterable[int] = range(1, 21),
    progress: Callable[[int], None] = lambda baud: None,
) -> list[Found]:
    """Ask at every rate. The port's own rate comes first, and ends up set on whatever was tried last.

    Args:
        bus: of Protocol 2.0, which asks everybody at once, or of 1.0, which cannot and asks `likely_ids` one by one.
        bauds: rates to try besides; None: all that servos know.
        likely_ids: see bus.
        progress: called with each rate before it is tried.
    """
    found = []
    for baud in dict.fromkeys((bus.baud, *(bauds or BAUD_RATES))):
        progress(baud)
        try:
            bus.set_baud(baud)
        except DeviceError:
            continue  # the adapter does not know this rate
        for who in bus.ping_all() if bus.protocol == 2.0 else _one_by_one(bus, likely_ids):
            model = model_by_number(who.model)
            found.append(
                Found(baud, bus.protocol, who.id, model.name if model else f"model number {who.model}", who.firmware)
            )
    return found


def _one_by_one(bus: Transport, ids: Iterable[int]) -> Iterator[Ping]:
    for id in ids:
        with contextlib.suppress(DeviceError):
            yield bus.ping(id)
