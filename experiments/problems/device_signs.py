"""Whether a driver has told of a fault: by its own level, its own counters, its own words, and not by what was left over.

    sign = Sign(ERROR, ("reconnects",), "reconnecting|gone")
    Sign.told(sign, before, heard)          # when, [s]; NaN: it has not

`before` is the newest message before the fault began, `heard` are those after it. A level or a sentence that stood
already before is none of this fault's, and neither is a counter that belongs to another kind of fault.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ERROR", "OK", "STALE", "WARN", "Health", "Sign", "Telling"]

OK, WARN, ERROR, STALE = 0, 1, 2, 3  # diagnostic_msgs/DiagnosticStatus


@dataclass(frozen=True)
class Health:
    """One diagnostics message: when it came (monotonic [s]), level 0 to 3, sentence, counters and other values."""

    t: float
    level: int
    sentence: str
    values: dict[str, str]

    @property
    def flows(self) -> bool:
        """Streaming, and no worse than warnings of the past or a rate that a busy machine keeps down."""
        return self.values.get("state") == "streaming" and (
            self.level in (OK, WARN) or self.sentence.startswith("rate ")
        )

    def count(self, counter: str) -> int:
        """A counter's total; 0 before its first count."""
        value = self.values.get(counter, "0")
        return int(value) if value.isdigit() else 0


@dataclass(frozen=True)
class Telling:
    """When the parts of a sign were first heard, on the clock of the messages [s]; NaN: not yet.

    Attributes:
        level: the level, with its sentence where the sign has one.
        counter: the first growth of one of the sign's counters; that of the level where it has none.
        grown: the counter that grew first; "" if none has.
    """

    level: float = math.nan
    counter: float = math.nan
    grown: str = ""

    @property
    def complete(self) -> bool:
        return not (math.isnan(self.level) or math.isnan(self.counter))


@dataclass(frozen=True)
class Sign:
    """What must be heard of a fault; one cell of the level-and-counter matrix.

    Attributes:
        level: WARN or ERROR; a higher one tells as well.
        counters: of which at least one must grow. () where the device counts nothing of the kind.
        says: a regular expression that a sentence of this level must match; "" where the counters say it.

    Raises:
        ValueError: nothing but a level, which any other fault may have left.
    """

    level: int
    counters: tuple[str, ...] = ()
    says: str = ""

    def __post_init__(self) -> None:
        if self.level not in (WARN, ERROR) or not (self.counters or self.says):
            raise ValueError(
                f"a sign is WARN or ERROR, and counters or a sentence that belong to the fault, found {self}"
            )

    def told(self, before: Health, heard: Sequence[Health]) -> Telling:
        """What of the sign has been heard.

        Args:
            before: newest message before the fault began.
            heard: those since, oldest first.
        """
        counter, grown, level = math.nan, "", math.nan
        standing = self._matches(before)
        for health in heard:
            if not grown:
                grown = next((name for name in self.counters if health.count(name) > before.count(name)), "")
                counter = health.t if grown else math.nan
            matches = self._matches(health)
            # What stood before has to end first, or to be renewed by a count of this fault's kind.
            if math.isnan(level) and matches and (grown or (self.says and not standing)):
                level = health.t
            standing = standing and matches
        return Telling(level, counter if self.counters else level, grown)

    def _matches(self, health: Health) -> bool:
        return (
            health.level in (WARN, ERROR) and health.level >= self.level and bool(re.search(self.says, health.sentence))
        )
