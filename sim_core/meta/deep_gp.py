"""A Gaussian process whose mean and kernel are networks on shared features.

Nothing of it is trained when it is conditioned on trials. Source: Zhu, PhD thesis (University of Illinois 2023), section 6.3.1;
of the printed equations, the residual is taken at the trial and not at the query, the quadratic form has the inverse covariance,
and the noise's variance counts once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from sim_core.meta.model import Extractor, MetaModel, dense
from sim_core.meta.tasks import Array, Inputs, Rows, places_of
from sim_core.meta.warp import Warp

__all__ = ["DeepGp", "DeepPosterior", "Kernel"]

NOISE_FLOOR = 1e-6  # added to the noise's variance, so that a covariance can be factorised whatever the training does
#: variances of the process and of a reading, of values / scale, and length, before training: log 2, with which GPyTorch, in which
#: the published system is written, begins. With a noise of 0.1 the process took the noise's place and nothing was correlated.
FIRST = math.log(2.0)
#: what a task's level and its patches have of that variance each, where places are known
SHARE = 0.25


class Kernel(nn.Module):
    """k(x, x') = sigma_f^2 exp(-|g(phi) - g(phi')|^2 / (2 l^2)), noise sigma_n^2; g is a network on features phi.

    Features may come from several extractors; then it is the mean of their covariances.

    Where it knows of places p, a task has besides a level of its own and patches, whatever they look like, which is ours:

        ... + sigma_t^2 + sigma_p^2 exp(-|p - p'|^2 / (2 r^2))

    Args:
        width: of the features. hidden, embedding: widths of g's hidden layer and result. last: of the features, how many at their end
            it sees, and then g divides each by a length of its own and there is no network; 0: all. reach: r before training [unit of the
            places]; 0: it knows of no places.
    """

    def __init__(self, width: int, hidden: int = 32, embedding: int = 8, last: int = 0, reach: float = 0.0) -> None:
        super().__init__()
        self.last, self.embedding, self.reach = last, last or embedding, reach
        self.head = Lengths(last) if last else dense(width, hidden, embedding)
        self.log_signal = nn.Parameter(torch.tensor(0.5 * math.log(FIRST)))
        self.log_length = nn.Parameter(torch.tensor(math.log(FIRST)))
        self.log_noise = nn.Parameter(torch.tensor(0.5 * math.log(FIRST)))
        if reach:
            self.log_level = nn.Parameter(torch.tensor(0.5 * math.log(SHARE * FIRST)))
            self.log_patch = nn.Parameter(torch.tensor(0.5 * math.log(SHARE * FIRST)))
            self.log_reach = nn.Parameter(torch.tensor(math.log(reach)))

    def embed(self, features: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
        """Features of b extractors (b, n, width) to g(phi) / l (b, n, q), in double precision, followed by p / r of places (n, k)."""
        embedded = self.head(features[..., -self.last :]).double() / self.log_length.double().exp()
        if not self.reach:
            return embedded
        assert places is not None
        scaled = places.double() / self.log_reach.double().exp()
        return torch.cat([embedded, scaled.expand(len(embedded), *scaled.shape)], 2)

    def covariance(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Of embedded points (b, n, q) and (b, m, q), (n, m), without noise."""
        q = self.embedding
        like = _squared(self.log_signal) * _gaussian(a[..., :q], b[..., :q]).mean(0)
        if not self.reach:
            return like
        return like + _squared(self.log_level) + _squared(self.log_patch) * _gaussian(a[:1, :, q:], b[:1, :, q:])[0]

    def variance(self) -> torch.Tensor:
        """Of the process, sigma_f^2 and what places add."""
        return _squared(self.log_signal) + (_squared(self.log_level) + _squared(self.log_patch) if self.reach else 0.0)

    def noise(self) -> torch.Tensor:
        """sigma_n^2."""
        return _squared(self.log_noise) + NOISE_FLOOR

    def factor(self, embedded: torch.Tensor) -> torch.Tensor:
        """L (n, n) with L L' the covariance of readings at embedded points (b, n, q)."""
        noise = self.noise() * torch.eye(embedded.shape[1], dtype=torch.float64)
        return torch.linalg.cholesky(self.covariance(embedded, embedded) + noise)

    def nlml(self, embedded: torch.Tensor, residuals: torch.Tensor) -> torch.Tensor:
        """Negative log marginal likelihood of one task's residuals (n,) at embedded points (b, n, q)."""
        factor = self.factor(embedded)
        white = torch.linalg.solve_triangular(factor, residuals.double()[:, None], upper=False)
        constant = 0.5 * len(residuals) * math.log(2.0 * math.pi)
        return factor.diagonal().log().sum() + 0.5 * (white**2).sum() + constant


class Lengths(nn.Module):
    """Divides each feature by a length of its own.

    Args:
        width: of the features.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.log_lengths = nn.Parameter(torch.zeros(width))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Features (..., width) to the same."""
        return features / self.log_lengths.exp()


def _squared(log_deviation: torch.Tensor) -> torch.Tensor:
    """A variance, in double precision."""
    return (2.0 * log_deviation.double()).exp()


def _gaussian(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """exp(-|a - b|^2 / 2) of points (b, n, q) and (b, m, q), (b, n, m)."""
    # torch.cdist has no finite gradient where points coincide.
    square = (a * a).sum(2)[:, :, None] + (b * b).sum(2)[:, None] - 2.0 * a @ b.mT
    return (-0.5 * square.clamp(min=0.0)).exp()


class DeepGp(MetaModel):
    """See the module's docstring.

    Args:
        extractor: features of the mean, and of the kernel unless it has branches. scale: see `MetaModel`.
        hidden, embedding, last, reach: see `Kernel`. branches: extractors of the kernel's own, in place of the mean's.
        warp: of the scale on which values are normal, see `Warp`; the mean is one of values.

    Attributes:
        places: whether the last of the inputs' numbers are places, for the kernel alone.
    """

    kind = "deep gp"

    def __init__(
        self,
        extractor: Extractor,
        hidden: int = 32,
        embedding: int = 8,
        scale: float = 1.0,
        branches: Sequence[Extractor] = (),
        last: int = 0,
        reach: float = 0.0,
        warp: float = 0.0,
    ) -> None:
        super().__init__(extractor, scale)
        self.hidden, self.embedding, self.places, self.warp = hidden, embedding, reach > 0.0, Warp(warp)
        self.mean_head = dense(extractor.width, hidden, 1)
        self.branches = nn.ModuleList(branches)
        self.kernel = Kernel(extractor.width, hidden, embedding, last, reach)

    def encoders(self) -> tuple[Extractor, ...]:
        """See `MetaModel`."""
        return (self.extractor, *self.branches)

    def forward(self, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean / scale, warped (n,), and embedded points (b, n, q) in double precision."""
        features = self.extractor(rows)
        seen = [branch(rows, k) for k, branch in enumerate(self.branches, 1)] or [features]
        return self.warp(self.mean_head(features)[:, 0]), self.kernel.embed(torch.stack(seen), self.where(rows))

    def where(self, rows: Rows) -> torch.Tensor | None:
        """Places (n, k) of rows, None if the kernel knows of none. Raises ValueError: they are not told."""
        return places_of(rows) if self.places else None

    def nlml(self, inputs: Inputs, values: Array) -> torch.Tensor:
        """Negative log marginal likelihood of one task's values / scale, warped (n,)."""
        mean, embedded = self(Rows.of(inputs))
        scaled = torch.as_tensor(values, dtype=torch.float64) / self.scale
        return self.kernel.nlml(embedded, self.warp(scaled) - mean.double())

    @torch.no_grad()
    def condition(self, inputs: Inputs | None = None, values: Array = np.empty(0)) -> DeepPosterior:
        """See `MetaModel`. No network is trained, and no hyperparameter changes."""
        rows, scaled = self.support(inputs, values)
        if rows is None:
            return DeepPosterior(self, None, scaled)
        mean, embedded = self(rows)
        return DeepPosterior(self, embedded, self.warp(scaled) - mean.double())


class DeepPosterior:
    """A deep Gaussian process after some trials.

    Args:
        model: of which it is. embedded: trials (b, n, q), None if there are none.
        residuals: what the mean leaves on them / scale, warped (n,).
    """

    def __init__(self, model: DeepGp, embedded: torch.Tensor | None, residuals: torch.Tensor) -> None:
        self.model, self.embedded = model, embedded
        if embedded is not None:
            with torch.no_grad():
                self._factor = model.kernel.factor(embedded)
                self._white = torch.linalg.solve_triangular(self._factor, residuals[:, None], upper=False)

    @torch.no_grad()
    def predict(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """See `Belief`: mean and standard deviation of the process (m,), see `Warp.spread`; without trials, the prior's mean and sigma_f."""
        kernel, scale = self.model.kernel, self.model.scale
        prior, embedded = self.model(self.model.rows(inputs))
        mean, variance = prior.double(), kernel.variance().expand(len(prior))
        if self.embedded is not None:
            cross = torch.linalg.solve_triangular(self._factor, kernel.covariance(self.embedded, embedded), upper=False)
            mean = mean + (cross.T @ self._white)[:, 0]
            variance = (variance - (cross**2).sum(0)).clamp(min=0.0)
        middle, deviation = self.model.warp.spread(mean, variance.sqrt())
        return scale * middle.numpy(), scale * deviation.numpy()

    def noise(self) -> float:
        """Standard deviation of a reading's noise, of a value near zero if values are warped [unit of the values]."""
        noise = self.model.kernel.noise().detach().sqrt()
        return self.model.scale * float(self.model.warp.spread(torch.zeros_like(noise), noise)[1])
