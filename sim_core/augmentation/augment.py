"""Networks attached to a model: their weights join the physical vector, their outputs the equations.

hybrid = augment(load_model("double_pendulum.xml"), [Blueprint("friction", ...)])
Dynamics(hybrid).rollout(x0, U, hybrid.parameters.nominal)      # p ends with "augmentation.friction.w0[0,0]", ...
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from sim_core.augmentation.blueprint import Blueprint
from sim_core.augmentation.blueprint_file import load_blueprints
from sim_core.multibody.contact.impulse import after_impulses
from sim_core.multibody.equations.taps import Taps, captured, filled
from sim_core.multibody.model import forces
from sim_core.multibody.model.model import RobotModel
from sim_core.multibody.model.parameter_file import ParameterFile

__all__ = [
    "AugmentationError",
    "attached",
    "attaching",
    "augment",
    "detach",
    "tap_names",
    "weight_slice",
    "with_weights",
]

UNIT = "-"


class AugmentationError(ValueError):
    """A blueprint that does not fit a model; one sentence."""


@dataclass(frozen=True)
class Attached:
    """A blueprint and where its weights are in the physical vector: what `Taps` asks."""

    blueprint: Blueprint
    where: slice

    name = property(lambda self: self.blueprint.name)
    outputs = property(lambda self: self.blueprint.outputs)
    inputs = property(lambda self: self.blueprint.inputs)
    replaces = property(lambda self: self.blueprint.replaces)

    def evaluate(self, values, p):
        """Outputs, a list of SX, of a list of inputs and the physical vector p (np_,)."""
        return ca.vertsplit(self.blueprint.expression(ca.vertcat(*values), p[self.where]))


def tap_names(model):
    """Names inside the model's equations, in the order they are computed, and those among them that a network can correct.

    Returns:
        (names, correctable): tuples of str.
    """
    sizes = {"q": model.nq, "v": model.nv, "u": model.nu, "p": model.np_}
    q, v, u, p = (ca.SX.sym(name, n) for name, n in sizes.items())
    taps = Taps(detach(model), p, everything=True)
    forces.applied_forces(taps.model, q, v, u, p, taps)
    if model.contacts and model.options.contact == "impulse":
        after_impulses(taps.model, q, v, v, p, model.timestep, taps)
    return tuple(taps.values), tuple(taps.correctable)


def augment(model, blueprints):
    """The model with further networks in its equations.

    Args:
        model: RobotModel; networks it has already stay.
        blueprints: a Blueprint, several, or the path of a blueprint file.

    Returns:
        RobotModel whose physical vector ends with the blueprints' weights, and whose hash says so.

    Raises:
        AugmentationError: an unknown or late input, an unknown output, one that two networks claim, a name twice.
    """
    if isinstance(blueprints, Blueprint):
        blueprints = [blueprints]
    elif not isinstance(blueprints, (list, tuple)):
        blueprints = load_blueprints(blueprints)
    everyone = [*attached(model), *blueprints]
    _check(model, everyone)
    parameters, networks = model.parameters.copy(), list(model.augmentation)
    for blueprint in blueprints:
        start = len(parameters)
        parameters.extend(blueprint.weight_names, UNIT, blueprint.weights)
        networks.append(Attached(blueprint, slice(start, len(parameters))))
    return replace(model, parameters=parameters, augmentation=tuple(networks), hash=_hash(model.hash, blueprints))


def attaching(blueprints):
    """What loaders apply to a model that they have loaded, so that it has these networks; None for none.

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


def attached(model, p=None) -> list[Blueprint]:
    """The model's blueprints, with the weights of p (np_,); default the nominal ones."""
    p = model.parameters.nominal if p is None else np.asarray(p)
    return [network.blueprint.with_weights(p[network.where]) for network in model.augmentation]


def with_weights(model, p) -> np.ndarray:
    """Physical vectors (..., np_) of the model from those without its networks, and the weights it has."""
    p = np.asarray(p, dtype=float)
    weights = model.parameters.nominal[p.shape[-1] :]
    return np.concatenate([p, np.broadcast_to(weights, (*p.shape[:-1], weights.size))], axis=-1)


def weight_slice(model, name=None) -> slice:
    """Where the weights of one network, or of all, are in p.

    Raises:
        KeyError: no such network.
    """
    found = [network.where for network in model.augmentation if name in (None, network.name)]
    if not found:
        known = ", ".join(network.name for network in model.augmentation)
        raise KeyError(f"No network '{name}' in model '{model.name}'. It has: {known or 'none'}.")
    return slice(found[0].start, found[-1].stop)


def detach(model):
    """The model as it was before its networks."""
    if not model.augmentation:
        return model
    parameters = model.parameters.copy(model.augmentation[0].where.start)
    return replace(model, parameters=parameters, augmentation=(), hash=model.hash.split("+")[0])


def _hash(base, blueprints):
    """The base model's, and that of the networks behind a plus: who needs the one without the other finds it."""
    digest = hashlib.sha256(base.encode())
    for b in blueprints:
        scales = [
            " ".join(f"{value:.9e}" for value in a) for a in (b.input_offset, b.input_scale, b.output_scale, b.weights)
        ]
        digest.update(f"{(b.name, b.outputs, b.inputs, b.mode, b.block.name)}\n{scales}\n".encode())
    return f"{base.split('+')[0]}+{digest.hexdigest()[:16]}"


def _check(model, blueprints):
    names, correctable = tap_names(model)
    order = {name: k for k, name in enumerate(names)}
    spoken, seen = {}, set()
    for blueprint in blueprints:

        def refuse(sentence):
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
            first = min(outputs, key=order.get)
            for name in (filled(pattern, star) for pattern in blueprint.inputs):
                if name not in order:
                    refuse(f"model '{model.name}' has no input '{name}'; it has: {_list(names)}.")
                if order[name] >= order[first]:
                    before = [n for n in names if order[n] < order[first]]
                    refuse(f"input '{name}' is computed after the output '{first}'; before it are: {_list(before)}.")


def _list(names, most=24):
    return ", ".join(names[:most]) + (f", ... ({len(names)} in all)" if len(names) > most else "")
