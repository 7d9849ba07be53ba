"""Where to poke an object next, so that few pokes tell how hard it is all over.

    exploration = Exploration(surface, fit_point_model("process"), ExplorationSettings(choice="variance"))
    place = exploration.ask()                          # index among the candidates, point, normal
    exploration.tell(place.index, poke)                # or exploration.fail(place.index, "out of reach")
    save(exploration.checkpoint(), "exploration.json")    # Exploration.resume(load(...), surface, fit)

Candidates are points of the surface, one for each voxel, whose normal is within the probe's reach. It is asked, told and stored as
every planner is (`sim_core/planning/planner.py`), but that a trial's outcome is a whole poke. Poking where a model is least
sure is not in the source (Zhu, PhD thesis, University of Illinois 2023, section 6.5 pokes at random); `random` is there to compare with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np

from sim_core.elastic.poke import Poke
from sim_core.elastic.scan_offset import onset
from sim_core.planning.candidates import Candidates

if TYPE_CHECKING:
    from sim_core.elastic.surface import Surface

__all__ = [
    "CHOICES",
    "Choice",
    "Exploration",
    "ExplorationSettings",
    "Place",
    "poke_of",
    "poke_record",
    "surface_digest",
]

VERSION = 1
OBSERVED, STEEP, BORDER = "poked", "too steep", "at the border"
#: share of `margin` by which the middle of a place's neighbours is off it, along the surface, where that ends: a half disc's is 0.42
ONE_SIDED = 0.25
Choice = Literal["variance", "spread", "random"]
#: how the next place is chosen
CHOICES: tuple[Choice, ...] = ("variance", "spread", "random")


class SureModel(Protocol):
    """A point model that says how sure it is."""

    deepest: float

    def predict(self, features: np.ndarray, displacement: np.ndarray) -> np.ndarray:
        """Forces (m,) [N] at features (m, 9), displacements (m,) [m]."""

    def predict_with_deviation(self, features: np.ndarray, displacement: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Forces and their standard deviations, each (m,) [N]."""


#: pokes -> what they tell
Fit = Callable[[Sequence[Poke]], SureModel]


@dataclass(frozen=True)
class ExplorationSettings:
    """What an exploration may do.

    Attributes:
        choice: of the next place: where the model is least sure, farthest from all pokes, or by chance.
        spacing: side of the voxels, of each of which one point is a candidate [m] (published: 15 to 30 mm).
        steepest: a candidate's normal may differ from `upward` by [rad]. upward: direction from which the arm comes (3,).
        margin: radius of a place's neighbourhood [m]; where it lies on one side, the surface ends, and nobody pokes. 0: anywhere.
        depth: displacement at which the model's sureness counts [m].
        seed: decides what chance decides.
    """

    choice: Choice = "variance"
    spacing: float = 0.02
    steepest: float = 0.9
    upward: tuple[float, float, float] = (0.0, 0.0, 1.0)
    margin: float = 0.02
    depth: float = 0.003
    seed: int = 0

    def __post_init__(self) -> None:
        if self.choice not in CHOICES:
            raise ValueError(f"there is no choice '{self.choice}'; there are {', '.join(CHOICES)}")
        if not (self.spacing > 0.0 and 0.0 < self.steepest <= np.pi and self.depth > 0.0 and self.margin >= 0.0):
            raise ValueError(
                "expected a spacing and a depth above 0, a margin of 0 or more and a steepness of 0 to pi, found "
                f"{self.spacing:g}, {self.depth:g}, {self.margin:g}, {self.steepest:g}"
            )


@dataclass(frozen=True)
class Place:
    """Where to poke.

    Attributes:
        index: of the candidate. point: on the surface (3,) [m]. normal: outward (3,). feature: see `Surface` (9,).
        deviation: of the force believed there, at the settings' depth [N]; NaN: nothing is believed yet.
    """

    index: int
    point: np.ndarray
    normal: np.ndarray
    feature: np.ndarray
    deviation: float


