"""A Gaussian process whose mean and kernel are networks on shared features.

Nothing of it is trained when it is conditioned on trials. Source: Zhu, PhD thesis (University of Illinois 2023), section 6.3.1;
of the printed equations, the residual is taken at the trial and not at the query, the quadratic form has the inverse covariance,
and the noise's variance counts once.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from sim_core.meta.model import Extractor, MetaModel, dense
from sim_core.meta.tasks import Array, Inputs, Rows

__all__ = ["DeepGp", "DeepPosterior", "Kernel"]

NOISE_FLOOR = 1e-6  # added to the noise's variance, so that a covariance can be factorised whatever the training does
#: at first, of values / scale: standard deviation of the process and of a reading, and length
SIGNAL, NOISE, LENGTH = 1.0, 0.3, 1.0


class Kernel(nn.Module):
    """k(x, x') = sigma_f^2 exp(-|g(phi) - g(phi')|^2 / (2 l^2)), noise sigma_n^2; g is a network on features phi.

    Args:
        width: of the features. hidden, embedding: widths of g's hidden layer and result.
        branch: features of its own, in place of the mean's.
    """

    def __init__(self, width: int, hidden: int = 32, embedding: int = 8, branch: Extractor | None = None) -> None:
        super().__init__()
        self.branch = branch
        self.head = dense(width if branch is None else branch.width, hidden, embedding)
        self.log_signal = nn.Parameter(torch.tensor(math.log(SIGNAL)))
        self.log_length = nn.Parameter(torch.tensor(math.log(LENGTH)))
        self.log_noise = nn.Parameter(torch.tensor(math.log(NOISE)))

    def embed(self, features: torch.Tensor) -> torch.Tensor:
        """Features (n, width) to where the kernel measures distances, in lengths (n, q), in double precision."""
        return self.head(features).double() / self.log_length.double().exp()

    def covariance(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Of embedded points (n, q) and (m, q), (n, m), without noise."""
        # torch.cdist has no finite gradient where points coincide.
        square = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2.0 * a @ b.T
        return (2.0 * self.log_signal.double() - 0.5 * square.clamp(min=0.0)).exp()

    def variance(self) -> torch.Tensor:
        """sigma_f^2."""
        return (2.0 * self.log_signal.double()).exp()

    def noise(self) -> torch.Tensor:
        """sigma_n^2."""
        return (2.0 * self.log_noise.double()).exp() + NOISE_FLOOR

    def nlml(self, embedded: torch.Tensor, residuals: torch.Tensor) -> torch.Tensor:
        """Negative log marginal likelihood of one task's residuals (n,) at embedded points (n, q)."""
        n = len(residuals)
        factor = torch.linalg.cholesky(
            self.covariance(embedded, embedded) + self.noise() * torch.eye(n, dtype=torch.float64)
        )
        white = torch.linalg.solve_triangular(factor, residuals.double()[:, None], upper=False)
        return factor.diagonal().log().sum() + 0.5 * (white**2).sum() + 0.5 * n * math.log(2.0 * math.pi)


class DeepGp(MetaModel):
    """See the module's docstring.

    Args:
        extractor: features of the mean, and of the kernel unless it has a branch. scale: see `MetaModel`.
        hidden, embedding: see `Kernel`. branch: see `Kernel`.
    """

    kind = "deep gp"

    def __init__(
        self,
        extractor: Extractor,
        hidden: int = 32,
        embedding: int = 8,
        scale: float = 1.0,
        branch: Extractor | None = None,
    ) -> None:
        super().__init__(extractor, scale)
        self.hidden, self.embedding = hidden, embedding
        self.mean_head = dense(extractor.width, hidden, 1)
        self.kernel = Kernel(extractor.width, hidden, embedding, branch)

    def encoders(self) -> tuple[Extractor, ...]:
        """See `MetaModel`."""
        return (self.extractor,) if self.kernel.branch is None else (self.extractor, self.kernel.branch)

    def forward(self, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean / scale (n,), and embedded points (n, q) in double precision."""
        features = self.extractor(rows)
        mean = self.mean_head(features)[:, 0]
        return mean, self.kernel.embed(features if self.kernel.branch is None else self.kernel.branch(rows, 1))

    def nlml(self, inputs: Inputs, values: Array, residuals: Array | None = None) -> torch.Tensor:
        """Negative log marginal likelihood of one task's values (n,), or of given residuals (n,), both / scale."""
        rows = Rows.of(inputs)
        mean, embedded = self(rows)
        if residuals is None:
            left = torch.as_tensor(values, dtype=torch.float64) / self.scale - mean.double()
        else:
            left = torch.as_tensor(residuals, dtype=torch.float64) / self.scale
        return self.kernel.nlml(embedded, left)

    @torch.no_grad()
    def condition(self, inputs: Inputs | None = None, values: Array = np.empty(0)) -> DeepPosterior:
        """See `MetaModel`. No network is trained, and no hyperparameter changes."""
        rows, scaled = self.support(inputs, values)
        if rows is None:
            return DeepPosterior(self, torch.empty(0, self.embedding, dtype=torch.float64), scaled)
        mean, embedded = self(rows)
        return DeepPosterior(self, embedded, scaled - mean.double())


class DeepPosterior:
    """A deep Gaussian process after some trials.

    Args:
        model: of which it is. embedded: trials (n, q). residuals: what the mean leaves on them / scale (n,).
    """

    def __init__(self, model: DeepGp, embedded: torch.Tensor, residuals: torch.Tensor) -> None:
        self.model, self.embedded = model, embedded
        kernel = model.kernel
        with torch.no_grad():
            K = kernel.covariance(embedded, embedded) + kernel.noise() * torch.eye(len(residuals), dtype=torch.float64)
            self._factor = torch.linalg.cholesky(K)
            self._white = torch.linalg.solve_triangular(self._factor, residuals[:, None], upper=False)

    @torch.no_grad()
    def predict(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """See `Belief`: mean and standard deviation of the process (m,); without trials, the prior's mean and sigma_f."""
        mean, embedded = self.model(self.model.rows(inputs))
        kernel = self.model.kernel
        cross = torch.linalg.solve_triangular(self._factor, kernel.covariance(self.embedded, embedded), upper=False)
        mean = mean.double() + (cross.T @ self._white)[:, 0]
        variance = (kernel.variance() - (cross**2).sum(0)).clamp(min=0.0)
        return self.model.scale * mean.numpy(), self.model.scale * variance.sqrt().numpy()

    def noise(self) -> float:
        """Standard deviation of a reading's noise [unit of the values]."""
        return self.model.scale * math.sqrt(float(self.model.kernel.noise().detach()))
