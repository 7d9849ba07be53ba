"""Conditional neural process: the baseline that learns to adapt without a Gaussian process.

Each trial (features, value) is encoded, the mean over trials describes the task, and a decoder gives mean and deviation at a query's
features. Sources: Garnelo et al., "Conditional neural processes", ICML 2018; settings: Zhu, PhD thesis (University of Illinois
2023), section 6.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from sim_core.meta.fitting import ExtractorFactory, Pool, Progress, augmented, descend, reproducible, silent
from sim_core.meta.model import Extractor, MetaModel, dense
from sim_core.meta.settings import MetaSettings
from sim_core.meta.tasks import Array, Inputs, Rows, Task

__all__ = ["NeuralBelief", "NeuralProcess", "train_neural_process"]

LEAST_DEVIATION = 1e-2  # of values / scale


class NeuralProcess(MetaModel):
    """See the module's docstring.

    Args:
        extractor: of the features. hidden: width of all layers, and of what describes a task. scale: see `MetaModel`.
    """

    kind = "neural process"

    def __init__(self, extractor: Extractor, hidden: int = 32, scale: float = 1.0) -> None:
        super().__init__(extractor, scale)
        self.hidden = hidden
        self.trial_head = dense(extractor.width + 1, hidden, hidden)
        self.query_head = dense(extractor.width + hidden, hidden, hidden, 2)

    def described(self, features: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """What trials (n, width) with values / scale (n,) say of the task (hidden,); zero without any."""
        if not len(values):
            return torch.zeros(self.hidden)
        return self.trial_head(torch.cat([features, values[:, None]], 1)).mean(0)

    def decoded(self, features: torch.Tensor, task: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and standard deviation / scale (m,) at features (m, width)."""
        mean, raw = self.query_head(torch.cat([features, task.expand(len(features), -1)], 1)).unbind(1)
        return mean, LEAST_DEVIATION + torch.nn.functional.softplus(raw)

    @torch.no_grad()
    def condition(self, inputs: Inputs | None = None, values: Array = np.empty(0)) -> NeuralBelief:
        """See `MetaModel`."""
        rows, scaled = self.support(inputs, values)
        features = torch.empty(0, self.extractor.width) if rows is None else self.extractor(rows)
        return NeuralBelief(self, self.described(features, scaled.float()))


class NeuralBelief:
    """A neural process after some trials. task: what describes the task (hidden,)."""

    def __init__(self, model: NeuralProcess, task: torch.Tensor) -> None:
        self.model, self.task = model, task

    @torch.no_grad()
    def predict(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """See `Belief`; the deviation includes a reading's noise, as the process does not tell them apart."""
        mean, deviation = self.model.decoded(self.model.extractor(self.model.rows(inputs)), self.task)
        return self.model.scale * mean.double().numpy(), self.model.scale * deviation.double().numpy()


def train_neural_process(
    tasks: Sequence[Task],
    extractor_factory: ExtractorFactory,
    settings: MetaSettings = MetaSettings(),
    seed: int = 0,
    progress: Progress = silent,
) -> NeuralProcess:
    """Fit to random splits of each task into support and queries; tasks chosen at random decide when to stop.

    Raises:
        MissingTierError: torch is not installed.
        ValueError: too few tasks or rows for the split, inputs that do not fit each other, or a loss that is not finite.
    """
    fit = settings.process
    if len(tasks) <= fit.validation or min(len(task) for task in tasks) <= fit.support:
        raise ValueError(
            f"expected more than {fit.validation} tasks of more than {fit.support} rows each, found {len(tasks)} tasks, the "
            f"smallest of {min((len(task) for task in tasks), default=0)} rows"
        )
    with reproducible():
        pool = Pool(tasks, settings.scale)
        torch.manual_seed(seed)
        model = NeuralProcess(extractor_factory(), settings.hidden, settings.scale)
        rng = np.random.default_rng([seed, 79])
        order = rng.permutation(len(tasks))
        validation, training = order[: fit.validation], order[fit.validation :]

        def steps() -> Iterator[torch.Tensor]:
            for k in rng.permutation(training):
                rows = augmented(pool.rows.take(pool.of[k]), settings.augmentation, rng, noise=False)
                yield _loss(model, rows, pool.values[pool.of[k]], fit.support, rng)

        @torch.no_grad()
        def on_others(_: float) -> float:
            # The same splits each time: what changes from epoch to epoch is the network.
            splits = np.random.default_rng([seed, 81])
            each = [
                _loss(model, pool.rows.take(pool.of[k]), pool.values[pool.of[k]], fit.support, splits)
                for k in validation
            ]
            return float(torch.stack(each).mean())

        def tell(epoch: int, loss: float) -> None:
            progress(f"neural process: epoch {epoch}, loss on other tasks {loss:.3f}")

        losses = descend(model, fit, steps, on_others, tell)
        model.meta = {"method": "neural process", "seed": seed, "tasks": len(tasks), "epochs": len(losses)}
        return model


def _loss(
    model: NeuralProcess, rows: Rows, values: torch.Tensor, support: int, rng: np.random.Generator
) -> torch.Tensor:
    """Mean negative log density of the queries of one task after some of its rows."""
    features = model.extractor(rows)
    order = torch.from_numpy(rng.permutation(len(values)))
    given, asked = order[:support], order[support:]
    mean, deviation = model.decoded(features[asked], model.described(features[given], values[given]))
    return -torch.distributions.Normal(mean, deviation).log_prob(values[asked]).mean()