class Exploration:
    """See the module's docstring.

    Args:
        surface: of the object. fit: makes a model of pokes. settings: see there.

    Attributes:
        candidates: places by their position, and why some are out. which: their rows in the surface (m,).
        pokes: all that is learnt from, in order. tried: candidate of each; -1: it was brought from elsewhere.
        model: of the pokes; None: there is none yet.

    Raises:
        ValueError: the surface has no point that the probe could come to.
    """

    def __init__(self, surface: Surface, fit: Fit, settings: ExplorationSettings = ExplorationSettings()) -> None:
        self.surface, self.settings, self._fit = surface, settings, fit
        self.which = voxel_sample(surface.points, settings.spacing)
        self.candidates = Candidates(surface.points[self.which])
        upward = np.array(settings.upward, float) / np.linalg.norm(settings.upward)
        self.candidates.close(surface.normals[self.which] @ upward < np.cos(settings.steepest), STEEP)
        if settings.margin > 0.0:
            self.candidates.close(self._border(), BORDER)
        if not self.candidates.open.any():
            raise ValueError(
                f"none of {len(self.which)} places has a normal within {np.rad2deg(settings.steepest):.0f} degrees of where the "
                f"arm comes from and is {1e3 * settings.margin:.0f} mm from the surface's border: are its normals outward?"
            )
        self.pokes: list[Poke] = []
        self.tried: list[int] = []
        self.model: SureModel | None = None

    def ask(self) -> Place:
        """Where to poke next; asked twice, it answers the same.

        Raises:
            NoCandidate: every place was poked, or failed.
        """
        numbers = self.candidates.require(np.ones(len(self.candidates), bool))
        deviation = self.deviation(numbers)
        choice = self.settings.choice
        worth = np.zeros(len(numbers))
        if choice == "variance" and self.model is not None:
            worth = deviation
        elif choice != "random":
            worth = self._apart(self.candidates.places[numbers])
        best = np.flatnonzero(worth == worth.max())
        # Not a generator that runs on: asked twice, or after a checkpoint, the answer is the same.
        rng = np.random.default_rng([self.settings.seed, len(self.tried), *numbers[:1]])
        return self.place(int(numbers[best[rng.integers(len(best))]]))

    def place(self, index: int) -> Place:
        """A candidate by its number."""
        row = self.which[index]
        feature = self.surface.features[row]
        deviation = float(self.deviation(np.array([index]))[0])
        return Place(index, self.surface.points[row], self.surface.normals[row], feature, deviation)

    def deviation(self, numbers: np.ndarray) -> np.ndarray:
        """Of the force believed at candidates (k,), shape (k,) [N]; NaN: nothing is believed yet."""
        if self.model is None:
            return np.full(len(numbers), np.nan)
        features = self.surface.features[self.which[numbers]]
        return self.model.predict_with_deviation(features, np.full(len(numbers), self.settings.depth))[1]

    def mean_deviation(self) -> float:
        """Over all candidates that may be poked or were [N]; NaN: nothing is believed yet."""
        never = np.zeros(len(self.candidates), bool)
        for reason in (STEEP, BORDER):
            never[self.candidates.closed.get(reason, [])] = True
        return float(self.deviation(np.flatnonzero(~never)).mean())

    @property
    def onset(self) -> float:
        """Displacement at which pokes begin to be felt, their median [m]: by so much the scan is off; 0: none told."""
        found = np.array([onset(poke) for poke in self.pokes])
        return float(np.median(found[np.isfinite(found)])) if np.isfinite(found).any() else 0.0

    def tell(self, index: int, poke: Poke) -> None:
        """What a poke gave. Raises ValueError: no such candidate, or a force that is not finite."""
        if not 0 <= index < len(self.candidates):
            raise ValueError(f"there are candidates 0 to {len(self.candidates) - 1}; {index} was poked")
        self._learn([poke], [index])
        self.candidates.close(index, OBSERVED)

    def fail(self, index: int, reason: str) -> None:
        """A poke that tells nothing: its place is closed, and nothing is learnt."""
        self.candidates.close(index, reason)

    @property
    def failed(self) -> list[int]:
        """Candidates at which a poke told nothing; not those that were closed from the begin."""
        closed = self.candidates.closed
        return sorted(k for why, rows in closed.items() if why not in (OBSERVED, STEEP, BORDER) for k in rows)

    def add(self, pokes: Sequence[Poke], forget: bool = False) -> None:
        """Pokes from elsewhere; instead of what was learnt before if that is to be forgotten, and its places may be poked again.

        Raises:
            ValueError: they cannot be learnt from, and nothing has changed.
        """
        before = self.pokes, self.tried, self.model
        if forget:
            self.pokes, self.tried, self.model = [], [], None
        try:
            self._learn(list(pokes), [-1] * len(pokes))
        except ValueError:
            self.pokes, self.tried, self.model = before
            raise
        if forget:
            self.candidates.reopen(OBSERVED)

    def _learn(self, pokes: list[Poke], where: list[int]) -> None:
        if not pokes:
            return
        for poke in pokes:
            if not (len(poke.force) and np.isfinite(poke.force).all() and np.isfinite(poke.displacement).all()):
                raise ValueError(
                    "a poke holds finite displacements and forces, one of each at least; say `fail` where it does not"
                )
        self.model = self._fit([*self.pokes, *pokes])
        self.pokes.extend(pokes)
        self.tried.extend(where)

    def _border(self) -> np.ndarray:
        """Which candidates are at the border of the surface (m,)."""
        found, margin = np.zeros(len(self.which), bool), self.settings.margin
        for k, row in enumerate(self.which):
            off = self.surface.points[self.surface.tree.query_ball_point(self.surface.points[row], margin)].mean(axis=0)
            off -= self.surface.points[row]
            off -= (off @ self.surface.normals[row]) * self.surface.normals[row]
            found[k] = np.linalg.norm(off) > ONE_SIDED * margin
        return found

    def _apart(self, places: np.ndarray) -> np.ndarray:
        """Distance of places (k, 3) from the nearest poke; before any, how near to the middle they are."""
        if not self.pokes:
            return -np.linalg.norm(places - self.candidates.places.mean(axis=0), axis=1)
        poked = np.array([poke.feature[:3] for poke in self.pokes])
        return np.linalg.norm(places[:, None] - poked, axis=2).min(axis=1)

    def checkpoint(self) -> dict[str, Any]:
        """All of the state but the surface, as JSON; what is resumed from it asks for the same place next."""
        return {
            "version": VERSION,
            "surface": surface_digest(self.surface),
            "settings": {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self.settings).items()},
            "closed": self.candidates.closed,
            "tried": list(self.tried),
            "pokes": [poke_record(poke) for poke in self.pokes],
        }

    @classmethod
    def resume(cls, checkpoint: dict[str, Any], surface: Surface, fit: Fit) -> Exploration:
        """The exploration that wrote a checkpoint.

        Args:
            surface: the one that it was made with. fit: likewise.

        Raises:
            ValueError: of another version, of another surface, or incomplete.
        """
        if checkpoint.get("version") != VERSION:
            raise ValueError(f"an exploration's checkpoint has version {VERSION}, this one {checkpoint.get('version')}")
        words = ("surface", "settings", "closed", "tried", "pokes")
        if missing := [word for word in words if word not in checkpoint]:
            raise ValueError(f"the checkpoint lacks {', '.join(missing)}: it was not written by an exploration, or cut")
        if checkpoint["surface"] != surface_digest(surface):
            raise ValueError("the checkpoint is of another surface: build the same one, or begin a new exploration")
        said = dict(checkpoint["settings"])
        settings = ExplorationSettings(
            **{**said, "upward": tuple(said["upward"]), "choice": cast(Choice, said["choice"])}
        )
        found = cls(surface, fit, settings)
        for reason, numbers in checkpoint["closed"].items():
            found.candidates.close(np.array(numbers, int), reason)
        found._learn([poke_of(record) for record in checkpoint["pokes"]], [int(k) for k in checkpoint["tried"]])
        return found


