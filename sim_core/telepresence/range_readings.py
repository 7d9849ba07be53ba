"""What the rangefinders said last, and no longer than it may be believed.

readings = RangeReadings(age_limit=0.3)
readings.hear("range_front", 1.2, stamp, now)
readings.fresh(now)                                 # {"range_front": HeardRange(1.2, age)}, and nothing 0.3 s later
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HeardRange", "RangeReadings"]


@dataclass(frozen=True)
class HeardRange:
    """Attributes:
    distance: of the nearest thing in the cone [m]; infinity: none. age: of the reading [s].
    """

    distance: float
    age: float


class RangeReadings:
    """Args:
        age_limit: [s] after which a reading says nothing any more.

    Raises:
        ValueError: the limit is not positive.
    """

    def __init__(self, age_limit: float = 0.3) -> None:
        if not age_limit > 0.0:
            raise ValueError(f"age_limit: expected a positive time, found {age_limit:g} [s]")
        self.age_limit = age_limit
        self._said: dict[str, tuple[float, float]] = {}

    def hear(self, name: str, distance: float, stamp: float, now: float) -> bool:
        """A reading [m] of the time `stamp`, heard `now` [s], on the robot's clock; whether it counts.

        One that is older than the limit when it comes, or than the last one, does not. A stamp ahead of now is taken for now:
        a rangefinder whose clock is ahead shall not be believed for longer.
        """
        stamp = min(stamp, now)
        if not now - stamp <= self.age_limit or stamp < self._said.get(name, (stamp,))[0]:
            return False
        self._said[name] = stamp, distance
        return True

    def fresh(self, now: float) -> dict[str, HeardRange]:
        """Readings by name that are not too old now [s]."""
        # Time that went back, by a reset, leaves readings of the future: they belong to another time.
        return {
            name: HeardRange(seen, now - stamp)
            for name, (stamp, seen) in self._said.items()
            if 0.0 <= now - stamp <= self.age_limit
        }

    def forget(self) -> None:
        """Nothing was heard yet."""
        self._said = {}
