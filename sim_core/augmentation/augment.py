"""Networks attached to a model: their weights join the physical vector, their outputs the equations.

hybrid = augment(load_model("double_pendulum.xml"), [Blueprint("friction", ...)])
Dynamics(hybrid).rollout(x0, U, hybrid.parameters.nominal)      # p ends with "augmentation.friction.w0[0,0]", ...
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from sim_core.augmentation.blueprint import Blueprint
from sim_core.augmentation.blueprint_file import load_blueprints
from sim_core.multibody.contact.impulse import after_impulses
from sim_core.multibody.equations.taps import TapNetwork, Taps, captured, filled
from sim_core.multibody.model import forces
from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.model.parameter_file import ParameterFile

__all__ = [
    "AugmentationError",
    "attached",
    "attaching",
    "augment",
    "detach",
    "networks_of",
    "open_parameters",
    "tap_names",
    "weight_slice",
    "with_weights",
]

UNIT = "-"
#: Networks as callers give them: one, several, or the path of a blueprint file.
Blueprints = Blueprint | list[Blueprint] | tuple[Blueprint, ...] | str | os.PathLike[str]


class AugmentationError(ValueError):
    """A blueprint that does not fit a model; one sentence."""


@dataclass(frozen=True)
class Attached:
    """A blueprint and where its weights are in the physical vector: what `Taps` asks."""

    blueprint: Blueprint
    where: slice

    @property
    def name(self) -> str:
        """Name of the network."""
        return self.blueprint.name

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what it corrects or replaces."""
        return self.blueprint.outputs

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what it reads."""
        return self.blueprint.inputs

    @property
    def replaces(self) -> bool:
        """Whether its outputs take the place of what the equations give."""
        return self.blueprint.replaces

    def evaluate(self, values: Sequence[ca.SX], p: ca.SX) -> list[ca.SX]:
        """One scalar per output, of one scalar per input and the physical vector p (np_,)."""
        return ca.vertsplit(self.blueprint.expression(ca.vertcat(*values), p[self.where]))


def tap_names(model: RobotModel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names inside the model's equations, in the order they are computed, and those among them that a network can correct.

    Returns:
        (names, correctable): tuples of str.
    """
    sizes = {"q": model.nq, "v": model.nv, "u": model.nu, "p": model.np_}
    q, v, u, p = (ca.SX.sym(name, n) for name, n in sizes.items())
    plain = detach(model)
    taps = Taps(plain, p, everything=True)
    forces.applied_forces(plain, q, v, u, p, taps)
    if model.contacts and model.options.contact == "impulse":
        after_impulses(plain, q, v, v, p, model.timestep, taps)
    return tuple(taps.values), tuple(taps.correctable)


def augment(model: RobotModel, blueprints: Blueprints) -> RobotModel:
    """The model with further networks in its equations.

    Args:
        model: RobotModel; networks it has already stay.
        blueprints: a Blueprint, several, or the path of a blueprint file.

    Returns:
        RobotModel whose physical vector ends with the blueprints' weights, and whose hash says so.

    Raises:
        AugmentationError: an unknown or late input, an unknown output, one that two networks claim, a name twice.
    """
    added = _as_list(blueprints)
    everyone = [*attached(model), *added]
    _check(model, everyone)
    parameters = model.parameters.copy()
    networks: list[TapNetwork] = list(model.augmentation)
    for blueprint in added:
        start = len(parameters)
        parameters.extend(blueprint.weight_names, UNIT, blueprint.weights)
        networks.append(Attached(blueprint, slice(start, len(parameters))))
    return replace(model, parameters=parameters, augmentation=tuple(networks), hash=_hash(model.hash, added))


def _as_list(blueprints: Blueprints) -> list[Blueprint]:
    if isinstance(blueprints, Blueprint):
        return [blueprints]
    return list(blueprints) if isinstance(blueprints, (list, tuple)) else load_blueprints(blueprints)


def networks_of(model: RobotModel) -> tuple[Attached, ...]:
    """The networks that `augment` has put into a model, in the order of their weights."""
    return tuple(network for network in model.augmentation if isinstance(network, Attached))


def attaching(blueprints: Blueprints | None) -> Callable[[RobotModel], RobotModel] | None:
    """The function that gives a loaded model these networks, for loaders to apply; None where there are none.

    Args:
        blueprints: as for `augment`.
    """
    return (lambda model: augment(model, blueprints)) if blueprints else None


