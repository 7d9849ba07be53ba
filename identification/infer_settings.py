"""What is inferred, and how: the settings of one inference, and limits written as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from config.tiers import require
from identification.errors import UnusableInput
from identification.laplace import GAUSS_NEWTON
from sim_core.inference.samplers import METHODS
from sim_core.multibody import RobotModel

__all__ = ["DRAWS", "InferConfig", "method_names", "read_limits"]

FINISH = 300
#: where the noise and what the simulator has wrong come from
ERRORS = ("auto", "assumed", "fitted")
#: methods whose draws stand for a posterior, so that Markov moves may go on with them
DRAWS = ("svgd", "csvgd", "emcee", "nuts", "sgld")
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
        finish: sweeps of Markov moves, at most, that make draws of the posterior of what svgd and csvgd, or with fitted errors any
            method, leave; None: 300 for those, else none. They end once what the particles were is forgotten.
        windows: of multiple shooting; None: 10 for csvgd, else 1.
        length: of a trajectory [s]. held_out: share of the recording, at its end, that judges.
        sigma_obs: noise of the observations in units of each state's standard deviation; the posterior is as wide as
            this says. sigma_def: spread of the defects in the same units.
        errors: "assumed": the simulator is right, and the noise is sigma_obs; "fitted": noise, pushes that nobody explains, and joint
            forces that the simulator lacks are inferred as well, and the posterior is as wide as they make it
            (docs/inference.md#when-the-simulator-is-wrong); "auto": fitted where they can be, which `decided` finds out.
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
    errors: str = "auto"
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
        if self.errors == "fitted" and (reason := self._no_errors()):
            raise UnusableInput(f"errors='fitted' {reason}")
        if self.windows is None:
            object.__setattr__(self, "windows", 10 if self.method == "csvgd" else 1)

    def decided(self, model: RobotModel, quantities: int) -> InferConfig:
        """The same with `errors` and `finish` decided for a model, of which so many quantities are free.

        Raises:
            UnusableInput: errors shall be fitted that cannot be.
        """
        reason = self._no_errors() or _no_errors_of(model) or self._too_few(quantities)
        if self.errors == "fitted" and reason:
            raise UnusableInput(f"errors='fitted' {reason}")
        errors = self.errors if self.errors != "auto" else "assumed" if reason else "fitted"
        moved = self.method in ("svgd", "csvgd") or errors == "fitted"
        finish = self.finish if self.finish is not None else FINISH if moved else 0
        return replace(self, errors=errors, finish=finish)

    def _no_errors(self) -> str:
        """Why errors cannot be fitted, by the settings alone; "": they can."""
        if self.method == GAUSS_NEWTON:
            return "is for particles, and gauss-newton fits its own noise: take another method"
        if self.method not in DRAWS:
            return f"is for methods that draw from the posterior, {', '.join(DRAWS)}"
        if (self.combine, self.loss) != ("product", "gaussian"):
            return (
                "is for recordings of one robot with Gaussian noise: combine='product', loss='gaussian', found "
                f"'{self.combine}' and '{self.loss}'"
            )
        if self.blueprint:
            return (
                "is for a simulator without networks, which would explain the same errors twice: leave the blueprint away, or take "
                "errors='assumed'"
            )
        return f"takes at least one sweep of Markov moves, found finish={self.finish}" if self.finish == 0 else ""

    def _too_few(self, quantities: int) -> str:
        least = 2 * quantities + 2
        return f"takes {least} particles or more, found {self.particles}" if self.particles < least else ""


def _no_errors_of(model: RobotModel) -> str:
    """Why no errors of this model can be fitted."""
    return (
        "" if model.nq == model.nv else f"is for robots of hinges and slides, and {model.name} has balls or free joints"
    )


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
