"""What is inferred, and how: the settings of one inference, and limits written as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from config.tiers import require
from identification.errors import UnusableInput
from identification.laplace import GAUSS_NEWTON
from sim_core.inference.samplers import METHODS

__all__ = ["InferConfig", "method_names", "read_limits"]

FINISH = 300
#: where the noise and what the simulator has wrong come from
ERRORS = ("assumed", "fitted")
ALIASES = {"cma": "cma-es"}


@dataclass(frozen=True)
class InferConfig:
    """What is inferred, and how.

    Attributes:
        method: see `method_names`.
        free: names as for `free_parameters`. limits: name -> (lower, upper), SI; beside or in place of `free`. Without
            either the robot's own list (robot.yaml).
        robot: model of recordings that hold none (CSV), and what a bag must have been recorded with.
        particles, iterations: N, and of the method (None: its own).
        finish: sweeps of Markov moves, at most, that make draws of the posterior of svgd's and csvgd's particles; None: 300 for those and
            where errors are fitted, else none. They end once what the particles were is forgotten.
        windows: of multiple shooting; None: 10 for csvgd, else 1.
        length: of a trajectory [s]. held_out: share of the recording, at its end, that judges.
        sigma_obs: noise of the observations in units of each state's standard deviation; the posterior is as wide as
            this says. sigma_def: spread of the defects in the same units.
        errors: "assumed": the simulator is right, and the noise is sigma_obs; "fitted": noise, pushes that nobody explains, and joint
            forces that the simulator lacks are inferred as well, and the posterior is as wide as they make it
            (docs/inference.md#when-the-simulator-is-wrong).
        combine: "product": one robot throughout; "sum": every trajectory may be of another one.
        changes: whether a change of the robot is looked for in a single recording of one robot, and only what follows it is used.
        loss: "gaussian" or "huber".
        blueprint: file of networks in the equations (docs/augmentation.md); their weights are held.
        begin, end: stretch of every recording to use [s].
        seed: the same seed gives the same posterior.
        threads: of this process; without an executor they share the particles. The posterior is the same.
        options: of the method.

    Raises:
        UnusableInput: there is no such method, or a number is out of range.
        MissingTierError: the method needs packages that are not installed.
    """

    method: str = "csvgd"
    free: tuple[str, ...] = ()
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    robot: str = ""
    particles: int = 100
    iterations: int | None = None
    finish: int | None = None
    windows: int | None = None
    length: float = 1.0
    held_out: float = 0.2
    sigma_obs: float = 0.2
    sigma_def: float = 0.1
    errors: str = "assumed"
    combine: str = "product"
    changes: bool = True
    loss: str = "gaussian"
    blueprint: str = ""
    begin: float = 0.0
    end: float = np.inf
    seed: int = 0
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", ALIASES.get(self.method, self.method))
        if self.method not in method_names():
            raise UnusableInput(f"there is no method '{self.method}'; there are {', '.join(method_names())}")
        if self.method in METHODS and (tier := METHODS[self.method].tier):
            require(tier, f"the method '{self.method}'")  # before minutes go into reading and compiling
        if not 0.0 < self.held_out <= 0.5:
            raise UnusableInput(f"held_out is {self.held_out}; expected a share above 0 and at most 0.5")
        if self.particles < 1 or self.threads < 1 or not self.length > 0:
            raise UnusableInput(
                "expected at least one particle, one thread and a length > 0 s, found "
                f"{self.particles}, {self.threads} and {self.length}"
            )
        if self.method == GAUSS_NEWTON and self.limits:
            raise UnusableInput("gauss-newton knows priors and no limits; name what is free, or take another method")
        if self.errors not in ERRORS:
            raise UnusableInput(f"errors: expected one of {', '.join(ERRORS)}, found '{self.errors}'")
        if self.errors == "fitted":
            if self.method == GAUSS_NEWTON:
                raise UnusableInput(
                    "gauss-newton fits its own noise; errors='fitted' is for particles, take another method"
                )
            if (self.combine, self.loss) != ("product", "gaussian"):
                raise UnusableInput(
                    "errors='fitted' is for recordings of one robot with Gaussian noise: combine='product', loss='gaussian', found "
                    f"'{self.combine}' and '{self.loss}'"
                )
        if self.finish is None:
            moved = self.method in ("svgd", "csvgd") or self.errors == "fitted"
            object.__setattr__(self, "finish", FINISH if moved else 0)
        elif self.errors == "fitted" and self.finish < 1:
            raise UnusableInput(f"errors='fitted' takes at least one sweep of Markov moves, found finish={self.finish}")
        if self.windows is None:
            object.__setattr__(self, "windows", 10 if self.method == "csvgd" else 1)


def method_names() -> tuple[str, ...]:
    """Every method `infer` knows."""
    return (GAUSS_NEWTON, *METHODS)


def read_limits(text: str) -> dict[str, tuple[float, float]]:
    """{name: (lower, upper)} from a YAML file or the text itself; "" is none.

    Raises:
        UnusableInput: it is no such mapping.
    """
    if not text:
        return {}
    try:
        source = text if "{" in text or "\n" in text else Path(text).read_text(encoding="utf-8")
        return {str(name): (float(low), float(high)) for name, (low, high) in yaml.safe_load(source).items()}
    except (OSError, yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        raise UnusableInput(
            f"limits: expected YAML {{hand.mass: [0.5, 3.0]}} or a file with it, found {text!r} ({error})"
        ) from None
