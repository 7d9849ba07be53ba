"""A task as data: what stands there, what has to be done one after the other, and what must not happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sim_core.plant.rehearsal.scene_view import SceneView
from sim_core.plant.scene import Entity
from sim_core.telepresence.texture.surfaces import TextureSurface

__all__ = ["Face", "Failure", "Progress", "Step", "Task"]


@dataclass(frozen=True)
class Step:
    """Something to be done.

    Attributes:
        sentence: what, to whoever shall do it.
        holds: whether it is so.
        seconds: for so long without a break [s].
    """

    sentence: str
    holds: Callable[[SceneView], bool]
    seconds: float = 0.0


@dataclass(frozen=True)
class Failure:
    """What must not happen, and the sentence that says that it has."""

    sentence: str
    happened: Callable[[SceneView], bool]


@dataclass(frozen=True, eq=False)
class Face:
    """A face of a body, with a texture that cameras of depth see and contacts do not feel.

    Attributes:
        surface: of it. middle: of the face in the body's axes (3,) [m]. axes: of the face in the body's, as columns of a rotation; z out of it.
        half: of its edges along its x and y (2,) [m].
    """

    surface: TextureSurface
    middle: tuple[float, float, float]
    axes: tuple[tuple[float, float, float], ...]
    half: tuple[float, float]


@dataclass(frozen=True)
class Task:
    """See the module's docstring.

    Attributes:
        name: of the task. title: in a few words.
        scenery: what stands there. shown: bodies that the operator looks at.
        steps: in their order. failures: after any of which nothing more counts.
        faces: textured ones, by their body.
        boxes: that arms keep away from, as `sim_core/telepresence/standing_box.py` writes them.
    """

    name: str
    title: str
    scenery: tuple[Entity, ...]
    shown: tuple[str, ...]
    steps: tuple[Step, ...]
    failures: tuple[Failure, ...] = ()
    faces: Mapping[str, Face] = field(default_factory=dict)
    boxes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Progress:
    """How far a task is.

    Attributes:
        steps_done: of `steps` so many. sentence: what is to be done next, or how it ended.
        done, failed: it has ended so.
        elapsed: since the task was set up, until it ended [s].
    """

    steps_done: int
    steps: int
    sentence: str
    done: bool
    failed: bool
    elapsed: float

    @property
    def share(self) -> float:
        """Of the steps that are done, 0 to 1."""
        return self.steps_done / self.steps
