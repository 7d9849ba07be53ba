"""How long a command waits for the wire, from what the emulated end of the wire noted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["Wait", "waits"]


class Wait(NamedTuple):
    """Of one command, to the last byte of the packet that carries it."""

    bytes: int  # on the wire meanwhile; what was under way when the command came counts in full
    seconds: float


def waits(traffic: Iterable[tuple], commands: Mapping[float, str], baud: int) -> list[Wait]:
    """The wait of every command that was sent; one that the next has overtaken is left out.

    Args:
        traffic: exchanges (number, time [s], instruction, parameters in hex, bytes of request, bytes of replies), without
            gaps; one that was noted twice counts once.
        commands: time at which a command came [s] -> how the parameters of its packet end, in hex.
        baud: of the line.

    Raises:
        ValueError: exchanges are missing.
    """
    exchanges = {entry[0]: entry for entry in traffic}
    numbers = sorted(exchanges)
    if numbers and numbers[-1] - numbers[0] >= len(numbers):
        raise ValueError(
            f"exchanges {numbers[0]} to {numbers[-1]} are expected, {len(numbers)} are there: collect them more often"
        )
    ends, end = {}, 0.0  # on the wire: a request may have to wait for what was written before it
    for k in numbers:
        _, t, _, _, asked, answered = exchanges[k]
        ends[k] = end = max(t, end) + 10.0 * (asked + answered) / baud
    found = []
    for t, parameters in commands.items():
        sent = next((k for k in numbers if ends[k] > t and exchanges[k][3].endswith(parameters)), None)
        if sent is not None:
            found.append(Wait(sum(sum(exchanges[k][4:]) for k in numbers if k <= sent and ends[k] > t), ends[sent] - t))
    return found
