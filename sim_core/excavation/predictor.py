"""The recurrent network as a planner asks it: in numpy, without torch, all sequences at once, equal beginnings once.

What is common to the children of a state (attention, context, what is fed back) is computed for the state; a child adds a row of a
table for its action. Batch norms are folded into the layers before them.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from config.whole_file import whole_file
from sim_core.excavation.costs import CostSettings, Terms, step_terms
from sim_core.excavation.model_settings import STRIDES, ModelSettings
from sim_core.excavation.policies import State
from sim_core.excavation.primitives import ACTIONS, NULL, WIGGLE
from sim_core.excavation.reference_path import ReferencePath

if TYPE_CHECKING:
    from sim_core.excavation.training import Fitted

__all__ = ["PlanningModel", "Predictor", "Weights", "without_wiggle"]

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Weights:
    """Arrays of a fitted recurrent network, and its settings.

    Attributes:
        settings: of the network. arrays: by name, float32; shift and scale of states (7,) are among them.
    """

    settings: ModelSettings
    arrays: Arrays

    @classmethod
    def of(cls, fitted: Fitted) -> Weights:
        """From what was fitted.

        Raises:
            ValueError: it is the baseline, which cannot be asked step by step.
        """
        if fitted.model.settings.kind != "recurrent":
            raise ValueError("expected a recurrent network, found the baseline: a planner asks step by step")
        state = {name: w.detach().numpy().astype(float) for name, w in fitted.model.state_dict().items()}
        arrays: Arrays = {"shift": fitted.shift, "scale": fitted.scale}
        for name in {key.rsplit(".", 2)[0] for key in state if key.endswith("1.running_var")}:
            gain = state[f"{name}.1.weight"] / np.sqrt(state[f"{name}.1.running_var"] + 1e-5)
            arrays[f"{name}.weight"] = gain[:, None] * state[f"{name}.0.weight"]
            shifted = state[f"{name}.0.bias"] - state[f"{name}.1.running_mean"]
            arrays[f"{name}.bias"] = gain * shifted + state[f"{name}.1.bias"]
        dense = tuple(f"{name}." for name in arrays)
        folded = tuple(one.rsplit(".", 2)[0] + "." for one in dense if one.endswith("weight."))
        arrays |= {name: w for name, w in state.items() if not name.startswith(folded)}
        return cls(fitted.model.settings, {name: np.ascontiguousarray(w, np.float32) for name, w in arrays.items()})

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a file that `load` reads."""
        header = np.frombuffer(json.dumps(asdict(self.settings)).encode(), np.uint8)
        with whole_file(path) as partial, open(partial, "wb") as file:
            arrays: dict[str, Any] = {"settings": header, **self.arrays}
            np.savez_compressed(file, **arrays)
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Weights:
        """What `save` wrote. Raises FileNotFoundError: there is no such file."""
        with np.load(path, allow_pickle=False) as file:
            settings = ModelSettings(**json.loads(bytes(file["settings"])))
            return cls(settings, {name: file[name] for name in file.files if name != "settings"})


