"""Small fully connected networks: their shape, start values and bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim_core.codegen.dense import ACTIVATIONS, DenseBlock

__all__ = ["Network"]

#: Up to so many weights a network is written out scalar by scalar, beyond it is a dense block (docs/kernels.md).
INLINED = 500


@dataclass(frozen=True)
class Network:
    """Shape of a network without its numbers of inputs and outputs, which belong to the blueprint.

    Attributes:
        hidden: units of each hidden layer; none makes a linear network.
        activation: of the hidden layers: identity, tanh, sin, relu, softplus ("soft ReLU"), elu, sigmoid, softsign.
        output: activation of the output layer.
        biases: for all layers, or for each (hidden ones first).
        weight_bound, bias_bound: largest magnitude an optimiser may give them; inf for none.
        evaluation: "inlined", "dense", or "auto": by size.

    Raises:
        ValueError: unknown activation or evaluation, a layer without units, a bound that is not positive.
    """

    hidden: tuple[int, ...] = (5, 5)
    activation: str = "elu"
    output: str = "identity"
    biases: bool | tuple[bool, ...] = True
    weight_bound: float = np.inf
    bias_bound: float = np.inf
    evaluation: str = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(int(n) for n in self.hidden))
        layers = len(self.hidden) + 1
        biases = (
            (bool(self.biases),) * layers
            if isinstance(self.biases, (bool, np.bool_))
            else tuple(map(bool, self.biases))
        )
        object.__setattr__(self, "biases", biases)
        if any(n < 1 for n in self.hidden):
            raise ValueError(f"Expected at least one unit in each hidden layer, found {self.hidden}.")
        if len(biases) != layers:
            raise ValueError(f"Expected one entry of biases for each of {layers} layers, found {len(biases)}.")
        for name in (self.activation, self.output):
            if name not in ACTIVATIONS:
                raise ValueError(f"No activation '{name}'. Known: {', '.join(ACTIVATIONS)}.")
        if self.evaluation not in ("auto", "inlined", "dense"):
            raise ValueError(f'Expected evaluation "auto", "inlined" or "dense", found "{self.evaluation}".')
        for name in ("weight_bound", "bias_bound"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Expected {name} > 0, found {getattr(self, name)}.")

    def block(self, inputs: int, outputs: int) -> DenseBlock:
        """The network between so many inputs and outputs."""
        activations = (self.activation,) * len(self.hidden) + (self.output,)
        # __post_init__ has made one entry for each layer of a single bool.
        biases = self.biases if isinstance(self.biases, tuple) else (self.biases,) * len(activations)
        return DenseBlock((inputs, *self.hidden, outputs), activations, biases)

    def inlined(self, inputs: int, outputs: int) -> bool:
        """Whether the network between so many inputs and outputs is written out scalar by scalar."""
        if self.evaluation == "auto":
            return self.block(inputs, outputs).n_weights <= INLINED
        return self.evaluation == "inlined"

    def weight_names(self, inputs: int, outputs: int) -> list[str]:
        """ "w0[i,j]" from input j to unit i of the first layer, "b0[i]" its bias, and so on, in the block's order."""
        names = []
        for k, (rows, columns, _, bias, _) in enumerate(self.block(inputs, outputs).layers):
            names += [f"w{k}[{i},{j}]" for i in range(rows) for j in range(columns)]
            names += [f"b{k}[{i}]" for i in range(rows) if bias is not None]
        return names

    def bounds(self, inputs: int, outputs: int) -> np.ndarray:
        """Largest magnitude of each weight and bias, (n_weights,)."""
        names = self.weight_names(inputs, outputs)
        return np.array([self.bias_bound if name[0] == "b" else self.weight_bound for name in names])

    def xavier(self, inputs: int, outputs: int, seed: int = 0, output_gain: float = 1.0) -> np.ndarray:
        """Start values (n_weights,): weights uniform within sqrt(6 / (fan in + fan out)), biases zero, inside the bounds.

        Args:
            output_gain: factor on the output layer; small ones start close to the model without the network.

        Source: Glorot, Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.
        """
        rng, block = np.random.default_rng(seed), self.block(inputs, outputs)
        w = np.zeros(block.n_weights)
        for k, (rows, columns, at, _, _) in enumerate(block.layers):
            gain = output_gain if k == len(block.layers) - 1 else 1.0
            w[at : at + rows * columns] = gain * rng.uniform(-1, 1, rows * columns) * np.sqrt(6 / (rows + columns))
        bound = self.bounds(inputs, outputs)
        return np.clip(w, -bound, bound)
