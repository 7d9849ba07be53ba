"""Blueprints as files: YAML for people, the weights beside it as safetensors.

    friction.yaml                                        friction.safetensors
      weights: friction.safetensors                        "friction.w0" (5, 2), "friction.b0" (5,), ...
      blueprints:
        friction:
          outputs: [joint1.passive_torque]
          inputs: [joint1.position, joint1.velocity]
          mode: residual
          input_offset: [0.0, 0.0]
          input_scale: [1.0, 10.0]
          output_scale: [1.0]
          network: {hidden: [5], activation: tanh, output: identity, biases: [true, true]}

Plant predictor, MPC and identification read it: `augment(load_model(robot), "friction.yaml")`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from config import yaml_text
from config.whole_file import whole_file
from sim_core.augmentation.blueprint import Blueprint
from sim_core.augmentation.network import Network
from sim_core.multibody.model.parameter_file import ParameterFile

__all__ = ["BlueprintFileError", "load_blueprints", "save_blueprints", "save_parameters"]

_FIELDS = {"outputs", "inputs", "mode", "input_offset", "input_scale", "output_scale", "network"}


class BlueprintFileError(ValueError):
    """A blueprint file that cannot be used: file, expected, found, what to do, in one sentence."""


def save_blueprints(path: str | os.PathLike[str], blueprints: Sequence[Blueprint]) -> Path:
    """Write path (YAML) and its weights beside it, each whole or not at all. Returns the path."""
    from safetensors.numpy import save

    path = Path(path)
    weights = path.with_suffix(".safetensors")
    document = {"weights": weights.name, "blueprints": {b.name: _plain(b) for b in blueprints}}
    tensors = {name: tensor for b in blueprints for name, tensor in _tensors(b)}
    # The weights first: a reader that finds the YAML finds what it names.
    for each, content in (
        (weights, save(tensors)),
        (path, yaml.safe_dump(document, sort_keys=False, default_flow_style=None).encode()),
    ):
        with whole_file(each) as partial:
            partial.write_bytes(content)
    return path


def save_parameters(path: str | os.PathLike[str], file: ParameterFile, blueprints: Sequence[Blueprint]) -> Path:
    """Write a ParameterFile and, as blueprint.yaml beside it, the networks its values hold with; it names them.

    Args:
        blueprints: of the model the values were fitted with (`attached`); none: the parameter file alone.
    """
    path = Path(path)
    if blueprints:
        file = replace(file, blueprint=save_blueprints(path.with_name("blueprint.yaml"), blueprints).name)
    return file.save(path)


def load_blueprints(path: str | os.PathLike[str], trained: bool = False, seed: int = 0) -> list[Blueprint]:
    """Blueprints of a file, with their weights; without its `weights` key, or without tensors of a name, start values.

    Args:
        trained: refuse a network that has start values alone. seed: of those.

    Raises:
        BlueprintFileError: missing, not of the form above, or weights that do not fit, or are missing though `trained`.
    """
    path = Path(path)
    try:
        document = yaml_text.load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise BlueprintFileError(f"{path}: cannot be read ({reason}); check the path") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" near line {mark.line + 1}" if mark else ""
        raise BlueprintFileError(f"{path}: is not YAML{where}; docs/augmentation.md shows such a file") from None
    entries = document.get("blueprints") if isinstance(document, dict) else None
    if not isinstance(entries, dict) or not entries or not document.keys() <= {"weights", "blueprints"}:
        raise BlueprintFileError(
            f"{path}: expected the keys 'blueprints' (names with their fields) and 'weights'; "
            "docs/augmentation.md shows such a file"
        )
    tensors = _read_weights(path, document.get("weights"))
    return [_blueprint(path, str(name), fields, tensors, trained, seed) for name, fields in entries.items()]


def _plain(blueprint: Blueprint) -> dict[str, Any]:
    fields = {name: getattr(blueprint, name) for name in ("outputs", "inputs", "mode")}
    fields |= {name: getattr(blueprint, name).tolist() for name in ("input_offset", "input_scale", "output_scale")}
    network = {name: value for name, value in asdict(blueprint.network).items() if value != np.inf}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()} | {
        "network": {key: list(value) if isinstance(value, tuple) else value for key, value in network.items()}
    }


def _tensors(blueprint: Blueprint) -> Iterator[tuple[str, np.ndarray]]:
    """(name, array) of each layer's weights and biases."""
    w = blueprint.weights
    for k, (rows, columns, at, bias, _) in enumerate(blueprint.block.layers):
        yield f"{blueprint.name}.w{k}", w[at : at + rows * columns].reshape(rows, columns).copy()
        if bias is not None:
            yield f"{blueprint.name}.b{k}", w[bias : bias + rows].copy()


def _read_weights(path: Path, name: object) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if name is None:
        return {}
    file = path.parent / str(name)
    try:
        return load(file.read_bytes())
    except OSError as error:
        raise BlueprintFileError(
            f"{path}: its weights {file.name} cannot be read ({error.strerror}); keep both files together"
        ) from None
    except SafetensorError as error:
        raise BlueprintFileError(
            f"{path}: its weights {file.name} are damaged ({error}); train or copy them again"
        ) from None


def _blueprint(
    path: Path, name: str, fields: object, tensors: Mapping[str, np.ndarray], trained: bool, seed: int
) -> Blueprint:
    if not isinstance(fields, dict) or not {"outputs", "inputs"} <= fields.keys() <= _FIELDS:
        raise BlueprintFileError(
            f"{path}: blueprint '{name}' must have outputs and inputs, and may have "
            f"{', '.join(sorted(_FIELDS - {'outputs', 'inputs'}))}; found {_keys(fields)}"
        )
    try:
        blueprint = Blueprint(name, **{**fields, "network": Network(**(fields.get("network") or {}))})
    except (TypeError, ValueError) as error:
        raise BlueprintFileError(f"{path}: {error}") from None
    expected = dict(_tensors(blueprint))
    mine = {key: value for key, value in tensors.items() if key.rpartition(".")[0] == name}
    if not mine and trained:
        raise BlueprintFileError(
            f"{path}: the network '{name}' has no weights; train it first: ./refit train BAG --blueprint {path}"
        )
    if not mine:
        return blueprint.initialised(seed)
    shapes = {key: value.shape for key, value in expected.items()}
    found = {key: value.shape for key, value in mine.items()}
    if shapes != found:
        raise BlueprintFileError(
            f"{path}: the weights of '{name}' have shapes {found}, its network needs {shapes}; train it again"
        )
    flat = np.concatenate([np.asarray(mine[key], dtype=float).ravel() for key in expected])
    try:
        return blueprint.with_weights(flat)
    except ValueError as error:
        raise BlueprintFileError(f"{path}: {error}") from None


def _keys(fields: object) -> str:
    return ", ".join(map(str, fields)) if isinstance(fields, dict) else type(fields).__name__
