"""What the refit has learnt of the robot's physics: named quantities with their uncertainty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Learnt", "Quantity"]


@dataclass(frozen=True)
class Quantity:
    """One physical quantity.

    Attributes:
        name, unit: e.g. hand.payload.mass [kg].
        value, std: estimate and its standard deviation (NaN where unknown), in that unit.
        interval: 95 % interval (lower, upper).
        excited: whether the motion determined it; False: it kept what was believed before.
        at_bound: whether the estimate stopped at a bound, so that it is no estimate.
    """

    name: str
    value: float
    std: float
    interval: tuple[float, float]
    unit: str
    excited: bool = True
    at_bound: bool = False

    def __str__(self) -> str:
        remark = "" if self.excited else "  (not determined by the motion)"
        remark += "  (at its bound)" if self.at_bound else ""
        low, high = self.interval
        return f"{self.name} = {self.value:.4g} {self.unit}, 95 % in [{low:.4g}, {high:.4g}]{remark}"


@dataclass(frozen=True)
class Learnt(Mapping[str, Quantity]):
    """The newest accepted parameter set, by the names of its quantities; empty before the first.

    Attributes:
        quantities: by name.
        revision: grows by one with each accepted set; 0: none yet.
        window: the data it was fitted to, from and to [s] of the robot's clock.
        message: why it was accepted, in one sentence.
    """

    quantities: Mapping[str, Quantity]
    revision: int = 0
    window: tuple[float, float] = (0.0, 0.0)
    message: str = "nothing was learnt yet"

    @classmethod
    def from_message(cls, message: Any) -> Learnt:
        """From a refit_interfaces/ParameterSet."""
        return cls(
            {
                p.name: Quantity(p.name, p.value, p.std, (p.lower, p.upper), p.unit, p.excited, p.at_bound)
                for p in message.parameters
            },
            int(message.revision),
            (message.window_start, message.window_end),
            message.message,
        )

    def __getitem__(self, name: str) -> Quantity:
        return self.quantities[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.quantities)

    def __len__(self) -> int:
        return len(self.quantities)

    def __str__(self) -> str:
        if not self.revision:
            return self.message
        rows = [("", "value", "std", "95 % interval", "unit", "")]
        for q in self.values():
            low, high = q.interval
            remark = "" if q.excited else "not determined by the motion"
            remark = "at its bound" if q.at_bound else remark
            rows.append((q.name, f"{q.value:.5g}", f"{q.std:.2g}", f"{low:.5g} to {high:.5g}", q.unit, remark))
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join(lines)
