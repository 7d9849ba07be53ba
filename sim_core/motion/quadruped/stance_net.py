"""A small network as plain matrices: 41 observations in, twelve torques out, without a framework at run time.

41-192-192-12 as published, or 41-192-192-192-12 as the published code ships it; ELU, linear output. Scaling of inputs
and outputs is folded into the first and last layer. A file of it is one safetensors file with a text header.

Source: Heiden, NeuralSim (2021), MPC imitation: two hidden layers of 192, ELU.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from sim_core.motion.quadruped.observation import NAMES, SIZE, SLICES

__all__ = ["StanceNet"]

_CONTACTS = SLICES["contacts"]
_PATTERN = np.array([1, 2, 4, 8])
_FORMAT = "refit stance network 1"


@dataclass(frozen=True)
class StanceNet:
    """Weights and the range they were trained in.

    Attributes:
        weights: one (out, in) float32 per layer. biases: (out,) each.
        lower, upper: of every input, (41,); outside, the network must not be asked.
        patterns: (16,) bool: contact patterns it has seen, FL + 2 FR + 4 RL + 8 RR.
        meta: how it came about.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    lower: np.ndarray
    upper: np.ndarray
    patterns: np.ndarray
    meta: dict = field(default_factory=dict)

    def __post_init__(self) -> None:
        sizes = [SIZE, *(len(b) for b in self.biases)]
        shapes = [w.shape for w in self.weights]
        if shapes != list(zip(sizes[1:], sizes[:-1])) or sizes[-1] != 12:
            raise ValueError(
                f"A stance network maps {SIZE} inputs to 12 outputs layer by layer; found weights {shapes}."
            )
        if self.lower.shape != (SIZE,) or self.upper.shape != (SIZE,) or self.patterns.shape != (16,):
            raise ValueError(f"A stance network needs the range of {SIZE} inputs and 16 contact patterns.")

    @property
    def parameters(self) -> int:
        """How many weights and biases."""
        return sum(w.size + b.size for w, b in zip(self.weights, self.biases))

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """Torques (12,) [N m] of one observation (41,), in single precision."""
        h = x.astype(np.float32)
        for W, b in zip(self.weights[:-1], self.biases[:-1]):
            h = W @ h
            h += b
            # ELU: max(h, 0) + exp(min(h, 0)) - 1, which needs no branch.
            e = np.minimum(h, 0.0)
            np.exp(e, out=e)
            e -= 1.0
            h = np.maximum(h, 0.0, out=h)
            h += e
        return (self.weights[-1] @ h + self.biases[-1]).astype(float)

    def objection(self, x: np.ndarray) -> str:
        """Why the network should not be asked about x (41,), in words; "" if it may."""
        # NaN is neither within nor without, so it is caught here too.
        if not ((x >= self.lower) & (x <= self.upper)).all():
            i = int(np.argmin((x >= self.lower) & (x <= self.upper)))
            if not np.isfinite(x[i]):
                return f"{NAMES[i]} is not finite"
            return f"{NAMES[i]} = {x[i]:.3g} is outside the training range {self.lower[i]:.3g} to {self.upper[i]:.3g}"
        pattern = int((x[_CONTACTS] > 0.5) @ _PATTERN)
        if not self.patterns[pattern]:
            names = [leg for leg, on in zip(("FL", "FR", "RL", "RR"), x[_CONTACTS] > 0.5) if on]
            return f"the network never saw {' and '.join(names) or 'no foot'} standing alone"
        return ""

    def save(self, path: str | Path) -> None:
        """Write the file, one safetensors file."""
        tensors = {"lower": self.lower, "upper": self.upper, "patterns": self.patterns.astype(np.uint8)}
        for k, (W, b) in enumerate(zip(self.weights, self.biases)):
            tensors[f"weight{k}"], tensors[f"bias{k}"] = W, b
        save_file(
            {name: np.ascontiguousarray(t) for name, t in tensors.items()},
            str(path),
            {"format": _FORMAT, "inputs": ",".join(NAMES), "meta": json.dumps(self.meta)},
        )

    @classmethod
    def load(cls, path: str | Path) -> StanceNet:
        """Read a file.

        Raises:
            ValueError: it cannot be read or is no stance network of these inputs; the text says what to do.
        """
        try:
            with safe_open(str(path), "numpy") as file:
                head = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}
        except (OSError, SafetensorError) as error:
            raise ValueError(
                f"Cannot read the stance network '{path}': {error}; train one with "
                "`./refit experiment mpc_imitation_quadruped`."
            ) from error
        if head.get("format") != _FORMAT or head.get("inputs") != ",".join(NAMES):
            raise ValueError(
                f"'{path}' is no stance network of these {SIZE} inputs; train one with "
                "`./refit experiment mpc_imitation_quadruped`."
            )
        layers = sum(name.startswith("weight") for name in tensors)
        return cls(
            tuple(tensors[f"weight{k}"] for k in range(layers)),
            tuple(tensors[f"bias{k}"] for k in range(layers)),
            tensors["lower"],
            tensors["upper"],
            tensors["patterns"].astype(bool),
            json.loads(head["meta"]),
        )
