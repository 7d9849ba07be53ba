"""Named quantities inside a step: places where networks read values and correct them.

Every evaluation of the joint forces makes one `Taps`. The equations hand each quantity that they compute through it
under a name. They get the same value back, or a corrected or replaced one where a network of the model has that name as
its output.

    taps.record("joint1.velocity", v[0])                       # may be an input of a network
    tau = taps("joint1.passive_torque", -damping * v[0])       # may be an input, and an output

Names are the model's own: "joint1.position", ".velocity", ".actuator_torque", ".passive_torque", "joint1.control" (the
actuator's name), "contact.box.floor.normal_force", "body.box.velocity.vx" and "body.box.wrench.fx" (body_taps.py). A
network's inputs must be recorded before its output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import casadi as ca

__all__ = ["AugmentedModel", "TapNetwork", "Taps", "captured", "filled"]


class TapNetwork(Protocol):
    """A network inside the equations, as `Taps` sees it; `sim_core.augmentation` attaches such to a model.

    Attributes:
        name: of the network.
        inputs, outputs: names of quantities, each with at most one "*".
        replaces: whether its outputs take the place of what the equations give, rather than being added.
    """

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def replaces(self) -> bool: ...

    def evaluate(self, values: Sequence[ca.SX], p: ca.SX) -> list[ca.SX]:
        """One scalar per output, of one scalar per input and the physical vector p (np_,)."""
        ...


class AugmentedModel(Protocol):
    """A model whose equations may contain networks."""

    @property
    def augmentation(self) -> tuple[TapNetwork, ...]: ...


class Taps:
    """One evaluation of the forces.

    Args:
        model: the model; its `augmentation` holds the networks.
        p: physical vector (np_,), which contains their weights.
        silent: leave the networks out: their residuals vanish, and quantities that they replace are zero.
        everything: compute quantities that no network mentions as well, so that all names become known.

    Attributes:
        values: name -> scalar, in the order of the equations.   correctable: names that may be outputs.
    """

    def __init__(self, model: AugmentedModel, p: ca.SX, silent: bool = False, everything: bool = False) -> None:
        self.model, self.p, self.silent, self.everything = model, p, silent, everything
        self.values: dict[str, ca.SX] = {}
        self.correctable: list[str] = []
        self._spoken: dict[tuple[str, str], list[ca.SX]] = {}

    def mentions(self, prefix: str) -> bool:
        """Whether a network reads or corrects a quantity whose name begins with `prefix`; if not, it need not be computed."""
        patterns = [name for network in self.model.augmentation for name in (*network.inputs, *network.outputs)]
        return self.everything or any(pattern.startswith(prefix) for pattern in patterns)

    def record(self, name: str, value: ca.SX) -> None:
        """Make a scalar known under `name`, as an input."""
        self.values[name] = value

    def __call__(self, name: str, value: ca.SX) -> ca.SX:
        """The scalar `value` itself, corrected or replaced by the network whose output is `name`."""
        self.correctable.append(name)
        for network in self.model.augmentation:
            for k, output in enumerate(network.outputs):
                star = captured(output, name)
                if star is not None:
                    value = self._corrected(value, network, k, star)
        self.record(name, value)
        return value

    def _corrected(self, value: ca.SX, network: TapNetwork, k: int, star: str) -> ca.SX:
        if self.silent:
            return value * 0 if network.replaces else value
        said = self._say(network, star)[k]
        return said if network.replaces else value + said

    def _say(self, network: TapNetwork, star: str) -> list[ca.SX]:
        """The network's outputs for one filling of its star, computed once."""
        if (network.name, star) not in self._spoken:
            values = []
            for pattern in network.inputs:
                name = filled(pattern, star)
                if name not in self.values:
                    raise KeyError(f"Network '{network.name}': its input '{name}' is not computed before its output.")
                values.append(self.values[name])
            self._spoken[network.name, star] = network.evaluate(values, self.p)
        return self._spoken[network.name, star]


def captured(pattern: str, name: str) -> str | None:
    """What "*" stands for where `name` is of the form `pattern`: "" without a star, None where it is not."""
    head, star, tail = pattern.partition("*")
    if not star:
        return "" if pattern == name else None
    fits = name.startswith(head) and name.endswith(tail) and len(name) >= len(head) + len(tail)
    return name[len(head) : len(name) - len(tail)] if fits else None


def filled(pattern: str, star: str) -> str:
    """`pattern` with its star filled in, so that one network for every contact reads the values of that contact."""
    return pattern.replace("*", star)
