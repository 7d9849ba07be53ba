"""A posterior as a set of particles: saves, loads, rolls out and scores itself.

posterior = ParticlePosterior.of(density, samples, meta={"robot": "panda"})
posterior.save("posterior.npz")
X = ParticlePosterior.load("posterior.npz").rollout(dynamics, parameters, x0, U)   # (N, ..., H+1, nx)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from config import yaml_text
from config.whole_file import whole_file
from sim_core.inference.data.density import LogDensity
from sim_core.inference.samplers.sampler import Samples
from sim_core.inference.shooting.maps import ParameterMap
from sim_core.system import System

__all__ = ["ParticlePosterior"]

FORMAT = "refit particle posterior 1"
EQUAL = np.empty(0)  # stands for equal weights until the number of particles is known


@dataclass(frozen=True)
class ParticlePosterior:
    """N samples of M named quantities.

    Attributes:
        names: M names. units: M SI units, "" where unknown.
        lower, upper: limits (M,).
        values: (N, M), SI.
        log_p: log likelihood (N,); -inf for a particle whose roll-out was not finite.
        weights: (N,), sum 1; default equal, as all sampling methods here deliver.
        meta: plain data on where they come from (robot, model hash, method, seed, recordings, ...).

    Raises:
        ValueError: shapes disagree, a value is not finite, or there is no particle.
    """

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    values: np.ndarray
    log_p: np.ndarray
    meta: dict = field(default_factory=dict)
    units: tuple[str, ...] = ()
    weights: np.ndarray = field(default_factory=lambda: EQUAL)

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)
        M = len(self.names)
        put("names", tuple(self.names))
        put("units", tuple(self.units) or ("",) * M)
        for name in ("lower", "upper", "values", "log_p"):
            put(name, np.ascontiguousarray(getattr(self, name), dtype=float))
        N = len(self.values)
        put("weights", np.full(N, 1 / max(N, 1)) if self.weights is EQUAL else np.asarray(self.weights, dtype=float))
        expected = {"lower": (M,), "upper": (M,), "values": (N, M), "log_p": (N,), "weights": (N,)}
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ValueError(
                    f"posterior {name}: expected shape {shape} for {M} names, found {getattr(self, name).shape}"
                )
        if N < 1 or len(self.units) != M:
            raise ValueError(
                f"expected at least one particle and one unit per name, found {N} particles and {len(self.units)} units"
            )
        if not (np.isfinite(self.values).all() and np.isfinite(self.weights).all()) or np.isnan(self.log_p).any():
            raise ValueError("posterior: expected finite values and weights, found others; mask those particles first")
        if (self.weights < 0).any() or not np.isclose(self.weights.sum(), 1.0):
            raise ValueError(f"posterior weights: expected numbers >= 0 of sum 1, found sum {self.weights.sum():g}")

    @classmethod
    def of(cls, density: Any, samples: Samples, meta: Mapping[str, Any] | None = None) -> ParticlePosterior:
        """What a sampling method drew (`samples.z`, `.log_p`) from a density; shooting states are left out."""
        M = len(getattr(density, "parameters", density).names)
        facts = {
            "method": samples.method,
            "evaluations": samples.evaluations,
            "not_finite": samples.not_finite,
            "cancelled": samples.cancelled,
        }
        units = tuple(getattr(getattr(density, "parameters", None), "units", ()))
        return cls(
            density.names[:M],
            density.lower[:M],
            density.upper[:M],
            density.theta(samples.z)[:, :M],
            samples.log_p,
            {**facts, **(meta or {})},
            units,
        )

    # ---- in numbers ---------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def best(self) -> np.ndarray:
        """The particle of the highest likelihood (M,)."""
        return self.values[np.argmax(self.log_p)]

    @property
    def mean(self) -> np.ndarray:
        return self.weights @ self.values

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(self.weights @ (self.values - self.mean) ** 2)

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Weighted quantiles (len(q), M) for q in [0, 1]."""
        q = np.atleast_1d(np.asarray(q, dtype=float))
        order = np.argsort(self.values, axis=0)
        columns = []
        for i in range(len(self.names)):
            w = self.weights[order[:, i]]
            columns.append(np.interp(q, np.cumsum(w) - 0.5 * w, self.values[order[:, i], i]))
        return np.stack(columns, axis=1)

    def summary(self) -> list[dict]:
        """For every quantity: name, unit, mean, std, median, the ends of the 90 % interval, best, and the limits."""
        low, median, high = self.quantile([0.05, 0.5, 0.95])
        columns = zip(self.names, self.units, self.mean, self.std, median, low, high, self.best, self.lower, self.upper)
        keys = ("name", "unit", "mean", "std", "median", "q05", "q95", "best", "lower", "upper")
        return [dict(zip(keys, [*row[:2], *map(float, row[2:])])) for row in columns]

    def reweighted(self, log_weights: np.ndarray) -> ParticlePosterior:
        """The same particles with weights proportional to exp(log_weights) (N,)."""
        log_weights = np.asarray(log_weights, dtype=float)
        if not np.isfinite(log_weights).any() or np.isnan(log_weights).any():
            raise ValueError("log weights: expected numbers or -inf, at least one of them finite")
        return replace(self, weights=np.exp(log_weights - logsumexp(log_weights)))

    def drawn(self, count: int, seed: int = 0) -> ParticlePosterior:
        """`count` particles by systematic resampling, equally weighted: what a controller that averages over a few needs."""
        u = (np.random.default_rng(seed).random() + np.arange(count)) / count
        pick = np.minimum(np.searchsorted(np.cumsum(self.weights), u), self.count - 1)
        return replace(self, values=self.values[pick], log_p=self.log_p[pick], weights=EQUAL)

    # ---- in motion ----------------------------------------------------------------------------------------------

    def rollout(self, dynamics: System, parameters: ParameterMap, x0: np.ndarray, U: np.ndarray) -> np.ndarray:
        """States X (N, ..., H+1, nx) of every particle from x0 (..., nx) under U (..., H, nu).

        A particle whose roll-out diverges has NaN or infinity there, the others do not notice.

        Raises:
            ValueError: `parameters` has other names.
        """
        if tuple(parameters.names) != self.names:
            raise ValueError(f"expected parameters {', '.join(self.names)}, found {', '.join(parameters.names)}")
        x0 = np.asarray(x0, dtype=float)
        p = parameters.to_physical(self.values).reshape(self.count, *(1,) * (x0.ndim - 1), -1)
        return dynamics.rollout(x0, np.asarray(U, dtype=float), p)

    def log_predictive(self, density: LogDensity) -> float:
        """log sum_i w_i p(data | theta_i): how well the set as a whole predicts the density's trajectories (held out)."""
        return float(logsumexp(density.log_p(density.z(self.values)), b=self.weights))

    # ---- as a file ----------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write one .npz: arrays, and a head in YAML (names, units, meta). Whole or not at all; nothing is pickled."""
        head = {"format": FORMAT, "names": list(self.names), "units": list(self.units), "meta": _plain(self.meta)}
        arrays = {name: getattr(self, name) for name in ("lower", "upper", "values", "log_p", "weights")}
        with whole_file(path) as partial, partial.open("wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                head=np.array(yaml.safe_dump(head, sort_keys=False, allow_unicode=True)),
                **arrays,
            )
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> ParticlePosterior:
        """The posterior that `save` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is something else, or damaged.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            head = yaml_text.load(str(arrays.pop("head")))
            if head["format"] != FORMAT:
                raise ValueError(f"format '{head['format']}'")
            return cls(tuple(head["names"]), meta=head["meta"], units=tuple(head["units"]), **arrays)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"no posterior at {path}; `./refit identify BAG --method csvgd` writes one"
            ) from None
        except Exception as error:
            raise ValueError(
                f"{path} is no readable posterior ({type(error).__name__}: {error}); expected a file that save() wrote"
            ) from None


def _plain(value: Any) -> Any:
    """Numbers, texts, lists and mappings only, so that YAML can say them."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