def voxel_sample(points: np.ndarray, spacing: float) -> np.ndarray:
    """Rows of points (n, 3), of each voxel with side `spacing` [m] the one nearest to the mean of those in it, in their order."""
    voxel = np.floor(points / spacing).astype(int)
    _, member = np.unique(voxel, axis=0, return_inverse=True)
    member = member.ravel()
    count = np.bincount(member)
    middle = np.stack([np.bincount(member, column) for column in points.T], axis=1) / count[:, None]
    away = np.linalg.norm(points - middle[member], axis=1)
    order = np.lexsort((away, member))
    first = np.r_[True, np.diff(member[order]) > 0]
    return np.sort(order[first])


def surface_digest(surface: Surface) -> str:
    """By which a surface is known again, to the bit."""
    return hashlib.sha256(np.ascontiguousarray(surface.features, float).tobytes()).hexdigest()


def poke_record(poke: Poke) -> dict[str, Any]:
    """A poke as JSON."""
    values = {field.name: getattr(poke, field.name) for field in fields(poke)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def poke_of(record: dict[str, Any]) -> Poke:
    """What `poke_record` wrote.

    Raises:
        ValueError: it is no poke's record.
    """
    values: dict[str, Any] = {k: np.array(v, float) if isinstance(v, list) else v for k, v in record.items()}
    try:
        return Poke(**values)
    except TypeError as error:
        raise ValueError(f"this is no poke's record: {error}") from None
