"""One decision among 11,520 scoops as one writes it with PyTorch and GPyTorch: the view of each is encoded, and an exact process predicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim_core.scooping.bed.actions import Actions

__all__ = ["gpytorch_worth"]


def gpytorch_worth(model: Any, views: np.ndarray, actions: Actions, trials: Any, beta: float) -> np.ndarray:
    """Upper confidence bound of every action (n,) [m^3], by GPyTorch's exact process on the residuals of a `DeepGp`.

    Args:
        model: whose features, mean, kernel and noise it has. views: of each action (n, 4, s, s). trials: so far.
    """
    import gpytorch
    import torch

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.covariance = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, at: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(at.new_zeros(len(at)), self.covariance(at))

    with torch.no_grad():
        mean, embedded = model(model.rows((views, actions.numbers.astype(np.float32))))
        support, given = model(model.rows((np.stack(trials.views), np.stack(trials.numbers).astype(np.float32))))
        residuals = torch.tensor(np.array(trials.volumes) * 1e6 / model.scale) - support.double()
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        process = Process(given[0], residuals, likelihood).double()
        process.covariance.outputscale = model.kernel.variance()
        process.covariance.base_kernel.lengthscale = 1.0  # embedded points are divided by it
        likelihood.double().noise = model.kernel.noise()
        process.eval()
        found = process(embedded[0])
        worth = mean.double() + found.mean + beta * found.variance.clamp_min(0.0).sqrt()
    return worth.numpy() * model.scale * 1e-6