class Predictor:
    """Keeps the last l states and says where actions lead.

    Args:
        weights: of the network.
    """

    def __init__(self, weights: Weights) -> None:
        self.settings, self.a = weights.settings, weights.arrays
        a, s = self.a, self.settings
        fed = 7 if s.touch else 4
        inputs = a["write.weight_ih"]
        table = a["embed.weight"][:ACTIONS] @ inputs[:, : s.action].T
        self._table = np.ascontiguousarray(table + a["write.bias_ih"], np.float32)
        self._context = np.ascontiguousarray(inputs[:, s.action : s.action + s.hidden].T)
        self._fed = np.ascontiguousarray(inputs[:, s.action + s.hidden :].T)
        assert len(self._fed) == fed
        self._out = np.ascontiguousarray(np.concatenate([a["pose.weight"], a["force.weight"]]).T)
        self._out_bias = np.concatenate([a["pose.bias"], a["force.bias"]])
        self._kept: deque[np.ndarray] = deque(maxlen=s.history)
        self._past: deque[int] = deque(maxlen=s.history)

    def forget(self) -> None:
        """Before a new trial."""
        self._kept.clear()
        self._past.clear()

    def tell(self, state: State, action: int = NULL) -> None:
        """A new state, and the action that led to it; the first one of a trial stands for all before it."""
        q = np.r_[state.pose, state.force].astype(np.float32)
        self._q = ((q - self.a["shift"]) / self.a["scale"]).astype(np.float32)
        z = self._encode(self._q, state.image)
        for _ in range(1 if self._kept else self.settings.history):
            self._kept.append(z)
            self._past.append(action)
        self._read()

    def start(self) -> np.ndarray:
        """The decoder's first row (1, width): hidden, scaled state (7,), and where the network says it the force inside [N]."""
        return np.concatenate([self._d, self._q, np.zeros(int(self.settings.peaks), np.float32)])[None]

    def extend(self, states: np.ndarray, parents: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Rows (m, width) to rows (n, width) after actions (n,) from their parents (n,)."""
        a, s = self.a, self.settings
        H = s.hidden
        d, q = states[:, :H], states[:, H : H + 7]
        energy = np.tanh((d @ a["W1.weight"].T)[:, None] + self._keys) @ a["v.weight"][0]
        weights = np.exp(energy - energy.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        given = (weights @ self._annotations) @ self._context + q[:, : len(self._fed)] @ self._fed
        kept = d @ a["write.weight_hh"].T + a["write.bias_hh"]
        gates = (given[:, : 2 * H] + kept[:, : 2 * H])[parents]
        gates += self._table[actions, : 2 * H]
        gates = _sigmoid(gates)
        new = given[parents, 2 * H :]
        new += self._table[actions, 2 * H :]
        new += gates[:, :H] * kept[parents, 2 * H :]
        np.tanh(new, out=new)
        found = np.empty((len(actions), states.shape[1]), np.float32)
        np.subtract(d[parents], new, out=found[:, :H])
        found[:, :H] *= gates[:, H:]
        found[:, :H] += new
        found[:, H : H + 7] = found[:, :H] @ self._out + self._out_bias
        if s.change:
            found[:, H : H + len(self._fed)] += q[parents, : len(self._fed)]
        if s.peaks:
            inside = (found[:, :H] @ a["inside.weight"][0] + a["inside.bias"]) * a["scale"][4]
            found[:, -1] = np.maximum(inside, states[parents, -1])
        return found

    def states(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Poses (n, 4) [m, m, m, rad] and forces (n, 3) [N] of rows."""
        H = self.settings.hidden
        q = rows[:, H : H + 7] * self.a["scale"] + self.a["shift"]
        return q[:, :4], q[:, 4:]

    def inside(self, rows: np.ndarray) -> np.ndarray:
        """Largest lasting force inside of any primitive so far in the sequences behind rows (n,) [N].

        Raises:
            ValueError: the network does not say it.
        """
        if not self.settings.peaks:
            raise ValueError("expected a network that says forces inside of primitives: fit one with peaks=True")
        return rows[:, -1]

    def _encode(self, q: np.ndarray, image: np.ndarray | None) -> np.ndarray:
        parts = [self._dense("pose", q[:4])]
        if self.settings.touch:
            parts.append(self._dense("force", q[4:]))
        if self.settings.vision:
            if image is None:
                raise ValueError("expected a picture, found none: the network sees")
            h = (image.transpose(2, 0, 1).astype(np.float32) / np.float32(255.0)) - np.float32(0.5)
            for k, stride in enumerate(STRIDES):
                weight = self.a[f"encoder.eye.{2 * k}.weight"]
                size = weight.shape[2]
                views = np.lib.stride_tricks.sliding_window_view(h, (size, size), axis=(1, 2))[:, ::stride, ::stride]
                columns = views.transpose(1, 2, 0, 3, 4).reshape(views.shape[1] * views.shape[2], -1)
                h = columns @ weight.reshape(len(weight), -1).T + self.a[f"encoder.eye.{2 * k}.bias"]
                h = _leaky(h).T.reshape(len(weight), views.shape[1], views.shape[2])
            parts.append(self._dense("seen", h.ravel()))
        return self._dense("whole", np.concatenate(parts))

    def _dense(self, name: str, x: np.ndarray) -> np.ndarray:
        return _leaky(self.a[f"encoder.{name}.weight"] @ x + self.a[f"encoder.{name}.bias"])

    def _read(self) -> None:
        a, H = self.a, self.settings.hidden
        h, annotations = np.zeros(H, np.float32), []
        for z, action in zip(self._kept, self._past):
            x = np.concatenate([z, a["embed.weight"][action]]) if self.settings.past_actions else z
            given = a["read.weight_ih_l0"] @ x + a["read.bias_ih_l0"]
            kept = a["read.weight_hh_l0"] @ h + a["read.bias_hh_l0"]
            gates = _sigmoid(given[: 2 * H] + kept[: 2 * H])
            new = np.tanh(given[2 * H :] + gates[:H] * kept[2 * H :])
            h = new + gates[H:] * (h - new)
            annotations.append(h)
        self._d, self._annotations = h, np.array(annotations)
        self._keys = self._annotations @ a["W2.weight"].T + a["W2.bias"]


class PlanningModel:
    """What a planner of `planning.sequences` asks: a predictor, and what predicted states are worth.

    Args:
        allowed: primitives that may be planned; None: all.
        peaks: whether the largest lasting force inside of any primitive so far is paid for where it is above that of a state: an arm
            that it stops gets no farther (not published). The network must say it.

    Attributes:
        actions: how many there are. last: index of the point of the path that was accepted last.
    """

    def __init__(
        self,
        predictor: Predictor,
        path: ReferencePath,
        settings: CostSettings = CostSettings(),
        allowed: Sequence[int] | None = None,
        peaks: bool = False,
    ) -> None:
        self.peaks = peaks
        self.predictor, self.path, self.settings = predictor, path, settings
        self.last = 0
        self.allow(range(ACTIONS) if allowed is None else allowed)

    def allow(self, primitives: Sequence[int]) -> None:
        """Plan these from now on."""
        self.allowed = np.array(primitives)
        self.actions = len(self.allowed)

    def start(self) -> np.ndarray:
        """See `SequenceModel`; a row is one of the predictor's and the index on the path."""
        return np.concatenate([self.predictor.start(), np.full((1, 1), self.last, np.float32)], 1)

    def extend(self, states: np.ndarray, parents: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `SequenceModel`."""
        rows = self.predictor.extend(states[:, :-1], parents, self.allowed[actions])
        terms = self.terms(rows, states[parents, -1])
        return np.concatenate([rows, terms.index[:, None].astype(np.float32)], 1), terms.total

    def terms(self, rows: np.ndarray, last: np.ndarray) -> Terms:
        """What predicted rows (n, width) of the predictor are worth, from indices on the path (n,)."""
        inside = self.predictor.inside(rows) if self.peaks else None
        return step_terms(self.path, *self.predictor.states(rows), last.astype(int), self.settings, inside)


def without_wiggle() -> tuple[int, ...]:
    """All primitives but the wiggle."""
    return tuple(k for k in range(ACTIONS) if k != WIGGLE)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    """In single precision, by the tangent, which does not overflow."""
    x = x * np.float32(0.5)
    np.tanh(x, out=x)
    x += np.float32(1.0)
    x *= np.float32(0.5)
    return x


def _leaky(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0.0, x, np.float32(0.01) * x)