def open_parameters(path: str | os.PathLike[str], source: str | os.PathLike[str]) -> tuple[RobotModel, np.ndarray]:
    """A robot with the physical parameters of a file, and with the networks that the file names.

    Args:
        path: parameter file (`ParameterFile`).
        source: the robot, as for `load_model`.

    Returns:
        (RobotModel, physical vector (np_,)).

    Raises:
        ParameterFileError, BlueprintFileError: a file that cannot be used. ModelError: as `load_model`.
        AugmentationError: networks that do not fit the robot.
    """
    file = ParameterFile.load(path)
    return file.open(source, attaching(file.networks))


def attached(model: RobotModel, p: ArrayLike | None = None) -> list[Blueprint]:
    """The model's blueprints, with the weights of p (np_,); default the nominal ones."""
    p = model.parameters.nominal if p is None else np.asarray(p)
    return [network.blueprint.with_weights(p[network.where]) for network in networks_of(model)]


def with_weights(model: RobotModel, p: ArrayLike) -> np.ndarray:
    """Physical vectors (..., np_) of the model from those without its networks, and the weights it has."""
    p = np.asarray(p, dtype=float)
    weights = model.parameters.nominal[p.shape[-1] :]
    return np.concatenate([p, np.broadcast_to(weights, (*p.shape[:-1], weights.size))], axis=-1)


def weight_slice(model: RobotModel, name: str | None = None) -> slice:
    """Where the weights of one network, or of all, are in p.

    Raises:
        KeyError: no such network.
    """
    found = [network.where for network in networks_of(model) if name in (None, network.name)]
    if not found:
        known = ", ".join(network.name for network in model.augmentation)
        raise KeyError(f"No network '{name}' in model '{model.name}'. It has: {known or 'none'}.")
    return slice(found[0].start, found[-1].stop)


def detach(model: RobotModel) -> RobotModel:
    """The model as it was before its networks."""
    networks = networks_of(model)
    if not networks:
        return model
    parameters = model.parameters.copy(networks[0].where.start)
    return replace(model, parameters=parameters, augmentation=(), hash=model.hash.split("+")[0])


def _hash(base: str, blueprints: Sequence[Blueprint]) -> str:
    """The base model's hash, a plus, and a hash of the networks, so that the base model can be told from the whole."""
    digest = hashlib.sha256(base.encode())
    for b in blueprints:
        scales = [
            " ".join(f"{value:.9e}" for value in a) for a in (b.input_offset, b.input_scale, b.output_scale, b.weights)
        ]
        digest.update(f"{(b.name, b.outputs, b.inputs, b.mode, b.block.name)}\n{scales}\n".encode())
    return f"{base.split('+')[0]}+{digest.hexdigest()[:16]}"


def _check(model: RobotModel, blueprints: Sequence[Blueprint]) -> None:
    names, correctable = tap_names(model)
    order = {name: k for k, name in enumerate(names)}
    spoken: dict[str, str] = {}
    seen: set[str] = set()
    for blueprint in blueprints:

        def refuse(sentence: str) -> NoReturn:
            raise AugmentationError(f"Blueprint '{blueprint.name}': {sentence}")

        if blueprint.name in seen:
            refuse("another blueprint has this name; choose one of its own.")
        seen.add(blueprint.name)
        stars = list(
            dict.fromkeys(
                star
                for name in correctable
                for pattern in blueprint.outputs
                if (star := captured(pattern, name)) is not None
            )
        )
        if not stars:
            pattern = blueprint.outputs[0]
            if any(captured(pattern, name) is not None for name in names):
                refuse(
                    f"output '{pattern}' is given to the equations, not computed in them; "
                    f"what can be corrected: {_list(correctable)}."
                )
            refuse(f"model '{model.name}' has no output '{pattern}'; what can be corrected: {_list(correctable)}.")
        for star in stars:
            outputs = [filled(pattern, star) for pattern in blueprint.outputs]
            for name in outputs:
                if name not in correctable:
                    refuse(f"model '{model.name}' has no output '{name}'; what can be corrected: {_list(correctable)}.")
                if name in spoken:
                    refuse(f"output '{name}' belongs to blueprint '{spoken[name]}' already; give it to one of them.")
                spoken[name] = blueprint.name
            first = min(outputs, key=order.__getitem__)
            for name in (filled(pattern, star) for pattern in blueprint.inputs):
                if name not in order:
                    refuse(f"model '{model.name}' has no input '{name}'; it has: {_list(names)}.")
                if order[name] >= order[first]:
                    before = [n for n in names if order[n] < order[first]]
                    refuse(f"input '{name}' is computed after the output '{first}'; before it are: {_list(before)}.")


def _list(names: Sequence[str], most: int = 24) -> str:
    return ", ".join(names[:most]) + (f", ... ({len(names)} in all)" if len(names) > most else "")
