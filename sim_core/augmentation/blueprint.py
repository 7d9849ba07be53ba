"""What a network inside the simulator reads, what it corrects, and how.

    Blueprint("drag", outputs=("joint1.passive_torque",), inputs=("joint1.position", "joint1.velocity"))

Source: Heiden et al., NeuralSim: Augmenting Differentiable Simulators with Neural Networks, ICRA 2021, section III.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import NoReturn

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from sim_core.augmentation.network import Network
from sim_core.codegen.dense import DenseBlock

__all__ = ["Blueprint"]


@dataclass(frozen=True, eq=False)
class Blueprint:
    """One network between named quantities of the equations (`sim_core.multibody.equations.taps`).

        y = output_scale * network((x - input_offset) / input_scale)

    Attributes:
        name: of the network; its weights are "augmentation.<name>.w0[0,0]", ... in the physical vector.
        outputs, inputs: names, each with at most one "*". One blueprint with stars serves every place where its outputs
            match: it is evaluated for each apart, its weights are shared.
        network: shape.
        mode: "residual": y is added to what the equations give; "replacement": it takes its place.
        input_offset, input_scale: (inputs,), or one number. output_scale: (outputs,), or one number [the output's unit].
        weights: (n_weights,); default Xavier with a hundredth of it in the output layer, so that training starts close
            to the equations.

    Raises:
        ValueError: what does not fit together, in one sentence.
    """

    name: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    network: Network = Network()
    mode: str = "residual"
    # Callers may give one number or a list; __post_init__ makes arrays of them, and of no weights start values.
    input_offset: np.ndarray = 0.0  # type: ignore[assignment]
    input_scale: np.ndarray = 1.0  # type: ignore[assignment]
    output_scale: np.ndarray = 1.0  # type: ignore[assignment]
    weights: np.ndarray = field(default=None, repr=False)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        def refuse(sentence: str) -> NoReturn:
            raise ValueError(f"Blueprint '{self.name}': {sentence}")

        if not re.fullmatch(r"[A-Za-z0-9_-]+", self.name):
            refuse("expected a name of letters, digits, '_' and '-'; choose another.")
        for kind in ("outputs", "inputs"):
            names = getattr(self, kind)
            names = (names,) if isinstance(names, str) else tuple(names)
            object.__setattr__(self, kind, names)
            if not names or len(set(names)) < len(names) or any(name.count("*") > 1 for name in names):
                refuse(f"expected at least one of {kind}, each once and with at most one '*', found {list(names)}.")
        starred = {"*" in name for name in self.outputs}
        if len(starred) > 1 or not starred.issuperset("*" in name for name in self.inputs if "*" in name):
            refuse("a '*' in one output needs one in every output, and one in an input needs them in the outputs.")
        if self.mode not in ("residual", "replacement"):
            refuse(f'expected mode "residual" or "replacement", found "{self.mode}".')
        for name, n in (
            ("input_offset", self.n_inputs),
            ("input_scale", self.n_inputs),
            ("output_scale", self.n_outputs),
        ):
            value = np.asarray(getattr(self, name), dtype=float)
            if value.shape not in ((), (n,)) or not np.isfinite(value).all():
                refuse(f"expected {n} finite numbers (or one) as {name}, found {value.tolist()}.")
            object.__setattr__(self, name, np.broadcast_to(value, (n,)).copy())
        if not np.all(self.input_scale > 0):
            refuse(f"expected input_scale > 0, found {self.input_scale.tolist()}.")
        w = self.weights
        w = self.network.xavier(*self.shape, output_gain=0.01) if w is None else np.array(w, dtype=float)
        if w.shape != (self.n_weights,) or not np.isfinite(w).all():
            refuse(
                f"expected {self.n_weights} finite weights, found an array of shape {w.shape}"
                + ("." if w.shape != (self.n_weights,) else " with NaN or infinity.")
            )
        object.__setattr__(self, "weights", w)

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        return len(self.inputs)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.outputs)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of inputs and outputs."""
        return self.n_inputs, self.n_outputs

    @property
    def block(self) -> DenseBlock:
        """The network as an operation of a graph."""
        return self.network.block(*self.shape)

    @property
    def n_weights(self) -> int:
        """Number of weights and biases."""
        return self.block.n_weights

    @property
    def replaces(self) -> bool:
        """Whether the outputs take the place of what the equations give."""
        return self.mode == "replacement"

    @property
    def weight_names(self) -> list[str]:
        """Names of the weights in the physical vector, (n_weights,)."""
        return [f"augmentation.{self.name}.{name}" for name in self.network.weight_names(*self.shape)]

    def with_weights(self, weights: ArrayLike) -> Blueprint:
        """The same network with other weights (n_weights,)."""
        return replace(self, weights=np.array(weights, dtype=float))

    def initialised(self, seed: int, output_gain: float = 0.01) -> Blueprint:
        """With Xavier start values of another seed; see `Network.xavier`."""
        return self.with_weights(self.network.xavier(*self.shape, seed, output_gain))

    def expression(self, x: ca.SX, w: ca.SX) -> ca.SX:
        """Outputs, SX (n_outputs,), of inputs x, SX (n_inputs,), with weights w (n_weights,)."""
        if np.any(self.input_offset):
            x = x - self.input_offset
        if np.any(self.input_scale != 1):
            x = x / self.input_scale
        y = self.block.forward(x, w) if self.network.inlined(*self.shape) else self.block.function(x, w)
        return y * self.output_scale if np.any(self.output_scale != 1) else y

    def __call__(self, x: ArrayLike, weights: ArrayLike | None = None) -> np.ndarray:
        """Outputs (..., n_outputs) of numeric inputs (..., n_inputs), e.g. for plots."""
        x = np.asarray(x, dtype=float)
        rows = (x.reshape(-1, self.n_inputs) - self.input_offset) / self.input_scale
        y = self.block.function(rows.T, self.weights if weights is None else np.asarray(weights, dtype=float))
        return (y.full().T * self.output_scale).reshape(*x.shape[:-1], self.n_outputs)
