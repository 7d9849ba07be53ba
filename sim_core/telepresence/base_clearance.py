"""How fast a base may move, by what its rangefinders see round about it.

    clearance = BaseClearance(finders, Footprint(front=0.26, rear=0.5, side=0.3), ahead=0.35, aside=0.03)
    around = clearance.around({"range_front": HeardRange(1.2, age=0.05)}, moved)

What a cone's reading tells is that something may be anywhere on the arc at that distance, and nothing is nearer. Every point of the
arc is therefore taken for occupied, where the base's motion since the reading has brought it. Of a motion (forward, left, turn), the
velocity of the point of the footprint that faces such a place, towards it, is one number: forward and left along the normal, and the
turn by its lever. How far that point may still go is what keeps `aside` to it. Driving, `ahead` is kept as well to what is straight
ahead of the base's width, or straight behind it, as a rangefinder tells that looks that way.

A rangefinder that says nothing, or that says the least that it can tell, may be touching something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from config.description import Footprint
from sim_core.telepresence.range_readings import HeardRange

__all__ = ["Around", "BaseClearance", "Rangefinder"]

#: places on an arc that are looked at: 0.12 rad apart in a cone of 1.4 rad, where they stand for what is between them within 1 mm
PLACES = 13
#: [m] outside the footprint where something is that may touch it
TOUCHING = 0.005


@dataclass(frozen=True)
class Rangefinder:
    """Where one looks.

    Attributes:
        name: in sentences.
        bearing: of its line of sight from straight ahead, anticlockwise [rad].
        field_of_view: full angle of what it sees [rad].
        minimum, maximum: ranges between which it tells distances apart [m].
        place: forward and left of the base's middle [m]; None: where its line of sight from the middle leaves the footprint.
    """

    name: str
    bearing: float
    field_of_view: float = 0.7
    minimum: float = 0.0
    maximum: float = float("inf")
    place: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Around:
    """Places that may be occupied, seen from the base.

    Attributes:
        towards: of a motion (forward, left [m/s], anticlockwise [rad/s]), the velocity towards each place (k, 3).
        to_go: the way that is left until the distance to be kept is reached [m] (k,), below zero beyond.
        straight: whether it is kept away from as something straight ahead or behind (k,). who: number of its rangefinder (k,).
    """

    towards: np.ndarray
    to_go: np.ndarray
    straight: np.ndarray
    who: np.ndarray

    def approach(self, motion: np.ndarray) -> np.ndarray:
        """Velocity (k,) [m/s] towards each place, of which turning away makes up for nothing: it ramps at a pace of its own."""
        return np.maximum(self.towards[:, :2] @ motion[:2], 0.0) + np.maximum(self.towards[:, 2] * motion[2], 0.0)


class BaseClearance:
    """See the module's docstring.

    Args:
        finders: that look around. footprint: of the base.
        ahead: [m] kept to what is straight ahead or behind. aside: [m] kept to everything.

    Raises:
        ValueError: a rangefinder that cannot tell what is at the distance that it has to keep.
    """

    def __init__(self, finders: Sequence[Rangefinder], footprint: Footprint, ahead: float, aside: float) -> None:
        self.finders, self.footprint, self.ahead, self.aside = tuple(finders), footprint, ahead, aside
        self._low = np.array([-footprint.rear, -footprint.side])
        self._high = np.array([footprint.front, footprint.side])
        off = np.linspace(-0.5, 0.5, PLACES)
        angles = np.array([finder.bearing + finder.field_of_view * off for finder in self.finders]).reshape(-1, PLACES)
        self._rays = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        self._from = np.array([self._place(finder) for finder in self.finders]).reshape(-1, 2)
        # from a rangefinder to where each of its rays has left the footprint [m]
        self._leaves = self._to_edge(np.repeat(self._from[:, None], PLACES, axis=1), self._rays)
        self._minimum = np.array([finder.minimum for finder in self.finders]).reshape(-1, 1)
        self._along = np.array([self._looks_along(finder) for finder in self.finders])
        for k, finder in enumerate(self.finders):
            self._check(finder, float(self._leaves[k].min()), float(self._along[k]))

    def around(self, ranges: Mapping[str, HeardRange], moved: Callable[[np.ndarray], np.ndarray]) -> Around:
        """What is around the base now.

        Args:
            ranges: by name; one that is missing or not a number says nothing.
            moved: ages (n,) [s] -> how far the base has come since: forward, left [m], anticlockwise [rad], in its axes of then (n, 3).
        """
        heard = [ranges.get(finder.name) for finder in self.finders]
        distance = np.array([np.nan if one is None else one.distance for one in heard], float)[:, None]
        age = [0.0 if one is None else one.age for one in heard]
        near = self._leaves + TOUCHING
        reach = np.where(distance <= self._minimum, np.minimum(distance, near), np.broadcast_to(distance, near.shape))
        reach = np.where(np.isnan(distance), near, reach)
        free = np.isinf(distance[:, 0])
        if not self.finders or free.all():
            return Around(np.zeros((0, 3)), np.zeros(0), np.zeros(0, bool), np.zeros(0, int))
        places = self._from[:, None] + np.where(free[:, None], 0.0, reach)[..., None] * self._rays
        places, rays = self._brought(places, np.where(np.isnan(distance[:, 0]), 0.0, age), moved)
        who = np.repeat(np.flatnonzero(~free), PLACES)
        places, rays = places[~free].reshape(-1, 2), rays[~free].reshape(-1, 2)
        towards, to_go = self._towards(places, rays)
        straight, straight_to_go, those = self._straight(places, self._along[who])
        return Around(
            np.vstack([towards, straight]),
            np.concatenate([to_go, straight_to_go]),
            np.arange(len(to_go) + len(straight_to_go)) >= len(to_go),
            np.concatenate([who, who[those]]),
        )

    def sees(self, heading: float) -> bool:
        """Whether one looks there [rad], or there is none at all."""
        off = [abs(_wrapped(finder.bearing - heading)) <= 0.5 * finder.field_of_view for finder in self.finders]
        return not off or any(off)

    # -- within --------------------------------------------------------------------------------------

    def _brought(
        self, places: np.ndarray, ages: np.ndarray, moved: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Places and rays (n, PLACES, 2) of readings of such ages (n,) [s] in the base's axes of now."""
        forward, left, turn = moved(ages).T
        cosine, sine = np.cos(turn), np.sin(turn)
        back = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], axis=1)
        shifted = places - np.stack([forward, left], -1)[:, None]
        return np.einsum("nij,npj->npi", back, shifted), np.einsum("nij,npj->npi", back, self._rays)

    def _towards(self, places: np.ndarray, rays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of occupied places (k, 2) that were found along rays (k, 2): velocities towards them and ways to go."""
        faces = np.clip(places, self._low, self._high)
        away = places - faces
        distance = np.linalg.norm(away, axis=1)
        # what has come to be within the footprint is where its ray came from
        normal = np.where(distance[:, None] > 1e-9, away / np.maximum(distance, 1e-12)[:, None], rays)
        lever = faces[:, 0] * normal[:, 1] - faces[:, 1] * normal[:, 0]
        return np.column_stack([normal, lever]), distance - self.aside

    def _straight(self, places: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of those that are straight ahead or behind, where their rangefinder looks along (k,), and which they are."""
        edge = np.where(along > 0.0, self._high[0], -self._low[0])
        beyond = along * places[:, 0]
        those = np.flatnonzero((np.abs(places[:, 1]) <= self.footprint.side) & (beyond > 0.0))
        sign = along[those]
        towards = np.column_stack([sign, np.zeros((len(those), 2))])
        return towards, beyond[those] - edge[those] - self.ahead, those

    def _place(self, finder: Rangefinder) -> tuple[float, float]:
        if finder.place is not None:
            return finder.place
        ray = np.array([[[np.cos(finder.bearing), np.sin(finder.bearing)]]])
        x, y = float(self._to_edge(np.zeros((1, 1, 2)), ray)[0, 0]) * ray[0, 0]
        return float(x), float(y)

    def _to_edge(self, start: np.ndarray, rays: np.ndarray) -> np.ndarray:
        """Ways from within the footprint to where rays leave it (...); 0 from outside [m]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ways = np.where(rays > 0.0, (self._high - start) / rays, (self._low - start) / rays)
        ways = np.where(np.abs(rays) < 1e-12, np.inf, ways).min(axis=-1)
        inside = ((start >= self._low) & (start <= self._high)).all(axis=-1)
        return np.where(inside, ways, 0.0)

    def _looks_along(self, finder: Rangefinder) -> float:
        """1: it looks straight ahead, -1: straight behind, 0: neither."""
        half = 0.5 * finder.field_of_view
        ahead, behind = abs(_wrapped(finder.bearing)) <= half, abs(_wrapped(finder.bearing - np.pi)) <= half
        return float(ahead) - float(behind)

    def _check(self, finder: Rangefinder, leaves: float, along: float) -> None:
        name, least = ("stop_distance", self.ahead) if along else ("side_distance", leaves + self.aside)
        if not finder.minimum < least < finder.maximum:
            kept = self.ahead if along else self.aside
            raise ValueError(
                f"{name}: expected one that the rangefinder {finder.name} can tell, above {finder.minimum - least + kept:g} and "
                f"below {finder.maximum:g} [m], found {kept:g}"
            )


def _wrapped(angle: float) -> float:
    """Between -pi and pi [rad]."""
    return float(np.angle(np.exp(1j * angle)))
