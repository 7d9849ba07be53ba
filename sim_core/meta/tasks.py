"""What meta-learning learns from: tasks, each with inputs and measured values, and the traits that it shares with other tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch

__all__ = ["Array", "Encoded", "Inputs", "Rows", "Task", "places_of"]

Array: TypeAlias = "np.ndarray | torch.Tensor"


@dataclass(frozen=True, eq=False)
class Encoded:
    """What a model's `encode` found in views, to be given to it again in their place.

    Attributes:
        parts: (b, e) for each encoder of the model.
    """

    parts: tuple[torch.Tensor, ...]


#: Views (b, ...), which are expensive to encode, and numbers (n, ...) of any count. n is a multiple of b: each view belongs to
#: n / b consecutive rows. Without numbers, n = b.
Inputs: TypeAlias = "tuple[Array | Encoded, ...]"


@dataclass(frozen=True, eq=False)
class Rows:
    """n inputs, of which several may share a view.

    Attributes:
        views: (b, ...), or what was encoded of them. which: (n,) the view of each row. numbers: (n, ...) each.
    """

    views: torch.Tensor | Encoded
    which: torch.Tensor
    numbers: tuple[torch.Tensor, ...]

    @classmethod
    def of(cls, inputs: Inputs) -> Rows:
        """Of inputs in the form that users give.

        Raises:
            ValueError: no input, row counts that do not fit each other, numbers that are not finite.
        """
        if not isinstance(inputs, tuple) or not inputs:
            raise ValueError(f"expected a tuple of views and numbers, found {type(inputs).__name__}")
        first, *others = inputs
        views = first if isinstance(first, Encoded) else _floats(first, "views")
        numbers = tuple(_floats(each, "numbers") for each in others)
        b = len(views.parts[0]) if isinstance(views, Encoded) else len(views)
        counts = {len(each) for each in numbers} or {b}
        n = counts.pop()
        if counts or b == 0 or n % b:
            raise ValueError(
                f"expected numbers of one count, a multiple of the {b} views, found {[len(each) for each in numbers]}"
            )
        return cls(views, torch.arange(b).repeat_interleave(n // b), numbers)

    @classmethod
    def joined(cls, several: Sequence[Rows]) -> Rows:
        """All rows, one after the other; views of one shape, none of them encoded."""
        views = [rows.views for rows in several if isinstance(rows.views, torch.Tensor)]
        starts = np.cumsum([0, *(len(each) for each in views)])
        which = torch.cat([rows.which + int(start) for rows, start in zip(several, starts)])
        return cls(torch.cat(views), which, tuple(torch.cat(each) for each in zip(*(rows.numbers for rows in several))))

    def __len__(self) -> int:
        return len(self.which)

    def take(self, index: torch.Tensor) -> Rows:
        """Some rows (k,), with the views that they need."""
        kept, which = torch.unique(self.which[index], return_inverse=True)
        views = (
            Encoded(tuple(part[kept] for part in self.views.parts))
            if isinstance(self.views, Encoded)
            else self.views[kept]
        )
        return Rows(views, which, tuple(each[index] for each in self.numbers))


@dataclass(frozen=True, eq=False)
class Task:
    """One task: a terrain, an object.

    Attributes:
        name: of the task. characteristics: what of it a model may not have seen before: its materials, its category.
        inputs: see `Inputs`; n rows. values: measured (n,), in the unit that the model shall predict.

    Raises:
        ValueError: shapes that do not fit each other, no row, numbers that are not finite, no characteristic.
    """

    name: str
    characteristics: tuple[str, ...]
    inputs: tuple[torch.Tensor, ...]
    values: torch.Tensor

    def __post_init__(self) -> None:
        if isinstance(self.characteristics, str) or not self.characteristics:
            raise ValueError(f"the task {self.name} needs a tuple of one characteristic or more")
        try:
            rows = Rows.of(self.inputs)
            values = _floats(self.values, "values")
        except ValueError as error:
            raise ValueError(f"the task {self.name}: {error}") from None
        if isinstance(rows.views, Encoded) or values.shape != (len(rows),):
            raise ValueError(f"the task {self.name}: expected values ({len(rows)},), found {tuple(values.shape)}")
        object.__setattr__(self, "inputs", (rows.views, *rows.numbers))
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: Sequence[int] | Array) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """Inputs and values of some rows: support, or queries. Where equal counts of rows share a view, they go on to."""
        rows, at = self.rows, torch.as_tensor(index, dtype=torch.long)
        assert isinstance(rows.views, torch.Tensor)
        which, counts = torch.unique_consecutive(rows.which[at], return_counts=True)
        views = rows.views[which if len(counts.unique()) == 1 else rows.which[at]]
        return (views, *(each[at] for each in rows.numbers)), self.values[at]

    @property
    def rows(self) -> Rows:
        """The inputs by rows."""
        return Rows.of(self.inputs)


def places_of(rows: Rows) -> torch.Tensor:
    """Places (n, k): the last of several numbers.

    Raises:
        ValueError: there is one array of numbers or none, which are no places.
    """
    if len(rows.numbers) < 2 or rows.numbers[-1].ndim != 2:
        shapes = [tuple(each.shape) for each in rows.numbers]
        raise ValueError(
            f"a kernel that knows of places expects views, numbers, and after them places (n, k); found numbers of {shapes}"
        )
    return rows.numbers[-1]


def _floats(array: Array | Encoded, name: str) -> torch.Tensor:
    if isinstance(array, Encoded):
        raise ValueError(f"expected {name} as an array, found encoded views; only the first input can be encoded")
    tensor = torch.as_tensor(array, dtype=torch.float32)
    if tensor.ndim < 1 or not len(tensor):
        raise ValueError(f"expected {name} of one row or more, found the shape {tuple(tensor.shape)}")
    if not torch.isfinite(tensor).all():
        raise ValueError(f"expected finite {name}, found NaN or infinity")
    return tensor
