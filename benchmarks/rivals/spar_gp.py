"""The model of `sim_core.planning.surrogate.SparGp` as one writes it with BoTorch, or with scikit-learn and SciPy.

Each is asked as ours: `fit(x, y, start)`, then the worth of every candidate.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

from sim_core.planning.parametric_mean import LandmarkMean
from sim_core.planning.residual_process import SquaredExponential

if TYPE_CHECKING:
    import torch

__all__ = ["BoTorchSpar", "SklearnSpar"]


@dataclass
class SklearnSpar:
    """scikit-learn's process on residuals; parameters by SciPy's L-BFGS-B with its own differences, readings independent.

    Attributes:
        mean, kernel, noise: as of `SparGp`. theta: parameters of the last fit (3,).
    """

    mean: LandmarkMean
    kernel: SquaredExponential
    noise: float

    def fit(self, x: np.ndarray, y: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Parameters (3,), from the last ones and from the default, the better of both."""
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel

        default, deviation = self.mean.default, self.mean.deviation

        def cost(z: np.ndarray) -> float:
            off = y - self.mean.value(default + deviation * z, x)
            return 0.5 * float(off @ off / self.noise + z @ z)

        tries = [minimize(cost, z, method="L-BFGS-B") for z in ((start - default) / deviation, np.zeros(3))]
        self.theta = default + deviation * min(tries, key=lambda one: one.fun).x
        process = ConstantKernel(self.kernel.variance, "fixed") * RBF(self.kernel.length, "fixed")
        self._process = GaussianProcessRegressor(process, alpha=self.noise, optimizer=None)
        self._process.fit(x, y - self.mean.value(self.theta, x))
        return self.theta

    def worth(self, at: np.ndarray, best: float) -> np.ndarray:
        """Expected improvement at places (m, 2), shape (m,)."""
        residual, deviation = self._process.predict(at, return_std=True)
        gain = self.mean.value(self.theta, at) + residual - best
        z = gain / np.maximum(deviation, 1e-12)
        return gain * norm.cdf(z) + deviation * norm.pdf(z)


class BoTorchSpar:
    """A `SingleTaskGP` with a mean module whose parameters have priors, fitted by `fit_gpytorch_mll` (readings joint).

    Args:
        mean, kernel, noise: as of `SparGp`.
    """

    def __init__(self, mean: LandmarkMean, kernel: SquaredExponential, noise: float) -> None:
        self.mean, self.kernel, self.noise = mean, kernel, noise

    def fit(self, x: np.ndarray, y: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Parameters (3,), from the last ones."""
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from gpytorch.kernels import RBFKernel, ScaleKernel
        from gpytorch.mlls import ExactMarginalLogLikelihood

        covariance = ScaleKernel(RBFKernel())
        covariance.base_kernel.lengthscale = self.kernel.length
        covariance.outputscale = self.kernel.variance
        for parameter in covariance.parameters():
            parameter.requires_grad_(False)
        targets = torch.as_tensor(y)[:, None]
        self._model = SingleTaskGP(
            torch.as_tensor(x), targets, torch.full_like(targets, self.noise),
            covar_module=covariance.double(), mean_module=_mean_module(self.mean, start), outcome_transform=None,
        )  # fmt: skip
        fit_gpytorch_mll(ExactMarginalLogLikelihood(self._model.likelihood, self._model))
        return self.mean.default + self.mean.deviation * self._model.mean_module.z.detach().numpy()

    def worth(self, at: np.ndarray, best: float) -> np.ndarray:
        """Expected improvement at places (m, 2), shape (m,)."""
        import torch
        from botorch.acquisition import ExpectedImprovement
        from botorch.exceptions.warnings import NumericsWarning

        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericsWarning)  # of improvements near 0, among which nobody chooses here
            return ExpectedImprovement(self._model, best)(torch.as_tensor(at)[:, None]).numpy()


def _mean_module(mean: LandmarkMean, start: np.ndarray) -> torch.nn.Module:
    import gpytorch
    import torch

    class Landmarks(gpytorch.means.Mean):
        """The same function, its parameters in standard deviations from their default."""

        def __init__(self) -> None:
            super().__init__()
            self.register_parameter("z", torch.nn.Parameter(torch.as_tensor((start - mean.default) / mean.deviation)))
            self.register_prior("normal", gpytorch.priors.NormalPrior(0.0, 1.0), "z")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            theta = torch.as_tensor(mean.default) + torch.as_tensor(mean.deviation) * self.z
            away = x[..., None, :] - (theta[:2] + torch.as_tensor(mean.landmarks))
            nearest = (away**2).sum(-1).min(-1).values.clamp_min(1e-24).sqrt()
            return theta[2] * mean.height * torch.exp(-nearest / mean.decay)

    return Landmarks().double()
