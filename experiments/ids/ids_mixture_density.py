"""A density over a pendulum's lengths, learnt online by gradients: where do its kernels go, and do they stay apart?

    ./refit experiment ids_mixture_density

Swings of a pendulum of three links arrive one at a time. Three Gaussian kernels over the lengths move by Adam on the
Huber loss of what draws from them simulate. In a second problem the last link's ball sits at an unknown share of the
link's length: only the product moves anything, and one kernel cannot cover what the swings leave open.

Published (Heiden, PhD thesis (USC 2022), section 2.2.2): kernels on the true lengths after about 120 epochs, their
variance falling throughout; no numbers. The pendulum's lengths, the start and Adam's rate are ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from config.tiers import require
from reporting import PALETTE, TRUTH, Progress, Report, Result, SilentProgress, figure

if TYPE_CHECKING:
    from experiments.problems.ids_mixture import Epochs

TIERS = ("learning",)
SOURCE = "own target, after Heiden, PhD thesis (USC 2022), section 2.2.2"
LENGTHS, SHARE = (1.0, 1.5, 0.8), 0.7  # [m]; where the last ball sits in the coupled problem
DT, STEPS, LIMITS = 0.05, 20, (0.1, 4.0)
KERNELS, SIGMA, OFF = 3, 0.2, 0.4  # spread of a kernel, and of the kernels' means about the truth, at the start [m]
EPOCHS, LAST = 150, 50
SWINGS = {"quick": 8, "full": 32}
SEEDS = {"quick": 1, "full": 5}


def run(
    size: str = "full", seed: int = 0, progress: Progress = SilentProgress(), run_directory: Path | None = None
) -> Result:
    """Both problems on every seed's swings.

    Returns:
        Result whose checks hold the worst seed's means, spreads and shares.
    """
    require("learning", "a mixture moved by gradients")
    import torch

    from experiments.problems.ids_layer import chain_layer
    from experiments.problems.ids_mixture import Mixture, learnt_online

    torch.set_num_threads(1)
    layer = chain_layer(len(LENGTHS), DT, LIMITS)

    def lengths_of(draws: torch.Tensor) -> torch.Tensor:
        """Lengths (count, 3); where there is a fourth quantity, it is the share at which the last ball sits."""
        last = draws[:, 2] * (draws[:, 3] if draws.shape[1] > 3 else 1.0)
        return layer.within(torch.cat([draws[:, :2], last[:, None]], dim=1))

    result = Result("ids_mixture_density", seed=seed, size=size)
    found: dict[str, list[Epochs]] = {"lengths": [], "coupled": []}
    truths = {"lengths": np.array(LENGTHS), "coupled": np.array([*LENGTHS, SHARE])}
    with progress.stage("mixtures", total=2 * SEEDS[size]) as stage:
        for k in range(SEEDS[size]):
            for problem, truth in truths.items():
                rng = np.random.default_rng([seed, k])
                x0 = np.zeros((SWINGS[size], 6))
                x0[:, :3] = rng.uniform(-1.0, 1.0, (SWINGS[size], 3))
                begins = torch.from_numpy(x0)

                def simulated(draws: torch.Tensor, swing: int) -> torch.Tensor:
                    return layer(begins[swing].expand(len(draws), -1), lengths_of(draws), STEPS)[..., :3]

                exact = torch.from_numpy(truth)[None]
                observed = torch.cat([simulated(exact, swing) for swing in range(len(x0))])
                start = truth * (1.0 + OFF * rng.uniform(-1.0, 1.0, (KERNELS, len(truth))))
                mixture = Mixture(start, SIGMA)
                found[problem].append(learnt_online(mixture, simulated, observed, EPOCHS, seed + k))
                stage.advance()
    plain = found["lengths"]
    means = [np.einsum("k,kn->n", one.shares[-1], one.means[-1]) for one in plain]
    off = [np.abs(mean / LENGTHS - 1.0).max() for mean in means]
    apart = [(one.shares[-1] @ np.abs(one.means[-1] / LENGTHS - 1.0)).max() for one in plain]
    sigma = [one.sigmas.mean(axis=(1, 2))[-LAST - 1 :] for one in plain]
    rises = max(int(np.sum(np.diff(s) > 0.0)) for s in sigma)
    shares = [np.sort(one.shares[-1])[-2] for one in found["coupled"]]
    result.check("error of the mixture's mean lengths after 150 epochs", max(off), 0.02, "<=", "1", SOURCE)
    result.check("epochs of the last 50 in which the mean sigma rose", rises, 0, "==", "1", SOURCE)
    result.check("second largest share where length and COM are coupled", min(shares), 0.2, ">", "1", SOURCE)
    result.detail("error of single kernels' means, weighed by shares", apart)
    result.detail("final sigma [m]", [float(s[-1]) for s in sigma])
    products = [one.means[-1][:, 2] * one.means[-1][:, 3] for one in found["coupled"]]
    result.detail("coupled: last length times share of each kernel, truth first", [LENGTHS[2] * SHARE, *products])
    result.detail("coupled: last length of each kernel", [one.means[-1][:, 2] for one in found["coupled"]])
    if run_directory is not None:
        report(result, found, truths).write(Path(run_directory) / "report.html")
    return result


def report(result: Result, found: dict[str, list[Epochs]], truths: dict[str, np.ndarray]) -> Report:
    """Means with a band of one sigma over epochs, first seed, for both problems."""
    page = Report("A density over a pendulum's lengths", f"{result.size}, {SEEDS[result.size]} seeds")
    page.checks(result)
    for problem, of in found.items():
        one, truth = of[0], truths[problem]
        page.section(f"Kernels: {problem}", f"First seed; shares at the end {np.round(one.shares[-1], 3).tolist()}.")
        fig, axes = figure(1, len(truth), size=(8.4, 3.0), sharex=True)
        for n, axis in enumerate(axes):
            for k in range(KERNELS):
                mean, sigma = one.means[:, k, n], one.sigmas[:, k, n]
                axis.plot(mean, color=PALETTE[k])
                axis.fill_between(range(len(mean)), mean - sigma, mean + sigma, color=PALETTE[k], alpha=0.2)
            axis.axhline(truth[n], color=TRUTH, linewidth=0.8, linestyle="--")
            axis.set(title=f"length {n + 1} [m]" if n < 3 else "share of the last", xlabel="epoch")
        page.figure(fig, "Lines: means; bands: one standard deviation; dashed: the truth.")
    return page
