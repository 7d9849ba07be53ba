"""What every meta-learnt model offers: given a few trials of a new task, what it believes of others.

    belief = model.condition(inputs, values)     # n trials, n = 0 too
    mean, std = belief.predict(others)

Where many inputs share a view, `model.encode(views)` may be called once and its result given in place of the views.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from sim_core.meta.tasks import Array, Encoded, Inputs, Rows

__all__ = ["Belief", "Extractor", "MeanModel", "MetaModel", "NonAdaptive", "dense"]

CHUNK = 256  # views that are encoded at once: what convolutions make of them stays in the cache


class Extractor(nn.Module):
    """Finds features: first in a view, then in what was found there together with numbers. Derive from it.

    Attributes:
        width: of the features. numbers: how many of them, at their end, are the numbers themselves.
    """

    width: int
    numbers: int = 0

    def encode(self, views: torch.Tensor) -> torch.Tensor:
        """The expensive part: views (b, ...) to (b, e)."""
        raise NotImplementedError

    def features(self, encoded: torch.Tensor, *numbers: torch.Tensor) -> torch.Tensor:
        """The rest: (n, e) and numbers (n, ...) to (n, width)."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """All that decides its shape, as JSON can say it; a model's file is read into an equal one only."""
        raise NotImplementedError

    def forward(self, rows: Rows, part: int = 0) -> torch.Tensor:
        """Features (n, width); `part`: which of the encoded parts is its own."""
        encoded = rows.views.parts[part] if isinstance(rows.views, Encoded) else self.encode(rows.views)
        return self.features(encoded[rows.which], *rows.numbers)


class Belief(Protocol):
    """What is believed after some trials."""

    def predict(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the value, without a reading's noise, (m,) each, in the unit of the values."""
        ...


class MetaModel(nn.Module):
    """Base of all models.

    Args:
        extractor: see there. scale: the networks speak of values divided by it.

    Attributes:
        meta: how the model came about, as JSON can say it. places: whether it is told places after the other numbers.
    """

    places = False

    def __init__(self, extractor: Extractor, scale: float) -> None:
        super().__init__()
        self.extractor, self.scale = extractor, scale
        self.meta: dict[str, Any] = {}

    def encoders(self) -> tuple[Extractor, ...]:
        """All extractors that see the views."""
        return (self.extractor,)

    @torch.no_grad()
    def encode(self, views: Array) -> Encoded:
        """Encode views (b, ...) once, for inputs that share them."""
        tensor = torch.as_tensor(views, dtype=torch.float32)
        return Encoded(
            tuple(torch.cat([each.encode(part) for part in tensor.split(CHUNK)]) for each in self.encoders())
        )

    def rows(self, inputs: Inputs) -> Rows:
        """Inputs by rows, with their views encoded."""
        rows = Rows.of(inputs)
        return rows if isinstance(rows.views, Encoded) else Rows(self.encode(rows.views), rows.which, rows.numbers)

    def support(self, inputs: Inputs | None, values: Array) -> tuple[Rows | None, torch.Tensor]:
        """Trials by rows, None if there are none, and their values / scale (n,) in double precision.

        Raises:
            ValueError: shapes that do not fit each other, values that are not finite.
        """
        scaled = torch.as_tensor(values, dtype=torch.float64) / self.scale
        if scaled.ndim != 1 or not torch.isfinite(scaled).all():
            raise ValueError(f"expected finite values (n,), found {tuple(scaled.shape)} or numbers that are not finite")
        if not len(scaled):
            return None, scaled
        rows = self.rows(inputs) if inputs is not None else None
        if rows is None or len(rows) != len(scaled):
            raise ValueError(f"expected inputs of {len(scaled)} rows, as many as values, found {len(rows or ())}")
        return rows, scaled

    @abstractmethod
    def condition(self, inputs: Inputs | None = None, values: Array = np.empty(0)) -> Belief:
        """What is believed after trials `inputs`, n rows, with values (n,); n may be 0.

        Raises:
            ValueError: shapes that do not fit each other, or numbers that are not finite.
        """


class MeanModel(MetaModel):
    """A network that was fitted by least squares and does not adapt: what it believes does not depend on the trials.

    Attributes:
        deviation: standard deviation of what it left on rows that it had not seen in training [unit of the values].
    """

    kind = "mean"

    def __init__(self, extractor: Extractor, hidden: int = 32, scale: float = 1.0) -> None:
        super().__init__(extractor, scale)
        self.hidden = hidden
        self.mean_head = dense(extractor.width, hidden, 1)
        self.deviation = 0.0

    def forward(self, rows: Rows) -> torch.Tensor:
        """Mean / scale (n,)."""
        return self.mean_head(self.extractor(rows))[:, 0]

    def condition(self, inputs: Inputs | None = None, values: Array = np.empty(0)) -> MeanModel:
        """See `MetaModel`."""
        return self

    @torch.no_grad()
    def predict(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """See `Belief`."""
        mean = self.scale * self(self.rows(inputs)).double().numpy()
        return mean, np.full(len(mean), self.deviation)


class NonAdaptive:
    """A model that ignores the trials: it goes on believing what `model` believes before any."""

    def __init__(self, model: MetaModel) -> None:
        self.model = model

    @property
    def places(self) -> bool:
        """See `MetaModel`."""
        return self.model.places

    def encode(self, views: Array) -> Encoded:
        """See `MetaModel`."""
        return self.model.encode(views)

    def condition(self, inputs: Inputs | None = None, values: Array = np.empty(0)) -> Belief:
        """See `MetaModel`."""
        return self.model.condition()


def dense(*widths: int) -> nn.Sequential:
    """Dense layers with rectifiers between them."""
    layers: list[nn.Module] = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
