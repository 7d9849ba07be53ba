"""Meta-learnt models as files: arrays and a text header in one safetensors file, in which nothing can be run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from config.whole_file import whole_file
from sim_core.meta.deep_gp import DeepGp
from sim_core.meta.fitting import ExtractorFactory
from sim_core.meta.model import MeanModel
from sim_core.meta.neural_process import NeuralProcess

__all__ = ["ModelFileError", "load_model", "save_model"]

FORMAT, VERSION = "refit meta-learnt model", "1"


class ModelFileError(ValueError):
    """A file that holds no model that can be read into the extractor that is offered; the text says why."""


def save_model(path: str | os.PathLike[str], model: DeepGp | MeanModel | NeuralProcess) -> Path:
    """Write a file, whole or not at all, that `load_model` reads."""
    shape: dict[str, Any] = {"scale": model.scale, "hidden": model.hidden}
    if isinstance(model, DeepGp):
        shape |= {"embedding": model.embedding, "branches": len(model.branches), "last": model.kernel.last}
        shape |= {"reach": model.kernel.reach, "warp": model.warp.width}
    if isinstance(model, MeanModel):
        shape["deviation"] = model.deviation
    header = {
        "format": FORMAT,
        "version": VERSION,
        "kind": model.kind,
        "shape": json.dumps(shape),
        "extractor": _described(model.extractor.describe()),
        "meta": json.dumps(model.meta),
    }
    arrays = {name: array.detach().contiguous() for name, array in model.state_dict().items()}
    with whole_file(path) as partial:
        partial.write_bytes(save(arrays, metadata=header))
    return Path(path)


def load_model(path: str | os.PathLike[str], extractor_factory: ExtractorFactory) -> DeepGp | MeanModel | NeuralProcess:
    """The model that `save_model` wrote.

    Args:
        extractor_factory: makes an extractor of the shape that the model was trained with.

    Raises:
        FileNotFoundError: there is no such file.
        ModelFileError: it is something else, of another version, damaged, or of another extractor.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no model at {path}; train one and save it there")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{path} is no readable model ({error}); train it again") from None
    if (header.get("format"), header.get("version")) != (FORMAT, VERSION):
        raise ModelFileError(
            f"{path}: expected {FORMAT} of version {VERSION}, found {header.get('format')} of version "
            f"{header.get('version')}; train it again"
        )
    try:
        with torch.random.fork_rng(devices=[]):
            model = _empty(header, extractor_factory)
        found = _described(model.extractor.describe())
        if found != header["extractor"]:
            raise ModelFileError(f"{path}: it needs the extractor {header['extractor']}, found {found}; offer that one")
        model.load_state_dict(arrays)
        model.meta = json.loads(header["meta"])
    except (KeyError, TypeError, RuntimeError, json.JSONDecodeError) as error:
        said = " ".join(str(error).split())
        raise ModelFileError(f"{path} is damaged, or of an earlier version ({said}); train it again") from None
    if not all(torch.isfinite(array).all() for array in arrays.values()):
        raise ModelFileError(f"{path} is damaged: it holds numbers that are not finite; train it again")
    return model


def _described(description: dict) -> str:
    return json.dumps(description, sort_keys=True)


def _empty(header: dict[str, str], factory: ExtractorFactory) -> DeepGp | MeanModel | NeuralProcess:
    shape = json.loads(header["shape"])
    if header["kind"] == DeepGp.kind:
        branches = [factory() for _ in range(shape.pop("branches"))]
        return DeepGp(factory(), branches=branches, **shape)
    if header["kind"] == MeanModel.kind:
        deviation = shape.pop("deviation")
        model = MeanModel(factory(), **shape)
        model.deviation = deviation
        return model
    return NeuralProcess(factory(), **shape)
