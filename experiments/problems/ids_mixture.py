"""A mixture of Gaussians over quantities of a simulator, moved by gradients through draws from it.

Each draw comes from one kernel, chosen by the Gumbel-softmax of Jang, Gu, Poole (2017) and Maddison, Mnih, Teh (2017), and depends on
the kernels' shares by its slope alone (the former's straight-through form). The published weights are only nearly one-hot: a draw is then
a blend of kernels, which lies beside a curved set of explanations though each kernel lies on it, and one kernel ends with nearly
all of the share. Source: Heiden, PhD thesis (University of Southern California 2022), section 2.2.2. It needs torch; callers ask
`config.tiers.require` first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

__all__ = ["Epochs", "Mixture", "learnt_online"]

TEMPERATURE = 2.0 / 3.0  # published, with three kernels


class Mixture(torch.nn.Module):
    """Kernels with shares phi, means mu and standard deviations sigma for each quantity.

    Args:
        means: (K, n) at the start. sigma: at the start.
    """

    def __init__(self, means: np.ndarray, sigma: float) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(len(means), dtype=torch.float64))
        self.means = torch.nn.Parameter(torch.from_numpy(np.array(means, dtype=float)))
        self.log_sigma = torch.nn.Parameter(torch.full(means.shape, float(np.log(sigma)), dtype=torch.float64))

    @property
    def shares(self) -> torch.Tensor:
        """phi (K,), which sum to one."""
        return torch.softmax(self.logits, 0)

    def draws(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Quantities (count, n), each of one kernel, differentiable in everything that describes the kernels."""
        uniform = torch.rand(count, len(self.logits), dtype=torch.float64, generator=generator)
        gumbel = -torch.log(-torch.log(uniform.clamp(1e-12, 1 - 1e-12)))
        soft = torch.softmax((torch.log_softmax(self.logits, 0) + gumbel) / TEMPERATURE, 1)
        weight = torch.nn.functional.one_hot(soft.argmax(1), soft.shape[1]) + soft - soft.detach()
        normal = torch.randn(count, *self.means.shape, dtype=torch.float64, generator=generator)
        return torch.einsum("ck,ckn->cn", weight, self.means + self.log_sigma.exp() * normal)


@dataclass(frozen=True)
class Epochs:
    """The kernels after each epoch.

    Attributes:
        shares: (E + 1, K). means, sigmas: (E + 1, K, n).
    """

    shares: np.ndarray
    means: np.ndarray
    sigmas: np.ndarray


def learnt_online(
    mixture: Mixture,
    simulated: Callable[[torch.Tensor, int], torch.Tensor],
    observed: torch.Tensor,
    epochs: int,
    seed: int,
    draws: int = 16,
    rate: float = 0.02,
    decay: float = 0.98,
) -> Epochs:
    """Adam on the Huber loss of what draws simulate, one recording at a time.

    Args:
        simulated: of draws (count, n) and a recording's number, what would be observed (count, ...).
        observed: recordings (R, ...). draws: for each step. rate, decay: Adam's, and the factor on it per epoch.
    """
    generator = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(mixture.parameters(), rate)
    slower = torch.optim.lr_scheduler.ExponentialLR(adam, decay)
    kept = [_now(mixture)]
    for _ in range(epochs):
        for k in torch.randperm(len(observed), generator=generator).tolist():
            adam.zero_grad()
            found = simulated(mixture.draws(draws, generator), k)
            torch.nn.functional.huber_loss(found, observed[k].expand_as(found)).backward()
            adam.step()
        slower.step()
        kept.append(_now(mixture))
    return Epochs(*(np.array(parts) for parts in zip(*kept)))


def _now(mixture: Mixture) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with torch.no_grad():
        return mixture.shares.numpy(), mixture.means.numpy().copy(), mixture.log_sigma.exp().numpy()
